"""A row that differs counts once the target had the time to follow, and never before."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.verify.tables import MemoryTable, plan
from ticdc_spark.verify.cells import Selection
from ticdc_spark.verify.settle import MOST, Settled, settle
from ticdc_spark.verify.sides import Side

PLAN = plan("CREATE TABLE t (id INT PRIMARY KEY, v INT)")


class Feed:
    """A source that changes before each look, and a target that is what the source was at the moment it is asked for,
    but for what another writer did to it."""

    def __init__(self, versions: list[dict[int, int]], wrong: dict[int, int | None]) -> None:
        self.versions, self.wrong, self.at = versions, wrong, 0
        self.moments = list[int]()

    def now(self) -> dict[int, int]:
        return self.versions[min(self.at, len(self.versions) - 1)]

    def moment(self) -> int:
        return self.at

    def target(self, moment: int) -> Side | str:
        assert moment == self.at
        self.moments.append(moment)
        held = {key: self.wrong.get(key, value) for key, value in self.now().items()}
        self.at += 1
        return MemoryTable(PLAN, [(key, value) for key, value in held.items() if value is not None])

    def settled(self) -> Settled:
        return settle(PLAN, {(key,) for one in self.versions for key in one}, _Now(self), self.moment, self.target)


class _Now:
    """The source as it is when it is asked."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def rows(self, selection: Selection) -> Iterator[pa.RecordBatch]:
        return MemoryTable(PLAN, list(self._feed.now().items())).rows(selection)

    def digests(self, selection: Selection) -> list[object]:
        raise NotImplementedError


def test_a_row_that_was_on_its_way_is_no_difference() -> None:
    assert Feed([{1: 1}, {1: 2}, {1: 2}, {1: 2}], {}).settled() == Settled()


def test_a_row_that_stays_wrong_is_one_after_three_looks() -> None:
    feed = Feed([{1: 1, 2: 2}], {2: 7})
    found = feed.settled()
    assert [(one.key, one.kind) for one in found.differences] == [((2,), "changed")]
    assert len(feed.moments) == 3


def test_a_row_that_changes_at_every_look_stays_undecided() -> None:
    feed = Feed([{1: at} for at in range(MOST + 2)], {})
    found = feed.settled()
    assert (found.differences, found.undecided) == ((), frozenset({(1,)}))
    assert f"{MOST} looks" in found.why


def test_without_a_job_that_goes_on_nothing_is_decided() -> None:
    found = settle(PLAN, {(1,)}, _Now(Feed([{1: 1}], {})), lambda: 5, lambda _: "the job does not run")
    assert found == Settled((), frozenset({(1,)}), "the job does not run")


@given(st.lists(st.dictionaries(st.integers(1, 3), st.integers(0, 50)), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_whatever_the_source_does_a_right_target_never_differs(versions: list[dict[int, int]]) -> None:
    """Values of a key are not taken again while it is looked at, so that a look tells a change."""
    fresh = [{key: value + 100 * at for key, value in one.items()} for at, one in enumerate(versions)]
    assert not Feed([*fresh, fresh[-1]], {}).settled().differences


def test_rows_that_were_deleted_or_inserted_behind_the_jobs_back_differ() -> None:
    found = Feed([{1: 1, 2: 2}], {1: None}).settled()
    assert [(one.key, one.kind) for one in found.differences] == [((1,), "missing")]
