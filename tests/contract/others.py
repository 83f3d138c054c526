"""What other people and tools do to a table: rollbacks, edits, and upkeep that is nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import msgspec
import pytest

from tests.contract.columns import INTEGER, WORDS
from tests.contract.member import JOB, Member, delete, insert, row, source, update
from tests.contract.newest import EXACT, TIME, changes_of
from ticdc_spark.sinks.base import ColumnChanges, Fill, Stamp
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.mark import Mark
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.types import LakeOptions

Kind: TypeAlias = Callable[[Member, Stamp], None]


def _stamped(member: Member, stamp: Stamp) -> None:
    member.sink.stamp(member.name, stamp)


def _truncated(member: Member, stamp: Stamp) -> None:
    member.sink.truncate(member.name, stamp)


def _changed(member: Member, stamp: Stamp) -> None:
    member.sink.change_columns(member.name, ColumnChanges(add=(WORDS,)), stamp)


def _filled(member: Member, stamp: Stamp) -> None:
    member.sink.fill_column(member.name, INTEGER, Fill("7", LakeOptions()), stamp)


def _converted(member: Member, stamp: Stamp) -> None:
    member.sink.convert_column(member.name, "v", INTEGER, ColumnConversion(expression="{old} + 1"), stamp)


def _deleted(member: Member, stamp: Stamp) -> None:
    member.sink.delete_where(member.name, [[Condition(column=member.columns[0], any_of=("2",))]], stamp)


def _merged(member: Member, stamp: Stamp) -> None:
    changes = [update(member.of, 30, source(1), v="9"), delete(member.of, 30, **source(2))]
    member.apply(changes, stamp.mark[0], stamp=stamp, above=20)


def _appended(member: Member, stamp: Stamp) -> None:
    member.apply([insert(member.of, 30, **source(5))], stamp.mark[0], stamp=stamp, above=20, new_keys=True)


def _arrived(member: Member, stamp: Stamp) -> None:
    changes = changes_of(member, [update(member.of, EXACT, source(1), v="9")], 39)
    member.upsert(replace(changes, stamp=stamp))


KINDS: dict[str, Kind] = {
    "stamp": _stamped,
    "truncate": _truncated,
    "columns": _changed,
    "fill": _filled,
    "convert": _converted,
    "delete": _deleted,
    "merge": _merged,
    "append": _appended,
    "newest": _arrived,
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def began(member: Member) -> Stamp:
    """A table with rows 1, 2, 3, the column x that ``fill`` and ``convert`` set, and that of times; at (20, 3)."""
    member.fill(1, 2, 3)
    stamp = member.stamp(20, 3)
    member.sink.change_columns(member.name, ColumnChanges(add=(INTEGER, TIME)), stamp)
    return stamp


def mark(member: Member) -> Mark:
    stamp = member.found().stamp
    assert stamp is not None
    return stamp.mark


def upkeep(member: Member) -> None:
    member.others.compact(member.name)
    member.others.rewrite_deletes(member.name)
    member.others.rewrite_manifests(member.name)
    member.others.expire(member.name)


def check_a_conflict_is_counted(member: Member) -> None:
    """Somebody's row lands between a sink's look at its table and its commit, which is done again."""
    began(member)
    stamp = member.stamp(40, 5)
    member.sink.conflicts.take()  # of earlier tests with this catalog
    member.guard.happens = lambda: member.others.insert(member.name, row(5))
    member.sink.stamp(member.name, stamp)
    assert mark(member) == (40, 5)
    assert (member.sink.conflicts.take(), member.sink.conflicts.take()) == ({member.name: 1}, {})


class StampsContract:
    """Whatever the sink sees of other writers."""

    @every_kind
    def test_every_commit_carries_its_stamp(self, member: Member, kind: str) -> None:
        began(member)
        stamp = member.stamp(40, 5, job_applied=33)
        KINDS[kind](member, stamp)
        found = member.found()
        assert found.stamp == msgspec.structs.replace(stamp, seen=None)
        assert (found.rolled_back, found.changed_by) == (False, "")

    def test_another_jobs_stamp_is_that_jobs(self, member: Member) -> None:
        began(member)
        member.sink.stamp(member.name, member.stamp(50, job="another"))
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.job, found.stamp.mark, found.changed_by) == ("another", (50, 2), "")
        assert member.name not in member.sink.list_tables(JOB)

    def test_a_table_in_place_of_ours_is_not_ours(self, member: Member) -> None:
        member.fill(1)
        member.sink.drop(member.name)
        member.others.create(member.name, member.columns, [row(7)])
        assert member.found().stamp is None


class OthersContract(StampsContract):
    """A sink that ``sees_others``."""

    @every_kind
    def test_a_rollback_of_every_commit_is_seen(self, member: Member, kind: str) -> None:
        before = began(member)
        at, rows = member.found().snapshot, member.rows()
        assert at is not None
        KINDS[kind](member, member.stamp(40, 5))
        after = member.found().snapshot
        assert after is not None
        member.others.roll_back(member.name, at)
        found = member.found()
        assert found.stamp is not None
        assert (found.rolled_back, found.stamp.job, found.stamp.mark) == (True, JOB, before.mark)
        assert [{key: one[key] for key in rows[0]} for one in member.rows()] == rows
        member.others.set_current(member.name, after)
        again = member.found()
        assert (again.rolled_back, mark(member)) == (False, (40, 5))

    @every_kind
    def test_upkeep_after_every_commit_is_nothing(self, member: Member, kind: str) -> None:
        began(member)
        stamp = member.stamp(40, 5)
        KINDS[kind](member, stamp)
        rows = member.rows()
        for _ in range(2):
            upkeep(member)
            found = member.found()
            assert found.stamp == msgspec.structs.replace(stamp, seen=None)
            assert (found.rolled_back, found.changed_by) == (False, "")
        assert member.rows() == rows

    def test_each_tool_alone_is_nothing(self, member: Member) -> None:
        began(member)
        _merged(member, member.stamp(30))
        rows = member.rows()
        for tool in ("compact", "rewrite_manifests", "rewrite_deletes", "expire", "compact", "expire"):
            getattr(member.others, tool)(member.name)
            found = member.found()
            assert (mark(member), found.rolled_back, found.changed_by) == ((30, 2), False, ""), tool
            assert member.rows() == rows, tool
        member.apply([insert(member.of, 50, **source(7))], 50, above=30, new_keys=True)
        assert [one["id"] for one in member.rows()] == [1, 3, 7]

    def test_many_rewrites_and_one_expiry_are_nothing(self, member: Member) -> None:
        began(member)
        _merged(member, member.stamp(30))
        for _ in range(3):
            member.others.rewrite_manifests(member.name)
        member.others.compact(member.name)
        member.others.expire(member.name)
        found = member.found()
        assert (mark(member), found.rolled_back, found.changed_by) == ((30, 2), False, "")

    def test_an_edit_between_rewrites_is_not_lost_by_expiry(self, member: Member) -> None:
        began(member)
        member.others.insert(member.name, row(99))
        member.others.compact(member.name)
        member.others.expire(member.name)
        found = member.found()
        assert mark(member) == (20, 3)
        assert found.changed_by

    @pytest.mark.parametrize("edit", ["insert", "delete", "update"])
    def test_an_edit_is_seen_until_the_job_writes_after_it(self, member: Member, edit: str) -> None:
        began(member)
        match edit:
            case "insert":
                member.others.insert(member.name, row(99))
            case "delete":
                member.others.delete(member.name, 2)
            case _:
                member.others.update(member.name, 2, "v", 0)
        found = member.found()
        assert found.changed_by
        assert (mark(member), found.rolled_back) == ((20, 3), False)
        upkeep(member)
        assert member.found().changed_by, "upkeep hides no edit"
        member.sink.stamp(member.name, member.stamp(20, 3))
        assert member.found().changed_by == ""

    @every_kind
    def test_an_edit_after_the_look_is_found_by_the_next_one(self, member: Member, kind: str) -> None:
        began(member)
        stamp = member.stamp(40, 5)
        member.others.insert(member.name, row(99))
        KINDS[kind](member, stamp)
        found = member.found()
        assert (mark(member), found.rolled_back) == ((40, 5), False)
        assert bool(found.changed_by) == (kind != "truncate"), "a truncated table has nothing of others in it"
        same = msgspec.structs.replace(stamp, mark=(40, 6))
        member.sink.stamp(member.name, same)
        assert bool(member.found().changed_by) == (kind != "truncate"), "no look came between"
        member.sink.stamp(member.name, member.stamp(40, 7))
        assert member.found().changed_by == ""

    def test_what_others_insert_meanwhile_is_not_appended_twice(self, member: Member) -> None:
        began(member)
        stamp = member.stamp(40)
        member.others.insert(member.name, row(5, v=55))
        member.apply([insert(member.of, 30, **source(5))], 40, stamp=stamp, above=20, new_keys=True)
        assert [(one["id"], one["v"]) for one in member.rows()] == [(1, 1), (2, 2), (3, 3), (5, 5)]
        assert member.found().changed_by

    def test_a_rollback_behind_an_edit_is_both(self, member: Member) -> None:
        began(member)
        at = member.found().snapshot
        assert at is not None
        _merged(member, member.stamp(30))
        member.others.roll_back(member.name, at)
        member.others.insert(member.name, row(99))
        found = member.found()
        assert (found.rolled_back, mark(member)) == (True, (20, 3))
        assert found.changed_by

    def test_a_rollback_of_rows_with_the_same_mark_is_seen(self, member: Member) -> None:
        began(member)
        _merged(member, member.stamp(30))
        at = member.found().snapshot
        assert at is not None
        member.apply([insert(member.of, 25, **source(7))], 30, stamp=member.stamp(30), above=20)
        member.others.roll_back(member.name, at)
        assert (member.found().rolled_back, mark(member)) == (True, (30, 2))

    def test_a_rollback_and_then_upkeep_is_still_one(self, member: Member) -> None:
        began(member)
        at = member.found().snapshot
        assert at is not None
        _merged(member, member.stamp(30))
        member.others.roll_back(member.name, at)
        upkeep(member)
        found = member.found()
        assert (found.rolled_back, mark(member) <= (20, 3)) == (True, True)

    def test_a_rollback_behind_the_first_commit_of_the_job(self, member: Member) -> None:
        member.others.create(member.name, member.columns, [row(7)])
        at = member.found().snapshot
        assert at is not None
        member.sink.stamp(member.name, member.stamp(10))
        member.apply([insert(member.of, 20, **source(1))], 20)
        member.others.roll_back(member.name, at)
        found = member.found()
        assert found.stamp is not None
        assert (found.rolled_back, found.stamp.job, found.stamp.mark) == (True, JOB, (0, 0))

    def test_after_a_rollback_the_job_goes_on(self, member: Member) -> None:
        began(member)
        at = member.found().snapshot
        assert at is not None
        _merged(member, member.stamp(30))
        member.others.roll_back(member.name, at)
        controls = member.land([update(member.of, 30, source(1), v="9"), delete(member.of, 30, **source(2))])
        member.upsert(member.net(controls, 40, above=20, stamp=member.stamp(40)))
        found = member.found()
        assert (mark(member), found.rolled_back, found.changed_by) == ((40, 2), False, "")
        assert [(one["id"], one["v"]) for one in member.rows()] == [(1, 9), (3, 3)]
