"""What holds for Simple JSON with any table, row or bytes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.simple_examples import (
    EXAMPLES,
    opened,
    read,
)
from ticdc_spark import mysql
from ticdc_spark.model import (
    Bootstrap,
    Column,
    ColumnType,
    Envelope,
    Index,
    Rejected,
    RowChange,
    SchemaChange,
    Table,
    Value,
    Watermark,
)
from ticdc_spark.protocols.base import decode
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INSTANTS = st.integers(86_400, 2**31 - 86_400).map(lambda seconds: datetime.fromtimestamp(seconds + 0.5, UTC))


def integers(column_type: ColumnType) -> st.SearchStrategy[str]:
    bounds = mysql.integer_range(column_type)
    assert bounds is not None
    return st.integers(*bounds).map(str)


def values(column_type: ColumnType) -> st.SearchStrategy[Any]:
    """Canonical values of a type."""
    digits = mysql.fsp(column_type)
    match column_type.name:
        case "float":
            floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
            return floats.map(lambda number: mysql.canonical_float(repr(number), 32))
        case "double":
            return st.floats(allow_nan=False, allow_infinity=False).map(lambda n: mysql.canonical_float(repr(n), 64))
        case "decimal":
            return st.integers(-(10**10), 10**10).map(lambda n: mysql.canonical_decimal(f"{n}.5", 2))
        case "datetime" | "timestamp":
            return INSTANTS.map(
                lambda at: (
                    mysql.canonical_datetime(f"{at:%Y-%m-%d %H:%M:%S}" + (f".{at:%f}"[: digits + 1]), digits)
                    if digits
                    else f"{at:%Y-%m-%d %H:%M:%S}"
                )
            )
    if mysql.is_bytes(column_type):
        return st.binary(max_size=12)
    return integers(column_type) if mysql.is_integer(column_type) else TEXT


TYPES = st.sampled_from(
    [
        *("tinyint(1)", "int", "bigint unsigned", "year", "bit(64)", "enum('a','b')", "set('a','','c')"),
        *("float", "double", "decimal(12,2)", "datetime(3)", "timestamp(6)", "timestamp", "time", "json", "vector"),
        *("binary(4)", "varbinary(9)", "blob", "longtext charset utf8mb4 collate utf8mb4_bin", "date"),
    ]
).map(mysql.parse_type)


def defaults(column_type: ColumnType) -> st.SearchStrategy[str | int | None]:
    return st.none() | (st.integers(0, 9) if column_type.name == "bit" else TEXT)


@st.composite
def tables_and_rows(draw: st.DrawFn) -> tuple[Table, list[dict[str, Value]]]:
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    types = [draw(TYPES) for _ in names]
    columns = tuple(
        Column(name=name, type=column_type, nullable=draw(st.booleans()), default=draw(defaults(column_type)))
        for name, column_type in zip(names, types, strict=True)
    )
    primary = Index(name="PRIMARY", unique=True, primary=True, nullable=False, columns=(names[0],))
    table = Table(
        schema=draw(NAMES),
        name=draw(NAMES),
        columns=columns,
        indexes=draw(st.sampled_from([(), (primary,)])),
        table_id=draw(st.integers(1, 2**63 - 1)),
        version=draw(st.integers(1, 2**63 - 1)),
    )
    row: st.SearchStrategy[dict[str, Value]] = st.fixed_dictionaries(
        {name: st.none() | values(column_type) for name, column_type in zip(names, types, strict=True)}
    )
    return table, draw(st.lists(row, min_size=1, max_size=4))


@given(tables_and_rows(), st.sampled_from(["UTC", "Asia/Shanghai", "+05:30"]), st.integers(0, 2**63 - 1))
def test_any_table_and_rows_round_trip(drawn: tuple[Table, list[dict[str, Value]]], zone: str, commit_ts: int) -> None:
    table, rows = drawn
    to = encoder(SimpleConfig(time_zone=zone))
    bootstrap = to.bootstrap(table)
    assert bootstrap is not None
    assert opened(bootstrap.value or b"") == Bootstrap(table)
    sent = [
        RowChange(op="update", table=table, commit_ts=commit_ts, before=rows[0], after=row, table_id=9) for row in rows
    ]
    key = (table.schema, table.name, str(table.version))
    assert [decode(DECODER, None, one.value, {key: table}) for one in to.rows(sent)] == [[one] for one in sent]


STARTS = st.sampled_from([b"", b"\x04\x22\x4d\x18", b'\x10<{"', b"\x00\x00\x00\x00\x01", b"{", b'{"version":1,'])


@given(st.builds(bytes.__add__, STARTS, st.binary(max_size=60)), st.none() | st.binary(max_size=9))
def test_arbitrary_bytes_are_rejected(value: bytes, key: bytes | None) -> None:
    (event,) = DECODER.open_message(key, value)
    assert isinstance(event, Rejected)
    columns = read([value, None, b'{"id":"1"}'])
    assert set(columns.bad) <= {0}
    assert columns.values[0][2] == "1"


@given(st.sampled_from(EXAMPLES), st.data())
def test_mutated_messages_never_raise(message: str, data: st.DataObject) -> None:
    raw = message.encode()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(raw) - 1))
        end = data.draw(st.integers(start, min(start + 8, len(raw))))
        raw = raw[:start] + data.draw(st.binary(max_size=4)) + raw[end:] or b" "
    (event,) = DECODER.open_message(None, raw)
    if isinstance(event, Envelope):
        assert 0 <= event.commit_ts < 2**63
        columns = read([event.before, event.after])
        assert all(len(cells) == 2 for cells in columns.values)
    else:
        assert isinstance(event, Rejected | SchemaChange | Bootstrap | Watermark)


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.dictionaries(NAMES, inner)))
def test_any_json_value_in_a_field_never_raises(value: Any) -> None:
    for message in EXAMPLES:
        fields = json.loads(message)
        for field in fields:
            (event,) = DECODER.open_message(None, json.dumps({**fields, field: value}).encode())
            if isinstance(event, Envelope):
                read([event.before, event.after])
