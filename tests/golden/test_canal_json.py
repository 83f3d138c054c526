"""canal-json against TiCDC's own messages: decoded values, and the bytes that the encoder writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.golden.test_open import compare_image, equal, exact, handle_keys
from tests.golden.test_open import events as open_events
from tests.golden.test_open import read as open_read
from tests.golden.test_open import tables as simple_tables
from tests.support.vectors import ROOT, Config, Truth, VectorMessage, configs, named, needs_vectors
from ticdc_spark import mysql
from ticdc_spark.model import Envelope, Event, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.mysql import tso, tso_physical_ms
from ticdc_spark.protocols.base import Encoded, Encoder, ReadOptions, read_envelope
from ticdc_spark.protocols.canal_json.decode import DECODER
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig, encoder
from ticdc_spark.protocols.canal_json.images import table_from_message

pytestmark = needs_vectors

CONFIGS = configs("canal-json")
ENCODED = [config for config in CONFIGS if config.case.producer == "tiflow"]
every_config = pytest.mark.parametrize("config", CONFIGS, ids=str)


def extended(config: Config) -> bool:
    return bool(config.options["enable_tidb_extension"])


def opened(config: Config) -> Iterator[tuple[int, VectorMessage, Event]]:
    for sent in config.messages:
        events = DECODER.open_message(sent.message.key, sent.message.value)
        assert len(events) == len(sent.seqs) == 1
        yield sent.seqs[0], sent, events[0]


def read(event: Event, table: Table, zone: str) -> RowChange | Event:
    if not isinstance(event, Envelope):
        return event
    return read_envelope(DECODER, event, {(table.schema, table.name, ""): table}, ReadOptions(source_timezone=zone))


@cache
def decode_differences(config: Config) -> list[Difference]:
    return [found for seq, _, event in opened(config) for found in compare(config, event, config.truth[seq])]


def compare(config: Config, event: Event, truth: Truth) -> Iterator[Difference]:
    where = f"{config}/"
    if isinstance(truth, Watermark):
        assert extended(config)
        yield from equal("watermark", where, event, truth)
        return
    assert isinstance(truth, SchemaChange | RowChange)
    # without the extension only milliseconds are sent
    commit_ts = truth.commit_ts if extended(config) else tso(tso_physical_ms(truth.commit_ts))
    if isinstance(truth, SchemaChange):
        assert isinstance(event, SchemaChange), event
        actual = (event.commit_ts, event.query, event.schema, event.name)
        yield from equal("ddl", where, actual, (commit_ts, truth.query, truth.schema, truth.name))
        return
    where += f"{truth.table.schema}.{truth.table.name}"
    change = read(event, truth.table, config.zone)
    if not isinstance(change, RowChange):
        yield Difference("row", where, change, truth)
        return
    yield from equal("row", where, (change.op, change.commit_ts), (truth.op, commit_ts))
    yield from equal("partial", where, change.partial and "handle_key" not in config.name, False)
    table = truth.table
    keys = handle_keys(config.case)[table.schema, table.name, table.version] if change.partial else None
    for image, expected in ((change.before, truth.before), (change.after, truth.after)):
        yield from compare_image(where, named(table, image), named(table, expected), keys)


@every_config
def test_decoded_messages_equal_the_truth(config: Config) -> None:
    assert config.messages
    assert unexplained("canal-json", decode_differences(config)) == []


@every_config
def test_a_message_alone_has_its_values(config: Config) -> None:
    """Without any schema, the limited table of a message reads the same values."""
    for seq, sent, event in opened(config):
        if isinstance(event, Envelope):
            truth = config.truth[seq]
            assert isinstance(truth, RowChange) and sent.message.value
            guessed = table_from_message(sent.message.value)
            change, known = read(event, guessed, config.zone), read(event, truth.table, config.zone)
            assert isinstance(change, RowChange) and isinstance(known, RowChange)
            assert (change.before, change.after) == (known.before, known.after)
            types = {column.name: column.type for column in truth.table.columns}
            for column in guessed.columns:
                whole = types[column.name]
                if config.options.get("content_compatible"):
                    assert mysql.format_type(column.type) == mysql.format_type(whole)
                else:
                    assert (column.type.name, column.type.unsigned) == (whole.name, whole.unsigned)


def canal_config(config: Config, kind: str) -> CanalJsonConfig:
    options = config.options
    large = options["large_message_handle"]
    return CanalJsonConfig(
        time_zone=config.zone,
        enable_tidb_extension=options["enable_tidb_extension"],
        content_compatible=options["content_compatible"],
        only_output_updated_columns=options["only_output_updated_columns"],
        delete_only_output_handle_key_columns=options["delete_only_handle_key_columns"],
        max_message_bytes=options["max_message_bytes" if kind == "row" else "max_message_bytes_ddl_encoder"],
        large_message_handle=large["option"],
        compression=large["compression"],
    )


def source(config: Config, seq: int) -> RowChange:
    """What was to be sent: the truth, with ENUM and SET as sent; index 0 and a member ``''`` are one there."""
    truth = config.truth[seq]
    assert isinstance(truth, RowChange)
    table = simple_tables(config.case)[truth.table.schema, truth.table.name, truth.table.version]
    # a row is in the table's order, Simple's columns in that of their ids; nor does it have the scale of FLOAT(M,D)
    columns = truth.table.columns
    sent = open_read(open_events(config.case.config("open"))[seq], truth.table, config.zone)
    assert isinstance(sent, RowChange)
    return replace(
        truth,
        table=replace(table, columns=columns, table_id=truth.table.table_id),
        before=exact(table, truth.before, sent.before),
        after=exact(table, truth.after, sent.after),
    )


def send(to: Encoder, config: Config, seq: int) -> Encoded | None:
    truth = config.truth[seq]
    if isinstance(truth, Watermark):
        return to.watermark(truth.commit_ts)
    if isinstance(truth, SchemaChange):
        return to.ddl(truth)
    (encoded,) = to.rows([source(config, seq)])
    return encoded


_TYPES = re.compile(rb'"mysqlType":(\{.*?\}),"old":')


def comparable(value: bytes | None) -> tuple[bytes, object]:
    """A message without its clock, and its ``mysqlType`` apart: Go's order of a map is random."""
    assert value
    types = _TYPES.search(value)
    rest = re.sub(rb'"ts":\d+', b'"ts":0', value, count=1)
    return (_TYPES.sub(b'"old":', rest, count=1), json.loads(types[1])) if types else (rest, None)


@cache
def encode_differences(config: Config) -> list[Difference]:
    found: list[Difference] = []
    encoders = {kind: encoder(canal_config(config, kind)) for kind in ("row", "ddl", "watermark")}
    for sent in config.messages:
        event = config.case.events[sent.seqs[0]]
        where = f"{config}/{event.get('schema')}.{event.get('table')}"
        encoded = send(encoders[sent.kind], config, sent.seqs[0])
        if encoded is None:
            found.append(Difference("bytes", where, None, sent.message.value))
            continue
        found += equal("rows", where, encoded.rows, int(sent.kind == "row"))
        found += equal("key", where, encoded.key, sent.message.key)
        (actual, types), (expected, all_types) = map(comparable, (encoded.value, sent.message.value))
        found += equal("bytes", where, actual, expected)
        found += equal("types", where, types, all_types)
    return found


@pytest.mark.parametrize("config", ENCODED, ids=str)
def test_encoded_messages_equal_the_bytes_sent(config: Config) -> None:
    assert unexplained("canal-json", encode_differences(config)) == []


def test_every_exception_is_still_needed() -> None:
    found = [found for config in CONFIGS for found in decode_differences(config)]
    found += [found for config in ENCODED for found in encode_differences(config)]
    assert unneeded("canal-json", found) == []


def test_every_vector_file_is_read() -> None:
    assert set(ROOT.glob("*/*/canal*.jsonl*")) == {config.path for config in CONFIGS}
