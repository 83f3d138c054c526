"""Debezium of its own connectors: rows in all modes, and the messages that are no rows."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.support.debezium_connect import SOURCE, change, envelope, field, key, text
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Envelope, Rejected, RowChange, SchemaChange, Table, Value
from ticdc_spark.mysql import handle_key, parse_type, tso
from ticdc_spark.protocols.base import Columns, ReadOptions, decode
from ticdc_spark.protocols.debezium.decode import DECODER, DebeziumDecoder
from ticdc_spark.protocols.debezium.native import DECIMAL, NativeModes
from ticdc_spark.protocols.debezium.tables import table_of_row
from ticdc_spark.spark.types import LakeOptions, lake_type

MS = SOURCE["ts_ms"]
TIME = "io.debezium.time."
CONNECT = "org.apache.kafka.connect.data."


def table(**types: str) -> Table:
    columns = tuple(Column(name=name, type=parse_type(kind)) for name, kind in types.items())
    return Table(schema="inventory", name="items", columns=columns)


def read(decoder: DebeziumDecoder, raw: bytes, known: Table) -> Any:
    (found,) = decode(decoder, None, raw, {("inventory", "items", ""): known})
    return found


def value(kind: str, declared: dict[str, Any] | None, cell: Any, modes: NativeModes | None = None) -> Value:
    """A value of a column ``c``, with a schema block or without."""
    raw = change("c", None, {"c": cell}, [declared] if declared else [])
    found = read(DebeziumDecoder(modes=modes), raw, table(c=kind))
    if isinstance(found, Rejected):
        raise MessageError(found.reason)
    assert isinstance(found, RowChange) and found.after is not None
    return found.after["c"]


@pytest.mark.parametrize(
    ("kind", "declared", "cell", "expected"),
    [
        ("decimal(10,2)", field("c", "bytes", DECIMAL, scale="2"), "BM4=", "12.30"),
        ("decimal(10,2)", field("c", "bytes", DECIMAL, scale="2"), "/w==", "-0.01"),
        ("decimal(10,3)", field("c", "bytes", DECIMAL, scale="2"), "BM4=", "12.300"),
        ("decimal(10,0)", field("c", "bytes", DECIMAL, scale="0"), "AAAE", "4"),
        ("decimal(10,0)", field("c", "string"), "1234", "1234"),
        ("decimal(10,2)", field("c", "double"), 12.3, "12.30"),
        ("bigint unsigned", field("c", "bytes", DECIMAL, scale="0"), "AP//////////", "18446744073709551615"),
        ("bigint unsigned", field("c", "int64"), -1, "18446744073709551615"),
        ("tinyint(1)", field("c", "boolean"), True, "1"),
        ("tinyint(1)", field("c", "int16"), 7, "7"),
        ("bit(1)", field("c", "boolean"), False, "0"),
        ("bit(10)", field("c", "bytes", "io.debezium.data.Bits", length="10"), "/wM=", "1023"),
        ("varbinary(9)", field("c", "bytes"), "AP/+", b"\0\xff\xfe"),
        ("varbinary(9)", field("c", "string"), "AP_-", b"\0\xff\xfe"),
        ("date", field("c", "int32", TIME + "Date"), -1, "1969-12-31"),
        ("date", field("c", "int32", CONNECT + "Date"), 1, "1970-01-02"),
        ("datetime(6)", field("c", "int64", TIME + "MicroTimestamp"), 1, "1970-01-01 00:00:00.000001"),
        ("datetime(6)", field("c", "int64", CONNECT + "Timestamp"), 1, "1970-01-01 00:00:00.001000"),
        ("datetime", field("c", "int64", TIME + "Timestamp"), 1529476623000, "2018-06-20 06:37:03"),
        ("datetime(6)", field("c", "int64", TIME + "NanoTimestamp"), 1000, "1970-01-01 00:00:00.000001"),
        ("timestamp", field("c", "string", TIME + "ZonedTimestamp"), "2018-06-20T13:37:03Z", "2018-06-20 13:37:03"),
        (
            "timestamp(3)",
            field("c", "string", TIME + "ZonedTimestamp"),
            "2018-06-20T13:37:03.1Z",
            "2018-06-20 13:37:03.100",
        ),
        ("time(6)", field("c", "int64", TIME + "MicroTime"), -1, "-00:00:00.000001"),
        ("time", field("c", "int32", TIME + "Time"), 3_600_000, "01:00:00"),
        ("time", field("c", "int32", CONNECT + "Time"), 1000, "00:00:01"),
        ("time(6)", field("c", "int64", TIME + "NanoTime"), 1000, "00:00:00.000001"),
        ("year", field("c", "int32", TIME + "Year"), 2012, "2012"),
        ("enum('a','b')", field("c", "string", "io.debezium.data.Enum", allowed="a,b"), "b", "2"),
        ("set('a','b')", field("c", "string", "io.debezium.data.EnumSet", allowed="a,b"), "a,b", "3"),
        ("json", field("c", "string", "io.debezium.data.Json"), '{"a": 1}', '{"a": 1}'),
        ("float", field("c", "float"), 5.610000133514404, "5.61"),
    ],
)
def test_the_block_shows_how_a_value_is_sent(kind: str, declared: dict[str, Any], cell: Any, expected: Value) -> None:
    assert value(kind, declared, cell) == expected


@pytest.mark.parametrize(
    ("kind", "modes", "cell", "expected"),
    [
        ("decimal(10,0)", {"decimal_handling_mode": "precise"}, "AAAE", "4"),
        ("decimal(10,0)", {"decimal_handling_mode": "string"}, "1234", "1234"),
        ("decimal(10,2)", {"decimal_handling_mode": "precise"}, "BM4=", "12.30"),
        ("bigint unsigned", {"bigint_unsigned_handling_mode": "precise"}, "AP//////////", "18446744073709551615"),
        ("binary(2)", {"binary_handling_mode": "hex"}, "00ff", b"\0\xff"),
        ("binary(2)", {"binary_handling_mode": "base64-url-safe"}, "_-8=", b"\xff\xef"),
        ("binary(2)", {"binary_handling_mode": "base64"}, "/+8=", b"\xff\xef"),
        ("time", {"time_precision_mode": "adaptive"}, 1000, "00:00:01"),
        ("time(6)", {"time_precision_mode": "adaptive"}, 1, "00:00:00.000001"),
        ("time(6)", {"time_precision_mode": "connect"}, 1000, "00:00:01.000000"),
        ("datetime(6)", {"time_precision_mode": "connect"}, 1000, "1970-01-01 00:00:01.000000"),
        ("varchar(9)", {"binary_handling_mode": "hex"}, "00ff", "00ff"),
    ],
)
def test_without_a_block_the_modes_are_options(kind: str, modes: dict[str, Any], cell: Any, expected: Value) -> None:
    assert value(kind, None, cell, NativeModes(**modes)) == expected


def test_hexadecimal_bytes_need_the_option_with_a_block_too() -> None:
    modes = NativeModes(binary_handling_mode="hex")
    assert value("blob", field("c", "string"), "00ff", modes) == b"\0\xff"


@pytest.mark.parametrize(
    ("kind", "declared", "cell", "modes"),
    [
        ("decimal(10,0)", None, "1234", {}),  # a number, or base64 of three bytes
        ("decimal(10,2)", field("c", "bytes", DECIMAL, scale="2"), "*", {}),
        ("decimal(10,2)", field("c", "bytes", DECIMAL, scale="2"), "A" * 400, {}),
        ("decimal(10,2)", field("c", "bytes", DECIMAL, scale="x"), "BM4=", {}),
        ("decimal(10,2)", field("c", "bytes", DECIMAL, scale="999"), "BM4=", {}),
        ("decimal(10,2)", field("c", "string"), "BM4=", {}),
        ("tinyint(1)", field("c", "boolean"), "yes", {}),
        ("binary(2)", None, "0", {"binary_handling_mode": "hex"}),
        ("int", field("c", "int64", TIME + "Timestamp"), "x", {}),
    ],
)
def test_values_that_cannot_be_read_are_rejected(
    kind: str, declared: dict[str, Any] | None, cell: Any, modes: dict[str, Any]
) -> None:
    with pytest.raises(MessageError):
        value(kind, declared, cell, NativeModes(**modes))


def test_the_operations_of_rows() -> None:
    row, old = {"c": 2}, {"c": 1}
    for op, before, after, expected in [
        ("c", None, row, "insert"),
        ("r", None, row, "upsert"),
        ("u", old, row, "update"),
        ("u", None, row, "upsert"),
        ("d", old, None, "delete"),
    ]:
        found = read(DECODER, change(op, before, after, [field("c", "int32")]), table(c="int"))
        assert isinstance(found, RowChange)
        assert (found.op, found.commit_ts) == (expected, tso(MS))
        assert found.before == (None if before is None else {"c": "1"})
        assert found.after == (None if after is None else {"c": "2"})


def test_the_old_connectors_snapshots_have_no_time() -> None:
    (event,) = DECODER.open_message(None, change("r", None, {"c": 1}, source=SOURCE | {"ts_ms": 0}))
    assert isinstance(event, Envelope) and event.commit_ts == 0


def test_a_truncate_is_a_ddl() -> None:
    raw = envelope({"source": SOURCE | {"table": "a`b"}, "op": "t", "ts_ms": 1})
    (event,) = DECODER.open_message(None, raw)
    assert event == SchemaChange(
        commit_ts=tso(MS), query="TRUNCATE TABLE `inventory`.`a``b`", kind="TRUNCATE", schema="inventory", name="a`b"
    )


DDL = "ALTER TABLE items ADD COLUMN x int"
CHANGES = [{"type": "ALTER", "id": '"inventory"."items"', "table": None}]


def test_a_schema_change() -> None:
    source = SOURCE | {"db": "inventory"}
    payload = {"source": source, "ts_ms": 5, "databaseName": "inventory", "schemaName": None, "ddl": DDL}
    (event,) = DECODER.open_message(
        None, text({"schema": {"type": "struct"}, "payload": payload | {"tableChanges": CHANGES}})
    )
    assert event == SchemaChange(commit_ts=tso(MS), query=DDL, kind="ALTER", schema="inventory", name="items")


@pytest.mark.parametrize(("ts_ms", "expected"), [(5, tso(5)), (None, 0)])
def test_a_connectors_own_history(ts_ms: int | None, expected: int) -> None:
    position = {"ts_sec": 1, "file": "mysql-bin.000003", "pos": 4}
    raw = {"source": {"server": "shop1"}, "position": position, "databaseName": "inventory", "ddl": DDL}
    (event,) = DECODER.open_message(None, text(raw if ts_ms is None else raw | {"ts_ms": ts_ms}))
    assert event == SchemaChange(commit_ts=expected, query=DDL, kind="", schema="inventory", name="")


@pytest.mark.parametrize(
    "payload",
    [
        {"ts_ms": 1666186742000},
        {"status": "BEGIN", "id": "a:1", "event_count": None, "data_collections": None, "ts_ms": 1},
        {"status": "END", "id": "a:1", "event_count": 2, "data_collections": [], "ts_ms": 1},
        {"source": SOURCE, "databaseName": "", "ddl": "SET character_set_server=utf8mb4;", "tableChanges": []},
        None,
    ],
)
def test_messages_that_carry_nothing(payload: Any) -> None:
    assert DECODER.open_message(None, text({"schema": None, "payload": payload})) == ()
    if payload is not None:
        assert DECODER.open_message(None, text(payload)) == ()


@pytest.mark.parametrize(
    "payload",
    [
        {"id": 1001, "name": "Ann"},
        {"id": 1001, "__op": "u", "__deleted": "false", "__source_ts_ms": 1},
        {"id": "BEGIN", "status": "BEGIN"},
        {},
    ],
)
def test_a_flattened_row_is_rejected(payload: Any) -> None:
    for raw in (text(payload), text({"schema": {"type": "struct"}, "payload": payload})):
        (event,) = DECODER.open_message(None, raw)
        assert isinstance(event, Rejected) and "flattened" in event.reason


@pytest.mark.parametrize(
    "payload",
    [
        {"source": SOURCE | {"ts_ms": None}, "op": "c", "after": {}},
        {"source": SOURCE | {"ts_ms": -1}, "op": "c", "after": {}},
        {"source": SOURCE | {"ts_ms": 1 << 60}, "op": "c", "after": {}},
        {"source": SOURCE, "op": "m", "message": {}},
        {"source": SOURCE | {"table": None}, "op": "t"},
        {"source": SOURCE, "ddl": None, "tableChanges": CHANGES},
    ],
)
def test_what_no_connector_for_mysql_sends_is_rejected(payload: Any) -> None:
    (event,) = DECODER.open_message(None, text({"payload": payload}))
    assert isinstance(event, Rejected)


def test_a_row_without_a_time_has_that_reason() -> None:
    source = {name: cell for name, cell in SOURCE.items() if name != "ts_ms"}
    (event,) = DECODER.open_message(None, text({"payload": {"source": source, "op": "c", "after": {}}}))
    assert event == Rejected("debezium message: field `source.ts_ms` is missing")


def test_images_of_many_schemas_stand_side_by_side() -> None:
    known = table(c="decimal(10,2)", d="int")
    precise = change("c", None, {"c": "BM4=", "d": 1}, [field("c", "bytes", DECIMAL, scale="2"), field("d", "int32")])
    wider = change("c", None, {"c": "MDQ=", "d": 2}, [field("c", "bytes", DECIMAL, scale="3"), field("d", "int32")])
    older = change("c", None, {"c": "BM4="}, [field("c", "bytes", DECIMAL, scale="2")])
    ours = text(
        {"payload": {"source": SOURCE | {"commit_ts": 1}, "op": "c", "before": None, "after": {"c": 1.5, "d": 4}}}
    )
    bad = change("c", None, {"c": "*", "d": 5}, [field("c", "bytes", DECIMAL, scale="2"), field("d", "int32")])
    images: list[bytes | None] = []
    for raw in (ours, precise, wider, older, bad):
        (event,) = DECODER.open_message(None, raw)
        assert isinstance(event, Envelope)
        images.append(event.after)
    images += [None, b"!{\n{}", b"!"]
    found = DECODER.row_reader(known, ReadOptions())(images)
    assert isinstance(found, Columns)
    assert found.values == [["1.50", "12.30", "12.34", "12.30", *[None] * 4], ["4", "1", "2", None, *[None] * 4]]
    assert sorted(found.bad) == [4, 6, 7]
    assert {name: list(places) for name, places in found.absent.items()} == {"d": [3]}


def test_a_table_known_only_by_its_rows() -> None:
    source = "__debezium.source.column."
    fields = [
        {**field("id", "int32"), "optional": False},
        field("price", "bytes", DECIMAL, scale="2", **{"connect.decimal.precision": "10"}),
        field("big", "bytes", DECIMAL, scale="0"),
        field("name", "string", None, **{source + "type": "VARCHAR", source + "length": "255"}),
        field("count", "int64", None, **{source + "type": "INT UNSIGNED"}),
        field("at", "int64", TIME + "MicroTimestamp"),
        field("bits", "bytes", "io.debezium.data.Bits", length="12"),
        field("kind", "string", "io.debezium.data.Enum", allowed="a,b\\,c"),
        field("raw", "bytes"),
        {**field("flag", "boolean"), "default": True},
    ]
    raw = change("c", None, {}, fields)
    described = table_of_row("inventory", "items", key({"id": 1}, fields[0]), raw)
    assert handle_key(described) == ("id",)
    expected = [
        ("id", "int"),
        ("price", "decimal(10,2)"),
        ("big", "decimal(65,0)"),
        ("name", "varchar(255)"),
        ("count", "int unsigned"),
        ("at", "datetime(6)"),
        ("bits", "bit(12)"),
        ("kind", "enum('a','b,c')"),
        ("raw", "longblob"),
        ("flag", "bit(1)"),
    ]
    assert [(column.name, column.type) for column in described.columns] == [
        (name, parse_type(kind)) for name, kind in expected
    ]
    assert described.columns[0].nullable is False and described.columns[-1].default == 1


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [field("g", "struct", "io.debezium.data.Unknown")],
        [field("c", "bytes", DECIMAL, scale="1000000000")],
        [field("c", "bytes", "io.debezium.data.Bits", length="1000000000")],
        [field("c", "bytes", "io.debezium.data.Bits", length="many")],
        [{"type": 1}],
    ],
)
def test_blocks_that_give_no_table(fields: list[dict[str, Any]]) -> None:
    raw = envelope({"source": SOURCE, "op": "c", "after": {}}, fields)
    with pytest.raises(MessageError):
        table_of_row("inventory", "items", None, raw)


WKB_POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
"""POINT(1 2), little endian."""
GEOMETRIES = [
    ({"wkb": b64encode(WKB_POINT).decode(), "srid": 4326}, (4326).to_bytes(4, "little") + WKB_POINT),
    ({"wkb": b64encode(WKB_POINT).decode(), "srid": None, "x": 1.0, "y": 2.0}, bytes(4) + WKB_POINT),
    ({"x": 1.0, "y": 2.0}, bytes(4) + WKB_POINT),
    (None, None),
]


@pytest.mark.parametrize(("sent", "expected"), GEOMETRIES)
@pytest.mark.parametrize("kind", ["Point", "Geometry"])
def test_a_geometry_is_its_bytes_as_mysql_keeps_them(kind: str, sent: Any, expected: bytes | None) -> None:
    fields = [field("id", "int32"), field("c", "struct", f"io.debezium.data.geometry.{kind}")]
    raw = change("c", None, {"id": 1, "c": sent}, fields)
    for known in (table_of_row("inventory", "items", None, raw), table(id="int", c=kind.lower())):
        found = read(DECODER, raw, known)
        assert isinstance(found, RowChange), found
        assert found.after == {"id": "1", "c": expected}
        assert lake_type(known.columns[1].type, LakeOptions()).arrow == "binary"


@pytest.mark.parametrize("sent", [{}, {"x": 1.0}, {"wkb": "*"}, {"wkb": "", "srid": -1}, "POINT(1 2)"])
def test_a_geometry_without_its_bytes_is_a_bad_row(sent: Any) -> None:
    with pytest.raises(MessageError):
        value("point", None, sent)


def test_a_row_without_a_block_gives_no_table() -> None:
    with pytest.raises(MessageError, match="no schema block"):
        table_of_row("inventory", "items", None, change("c", None, {"c": 1}))
