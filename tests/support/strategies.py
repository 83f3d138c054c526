"""Tables and rows for properties: every MySQL type, values in normal form, and what each protocol makes of them.

``WIRES`` has a line a protocol and form: how it is sent, which values it brings back (``values``), and what of
a change is read again (``seen``). ``test_round_trips.py`` holds each to it, ``test_fuzz.py`` damages what they send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, Literal

from hypothesis import strategies as st
from msgspec.structs import replace

from ticdc_spark import mysql
from ticdc_spark.model import Change, Column, ColumnType, Index, Rejected, Row, RowChange, Table, Value
from ticdc_spark.protocols.avro import decode as avro
from ticdc_spark.protocols.avro.encode import AvroConfig
from ticdc_spark.protocols.avro.encode import encoder as avro_encoder
from ticdc_spark.protocols.avro.schema import table_from_schemas
from ticdc_spark.protocols.base import Decoder, Encoded, Encoder, ReadOptions, decode
from ticdc_spark.protocols.canal_json import decode as canal_json
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json_encoder
from ticdc_spark.protocols.debezium import decode as debezium
from ticdc_spark.protocols.debezium.encode import DebeziumConfig
from ticdc_spark.protocols.debezium.encode import encoder as debezium_encoder
from ticdc_spark.protocols.debezium_avro import decode as debezium_avro
from ticdc_spark.protocols.debezium_avro.encode import DebeziumAvroConfig
from ticdc_spark.protocols.debezium_avro.encode import encoder as debezium_avro_encoder
from ticdc_spark.protocols.open import decode as open_protocol
from ticdc_spark.protocols.open.encode import OpenConfig
from ticdc_spark.protocols.open.encode import encoder as open_encoder
from ticdc_spark.protocols.shared.avro_names import sanitized
from ticdc_spark.protocols.simple import decode as simple
from ticdc_spark.protocols.simple.encode import SimpleConfig
from ticdc_spark.protocols.simple.encode import encoder as simple_encoder
from ticdc_spark.wire.confluent import is_framed, schema_id

ZONE = "+05:30"
"""Of every changefeed here; no local time of it happens twice."""
TYPES = (
    *("tinyint", "tinyint(1)", "smallint", "mediumint", "int", "bigint", "year", "bit(1)", "bit(10)", "bit(64)"),
    *(f"{name} unsigned" for name in ("tinyint", "smallint", "mediumint", "int", "bigint")),
    *("float", "double", "decimal(10,0)", "decimal(15,4)", "decimal(65,30)", "decimal(20,2) unsigned"),
    *("date", "time", "time(3)", "time(6)", "datetime", "datetime(3)", "datetime(6)", "timestamp", "timestamp(6)"),
    *(f"{name} charset utf8mb4" for name in ("char(12)", "varchar(99)", "tinytext", "text", "mediumtext", "longtext")),
    *("binary(4)", "varbinary(99)", "tinyblob", "blob", "mediumblob", "longblob"),
    *("enum('a','b,c','it''s')", "set('a','b','é')", "json", "vector"),
)
"""Every type that a row can carry."""
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def _values(column_type: ColumnType, year: int = 1, digits: int = 65) -> st.SearchStrategy[Any]:
    """Canonical values of a type; dates from a year on, decimals of so many digits at most."""
    name, fsp = column_type.name, mysql.fsp(column_type)
    if name in _OF_TYPE:
        return _OF_TYPE[name](column_type)
    if name == "decimal":
        scale, most = column_type.decimal or 0, 10 ** min(column_type.length or 10, digits) - 1
        return st.integers(0 if column_type.unsigned else -most, most).map(lambda n: _scaled(n, scale))
    if name == "date":
        return st.dates(date(year, 1, 1)).map(date.isoformat)
    if name == "datetime":
        return st.datetimes(datetime.fromisoformat(f"{year:04}-01-01")).map(
            lambda at: _moment(at.isoformat(" ", "microseconds"), fsp)
        )
    if mysql.is_bytes(column_type):
        return st.binary(max_size=12)
    bounds = mysql.integer_range(column_type)
    return TEXT if bounds is None else st.integers(*bounds).map(str)


def _floats(width: Literal[32, 64]) -> st.SearchStrategy[str]:
    floats = st.floats(width=width, allow_nan=False, allow_infinity=False)
    return floats.map(lambda number: mysql.canonical_float(repr(number), width))


def _clocks(column_type: ColumnType) -> st.SearchStrategy[str]:
    fsp = mysql.fsp(column_type)
    most = (838 * 3600 + 59 * 60 + 59) * 10**fsp
    return st.integers(-most, most).map(lambda ticks: _clock(ticks, fsp))


def _instants(column_type: ColumnType) -> st.SearchStrategy[str]:
    ticks, fsp = st.integers(86_400, 2**31 - 86_400), mysql.fsp(column_type)
    return st.builds(lambda at, us: _moment(_instant(at, us), fsp), ticks, st.integers(0, 999_999))


def _members(column_type: ColumnType) -> st.SearchStrategy[str]:
    count = len(column_type.elements)
    return st.integers(0, count if column_type.name == "enum" else 2**count - 1).map(str)


_OF_TYPE: dict[str, Callable[[ColumnType], st.SearchStrategy[Any]]] = {
    "float": lambda _: _floats(32),
    "double": lambda _: _floats(64),
    "year": lambda _: st.just("0") | st.integers(1901, 2155).map(str),
    "time": _clocks,
    "timestamp": _instants,
    "enum": _members,
    "set": _members,
    "json": lambda _: st.sampled_from(["null", "{}", '{"a": "<&>\u2028é"}', "[1, 2.5, null]", '"\\u0000"']),
    "vector": lambda _: st.sampled_from(["[]", "[1,2.5]", "[-0.1]"]),
    "binary": lambda kind: st.binary(min_size=kind.length or 1, max_size=kind.length or 1),
}


def _scaled(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return "-" + text if number < 0 else text


def _clock(ticks: int, digits: int) -> str:
    seconds, fraction = divmod(abs(ticks), 10**digits)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    text += f".{fraction:0{digits}}" if digits else ""
    return "-" + text if ticks < 0 else text


def _moment(text: str, digits: int) -> str:
    return text[: 20 + digits] if digits else text[:19]


def _instant(seconds: int, micros: int) -> str:
    """Seconds since the epoch as a UTC text with six digits."""
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{micros:06}"


def _any_values(column_type: ColumnType) -> st.SearchStrategy[Any]:
    """With zero dates, which are values like others to most protocols."""
    values = _values(column_type)
    if column_type.name not in ("date", "datetime"):
        return values
    zero = "0000-00-00" if column_type.name == "date" else "0000-00-00 00:00:00.000000"
    return st.just(_moment(zero, mysql.fsp(column_type))) | values


def _named_values(column_type: ColumnType) -> st.SearchStrategy[Any]:
    """Avro: an ENUM's index 0 has no name."""
    if column_type.name == "enum":
        return st.integers(1, len(column_type.elements)).map(str)
    return _any_values(column_type)


def _debezium_values(column_type: ColumnType, digits: int = 15) -> st.SearchStrategy[Any]:
    """Debezium: no zero dates, years from 100 on, decimals as doubles, no -0."""
    values = _values(column_type, year=100, digits=digits)
    return values.filter(lambda value: value != "-0") if column_type.name in ("float", "double") else values


def _primary(column: str) -> tuple[Index, ...]:
    return (Index(name="PRIMARY", unique=True, primary=True, nullable=False, columns=(column,)),)


EVERYTHING = Table(
    schema='s"<%.',
    name="t é%s",
    columns=(
        Column(name="id", type=mysql.parse_type("bigint unsigned"), nullable=False),
        *(Column(name=f'{at}"<%s> {name}', type=mysql.parse_type(name)) for at, name in enumerate(TYPES)),
    ),
    indexes=_primary("id"),
    table_id=7,
    version=9,
)
"""A table with a column of every type, all nullable but its key."""


@dataclass(frozen=True)
class Wire:
    """A protocol in one form."""

    name: str
    to: Callable[[], tuple[Encoder, Callable[[], Decoder]]]
    """A new encoder, and what reads its messages once they are sent."""
    values: Callable[[ColumnType], st.SearchStrategy[Any]] = _any_values
    """Values of a type, not NULL, that come back as they were."""
    seen: Callable[[RowChange], RowChange] = lambda change: change
    """What is read again of a change."""
    options: ReadOptions = field(default_factory=lambda: ReadOptions(source_timezone=ZONE))

    def __str__(self) -> str:
        return self.name

    def send(self, changes: Sequence[RowChange]) -> tuple[list[Encoded], Decoder]:
        to, reads = self.to()
        sent = list(to.rows(changes))
        return sent, reads()

    def rows(self, table: Table, count: int) -> st.SearchStrategy[list[Row]]:
        """Rows of a table whose values all come back; keys are never NULL."""
        keys = mysql.handle_key(table)
        cells: dict[str, st.SearchStrategy[Value]] = {}
        for column in table.columns:
            kept = self.values(column.type)
            cells[column.name] = kept if column.name in keys or not column.nullable else st.none() | kept
        return st.lists(st.fixed_dictionaries(cells), min_size=count, max_size=count)

    def receive(self, sent: Iterable[Encoded], decoder: Decoder, table: Table) -> list[Change | Rejected]:
        """Decode messages with the schema of one table, or with those of the registry."""
        found: list[Change | Rejected] = []
        for one in sent:
            tables = {(table.schema, table.name, key): table for key in ("", str(table.version))}
            if isinstance(decoder, OfRegistry):
                tables = decoder.tables(one)
            elif isinstance(decoder, debezium_avro.DebeziumAvroDecoder):
                tables = {(table.schema, table.name, key): table for key in map(str, range(1, 99))}
            found += decode(decoder, one.key, one.value, tables, self.options)
        return found


class OfRegistry(avro.AvroDecoder):
    """Avro with the schemas that an encoder has registered."""

    def __init__(self, texts: dict[int, str]) -> None:
        super().__init__(texts)
        self.texts = texts

    def tables(self, sent: Encoded) -> dict[tuple[str, str, str], Table]:
        """The table that a message's schemas describe, if it names any that are known."""
        texts = [
            self.texts.get(schema_id(part)) if part is not None and is_framed(part) else None
            for part in (sent.key, sent.value)
        ]
        if texts == [None, None]:
            return {}
        described = table_from_schemas(*texts)
        return {(described.schema, described.name, str(number)): described for number in self.texts}


class _Ids:
    """A registry."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], int] = {}

    def register(self, subject: str, schema: str) -> int:
        return self.ids.setdefault((subject, schema), len(self.ids) + 1)

    def texts(self) -> dict[int, str]:
        return {number: text for (_, text), number in self.ids.items()}


def _plain(made: Callable[[], Encoder], decoder: Decoder) -> Callable[[], tuple[Encoder, Callable[[], Decoder]]]:
    return lambda: (made(), lambda: decoder)


def _registered(**options: Any) -> Callable[[], tuple[Encoder, Callable[[], Decoder]]]:
    def to() -> tuple[Encoder, Callable[[], Decoder]]:
        ids = _Ids()
        return avro_encoder(AvroConfig(time_zone=ZONE, **options), ids), lambda: OfRegistry(ids.texts())

    return to


def _debezium_avro(**options: Any) -> Callable[[], tuple[Encoder, Callable[[], Decoder]]]:
    def to() -> tuple[Encoder, Callable[[], Decoder]]:
        ids = _Ids()
        config = DebeziumAvroConfig(**options)
        return debezium_avro_encoder(config, ids), lambda: debezium_avro.DebeziumAvroDecoder(ids.texts())

    return to


def _open_seen(change: RowChange, changed_only: bool = False) -> RowChange:
    # "u" alone: an insert, or an update without old values or without changes
    alone = change.op == "insert" or (changed_only and change.op == "update" and change.before == change.after)
    return replace(change, op="upsert", before=None) if alone else change


def _simple_seen(change: RowChange) -> RowChange:
    return replace(change, table_id=change.table.table_id)


def _avro_seen(change: RowChange, extended: bool) -> RowChange:
    table = clean_table(change.table)
    if change.op == "delete":
        keys = mysql.handle_key(change.table)
        before = {sanitized(name): value for name, value in (change.before or {}).items() if name in keys}
        return RowChange(op="delete", table=table, commit_ts=0, before=before, partial=True)
    after = {sanitized(name): value for name, value in (change.after or {}).items()}
    if not extended:
        return RowChange(op="upsert", table=table, commit_ts=0, after=after)
    return RowChange(op=change.op, table=table, commit_ts=change.commit_ts, after=after)


def clean_table(table: Table) -> Table:
    """A table's names as Avro has them; its types are another matter."""
    return Table(schema=sanitized(table.schema), name=sanitized(table.name), columns=())


def _simple(form: Any, **options: Any) -> Callable[[], Encoder]:
    return lambda: simple_encoder(SimpleConfig(encoding_format=form, time_zone=ZONE, **options))


def _open(**options: Any) -> Callable[[], Encoder]:
    return lambda: open_encoder(OpenConfig(time_zone=ZONE, **options))


def _canal(**options: Any) -> Callable[[], Encoder]:
    config = CanalJsonConfig(time_zone=ZONE, enable_tidb_extension=True, **options)
    return lambda: canal_json_encoder(config)


def _debezium(**options: Any) -> Callable[[], Encoder]:
    return lambda: debezium_encoder(DebeziumConfig(enable_tidb_extension=True, **options))


WIRES = (
    Wire("simple", _plain(_simple("json"), simple.DECODER), seen=_simple_seen),
    Wire("simple in lz4", _plain(_simple("json", compression="lz4"), simple.DECODER), seen=_simple_seen),
    Wire("simple in avro", _plain(_simple("avro"), simple.DECODER), seen=_simple_seen),
    Wire("open", _plain(_open(max_batch_size=1), open_protocol.DECODER), seen=_open_seen),
    Wire("open in snappy, in batches", _plain(_open(compression="snappy"), open_protocol.DECODER), seen=_open_seen),
    Wire(
        "open, changed columns",
        _plain(_open(only_output_updated_columns=True), open_protocol.DECODER),
        seen=partial(_open_seen, changed_only=True),
    ),
    Wire("canal-json", _plain(_canal(), canal_json.DECODER)),
    Wire("canal-json, compatible", _plain(_canal(content_compatible=True), canal_json.DECODER)),
    Wire("debezium", _plain(_debezium(), debezium.DECODER), values=_debezium_values),
    Wire("debezium, bare", _plain(_debezium(debezium_disable_schema=True), debezium.DECODER), values=_debezium_values),
    Wire(
        "debezium-avro",
        _debezium_avro(enable_tidb_extension=True, avro_bigint_unsigned_handling_mode="string"),
        values=partial(_debezium_values, digits=65),
    ),
    Wire(
        "debezium-avro, bare",
        _debezium_avro(avro_bigint_unsigned_handling_mode="string", avro_decimal_handling_mode="string"),
        values=partial(_debezium_values, digits=65),
    ),
    Wire("avro", _registered(), values=_named_values, seen=partial(_avro_seen, extended=False)),
    Wire(
        "avro, extended",
        _registered(enable_tidb_extension=True),
        values=_named_values,
        seen=partial(_avro_seen, extended=True),
    ),
    Wire(
        "avro in strings",
        _registered(
            enable_tidb_extension=True,
            avro_decimal_handling_mode="string",
            avro_bigint_unsigned_handling_mode="string",
        ),
        values=_named_values,
        seen=partial(_avro_seen, extended=True),
    ),
)
"""Every protocol, each in the forms that take another way through its code."""


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """A table of up to six columns, the first of which is its key, under any names (that Avro distinguishes)."""
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique_by=lambda name: sanitized(name).casefold()))
    kinds = [mysql.parse_type(draw(st.sampled_from(TYPES))) for _ in names]
    return Table(
        schema=draw(NAMES),
        name=draw(NAMES),
        columns=tuple(
            Column(name=name, type=kind, nullable=name != names[0] and draw(st.booleans()))
            for name, kind in zip(names, kinds, strict=True)
        ),
        indexes=_primary(names[0]),
        table_id=draw(st.integers(1, 2**63 - 1)),
        version=draw(st.integers(1, 2**63 - 1)),
    )


def changes_of(table: Table, rows: Sequence[Row], commit_ts: int) -> list[RowChange]:
    """An insert, an update and a delete of three rows."""
    first, second, third = rows
    about = {"table": table, "commit_ts": commit_ts}
    return [
        RowChange(op="insert", after=first, **about),  # type: ignore[arg-type]
        RowChange(op="update", before=first, after=second, **about),  # type: ignore[arg-type]
        RowChange(op="delete", before=third, **about),  # type: ignore[arg-type]
    ]
