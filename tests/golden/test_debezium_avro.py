"""Debezium in Avro, of the new architecture, against the truth: with the table known, and with the schemas alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache

import pytest
from msgspec.structs import replace

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.golden.recorded import Recorded
from tests.golden.test_debezium_tables import as_truth
from tests.golden.test_open import compare_image, equal
from tests.support.vectors import ROOT, Config, configs, named, needs_vectors
from ticdc_spark import mysql
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Bootstrap, Column, Envelope, Index, Row, RowChange, SchemaChange, Table, Value
from ticdc_spark.protocols.base import ReadOptions, read_envelope
from ticdc_spark.protocols.debezium_avro.decode import DebeziumAvroDecoder, table_from_schemas
from ticdc_spark.protocols.debezium_avro.encode import DebeziumAvroConfig, encoder
from ticdc_spark.wire.avro_binary import write_long
from ticdc_spark.wire.confluent import schema_id

pytestmark = needs_vectors

CONFIGS = configs("debezium-avro")
every_config = pytest.mark.parametrize("config", CONFIGS, ids=str)


@cache
def schemas(config: Config) -> Mapping[int, str]:
    return {entry["id"]: entry["schema"] for entry in config.schemas}


@cache
def rows(config: Config) -> list[tuple[Envelope, RowChange, Table]]:
    """Every row as opened, the truth, and the table that its schemas describe."""
    registry = schemas(config)
    decoder = DebeziumAvroDecoder(registry)
    found = []
    for sent in config.messages:
        key, value = sent.message.key, sent.message.value
        assert key is not None and value is not None
        (event,) = decoder.open_message(key, value)
        truth = config.truth[sent.seqs[0]]
        assert isinstance(event, Envelope) and isinstance(truth, RowChange), event
        described = table_from_schemas(event.schema, event.table, registry[schema_id(key)], registry[schema_id(value)])
        found.append((event, truth, described))
    return found


@cache
def differences(config: Config) -> list[Difference]:
    return [found for event, truth, _ in rows(config) for found in compare(config, event, truth, truth.table)]


def compare(config: Config, event: Envelope, truth: RowChange, table: Table) -> Iterator[Difference]:
    where = f"{config}/{truth.table.schema}.{truth.table.name}"
    change = read(config, event, table)
    if change is None:
        yield Difference("row", where, None, truth)
        return
    yield from equal("row", where, (change.op, change.commit_ts), (truth.op, truth.commit_ts))
    for image, expected in ((change.before, truth.before), (change.after, truth.after)):
        yield from compare_image(where, named(table, image), named(table, expected), None)


def read(config: Config, event: Envelope, table: Table) -> RowChange | None:
    tables = {(table.schema, table.name, event.schema_key): table}
    change = read_envelope(DebeziumAvroDecoder(schemas(config)), event, tables, ReadOptions())
    return change if isinstance(change, RowChange) else None


@every_config
def test_decoded_messages_equal_the_truth(config: Config) -> None:
    assert rows(config)
    assert unexplained("debezium", differences(config)) == []


@every_config
def test_the_schemas_alone_read_a_row(config: Config) -> None:
    found: list[Difference] = []
    for event, truth, described in rows(config):
        change = read(config, event, described)
        assert change is not None
        columns = {column.name: column for column in truth.table.columns}
        assert [column.name for column in described.columns] == [*columns]
        key = mysql.handle_key(truth.table)
        assert not key or {*key} == {*mysql.handle_key(described)}
        for image, expected in ((change.before, truth.before), (change.after, truth.after)):
            if image is not None and expected is not None:
                found += compare_as_described(config, described, columns, image, expected)
    assert unexplained("debezium", found) == []


def compare_as_described(
    config: Config, described: Table, columns: Mapping[str, Column], image: Row, expected: Row
) -> Iterator[Difference]:
    for column in described.columns:
        kind = columns[column.name].type
        assert column.type.name == kind.name
        wanted = as_truth(kind, column.type, expected[column.name])
        if isinstance(wanted, str) and kind.name == "decimal":
            wanted = mysql.canonical_decimal(wanted, column.type.decimal or 0)
        yield from equal(
            "value", f"{config}/{described.schema}.{described.name}.{column.name}", image[column.name], wanted
        )


@every_config
def test_rows_that_ticdc_refused_are_not_there(config: Config) -> None:
    path = config.path.with_suffix(".errors.jsonl")
    refused = (
        {seq for line in path.read_bytes().splitlines() for seq in json.loads(line)["seq"]} if path.exists() else set()
    )
    assert not refused & {seq for sent in config.messages for seq in sent.seqs}


CLOCK = 1_790_000_000_000


def configured(config: Config) -> DebeziumAvroConfig:
    options = config.options
    return DebeziumAvroConfig(
        cluster_id=options["cluster_id"],
        enable_tidb_extension=options["enable_tidb_extension"],
        debezium_output_old_value=options["debezium_output_old_value"],
        avro_decimal_handling_mode=options["avro_decimal_handling_mode"],
        avro_bigint_unsigned_handling_mode=options["avro_bigint_unsigned_handling_mode"],
        build_ts=lambda: CLOCK,
    )


@cache
def whole_tables(config: Config) -> dict[tuple[str, str, int | None], Table]:
    """Tables with their virtual columns, which no row has."""
    described = [change.table for change in config.truth.values() if isinstance(change, SchemaChange | Bootstrap)]
    return {(table.schema, table.name, table.version): table for table in described if table is not None}


def source(config: Config, seq: int) -> RowChange:
    """What was to be sent: the truth, with the table's virtual columns and its handle key, which each event marks."""
    truth, event = config.truth[seq], config.case.events[seq]
    assert isinstance(truth, RowChange)
    whole = whole_tables(config)[truth.table.schema, truth.table.name, truth.table.version]
    virtual = tuple(column for column in whole.columns if column.virtual or column.name.startswith("_V$_"))
    virtual = tuple(replace(column, virtual=True) for column in virtual)
    keys = tuple(column["name"] for column in event.get("columns") or event["pre_columns"] if column["handle"])
    index = Index(name="handle", unique=True, primary=True, nullable=False, columns=keys)
    indexes = (index,) if keys else ()
    return replace(truth, table=replace(truth.table, columns=truth.table.columns + virtual, indexes=indexes))


def without_clock(value: bytes | None) -> bytes:
    """``ts_ms`` is the last field, and of as many bytes in this century."""
    assert value
    return value[: -len(write_long(CLOCK))]


def encoded_differences(
    config: Config, change: RowChange, written: bytes | None, sent: bytes | None
) -> Iterator[Difference]:
    """The values by which two messages differ; the bytes, if there is no such value."""
    if without_clock(written) == without_clock(sent):
        return
    table = change.table
    where = f"{config}/{table.schema}.{table.name}"
    images: list[dict[tuple[str, str], Value]] = []
    for value in (written, sent):
        (event,) = DebeziumAvroDecoder(schemas(config)).open_message(None, value)
        assert isinstance(event, Envelope)
        again = read(config, event, table)
        assert again is not None
        both = {"before": again.before, "after": again.after}
        images.append({(which, name): cell for which, row in both.items() for name, cell in (row or {}).items()})
    ours, theirs = images
    different = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
    if not different:
        yield Difference("bytes", where, written, sent)
    for name in different:
        yield Difference("value", f"{where}.{name[1]}", ours.get(name), theirs.get(name))


@every_config
def test_encoded_messages_and_schemas_equal_those_sent(config: Config) -> None:
    registry = Recorded(config)
    found: list[Difference] = []
    to = encoder(configured(config), registry)
    for sent in config.messages:
        change = source(config, sent.seqs[0])
        (encoded,) = to.rows([change])
        assert (encoded.key, encoded.rows) == (sent.message.key, 1)
        found += encoded_differences(config, change, encoded.value, sent.message.value)
    path = config.path.with_suffix(".errors.jsonl")
    for line in path.read_bytes().splitlines() if path.exists() else ():
        refused = json.loads(line)
        assert "ought to have unique name" in refused["error"]
        with pytest.raises(MessageError, match="virtual column"):
            list(to.rows([source(config, refused["seq"][0])]))
    assert unexplained("debezium-avro encode", found) == []
    assert (unneeded("debezium-avro encode", found) == []) == (config.case.name == "smoke")
    assert not registry.wrong
    assert registry.used == {entry["id"] for entry in config.schemas}


def test_every_vector_file_is_read() -> None:
    found = {path for path in ROOT.glob("*/*/debezium*avro*.jsonl*") if ".errors" not in path.name}
    assert found == {config.path for config in CONFIGS}
