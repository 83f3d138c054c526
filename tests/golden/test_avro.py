"""Avro against every vector: decoded values against the truth, encoded bytes and registered schemas against TiCDC's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

import pytest
from msgspec.structs import replace

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.golden.recorded import Recorded
from tests.golden.test_open import source as row_source
from tests.golden.test_open import tables
from tests.support.vectors import ROOT, Config, Truth, VectorMessage, configs, named, needs_vectors
from ticdc_spark import mysql
from ticdc_spark.errors import MessageError
from ticdc_spark.model import (
    Change,
    Checksum,
    ColumnType,
    Envelope,
    Rejected,
    Row,
    RowChange,
    SchemaChange,
    Table,
    Watermark,
)
from ticdc_spark.protocols.avro.decode import AvroDecoder
from ticdc_spark.protocols.avro.encode import AvroConfig, encoder
from ticdc_spark.protocols.avro.schema import table_from_schemas
from ticdc_spark.protocols.base import Encoded, ReadOptions, read_envelope
from ticdc_spark.protocols.shared.avro_names import sanitized
from ticdc_spark.wire.confluent import schema_id

pytestmark = needs_vectors

CONFIGS = configs("avro")
ENCODED = [config for config in CONFIGS if config.case.producer == "tiflow"]
every_config = pytest.mark.parametrize("config", CONFIGS, ids=str)


@cache
def schemas(config: Config) -> Mapping[int, str]:
    return {entry["id"]: entry["schema"] for entry in config.schemas}


@cache
def changes(config: Config) -> list[tuple[VectorMessage, Change | Rejected]]:
    """Every message decoded, with no schema but the registry's."""
    registry = schemas(config)
    decoder = AvroDecoder(registry)
    found = []
    for sent in config.messages:
        key, value = sent.message.key, sent.message.value
        (event,) = decoder.open_message(key, value)
        if isinstance(event, Envelope):
            of_key = None if key is None else registry[schema_id(key)]
            of_value = None if value is None or value[:1] != b"\0" else registry[schema_id(value)]
            read = {(event.schema, event.table, event.schema_key): table_from_schemas(of_key, of_value)}
            found.append((sent, read_envelope(decoder, event, read, ReadOptions(source_timezone=config.zone))))
        else:
            found.append((sent, event))
    return found


@cache
def decode_differences(config: Config) -> list[Difference]:
    return [found for sent, change in changes(config) for seq in sent.seqs for found in compare(seq, change, config)]


def compare(seq: int, change: Change | Rejected, config: Config) -> Iterator[Difference]:
    truth: Truth = config.truth[seq]
    where = f"{config}/{seq}"
    if isinstance(truth, Watermark):
        yield from equal("watermark", where, change, truth)
    elif isinstance(truth, SchemaChange):
        assert isinstance(change, SchemaChange), change
        actual = (change.commit_ts, change.query, change.kind, change.schema, change.name)
        code = str(config.case.events[seq]["ddl_type"])
        yield from equal("ddl", where, actual, (truth.commit_ts, truth.query, code, truth.schema, truth.name))
    else:
        assert isinstance(truth, RowChange)
        yield from compare_row(f"{config}/{truth.table.schema}.{truth.table.name}", change, truth, config)


def compare_row(where: str, change: Change | Rejected, truth: RowChange, config: Config) -> Iterator[Difference]:
    if not isinstance(change, RowChange):
        yield Difference("row", where, change, truth)
        return
    options = config.options
    extended = options["enable_tidb_extension"]
    old = bool(options.get("avro_include_before_value"))
    marked = options["avro_enable_watermark"] and config.case.producer == "ticdc"
    op = truth.op if extended or old or truth.op == "delete" else "upsert"
    reported = extended or old if truth.op != "delete" else old or marked
    yield from equal("row", where, (change.op, change.commit_ts), (op, truth.commit_ts if reported else 0))
    names = (sanitized(truth.table.schema), sanitized(truth.table.name))
    yield from equal("table", where, (change.table.schema, change.table.name), names)
    yield from equal("partial", where, change.partial, truth.op == "delete" and not old)
    keys = mysql.handle_key(change.table) if change.partial else None
    expected = truth.before if truth.op == "delete" or old else None
    for actual, wanted in ((change.before, expected), (change.after, truth.after)):
        yield from compare_image(where, change.table, actual, clean(truth.table, wanted), keys)
    yield from compare_table(where, change.table, truth.table)
    if options["enable_row_checksum"] and change.op != "delete":
        assert change.checksum and truth.checksum
        yield from equal("checksum", where, change.checksum.current, truth.checksum.current)


def clean(table: Table, row: Row | None) -> Row | None:
    """A row under the names that Avro allows."""
    shown = named(table, row)
    return None if shown is None else {sanitized(name): value for name, value in shown.items()}


def compare_image(
    where: str, table: Table, actual: Row | None, expected: Row | None, keys: tuple[str, ...] | None
) -> Iterator[Difference]:
    if actual is None or expected is None:
        yield from equal("image", where, actual, expected)
        return
    shown = named(table, actual) or {}
    yield from equal("columns", where, set(shown), set(expected) if keys is None else set(keys))
    for name in shown:
        yield from equal("value", f"{where}.{name}", shown[name], expected.get(name))


def compare_table(where: str, table: Table, truth: Table) -> Iterator[Difference]:
    """What a schema shows of a table: its columns, the widest types that they may have, and its key."""
    columns = {sanitized(column.name): column for column in truth.columns}
    for column in table.columns:
        theirs = columns.get(column.name)
        if theirs is None:
            yield Difference("column", f"{where}.{column.name}", column.name, None)
            continue
        place = f"{where}.{column.name}"
        yield from equal("type", place, widest(column.type), widest(theirs.type))
        yield from equal("nullable", place, column.nullable, theirs.nullable)
    primary = next((index.columns for index in truth.indexes), ())
    if primary and table.indexes:
        yield from equal("key", where, {*mysql.handle_key(table)}, {*map(sanitized, primary)})


def widest(column_type: ColumnType) -> tuple[object, ...]:
    name, unsigned = column_type.name, column_type.unsigned
    if mysql.is_bytes(column_type):
        return ("longblob",)
    if mysql.is_text(column_type):
        return ("longtext",)
    if name in ("tinyint", "smallint", "mediumint"):
        name = "int"
    if name == "bit":
        return name, column_type.length
    return name, column_type.elements, unsigned and name in ("int", "bigint")


def equal(what: str, where: str, actual: object, expected: object) -> Iterator[Difference]:
    if actual != expected:
        yield Difference(what, where, actual, expected)


@every_config
def test_decoded_messages_equal_the_truth(config: Config) -> None:
    assert config.messages
    assert unexplained("avro", decode_differences(config)) == []


REFUSED = re.compile("two columns that Avro can only call|ENUM index 0 has no name")


@cache
def encode_differences(config: Config) -> list[Difference]:
    found: list[Difference] = []
    registry = Recorded(config)
    to = encoder(avro_config(config), registry)
    for sent, decoded in changes(config):
        (seq,) = sent.seqs
        encoded: Encoded | None
        truth = config.truth[seq]
        where = f"{config}/{seq}"
        if isinstance(truth, RowChange):
            where = f"{config}/{truth.table.schema}.{truth.table.name}"
            (encoded,) = to.rows([source(config, seq, decoded.checksum if isinstance(decoded, RowChange) else None)])
        else:
            assert isinstance(truth, SchemaChange | Watermark)
            encoded = to.watermark(truth.commit_ts) if isinstance(truth, Watermark) else to.ddl(truth)
        assert encoded is not None
        found += equal("key", where, encoded.key, sent.message.key)
        found += equal("bytes", where, encoded.value, sent.message.value)
    for refused in config.options.get("encode_errors", []):
        where = f"{config}/{refused['seq']}"
        try:
            list(to.rows([source(config, refused["seq"], None)]))
            found.append(Difference("refused", where, None, refused["error"]))
        except MessageError as error:
            found += equal("refused", where, REFUSED.search(str(error)) is not None, True)
    for subject, schema in registry.wrong:
        theirs = [entry["schema"] for entry in config.schemas if entry["subject"] == subject]
        found.append(Difference("schema", f"{config}/{subject}", schema, theirs))
    unused = {entry["id"] for entry in config.schemas} - registry.used
    found += [Difference("unused schema", f"{config}/{number}", None, schemas(config)[number]) for number in unused]
    return found


def source(config: Config, seq: int, sent_checksum: Checksum | None) -> RowChange:
    """What was to be sent: the truth, with the whole schema of the table, and the checksum's version."""
    truth = config.truth[seq]
    assert isinstance(truth, RowChange)
    if any(other.name == "open" for other in config.case.configs):
        whole = row_source(config, seq)
    else:
        whole = replace(truth, table=tables(config.case)[truth.table.schema, truth.table.name, truth.table.version])
    columns = {column.name: column for column in whole.table.columns}
    sent = [column.name for column in truth.table.columns]
    # with checksums, columns stand in the order of their ids, as Simple has them
    names = [name for name in columns if name in sent] if config.options["enable_row_checksum"] else sent
    table = replace(whole.table, columns=tuple(columns[name] for name in names))
    return replace(whole, table=table, checksum=sent_checksum)


def avro_config(config: Config) -> AvroConfig:
    options = config.options
    return AvroConfig(
        time_zone=config.zone,
        enable_tidb_extension=options["enable_tidb_extension"],
        enable_row_checksum=options["enable_row_checksum"],
        avro_decimal_handling_mode=options["avro_decimal_handling_mode"],
        avro_bigint_unsigned_handling_mode=options["avro_bigint_unsigned_handling_mode"],
        avro_enable_watermark=options["avro_enable_watermark"],
    )


@pytest.mark.parametrize("config", ENCODED, ids=str)
def test_encoded_messages_equal_the_bytes_sent(config: Config) -> None:
    assert unexplained("avro", encode_differences(config)) == []


def test_every_exception_is_still_needed() -> None:
    found = [found for config in CONFIGS for found in decode_differences(config)]
    found += [found for config in ENCODED for found in encode_differences(config)]
    assert unneeded("avro", found) == []


def test_every_vector_file_is_read() -> None:
    files = {path for path in ROOT.glob("*/*/avro*.jsonl*") if "errors" not in path.name}
    assert files == {config.path for config in CONFIGS}
