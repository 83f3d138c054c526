"""The columns of the shop: type, SQL, and how a value in normal form is made."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from ticdc_spark.model import Column, ColumnType, Value
from ticdc_spark.mysql import parse_type

Rand: TypeAlias = Callable[[], float]
"""A uniform number in [0, 1)."""
Make: TypeAlias = Callable[[Rand, int], Value]
"""A value from randomness and a number that is unique in the workload."""

_WORDS = (
    "fine",
    "daily",
    "pro",
    "żółty",
    "芳",
    "O'Neil",
    'say "hi"',
    "back\\slash",
    "<b>&amp;",
    "",
    " padded ",
    "null",
)


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """A column together with what makes its values."""

    column: Column
    sql: str
    """The type in SQL, as TiDB prints it."""
    make: Make
    default_sql: str = ""
    """The literal after DEFAULT; ``""``: none."""
    kind: str
    """Its key in ``KINDS``."""
    nulls: float = 0.0
    """Share of values that are an explicit NULL."""

    def definition(self) -> str:
        """`` `name` TYPE NOT NULL DEFAULT literal``, in TiCDC's spelling."""
        text = f"`{self.column.name}` {self.sql}"
        if not self.column.nullable:
            text += " NOT NULL"
        elif self.sql.startswith("TIMESTAMP"):
            text += " NULL"
        return f"{text} DEFAULT {self.default_sql}" if self.default_sql else text


def _integer(limit: int, low: int = 0) -> Make:
    return lambda rand, _n: str(low + int(rand() * (limit - low)))


def _decimal(digits: int, scale: int) -> Make:
    limit, unit = 10**digits, 10**scale
    low = limit // 10

    def make(rand: Rand, _n: int) -> Value:
        cents = int(rand() * limit) - low
        return f"{'-' if cents < 0 else ''}{abs(cents) // unit}.{abs(cents) % unit:0{scale}d}"

    return make


def _datetime(fraction: int) -> Make:
    def make(rand: Rand, _n: int) -> Value:
        second = int(rand() * 86400)
        text = (
            f"2026-{1 + int(rand() * 12):02d}-{1 + int(rand() * 28):02d}"
            f" {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        )
        return f"{text}.{int(rand() * 10**fraction):0{fraction}d}" if fraction else text

    return make


def _json(rand: Rand, _n: int) -> Value:
    size = "null" if rand() < 0.3 else '"XL"'
    return f'{{"color": "żółty", "dim": [{int(rand() * 9)}, 0.39], "ok": {str(rand() < 0.5).lower()}, "size": {size}}}'


def _word(rand: Rand, n: int) -> Value:
    return f"{_WORDS[int(rand() * 12)]}{n % 100 or ''}"


def _eighths(limit: int) -> Make:
    fractions = ("", ".125", ".25", ".375", ".5", ".625", ".75", ".875")
    return lambda rand, _n: f"{int(rand() * limit)}{fractions[int(rand() * 8)]}"


def _bytes(length: int) -> Make:
    return lambda rand, _n: int(rand() * 256**length).to_bytes(length, "big")


def _unsigned64(rand: Rand, _n: int) -> Value:
    return str(int(rand() * 2**53) << 11 | 0x7FF)


def column_type(sql: str) -> ColumnType:
    """A type as TiDB keeps it in a table of character set utf8mb4."""
    parsed = parse_type(sql)
    if parsed.charset != "binary":
        return msgspec.structs.replace(parsed, charset="utf8mb4", collate="utf8mb4_bin")
    return parsed


KINDS: dict[str, tuple[str, Make, str, str | None]] = {
    # kind: SQL, maker, default's literal in SQL, the same default as TiDB keeps it
    "int": ("INT", _integer(2**31, -(2**31)), "7", "7"),
    "int_unsigned": ("INT UNSIGNED", _integer(2**32), "7", "7"),
    "bigint": ("BIGINT", _integer(2**63, -(2**63)), "-1", "-1"),
    "bigint_unsigned": ("BIGINT UNSIGNED", _unsigned64, "18446744073709551615", "18446744073709551615"),
    "smallint_unsigned": ("SMALLINT UNSIGNED", _integer(65536), "1", "1"),
    "bool": ("TINYINT(1)", _integer(2), "1", "1"),
    "decimal": ("DECIMAL(12,2)", _decimal(7, 2), "9.99", "9.99"),
    "decimal4": ("DECIMAL(16,4)", _decimal(9, 4), "9.9900", "9.9900"),
    "float": ("FLOAT", _eighths(1000), "2.5", "2.5"),
    "double": ("DOUBLE", _eighths(2**40), "2.5", "2.5"),
    "varchar": ("VARCHAR(80)", _word, "_UTF8MB4'n''a'", "n'a"),
    "varchar200": ("VARCHAR(200)", _word, "_UTF8MB4'n''a'", "n'a"),
    "text": ("TEXT", _word, "", None),
    "enum": ("ENUM('bronze','silver','gold')", _integer(4, 1), "_UTF8MB4'silver'", "silver"),
    "set": ("SET('new','sale','eco','heavy')", _integer(16), "_UTF8MB4'new,eco'", "new,eco"),
    "json": ("JSON", _json, "", None),
    "datetime3": ("DATETIME(3)", _datetime(3), "_UTF8MB4'2024-01-01 00:00:00.123'", "2024-01-01 00:00:00.123"),
    "timestamp": ("TIMESTAMP", _datetime(0), "_UTF8MB4'2024-02-03 04:05:06'", "2024-02-03 04:05:06"),
    "varbinary": ("VARBINARY(16)", _bytes(7), "_UTF8MB4'ab'", "ab"),
    "blob": ("BLOB", _bytes(24), "", None),
}
"""Kinds of columns by name. A kind without a default's literal can have none in MySQL."""

WIDER = {
    "int": "bigint",
    "int_unsigned": "bigint",
    "smallint_unsigned": "int",
    "bool": "int",
    "decimal": "decimal4",
    "varchar": "varchar200",
    "float": "double",
}
"""What MODIFY COLUMN makes of a kind; no value is lost."""


def recipe(kind: str, name: str, *, nullable: bool = True, default: bool = False, nulls: float = 0.15) -> Recipe:
    """The recipe of a column of ``kind`` (a key of ``KINDS``) under ``name``.

    With ``default`` the column gets the default of its kind; explicit NULLs are still made when it is nullable.
    """
    sql, make, literal, text = KINDS[kind]
    return Recipe(
        kind=kind,
        column=Column(name=name, type=column_type(sql), nullable=nullable, default=text if default else None),
        sql=sql,
        make=make,
        default_sql=literal if default else "",
        nulls=nulls if nullable else 0.0,
    )


def widen(value: Value, kind: str) -> Value:
    """A value of ``kind`` in the normal form of ``WIDER[kind]``: only a decimal's scale changes."""
    return f"{value}00" if kind == "decimal" and isinstance(value, str) else value
