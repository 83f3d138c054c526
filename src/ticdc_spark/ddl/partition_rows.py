"""Which rows are in a partition, as conditions on columns. Pure.

Rows are deleted by these conditions, so only what is proven gives conditions. Everything else gives a reason.

- NULL is in the lowest partition of RANGE, and in p0 of HASH.
- Text is compared byte by byte. Servers differ in trailing spaces: ``rtrim`` compares without them. A bound has no
  character up to the space, so trailing spaces cannot change the result.
- A date must be part of the key. Elsewhere NULL may represent a date that the target cannot store.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from itertools import product
from typing import TypeAlias

import msgspec

from ticdc_spark.ddl.partition_by import to_days
from ticdc_spark.model import Column, ColumnType, Partition, Partitioning, Table, Value
from ticdc_spark.mysql import INTEGER_BITS, canonical_datetime, fsp, handle_key, integer_range

Bound: TypeAlias = int | str | None
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATETIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)", re.ASCII)
_BINARY_TEXT = frozenset(("utf8mb4_bin", "utf8_bin", "utf8mb3_bin", "utf8mb4_0900_bin", "ascii_bin"))
_LAST_DAY = to_days(date.max)


class ColumnTest(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on the values of one column. Values are canonical; ``None`` is no bound."""

    column: str
    at_least: Value = None
    below: Value = None
    any_of: tuple[Value, ...] | None = None
    none_of: tuple[Value, ...] = ()
    remainder: tuple[int, int] | None = None
    """(divisor, remainder) of the absolute value."""
    rtrim: bool = False
    """``any_of`` and ``none_of`` compare without trailing spaces."""
    or_null: bool = False
    """Whether NULL also meets the condition."""


Alternatives: TypeAlias = tuple[tuple[ColumnTest, ...], ...]
"""Rows that meet all tests of at least one of these; an entry without tests: all rows."""


class NotComputed(msgspec.Struct, frozen=True):
    """Why the partition of a row cannot be computed from its columns."""

    why: str


class _Unknown(Exception):
    """Why there are no conditions; only used inside this module."""


def rows_of(table: Table, names: Collection[str]) -> Alternatives | NotComputed:
    """The rows of some partitions of a table. The table must have these partitions."""
    known = table.partitioning
    if known is None:
        return NotComputed("its partitions are not known")
    if known.doubt:
        return NotComputed(known.doubt)
    try:
        of = _Columns(table, known)
        return tuple(
            tests for at, one in enumerate(known.partitions) if one.name in names for tests in of.rows(at, one)
        )
    except _Unknown as why:
        return NotComputed(str(why))


def rows_by_partition(table: Table) -> dict[str, Alternatives]:
    """The rows of each partition whose rows can be computed."""
    known, found = table.partitioning, dict[str, Alternatives]()
    try:
        of = None if known is None or known.doubt else _Columns(table, known)
    except _Unknown:
        return {}
    for at, one in enumerate(known.partitions if known is not None else ()):
        with suppress(_Unknown):
            found |= {} if of is None else {one.name: tuple(of.rows(at, one))}
    return found


class _Columns:
    """The partitioning of a table, and how its columns are compared."""

    def __init__(self, table: Table, known: Partitioning) -> None:
        self.known = known
        if known.kind == "key":
            raise _Unknown("it is partitioned by KEY, which servers compute differently")
        if not known.columns:
            raise _Unknown("its partition expression is not a column, YEAR, TO_DAYS or UNIX_TIMESTAMP of one")
        have = {column.name.casefold(): column for column in table.columns}
        missing = [name for name in known.columns if name.casefold() not in have]
        if missing:
            raise _Unknown(f"it has no column `{missing[0]}`, by which it is partitioned")
        keys = handle_key(table)
        self.columns = [_Comparison(have[name.casefold()], known, keys) for name in known.columns]

    def rows(self, at: int, one: Partition) -> Iterator[tuple[ColumnTest, ...]]:
        match self.known.kind:
            case "hash":
                yield (self.columns[0].remainder(len(self.known.partitions), at),)
            case "range":
                yield from self._between(self.known.partitions[at - 1].values[0] if at else None, one.values[0])
            case "list":
                yield from (
                    tuple(column.equal(value) for column, value in zip(self.columns, values, strict=True))
                    for values in one.values
                )
                if one.default:
                    yield (self._default(),)

    def _between(self, low: tuple[Bound, ...] | None, high: tuple[Bound, ...]) -> Iterator[tuple[ColumnTest, ...]]:
        """Tuples at or above one bound and below another, compared column by column."""
        for above, below in product(self._at_least(low), self._below(high)):
            yield (*above, *below)

    def _below(self, bounds: tuple[Bound, ...]) -> Iterator[tuple[ColumnTest, ...]]:
        for tests, column, bound in self._stretches(bounds):
            if bound is None:
                yield tests
            elif (test := column.below(bound)) is not None:
                yield (*tests, test)

    def _at_least(self, bounds: tuple[Bound, ...] | None) -> Iterator[tuple[ColumnTest, ...]]:
        if bounds is None:
            yield ()
            return
        last = len(bounds) - 1
        for at, (tests, column, bound) in enumerate(self._stretches(bounds)):
            if bound is not None and (test := column.at_least(bound, itself=at == last)) is not None:
                yield (*tests, test)

    def _stretches(self, bounds: tuple[Bound, ...]) -> Iterator[tuple[tuple[ColumnTest, ...], _Comparison, Bound]]:
        """Each column with its bound, and tests that the columns before it equal theirs. Nothing equals MAXVALUE."""
        tests: tuple[ColumnTest, ...] = ()
        for column, bound in zip(self.columns, bounds, strict=True):
            yield tests, column, bound
            if bound is None:
                return
            if len(bounds) > 1:
                tests = (*tests, column.equal(bound))

    def _default(self) -> ColumnTest:
        """Rows that no other partition lists."""
        (first, *more) = self.columns
        if more or first.is_text or self.known.function:
            raise _Unknown("what its DEFAULT partition takes is computed for one integer or date column only")
        listed = [values[0] for one in self.known.partitions if not one.default for values in one.values]
        values = tuple(first.value(value) for value in listed if value is not None and first.is_possible(value))
        return ColumnTest(column=first.name, none_of=values, or_null=None not in listed)


class _Comparison:
    """How the values of one column, or of a function of it, compare with bounds."""

    def __init__(self, column: Column, known: Partitioning, keys: Sequence[str]) -> None:
        self.name, self.kind, self.function = column.name, column.type, known.function
        kind = self.kind
        self.is_text = kind.name in ("char", "varchar") and kind.charset != "binary"
        is_time = kind.name in ("date", "datetime", "timestamp")
        if is_time and column.name not in keys:
            raise _Unknown(f"its partition column `{self.name}` is a {kind.name.upper()} that is not part of the key")
        match known:
            case Partitioning(function="year" | "to_days"):
                computed = kind.name in ("date", "datetime")
            case Partitioning(function="unix_timestamp"):
                computed = kind.name == "timestamp" and not fsp(kind)
            case Partitioning(kind="hash"):
                computed = _is_number(kind) and not (kind.name == "bigint" and kind.unsigned)
            case _:
                computed = _is_number(kind) or kind.name in ("date", "datetime") or _is_binary_text(kind)
        if not computed:
            of = f"{known.function.upper()} of " if known.function else ""
            raise _Unknown(f"it is partitioned by {of}`{self.name}`, whose type is {_shown(kind)}")

    def remainder(self, divisor: int, at: int) -> ColumnTest:
        if self.function:
            raise _Unknown(f"it is partitioned by HASH of {self.function.upper()}")
        return ColumnTest(column=self.name, remainder=(divisor, at), or_null=at == 0)

    def equal(self, bound: Bound) -> ColumnTest:
        """``None``: NULL."""
        if bound is None:
            return ColumnTest(column=self.name, any_of=(), or_null=True)
        if self.function and isinstance(bound, int):
            return ColumnTest(column=self.name, at_least=self._first_of(bound), below=self._first_of(bound + 1))
        values = (self.value(bound),) if self.is_possible(bound) else ()
        return ColumnTest(column=self.name, any_of=values, rtrim=self.is_text)

    def below(self, bound: int | str) -> ColumnTest | None:
        """NULL is below everything; ``None``: no value is below the bound, not even NULL."""
        if not self.is_possible(bound):
            assert isinstance(bound, int)
            low, _ = integer_range(self.kind) or (0, 0)
            return ColumnTest(column=self.name, or_null=True, any_of=() if bound < low else None)
        return ColumnTest(column=self.name, below=self.value(bound), or_null=True)

    def at_least(self, bound: int | str, *, itself: bool) -> ColumnTest | None:
        """``itself``: whether the bound is included. ``None``: there are no such values."""
        if not self.is_possible(bound):
            assert isinstance(bound, int)
            low, _ = integer_range(self.kind) or (0, 0)
            return ColumnTest(column=self.name) if bound < low else None
        value = self.value(bound)
        return ColumnTest(column=self.name, at_least=value, none_of=() if itself else (value,), rtrim=self.is_text)

    def is_possible(self, bound: int | str) -> bool:
        """Whether a value of the column can equal a bound. If not, all values are above it, or all are below."""
        limits = integer_range(self.kind) if _is_number(self.kind) and not self.function else None
        return limits is None or (isinstance(bound, int) and limits[0] <= bound <= limits[1]) or isinstance(bound, str)

    def value(self, bound: int | str) -> str:
        """A bound as a canonical value of the column."""
        if self.function and isinstance(bound, int):
            return self._first_of(bound)
        if _is_number(self.kind) and isinstance(bound, int):
            return str(bound)
        if isinstance(bound, str) and self.is_text and bound.isprintable() and " " not in bound:
            return bound
        if isinstance(bound, str) and self.kind.name in ("date", "datetime"):
            return self._moment(bound)
        raise _Unknown(f"the bound {bound!r} of its partition column `{self.name}` cannot be compared exactly")

    def _moment(self, bound: str) -> str:
        day, time = bound, "00:00:00"
        if found := _DATETIME.fullmatch(bound):
            day, time = found.groups()
        if not _DATE.fullmatch(day) or (self.kind.name == "date" and time != "00:00:00"):
            raise _Unknown(f"the bound {bound!r} of its partition column `{self.name}` cannot be compared exactly")
        try:
            datetime.fromisoformat(f"{day} {time}")
        except ValueError as error:
            raise _Unknown(f"the bound {bound!r} of its partition column `{self.name}` is no date") from error
        return day if self.kind.name == "date" else canonical_datetime(f"{day} {time}", fsp(self.kind))

    def _first_of(self, number: int) -> str:
        """The first time for which the function is at least this number."""
        if self.function == "unix_timestamp" and 0 < number < 1 << 40:
            return datetime.fromtimestamp(number, UTC).strftime("%Y-%m-%d %H:%M:%S")
        if self.function == "year" and 1000 <= number <= date.max.year:
            return self._moment(f"{number}-01-01")
        if self.function == "to_days" and to_days(date(1000, 1, 1)) <= number <= _LAST_DAY:
            return self._moment(date.fromordinal(number - to_days(date.min) + 1).isoformat())
        raise _Unknown(f"the bound {number} of {self.function.upper()}(`{self.name}`) cannot be compared exactly")


def _is_number(kind: ColumnType) -> bool:
    """Whether it is an integer that the target stores as one: TINYINT(1) may be a boolean there."""
    return kind.name in INTEGER_BITS and not (kind.name == "tinyint" and kind.length == 1)


def _is_binary_text(kind: ColumnType) -> bool:
    return kind.name in ("char", "varchar") and kind.collate in _BINARY_TEXT


def _shown(kind: ColumnType) -> str:
    return (
        f"{kind.name.upper()} with collation {kind.collate}" if kind.name in ("char", "varchar") else kind.name.upper()
    )
