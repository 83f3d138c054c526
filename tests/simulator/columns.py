"""Kinds of columns for small tables: few values that collide often, and what MODIFY COLUMN makes of each value."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from random import Random

import msgspec

from tests.workload.columns import column_type as _column_type
from ticdc_spark.model import Column, ColumnType, Value
from ticdc_spark.mysql import NO_CONSTANT, canonical_decimal, default_value, fsp, utc_timestamp

column_type = lru_cache(maxsize=None)(_column_type)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of column: its SQL, values that occur, and a default."""

    sql: str
    values: tuple[Value, ...]
    literal: str = ""
    """The default in SQL; ``""``: the kind has none."""
    default: str | None = None
    """The default as TiDB keeps it, a TIMESTAMP's in the session's zone."""
    becomes: tuple[str, ...] = ()
    """Kinds that MODIFY COLUMN turns it into without changing a value."""
    loses: tuple[str, ...] = ()
    """Kinds that MODIFY COLUMN turns it into by rounding, padding or another type."""


_DAY = ("2024-02-29 23:59:59", "1999-12-31 23:59:59", "2026-07-01 00:00:00", "2010-10-10 10:10:10")
_SIX = (".999999", ".500000", ".000000", ".499999")
_THREE = (".999", ".500", ".000", ".499")


def _joined(fractions: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(day + fraction for day, fraction in zip(_DAY, fractions, strict=True))


KINDS: dict[str, Kind] = {
    "int": Kind(sql="INT", values=("0", "-1", "7", "2147483647"), literal="7", default="7", becomes=("bigint",)),
    "bigint": Kind(sql="BIGINT", values=("0", "-9223372036854775808", "7"), literal="-1", default="-1"),
    "varchar": Kind(
        sql="VARCHAR(40)",
        values=("", "żółty", "O'Neil <&>", "null", " a "),
        literal="_UTF8MB4'n''a'",
        default="n'a",
        becomes=("varchar200",),
    ),
    "varchar200": Kind(sql="VARCHAR(200)", values=("", "芳", 'say "hi"', "back\\slash"), literal="''", default=""),
    "decimal": Kind(
        sql="DECIMAL(12,2)",
        values=("0.00", "-0.05", "9.99", "1234567.50"),
        literal="9.99",
        default="9.99",
        becomes=("decimal4",),
        loses=("decimal1", "int"),
    ),
    "decimal4": Kind(
        sql="DECIMAL(16,4)",
        values=("0.0000", "-1.0050", "2.3450"),
        literal="0.5000",
        default="0.5000",
        loses=("decimal",),
    ),
    "decimal1": Kind(sql="DECIMAL(12,1)", values=("0.0", "-3.5"), literal="1.5", default="1.5"),
    "datetime6": Kind(sql="DATETIME(6)", values=_joined(_SIX), loses=("datetime", "datetime3")),
    "datetime3": Kind(
        sql="DATETIME(3)",
        values=_joined(_THREE),
        literal="_UTF8MB4'2024-01-01 00:00:00.123'",
        default="2024-01-01 00:00:00.123",
        becomes=("datetime6",),
        loses=("datetime", "varchar"),
    ),
    "datetime": Kind(
        sql="DATETIME",
        values=_DAY,
        literal="_UTF8MB4'2024-01-01 00:00:00'",
        default="2024-01-01 00:00:00",
        becomes=("datetime3",),
        loses=("timestamp",),
    ),
    "timestamp": Kind(
        sql="TIMESTAMP", values=_DAY, literal="_UTF8MB4'2010-10-10 10:10:10'", default="2010-10-10 10:10:10"
    ),
    "time3": Kind(
        sql="TIME(3)",
        values=("-00:00:00.600", "838:59:58.999", "12:34:56.499", "00:00:00.000"),
        literal="_UTF8MB4'01:02:03.400'",
        default="01:02:03.400",
        loses=("time",),
    ),
    "time": Kind(sql="TIME", values=("-01:00:00", "838:59:59", "00:00:00"), becomes=("time3",), loses=("datetime",)),
    "binary4": Kind(sql="BINARY(4)", values=(b"\0\0\0\0", b"ab\0\0", b"\xff\xfe\xfd\xfc"), loses=("binary8",)),
    "binary8": Kind(sql="BINARY(8)", values=(bytes(8), b"12345678")),
    "varbinary": Kind(sql="VARBINARY(16)", values=(b"", b"\0", b"\xff\0a"), literal="_UTF8MB4'ab'", default="ab"),
    "blob": Kind(sql="BLOB", values=(b"", b"\x80\xff", b"text")),
    "enum": Kind(sql="ENUM('a','b','c')", values=("1", "2", "3"), literal="_UTF8MB4'b'", default="b"),
    "double": Kind(sql="DOUBLE", values=("0", "-1.5", "1e+300".replace("+", "")), literal="2.5", default="2.5"),
}
"""Every kind by name."""

KEY_KINDS: dict[str, tuple[Value, ...]] = {
    "int": tuple(map(str, range(1, 7))),
    "bigint": ("1", "2", "3", "9223372036854775807", "-5"),
    "varchar": ("a", "b", "A b", "ż", "k"),
    "varbinary": (b"\x01", b"\x02", b"\xff\0", b"z"),
    "timestamp": ("2024-11-03 05:30:00", "2024-11-03 06:30:00", "2010-10-10 10:10:10", "2024-07-01 00:00:00"),
}
"""Kinds that keys have, with all keys that occur. The first two times are one local time in New York."""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a live table: its kind, and how often it is NULL."""

    column: Column
    kind: str
    nulls: float = 0.0
    definition: str
    """In SQL, in TiCDC's spelling."""


@lru_cache(maxsize=4096)
def spec(kind: str, name: str, *, nullable: bool, default: bool, zone: str = "UTC") -> Spec:
    """A column of ``kind`` under ``name``. ``zone`` is the session's, in which SQL gives a TIMESTAMP's default."""
    made = KINDS[kind]
    has = default and bool(made.literal)
    text = made.default if has else None
    if text is not None and kind == "timestamp":
        text = utc_timestamp(text, zone, 0)
    definition = f"`{name}` {made.sql}"
    if not nullable:
        definition += " NOT NULL"
    elif kind == "timestamp":
        definition += " NULL"
    if has:
        definition += f" DEFAULT {made.literal}"
    column = Column(name=name, type=column_type(made.sql), nullable=nullable, default=text)
    return Spec(column=column, kind=kind, nulls=0.25 if nullable else 0.0, definition=definition)


def generated(name: str) -> Column:
    """A virtual column whose value is half of the column ``id``, an integer. No row of the source has it."""
    kind = column_type("BIGINT")
    return Column(name=name, type=kind, virtual=True, stored=False, expression=HALF)


HALF = "`id` DIV 2"


def generated_sql(name: str) -> str:
    """The definition of such a column."""
    return f"`{name}` BIGINT AS ({HALF}) VIRTUAL"


def half(value: Value) -> str:
    """The value of such a column."""
    number = int(str(value))
    return str(-(-number // 2) if number < 0 else number // 2)


def any_spec(rand: Random, name: str, *, zone: str, plain: bool) -> Spec:
    """A column of any kind. ``plain``: no default that depends on the session's zone."""
    kind = rand.choice(tuple(KINDS))
    default = rand.random() < 0.5 and not (plain and kind == "timestamp")
    # A NOT NULL time without a default would be the zero date, which strict servers refuse.
    timed = kind.startswith(("datetime", "timestamp"))
    return spec(kind, name, nullable=timed or rand.random() < 0.7, default=default, zone=zone)


def make_value(rand: Random, spec: Spec) -> Value:
    """A value of a column in normal form."""
    if spec.nulls and rand.random() < spec.nulls:
        return None
    return rand.choice(KINDS[spec.kind].values)


def fill(spec: Spec) -> Value:
    """What ADD COLUMN gives to rows that are there."""
    value = default_value(spec.column)
    assert value is not NO_CONSTANT, "the kinds have only constant defaults"
    return value


def convert(value: Value, old: ColumnType, new: ColumnType, zone: str) -> Value:
    """A value after MODIFY COLUMN, as MySQL converts it; ``zone`` is the session's."""
    if value is None or old == new:
        return value
    if isinstance(value, bytes):
        return value.ljust(new.length or 0, b"\0") if new.name == "binary" else value
    match new.name:
        case "decimal":
            return _decimal(value, new.decimal or 0)
        case "int" | "bigint":
            return str(Decimal(value).quantize(Decimal(1), ROUND_HALF_UP)).replace("-0", "0") if "." in value else value
        case "datetime" if old.name == "time":
            return _of_today(value)
        case "datetime":
            return round_datetime(value, fsp(new))
        case "timestamp":
            return utc_timestamp(round_datetime(value, fsp(new)), zone, fsp(new))
        case "time":
            return round_time(value, fsp(new))
    return value


def _of_today(text: str) -> str:
    """A TIME as a time of the day on which the DDL ran, which is not recorded."""
    hours, minutes, seconds = map(int, text.lstrip("-").split(":"))
    span = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return (datetime(2026, 1, 1) + (-span if text.startswith("-") else span)).isoformat(" ")  # noqa: DTZ001


def _decimal(value: str, scale: int) -> str:
    return canonical_decimal(str(Decimal(value).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)), scale)


def round_datetime(text: str, digits: int) -> str:
    """A DATETIME with ``digits`` fractional digits, rounded half up as MySQL does; the carry may reach the year."""
    whole, _, fraction = text.partition(".")
    kept, carry = _round_fraction(fraction, digits)
    if carry:
        moved = datetime.strptime(whole, "%Y-%m-%d %H:%M:%S") + timedelta(seconds=1)
        whole = moved.isoformat(" ")
    return f"{whole}.{kept}" if digits else whole


def round_time(text: str, digits: int) -> str:
    """A TIME with ``digits`` fractional digits: its magnitude is rounded half up."""
    sign, text = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, _, fraction = text.partition(".")
    kept, carry = _round_fraction(fraction, digits)
    if carry:
        hours, minutes, seconds = map(int, whole.split(":"))
        total = hours * 3600 + minutes * 60 + seconds + 1
        whole = f"{total // 3600:02d}:{total // 60 % 60:02d}:{total % 60:02d}"
    rounded = f"{whole}.{kept}" if digits else whole
    return sign + rounded if rounded.strip("0:.") else rounded


def _round_fraction(fraction: str, digits: int) -> tuple[str, bool]:
    padded = fraction.ljust(digits, "0")
    kept, rest = padded[:digits], padded[digits:]
    if not rest or rest[0] < "5":
        return kept, False
    number = int(kept or "0") + 1
    if number >= 10**digits:
        return "0" * digits, True
    return str(number).rjust(digits, "0"), False
