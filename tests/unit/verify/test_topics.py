"""Two topics compared: the same changes are equal, however they were sent."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simple_examples import ROW, USER
from ticdc_spark.model import Message, Rejected, RowChange, SchemaChange
from ticdc_spark.streams.reader import Found
from ticdc_spark.verify.topics import DDL, TopicsReport, compare_topics

ALTER = SchemaChange(commit_ts=5, query="ALTER TABLE `user` ADD COLUMN x INT", kind="ALTER")
AT = Message(topic="t", partition=0, offset=0, key=None, value=None)
KEYLESS = msgspec.structs.replace(USER, indexes=())


def row(op: Any, ts: int, before: Any = None, after: Any = None, table: Any = USER) -> RowChange:
    images = [None if image is None else ROW | image for image in (before, after)]
    return RowChange(op=op, table=table, commit_ts=ts, before=images[0], after=images[1])


FIRST = [
    row("insert", 1, after={}),
    ALTER,
    row("update", 6, before={}, after={"age": "26"}),
    row("update", 7, before={"age": "26"}, after={"age": "26", "id": "2"}),
    row("insert", 8, after={"id": "3"}),
    row("delete", 9, before={"id": "3"}),
]


def compared(first: list[Any], second: list[Any], *, has_ddl: bool = True, limit: int = 100) -> TopicsReport:
    sides = [[Found(AT, 0, event) for event in events] for events in (first, second)]
    return compare_topics(lambda: sides[0], lambda: sides[1], has_ddl=has_ddl, limit=limit)


@given(st.permutations(FIRST), st.lists(st.sampled_from(FIRST)))
def test_order_and_what_is_sent_again_make_no_difference(second: list[Any], again: list[Any]) -> None:
    report = compared(FIRST, [*again, *second])
    assert report.is_equal, report


def test_a_changed_key_may_be_sent_as_two_changes() -> None:
    split = [row("delete", 7, before={"age": "26"}), row("insert", 7, after={"age": "26", "id": "2"})]
    assert compared(FIRST, [*FIRST[:3], *split, *FIRST[4:]]).is_equal
    assert compared([row("update", 3, before={}, after={"age": "1"})], [row("upsert", 3, after={"age": "1"})]).is_equal


def test_a_key_that_is_deleted_and_inserted_at_once_is_there() -> None:
    both = [row("delete", 3, before={}), row("insert", 3, after={"age": "1"})]
    assert compared(both, both[1:]).is_equal
    assert compared(list(reversed(both)), both[1:]).is_equal
    report = compared(both, both[:1])
    assert [(one.kind, one.second) for one in report.found] == [("changed", None)]


@given(st.integers(0, len(FIRST) - 1))
def test_a_change_that_is_missing_is_named(at: int) -> None:
    report = compared(FIRST, FIRST[:at] + FIRST[at + 1 :])
    assert {one.kind for one in report.found} == {"missing"}
    assert {one.commit_ts for one in report.found} == {FIRST[at].commit_ts}
    assert {one.kind for one in compared(FIRST[:at] + FIRST[at + 1 :], FIRST).found} == {"extra"}


def test_another_value_is_shown_with_both() -> None:
    other = [*FIRST[:2], row("update", 6, before={}, after={"age": "27"}), *FIRST[3:]]
    report = compared(FIRST, other)
    (one,) = report.found
    assert one.first is not None and one.second is not None
    assert (one.kind, one.table, one.commit_ts, one.key) == ("changed", "simple.user", 6, {"id": "1"})
    assert (one.first["age"], one.second["age"]) == ("26", "27")
    assert [(name, counts.different) for name, counts in report.tables.items()] == [(DDL, 0), ("simple.user", 1)]


def test_null_is_not_empty_and_bytes_are_their_text() -> None:
    assert not compared([row("insert", 1, after={"name": None})], [row("insert", 1, after={"name": ""})]).is_equal
    assert compared([row("insert", 1, after={"name": "a"})], [row("insert", 1, after={"name": b"a"})]).is_equal


def test_ddl_counts_only_where_both_have_it() -> None:
    without = [event for event in FIRST if event is not ALTER]
    assert compared(FIRST, without, has_ddl=False).is_equal
    assert [one.table for one in compared(FIRST, without).found] == [DDL]


def test_events_that_cannot_be_read_are_no_equality() -> None:
    report = compared(FIRST, [*FIRST, Rejected("no JSON")])
    assert (report.is_equal, report.unread, report.reasons) == (False, (0, 1), ("no JSON",))


def test_whole_rows_are_the_keys_of_a_table_without_one() -> None:
    first = [row("insert", 1, after={}, table=KEYLESS), row("insert", 1, after={"age": "9"}, table=KEYLESS)]
    assert compared(first, first[::-1]).is_equal
    assert [one.kind for one in compared(first, first[:1]).found] == ["missing"]


def test_so_many_differences_are_shown_and_all_are_counted() -> None:
    many = [row("insert", 1, after={"id": str(key)}) for key in range(30)]
    report = compared(many, [], limit=7)
    assert (len(report.found), report.tables["simple.user"].different) == (7, 30)


def test_a_row_of_which_only_the_key_was_sent_is_not_compared() -> None:
    partial = msgspec.structs.replace(row("insert", 3, after={}), partial=True)
    gone = msgspec.structs.replace(row("delete", 4, before={}), partial=True)
    report = compared([partial, gone], [partial, gone])
    assert not report.is_equal and report.unread == (1, 1)
    assert "has only its key" in report.reasons[0]
