"""Debezium in Avro in messages written by hand: forms that the vectors lack, bad schemas, damaged bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Column, Envelope, Rejected, RowChange, Table, Value
from ticdc_spark.mysql import handle_key, parse_type, tso
from ticdc_spark.protocols.base import ReadOptions, decode
from ticdc_spark.protocols.debezium.native import DECIMAL
from ticdc_spark.protocols.debezium_avro.decode import DECODER, DebeziumAvroDecoder, table_from_schemas
from ticdc_spark.wire.avro_binary import write_bytes, write_long, write_text
from ticdc_spark.wire.confluent import frame

HEAD = frame(7)
TS = 1_700_000_000_000
NULL = write_long(0)
THERE = write_long(1)
SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [
        {"name": "db", "type": "string"},
        {"name": "table", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "commit_ts", "type": ["null", "long"]},
    ],
}


def schema(*fields: dict[str, Any], source: dict[str, Any] = SOURCE) -> str:
    row = {"type": "record", "name": "t", "fields": list(fields)}
    envelope = {
        "type": "record",
        "name": "tEnvelope",
        "namespace": "c.d",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "t"]},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
        ],
    }
    return json.dumps(envelope)


def field(kind: Any, connect: str = "", **parameters: str) -> dict[str, Any]:
    sent = {"type": kind, "connect.name": connect, "connect.parameters": parameters} if connect else kind
    return {"name": "c_", "connect.field": "c", "type": ["null", sent]}


def message(before: bytes | None, after: bytes | None, op: str, *, ts: int | None = 9, ms: int = TS) -> bytes:
    images = b"".join(NULL if image is None else THERE + image for image in (before, after))
    source = write_text("d") + write_text("t") + write_long(ms) + (NULL if ts is None else THERE + write_long(ts))
    return HEAD + images + source + write_text(op)


def table(kind: str) -> Table:
    return Table(schema="d", name="t", columns=(Column(name="c", type=parse_type(kind)),))


def value(kind: str, sent: dict[str, Any], cell: bytes) -> Value:
    raw = message(None, THERE + cell, "c")
    (change,) = decode(DebeziumAvroDecoder({7: schema(sent)}), None, raw, {("d", "t", "7"): table(kind)})
    if isinstance(change, Rejected):
        raise MessageError(change.reason)
    assert isinstance(change, RowChange) and change.after is not None
    return change.after["c"]


@pytest.mark.parametrize(
    ("kind", "sent", "cell", "expected"),
    [
        ("bigint unsigned", field("string"), write_text("18446744073709551615"), "18446744073709551615"),
        ("bigint unsigned", field("long"), write_long(-1), "18446744073709551615"),
        ("decimal(10,2)", field("bytes", DECIMAL, scale="4"), write_bytes(b"\x01\xe2\x40"), "12.3456"),
        ("decimal(10,2)", field("string"), write_text("1.5"), "1.50"),
        ("decimal(10,2)", field("double"), b"\0\0\0\0\0\0\xf8?", "1.50"),
        ("bit(1)", field("boolean"), b"\1", "1"),
        ("bit(9)", field("bytes", "io.debezium.data.Bits", length="9"), write_bytes(b"\1\1"), "257"),
        ("varbinary(4)", field("bytes"), write_bytes(b"\0\xff"), b"\0\xff"),
        ("varbinary(4)", field("string"), write_bytes(b"\0\xff"), b"\0\xff"),
        ("varchar(4)", field("string"), write_bytes(b"a\xff"), b"a\xff"),
        ("datetime", field("long", "io.debezium.time.Timestamp"), write_long(1000), "1970-01-01 00:00:01"),
        ("year", field("int", "io.debezium.time.Year"), write_long(2012), "2012"),
        ("set('x','y')", field("string"), write_text("x,y"), "3"),
    ],
)
def test_values(kind: str, sent: dict[str, Any], cell: bytes, expected: Value) -> None:
    assert value(kind, sent, cell) == expected


@pytest.mark.parametrize(
    ("kind", "sent", "cell"),
    [
        ("int", field("string"), write_text("x")),
        ("int", field("bytes"), write_bytes(b"1")),
        ("int", field({"type": "array", "items": "int"}), NULL),
        ("varchar(4)", field("int"), write_long(1)),
        ("bit(4)", field("bytes", "io.debezium.data.Bits"), write_bytes(b"\x10")),
        ("enum('x')", field("string"), write_text("y")),
        ("enum('x')", field("string"), write_bytes(b"\xff")),
        ("decimal(5,2)", field("bytes", DECIMAL, scale="2"), write_bytes(bytes(99))),
        ("decimal(5,2)", field("bytes", DECIMAL, scale="999"), write_bytes(b"\1")),
        ("int", {"name": "other", "type": ["null", "int"]}, write_long(1)),
    ],
)
def test_what_does_not_suit_the_table_is_rejected(kind: str, sent: dict[str, Any], cell: bytes) -> None:
    with pytest.raises(MessageError):
        value(kind, sent, cell)


INT = schema(field("int"))
ROW = THERE + write_long(5)


@pytest.mark.parametrize(
    ("raw", "op", "commit_ts"),
    [
        (message(None, ROW, "c"), "insert", 9),
        (message(ROW, ROW, "u"), "update", 9),
        (message(None, ROW, "u"), "upsert", 9),
        (message(None, ROW, "r", ts=None), "upsert", tso(TS)),
        (message(ROW, None, "d", ts=None, ms=0), "delete", 0),
    ],
)
def test_operations_and_their_time(raw: bytes, op: str, commit_ts: int) -> None:
    (event,) = DebeziumAvroDecoder({7: INT}).open_message(b"k", raw)
    assert isinstance(event, Envelope)
    assert (event.op, event.commit_ts, event.schema_key, event.key) == (op, commit_ts, "7", b"k")
    columns = DebeziumAvroDecoder({7: INT}).row_reader(table("int"), ReadOptions())([event.before, event.after])
    images = [None if image is None else "5" for image in (event.before, event.after)]
    assert columns.values == [images] and not columns.bad


def test_only_some_columns_are_read() -> None:
    both = schema(field("string"), {"name": "other", "type": "string"})
    (event,) = DebeziumAvroDecoder({7: both}).open_message(None, message(None, NULL + write_text("x"), "c"))
    assert isinstance(event, Envelope)
    known = Table(
        schema="d", name="t", columns=tuple(Column(name=n, type=parse_type("text")) for n in ("c", "other", "z"))
    )
    columns = DebeziumAvroDecoder({7: both}).row_reader(known, ReadOptions(), frozenset({"other"}))([event.after])
    assert (columns.values, columns.absent) == ([[None], ["x"], [None]], {})
    whole = DebeziumAvroDecoder({7: both}).row_reader(known, ReadOptions())([event.after])
    assert (whole.values, whole.absent) == ([[None], ["x"], [None]], {"z": range(1)})


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        frame(8) + message(None, ROW, "c")[5:],
        message(None, ROW, "c") + b"\0",
        message(None, ROW, "c")[:-1],
        message(None, ROW, "x"),
        message(None, None, "c"),
        message(ROW, None, "u"),
        message(None, ROW, "d"),
        message(None, ROW, "c", ts=0),
        message(None, ROW, "c", ts=None, ms=-1),
    ],
)
def test_bad_messages_are_rejected(raw: bytes) -> None:
    (event,) = DebeziumAvroDecoder({7: INT}).open_message(None, raw)
    assert isinstance(event, Rejected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '"string"',
        "7",
        json.dumps(SOURCE),
        INT.replace('["null", "t"]', '"t"'),
        INT.replace('["null", "t"]', '["null", "u"]'),
        INT.replace('["null", "t"]', '["t", "null"]'),
        INT.replace('"int"', '"tEnvelope"'),
        INT.replace('"int"', '"null"'),
        INT.replace('"int"', "[" * 3000 + "]" * 3000),
        INT.replace('"db"', '"database"'),
        INT.replace('"type": "record"', '"kind": "record"', 1),
    ],
)
def test_bad_schemas_reject_their_messages(text: str) -> None:
    (event,) = DebeziumAvroDecoder({7: text}).open_message(None, message(None, ROW, "c"))
    assert isinstance(event, Rejected)


def test_a_tombstone_and_a_missing_registry() -> None:
    assert DECODER.open_message(b"k", None) == ()
    with pytest.raises(UsageError):
        DECODER.open_message(None, message(None, ROW, "c"))


def test_the_table_that_schemas_describe() -> None:
    key = json.dumps({"type": "record", "name": "tKey", "fields": [field("int")]})
    described = table_from_schemas("d", "t", key, schema({**field("int"), "tidb_type": "smallint unsigned"}))
    assert (described.columns[0].name, described.columns[0].type) == ("c", parse_type("smallint unsigned"))
    assert handle_key(described) == ("c",)
    assert table_from_schemas("d", "t", None, INT).columns[0].type == parse_type("int")
    with pytest.raises(MessageError):
        table_from_schemas("d", "t", None, schema(field({"type": "array", "items": "int"})))


MESSAGE = message(ROW, ROW, "u")


@given(st.binary(max_size=20), st.integers(0, len(MESSAGE)), st.integers(0, 12))
def test_damaged_bytes_are_rejected_and_nothing_else(noise: bytes, at: int, gone: int) -> None:
    damaged = MESSAGE[:at] + noise + MESSAGE[at + gone :]
    for event in decode(DebeziumAvroDecoder({7: INT}), None, damaged, {("d", "t", "7"): table("int")}):
        assert isinstance(event, RowChange | Rejected)


@given(
    st.integers(0, len(INT)),
    st.integers(0, 30),
    st.sampled_from(["", "{", "]", '"', "null", "1", "[]", '"record"', "{}"]),
)
def test_damaged_schemas_are_rejected_and_nothing_else(at: int, gone: int, put: str) -> None:
    decoder = DebeziumAvroDecoder({7: INT[:at] + put + INT[at + gone :]})
    for event in decode(decoder, None, MESSAGE, {("d", "t", "7"): table("int")}):
        assert isinstance(event, RowChange | Rejected)
