"""Rows that differ are found, all of them and no others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.verify.tables import MemoryTable, plan, shuffled
from ticdc_spark.verify.cells import Buckets, Keys, Parts, chosen, ranges_of
from ticdc_spark.verify.columns import TablePlan
from ticdc_spark.verify.compare import Difference, differences, find_suspects, single_differences, unequal

TYPES = (
    "i BIGINT, u BIGINT UNSIGNED, b BIT(1), e ENUM('a','b'), d DECIMAL(12,8), w DECIMAL(65,30), t VARCHAR(20), "
    "y VARBINARY(9), a DATE, m DATETIME(6), z TIMESTAMP(6) NULL, c TIME(3), f FLOAT, g DOUBLE, j JSON"
)
NAMES = "iubedwtyamzcfgj"
EVERY = plan(f"CREATE TABLE t (id INT PRIMARY KEY, {TYPES})")
TEXT = plan(f"CREATE TABLE t (k VARCHAR(9), n INT, {TYPES}, PRIMARY KEY (k, n))")
FLOAT = plan("CREATE TABLE t (f FLOAT PRIMARY KEY, v INT)")
WIDE = plan("CREATE TABLE t (d DATETIME, b BINARY(2), v INT, PRIMARY KEY (d, b))")
MIDNIGHT = datetime(2024, 2, 29)  # noqa: DTZ001  a DATETIME
VALUES: dict[str, Callable[[int], Any]] = {
    "i": lambda at: at - 5,
    "u": lambda at: Decimal(2**64 - 1 - at),
    "b": lambda at: at % 2 == 0,
    "e": lambda at: "ab"[at % 2],
    "d": lambda at: Decimal(at).scaleb(-8),
    "w": lambda at: f"{at}.{'0' * 30}",
    "t": lambda at: ["", "N,", "1:a,", "é 😀"][at % 4] + str(at // 4),
    "y": lambda at: at.to_bytes(4, "big"),
    "a": lambda at: date(1000, 1, 1) + timedelta(days=at),
    "m": lambda at: MIDNIGHT + timedelta(microseconds=at),
    "z": lambda at: MIDNIGHT.replace(tzinfo=UTC) + timedelta(microseconds=at),
    "c": lambda at: f"-12:00:00.{at % 1000:03}",
    "f": lambda at: at / 4,
    "g": lambda at: at / 3,
    "j": lambda at: f'{{"a": {at}}}',
}


def row(of: TablePlan, at: int, *, null: bool = False) -> tuple[Any, ...]:
    key: tuple[Any, ...] = (at,) if of is EVERY else (f"K{at}", at % 3)
    return (*key, *(None if null and pair.name != "k" else VALUES[pair.name](at) for pair in of.pairs[of.keys :]))


def whole(of: TablePlan, source: MemoryTable, rows: int) -> Parts:
    if of.has_ranges:
        return ranges_of(source.bounds(rows))
    return Buckets(7, tuple(range(7)))


def found(of: TablePlan, source: MemoryTable, target: MemoryTable, rows: int = 3000) -> list[Difference]:
    parts = whole(of, source, rows)
    here, there = source.digests(parts), target.digests(parts)
    assert sum(one.rows for one in here) == len(source.rows_), "each row is in one part"
    unlike = chosen(parts, unequal(here, there))
    few = find_suspects(of, [*source.checksums(unlike)], [*target.checksums(unlike)], len(source.rows_) + 10_000)
    assert few is not None
    by_key = single_differences(of, source, target, few, live=False)
    assert by_key is not None
    assert by_key == differences(of, source, target, Keys(few.source | few.target))
    return by_key


@pytest.mark.parametrize("of", [EVERY, TEXT], ids=["ranges", "buckets"])
def test_a_hundred_of_a_hundred_differences_are_found_over_all_types(of: TablePlan) -> None:
    rand = Random(7)
    rows = [row(of, at, null=at % 5 == 0) for at in range(9000)]
    source, target = MemoryTable(of, rows), MemoryTable(of, shuffled(rows, 1))
    assert not found(of, source, target)
    assert source.read == 0, "equal rows are not read"
    wanted = set()
    for number, at in enumerate(rand.sample(range(len(rows)), 100)):
        key = rows[at][: of.keys]
        place = next(i for i, one in enumerate(target.rows_) if one[: of.keys] == key)
        if number < 90:
            column = of.keys + number % len(NAMES)
            old = target.rows_[place]
            new = None if old[column] is not None else VALUES[of.pairs[column].name](number)
            if number % 2 and old[column] is not None:
                new = VALUES[of.pairs[column].name](at + 1)
            target.rows_[place] = (*old[:column], new, *old[column + 1 :])
            wanted.add((key, "changed", (column,)))
        elif number < 95:
            del target.rows_[place]
            wanted.add((key, "missing", ()))
        else:
            target.rows_.append(target.rows_[place])
            wanted.add((key, "duplicate", ()))
    target.rows_.append(row(of, 99_999))
    wanted.add((row(of, 99_999)[: of.keys], "extra", ()))
    assert {(one.key, one.kind, one.columns) for one in found(of, source, target)} == wanted


def test_only_rows_that_differ_are_read() -> None:
    rows = [row(EVERY, at) for at in range(40_000)]
    source, target = MemoryTable(EVERY, rows), MemoryTable(EVERY, shuffled(rows, 2))
    target.rows_ = [one for one in target.rows_ if one[0] != 31_234]
    assert [(one.key, one.kind) for one in found(EVERY, source, target, 40_001)] == [((31_234,), "missing")]
    assert (source.read, target.read) == (2, 0), "read twice by the test"


def test_rows_that_are_in_the_target_alone_are_found_where_the_source_has_none() -> None:
    target = MemoryTable(EVERY, [row(EVERY, at) for at in range(2500)])
    assert len(found(EVERY, MemoryTable(EVERY, []), target)) == 2500


def test_a_key_that_no_server_writes_as_text_is_compared_by_values() -> None:
    assert not FLOAT.has_text_key and not FLOAT.pushed
    source = MemoryTable(FLOAT, [(at / 4, at) for at in range(50)])
    target = MemoryTable(FLOAT, [(at / 4, at + (at == 9)) for at in range(1, 50)])
    assert {(one.key, one.kind) for one in found(FLOAT, source, target)} == {((0.0,), "missing"), ((2.25,), "changed")}


_CELLS = st.tuples(
    st.one_of(st.none(), st.text(alphabet="N,:1a", max_size=4)),
    st.one_of(st.none(), st.text(alphabet="N,:1a", max_size=4)),
    st.one_of(st.none(), st.binary(max_size=2)),
    st.one_of(st.none(), st.sampled_from(["12:00:00", "N", "1,", "!"])),
    st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False, width=32)),
)
_PLAN = plan("CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b TEXT, c BLOB, d TIME, e FLOAT)")


@given(st.dictionaries(st.integers(0, 30), _CELLS), st.dictionaries(st.integers(0, 30), _CELLS))
@settings(max_examples=300, deadline=None)
def test_what_is_found_is_what_differs(one: dict[int, Any], other: dict[int, Any]) -> None:
    sides = [MemoryTable(_PLAN, [(key, *cells) for key, cells in of.items()]) for of in (one, other)]
    wanted = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
    assert {difference.key[0] for difference in found(_PLAN, *sides, 5)} == wanted


@given(
    st.sets(st.tuples(st.integers(0, 4), st.binary(min_size=2, max_size=2)), max_size=30),
    st.integers(1, 6),
)
@settings(max_examples=100, deadline=None)
def test_every_key_is_in_exactly_one_range(keys: set[tuple[int, bytes]], rows: int) -> None:
    table = MemoryTable(WIDE, [(MIDNIGHT + timedelta(seconds=at), part, 1) for at, part in keys])
    parts = ranges_of(table.bounds(rows))
    assert sum(one.rows for one in table.digests(parts)) == len(keys)
    assert all(one.rows <= rows for one in table.digests(parts))
