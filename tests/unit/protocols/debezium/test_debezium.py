"""Debezium in messages written by hand: the document's examples, native connectors, bad messages, damaged bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Envelope, Rejected, RowChange, SchemaChange, Table, Value, Watermark
from ticdc_spark.mysql import parse_type, tso
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import ReadOptions, decode
from ticdc_spark.protocols.debezium.decode import DECODER

SOURCE = {"connector": "TiCDC", "ts_ms": 0, "db": "test", "table": "table1", "commit_ts": 1, "cluster_id": "c"}
NATIVE = {"connector": "mysql", "ts_ms": 1701326309000, "db": "test", "table": "table1", "gtid": None, "file": "b.1"}
UPDATE = {"source": SOURCE, "op": "u", "before": {"tiny": 2}, "after": {"tiny": 1}}


def table(**types: str) -> Table:
    columns = tuple(Column(name=name, type=parse_type(text)) for name, text in types.items())
    return Table(schema="test", name="table1", columns=columns)


TINY = table(tiny="tinyint")


def message(payload: Any) -> bytes:
    return json.dumps({"payload": payload, "schema": {"type": "struct"}}).encode()


def opened(payload: Any) -> Any:
    (event,) = DECODER.open_message(None, message(payload))
    return event


def value(type_text: str, cell: Any) -> Value:
    (change,) = decode(
        DECODER,
        None,
        message({"source": SOURCE, "op": "c", "before": None, "after": {"c": cell}}),
        {("test", "table1", ""): table(c=type_text)},
    )
    if isinstance(change, Rejected):
        raise MessageError(change.reason)
    assert isinstance(change, RowChange) and change.after is not None
    return change.after["c"]


def test_it_is_found_by_its_name() -> None:
    assert decoder("debezium") is DECODER


def test_the_update_of_the_document() -> None:
    for raw in (message(UPDATE), json.dumps(UPDATE).encode()):
        (change,) = decode(DECODER, b"{}", raw, {("test", "table1", ""): TINY})
        assert change == RowChange(op="update", table=TINY, commit_ts=1, before={"tiny": "2"}, after={"tiny": "1"})


def test_an_update_without_its_old_values_is_an_upsert() -> None:
    assert opened({key: cell for key, cell in UPDATE.items() if key != "before"}).op == "upsert"


def test_the_ddl_and_the_watermark_of_the_document() -> None:
    sql = "RENAME TABLE test.table1 to test.table2"
    ddl = {"source": SOURCE, "databaseName": "test", "ddl": sql, "tableChanges": [{"type": "ALTER", "id": "x"}]}
    assert opened(ddl) == SchemaChange(commit_ts=1, query=sql, kind="ALTER", schema="test", name="table1")
    assert opened({"source": SOURCE | {"commit_ts": 3}, "op": "m", "transaction": None}) == Watermark(3)


def test_native_messages_take_their_time_from_the_source() -> None:
    event = opened({"source": NATIVE, "op": "r", "before": None, "after": {"tiny": 1}})
    assert isinstance(event, Envelope)
    assert (event.op, event.commit_ts, event.before) == ("upsert", tso(1701326309000), None)


def test_a_tombstone_carries_nothing() -> None:
    assert DECODER.open_message(b"{}", None) == ()


@pytest.mark.parametrize(
    ("type_text", "cell", "expected"),
    [
        ("bigint unsigned", -1, "18446744073709551615"),
        ("bit(1)", True, "1"),
        ("bit(10)", "/wM=", "1023"),
        ("decimal(10,2)", 99999999.99, "99999999.99"),
        ("decimal(10,2)", "12.30", "12.30"),
        ("decimal(10,2)", "BM4=", "12.30"),
        ("date", -1, "1969-12-31"),
        ("datetime(3)", 1, "1970-01-01 00:00:00.001"),
        ("datetime(6)", 1, "1970-01-01 00:00:00.000001"),
        ("timestamp(3)", "1970-01-02T00:00:01.001Z", "1970-01-02 00:00:01.001"),
        ("time(6)", -3020398999999, "-838:59:58.999999"),
        ("enum('a','b')", "b", "2"),
        ("set('a','b')", "a,b", "3"),
        ("varbinary(4)", "AP8=", b"\0\xff"),
        ("year", 2012, "2012"),
    ],
)
def test_values(type_text: str, cell: Any, expected: Value) -> None:
    assert value(type_text, cell) == expected


@pytest.mark.parametrize(
    ("type_text", "cell"),
    [
        ("int", "x"),
        ("bit(2)", "/wM="),
        ("date", 1 << 62),
        ("datetime", 1 << 62),
        ("time", 1 << 62),
        ("timestamp", "yesterday"),
        ("enum('a')", "z"),
        ("blob", "*"),
        ("decimal(10,0)", "1234"),
        ("decimal(10,0)", "*"),
    ],
)
def test_bad_values_are_rejected(type_text: str, cell: Any) -> None:
    with pytest.raises(MessageError):
        value(type_text, cell)


@pytest.mark.parametrize(
    "payload",
    [
        {"source": SOURCE, "op": "x"},
        {"source": SOURCE, "op": "c", "after": None},
        {"source": SOURCE, "op": "d", "after": {"tiny": 1}},
        {"source": SOURCE, "op": "c", "after": [1]},
        {"source": SOURCE | {"commit_ts": 0}, "op": "m"},
        {"source": {"db": "test", "table": "t"}, "op": "c", "after": {}},
        {"source": SOURCE | {"table": None}, "op": "c", "after": {}},
        {"op": "c"},
        7,
    ],
)
def test_bad_messages_are_rejected(payload: Any) -> None:
    assert isinstance(opened(payload), Rejected)


def test_a_type_that_debezium_cannot_carry() -> None:
    with pytest.raises(MessageError, match="uuid"):
        DECODER.row_reader(table(g="uuid"), ReadOptions())


@given(st.binary(max_size=60), st.integers(min_value=0, max_value=200), st.integers(min_value=0, max_value=40))
def test_damaged_bytes_never_raise(noise: bytes, at: int, length: int) -> None:
    raw = message(UPDATE)
    for damaged in (noise, raw[:at] + noise + raw[at + length :]):
        for event in decode(DECODER, None, damaged, {("test", "table1", ""): TINY}):
            assert isinstance(event, RowChange | Rejected | SchemaChange | Watermark)


RAW = table(id="int", v="varchar(9)", t="text")


def raw_insert(cells: bytes, columns: Table = RAW) -> RowChange | Rejected:
    head = b'{"payload":{"source":{"db":"test","table":"table1","commit_ts":1},"op":"c","before":null,"after":{'
    (change,) = decode(DECODER, None, head + cells + b"}}}", {("test", "table1", ""): columns})
    assert isinstance(change, RowChange | Rejected)
    return change


@pytest.mark.parametrize(
    ("sent", "value"),
    [
        (b'"a\xffb"', b"a\xffb"),
        (b'"\xed\xa0\x80"', b"\xed\xa0\x80"),  # a surrogate as UTF-8 would have it
        (b'"\xe4\xb8"', b"\xe4\xb8"),
        (b'"q\\"\\u00ff\xff"', b'q"\xc3\xbf\xff'),
        ("\U00100000\U0010007f".encode() + b"\xff", "\U00100000\U0010007f".encode() + b"\xff"),
        (b"\\udbc0\\udc00\xff", "\U00100000".encode() + b"\xff"),
        (b"\\UDBC0\\UDC00\xff", None),  # no escape in JSON
        (b"\\udcff\xff", None),  # half a character
    ],
)
def test_text_that_is_not_utf8_is_read_byte_by_byte(sent: bytes, value: bytes | None) -> None:
    text = sent if sent.startswith(b'"') else b'"' + sent + b'"'
    change = raw_insert(b'"id":1,"v":' + text + b',"t":"\xc3\xa4"')
    if value is None:
        assert isinstance(change, Rejected)
    else:
        assert isinstance(change, RowChange), change
        assert change.after == {"id": "1", "v": value, "t": "ä"}


@pytest.mark.parametrize(
    ("column_type", "cells"),
    [
        ("json", b'"id":1,"v":"\xff"'),
        ("enum('a','b')", b'"id":1,"v":"\xff"'),
        ("varbinary(9)", b'"id":1,"v":"\xff"'),
        ("timestamp", b'"id":1,"v":"\xff"'),
        ("varchar(9)", b'"id":1,"v\xff":"a"'),
        ("varchar(9)", b'"id":"\xff","v":"\xff"'),
        ("varchar(9)", b'"id":1,"v":"\xff"x'),
    ],
)
def test_bytes_that_are_not_utf8_stay_bad_anywhere_but_in_text(column_type: str, cells: bytes) -> None:
    change = raw_insert(cells, table(id="int", v=column_type))
    assert isinstance(change, Rejected)
    change.reason.encode()  # it can be printed


def test_rows_beside_one_that_is_not_utf8_stay_as_they_are() -> None:
    read = DECODER.row_reader(RAW, ReadOptions())
    images = [b'{"id":1,"v":"a"}', b'{"id":2,"v":"\xff","t":null}', None, b'{"id":"x"}', b'{"id":3,"t":"\xfe"}']
    columns = read(images)
    assert columns.values == [
        ["1", "2", None, None, "3"],
        ["a", b"\xff", None, None, None],
        [None, None, None, None, b"\xfe"],
    ]
    assert list(columns.bad) == [3]
    assert columns.absent == {"v": [4], "t": [0]}


def test_every_private_character_at_once_leaves_no_mark_for_bad_bytes() -> None:
    every = "".join(map(chr, range(0x100000, 0x110000, 0x80))).encode()
    assert isinstance(raw_insert(b'"id":1,"v":"' + every + b'\xff","t":null'), Rejected)
    assert isinstance(raw_insert(b'"id":1,"v":"' + every[4:] + b'\xff","t":null'), RowChange)


@given(st.binary(min_size=1, max_size=20))
def test_any_bytes_of_a_text_column_survive(raw: bytes) -> None:
    quoted = b"".join(b"\\u%04x" % byte if byte < 0x20 or byte in b'"\\' else bytes([byte]) for byte in raw)
    change = raw_insert(b'"id":1,"v":"' + quoted + b'","t":null')
    assert isinstance(change, RowChange) and change.after is not None
    value = change.after["v"]
    assert (value.encode() if isinstance(value, str) else value) == raw
