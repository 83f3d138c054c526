"""The comparison of one table: which rows are read, and which are looked at again."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.verify.tables import MemoryTable, plan
from ticdc_spark.verify.cells import Buckets, Key, Keys, Range, Ranges, Selection
from ticdc_spark.verify.options import Options, Watcher
from ticdc_spark.verify.report import TableReport
from ticdc_spark.verify.settle import Settled
from ticdc_spark.verify.table import Both, Comparison, grouped

PLAN = plan("CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
TEXT = plan("CREATE TABLE t (id VARCHAR(20) PRIMARY KEY, j JSON)")
ROWS = [(at, f'{{"a": {at}}}') for at in range(3000)]


def compare(source: list[tuple[Any, ...]], target: list[tuple[Any, ...]], of: Any = PLAN, **how: Any) -> TableReport:
    """``settle``: called with the keys of rows that may still become equal."""
    with ThreadPoolExecutor(1) as beside:
        both = Both(
            source=MemoryTable(of, source),
            target=MemoryTable(of, target),
            commit_ts=7,
            snapshot=None,
            rows=len(source),
            settle=how.get("settle"),
            beside=beside,
        )
        return Comparison(of, both, Options(chunk_rows=500), lambda kept: None).run(None, Watcher())


def test_only_the_rows_that_differ_are_looked_at_again() -> None:
    asked = list[Collection[Key]]()

    def settle(keys: Collection[Key]) -> Settled:
        asked.append(keys)
        return Settled()

    report = compare(ROWS, [*ROWS[:700], *ROWS[702:2999], (2999, "{}")], settle=settle)
    assert asked == [{(700,), (701,), (2999,)}]
    assert (report.result, report.parts_differing, report.rows_source, report.rows_target) == ("equal", 2, 3000, 2998)


@pytest.mark.parametrize("of", [PLAN, TEXT], ids=["ranges", "buckets"])
@pytest.mark.parametrize("live", [True, False])
def test_a_value_that_both_sides_write_otherwise_is_no_difference_however_many_rows_have_it(
    of: Any, live: bool
) -> None:
    source = [(at if of is PLAN else f"k{at}", text) for at, text in ROWS]
    target = [(key, text.replace(" ", "")) for key, text in source]

    def settle(keys: Collection[Key]) -> Settled:
        raise AssertionError(f"{len(keys)} rows are looked at again")

    report = compare(source, target, of, settle=settle if live else None)
    assert (report.result, report.differences) == ("equal", 0)
    assert report.parts_differing > 0


def test_a_few_values_that_both_sides_write_otherwise_are_not_looked_at_again() -> None:
    """Without a running job, they would be undecided."""

    def settle(keys: Collection[Key]) -> Settled:
        raise AssertionError(f"{len(keys)} rows are looked at again")

    target = [(at, text.replace(" ", "") if at % 300 == 7 else text) for at, text in ROWS]
    report = compare(ROWS, target, settle=settle)
    assert (report.result, report.parts_differing) == ("equal", 6)


class Forgetful(MemoryTable):
    """Does not find some rows by their keys."""

    def rows(self, selection: Selection) -> Iterator[pa.RecordBatch]:
        keys = Keys(frozenset(key for key in selection.of if key[0] % 7)) if isinstance(selection, Keys) else selection
        yield from super().rows(keys)


def test_a_row_that_is_not_found_by_its_key_still_differs() -> None:
    source, target = Forgetful(PLAN, ROWS), MemoryTable(PLAN, [one for one in ROWS if one[0] not in (700, 701)])
    with ThreadPoolExecutor(1) as beside:
        both = Both(source=source, target=target, commit_ts=7, snapshot=None, rows=3000, settle=None, beside=beside)
        report = Comparison(PLAN, both, Options(chunk_rows=500), lambda kept: None).run(None, Watcher())
    assert [(one.kind, one.key) for one in report.found] == [("missing", {"id": "700"}), ("missing", {"id": "701"})]


@pytest.mark.parametrize("wrong", [3, 1500])
def test_few_or_many_rows_that_differ_are_counted_and_the_first_are_shown(wrong: int) -> None:
    report = compare(ROWS, [*((at, "{}") for at in range(wrong)), *ROWS[wrong:]])
    assert report.result == "different"
    assert (report.differences, len(report.found)) == (wrong, min(wrong, Options().limit))


def test_parts_are_searched_in_groups_of_bounded_size_and_buckets_at_once() -> None:
    ranges = [Range((at,), (at + 1,)) for at in range(5)]
    sizes = [3_000_000, 1_000_000, 1, 9_000_000, 0]
    assert grouped(Ranges(tuple(ranges)), sizes) == [
        (Ranges(tuple(ranges[:2])), 4_000_000),
        (Ranges(tuple(ranges[2:3])), 1),
        (Ranges(tuple(ranges[3:4])), 9_000_000),
        (Ranges(tuple(ranges[4:])), 0),
    ]
    assert grouped(Buckets(9, (1, 5)), [4_000_000, 7]) == [(Buckets(9, (1, 5)), 4_000_007)]
    assert grouped(Ranges(()), []) == grouped(Buckets(9, ()), []) == []
