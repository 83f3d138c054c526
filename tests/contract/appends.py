"""Rows that are appended to a history table: every change once, and what is said of all rows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.loads import BEGUN, gather
from tests.contract.member import Member, delete, insert, row, source, update
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended, Events, Marker, RowsOf, history_columns
from ticdc_spark.sinks.base import ColumnChanges, Stamp
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.spark.tasks import UnreadableRows

BASE = 463_267_588_210_688_000
"""A commit_ts of 2026."""


class History:
    """A history beside the member's table."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.name: TableName = (member.schema, "t_history")
        columns = [msgspec.structs.replace(column, key=False) for column in member.columns]
        member.sink.create(self.name, [*history_columns(member.sink.types), *columns], self.stamp(0, 0))

    def stamp(self, ts: int, step: int = 2) -> Stamp:
        found = self.member.sink.find(self.name)
        return self.member.stamp(BASE + ts, step, seen=None if found is None else found.snapshot)

    def append(self, what: Appended, ts: int) -> None:
        self.member.sink.append(self.name, what, self.stamp(ts), self.member.name)

    def rows(self) -> list[tuple[Any, ...]]:
        """Sorted: op, commit_ts, and the values of the table's columns."""
        found = self.member.read(self.name)
        listed = [
            (one["_tidb_op"], one["_tidb_commit_ts"] - BASE, *(one[name] for name in ("id", "v", "w"))) for one in found
        ]
        return sorted(listed, key=lambda one: (one[1], one[0], one[2] or 0))


class AppendsContract:
    def test_every_change_is_appended_once(self, member: Member) -> None:
        member.create()
        history, of = History(member), member.of
        changes = [
            insert(of, BASE + 1, **source(1)),
            insert(of, BASE + 2, **source(2)),
            update(of, BASE + 3, source(1), v="11"),
            update(of, BASE + 3, source(1), v="11"),  # came again
            insert(of, BASE + 2, **source(2)),
            update(of, BASE + 4, source(1) | {"v": "11"}, v="12", w=None),
            update(of, BASE + 5, source(2), id="3"),  # one that moves
            delete(of, BASE + 6, id="3", v="2", w="2"),
            insert(of, BASE + 6, id="3", v="33", w="x"),
        ]
        net = member.net(member.land(changes), BASE + 9, stamp=history.stamp(9))
        history.append(Events(net.changes, BASE + 1), 9)
        assert history.rows() == [
            ("I", 2, 2, 2, "2"),
            ("U", 3, 1, 11, "1"),
            ("U", 4, 1, 12, None),
            ("D", 5, 2, None, None),
            ("U", 5, 3, 2, "2"),
            ("D", 6, 3, None, None),
            ("I", 6, 3, 33, "x"),
        ]
        found = member.found(history.name)
        assert found.stamp is not None
        assert (found.stamp.mark, found.changed_by) == ((BASE + 9, 2), "")
        assert member.rows() == []

    def test_what_updates_and_deletes_replace_is_appended_where_it_is_wanted(self, member: Member) -> None:
        member.create()
        history, of = History(member), member.of
        changes = [
            insert(of, BASE + 1, **source(1)),
            update(of, BASE + 2, source(1), v="11"),
            update(of, BASE + 2, source(1), v="11"),  # came again
            update(of, BASE + 3, source(1) | {"v": "11"}, id="3"),  # one that moves
            delete(of, BASE + 4, id="3", v="11", w="1"),
        ]
        net = member.net(member.land(changes), BASE + 9, stamp=history.stamp(9), befores=True)
        history.append(Events(net.changes, BASE), 9)
        found = [
            ("I", 1, 1, 1, "1"),
            ("B", 2, 1, 1, "1"),
            ("U", 2, 1, 11, "1"),
            ("D", 3, 1, 11, "1"),
            ("U", 3, 3, 11, "1"),
            ("D", 4, 3, 11, "1"),
        ]
        assert history.rows() == found
        late = update(of, BASE + 1, source(1), v="5")
        net = member.net(member.land([*changes, late]), BASE + 9, stamp=history.stamp(9), befores=True)
        history.append(Events(net.changes, BASE, unless_there=True), 9)
        assert history.rows() == sorted([*found, ("B", 1, 1, 1, "1")], key=lambda one: (one[1], one[0]))
        member.upsert(member.net(member.land(changes), BASE + 9, stamp=member.stamp(BASE + 9), befores=True))
        assert member.rows() == []

    def test_a_row_that_is_not_kept_is_a_delete_of_its_key(self, member: Member) -> None:
        member.create()
        history, of = History(member), member.of
        changes = [
            insert(of, BASE + 1, **source(1)),
            insert(of, BASE + 2, id="2", v="100", w="secret"),
            update(of, BASE + 3, source(1), v="100", w="secret"),
            update(of, BASE + 4, source(2), v="2"),
        ]
        net = member.net(member.land(changes), BASE + 9, stamp=history.stamp(9)).keeping("v < 100")
        history.append(Events(net.changes, 0), 9)
        assert history.rows() == [("I", 1, 1, 1, "1"), ("D", 3, 1, None, None), ("U", 4, 2, 2, "2")]

    def test_what_a_row_replaces_is_there_if_it_was_kept(self, member: Member) -> None:
        member.create()
        history, of = History(member), member.of
        out = {"id": "1", "v": "100", "w": "secret"}
        changes = [
            insert(of, BASE + 1, **source(1)),
            update(of, BASE + 2, source(1), v="100", w="secret"),
            update(of, BASE + 3, out, v="101"),
            update(of, BASE + 4, out | {"v": "101"}, v="5", w="5"),
            update(of, BASE + 5, {"id": "1", "v": "5", "w": "5"}, v="6"),
            insert(of, BASE + 6, id="2", v="100", w="secret"),
            delete(of, BASE + 7, id="2", v="100", w="secret"),
            delete(of, BASE + 8, id="1", v="6", w="5"),
        ]
        net = member.net(member.land(changes), BASE + 9, stamp=history.stamp(9), befores=True).keeping("v < 100")
        history.append(Events(net.changes, 0), 9)
        assert history.rows() == [
            ("I", 1, 1, 1, "1"),
            ("B", 2, 1, 1, "1"),
            ("D", 2, 1, None, None),
            ("U", 4, 1, 5, "5"),
            ("B", 5, 1, 5, "5"),
            ("U", 5, 1, 6, "5"),
            ("D", 7, 2, None, None),
            ("D", 8, 1, 6, "5"),
        ]
        net = member.net(member.land(changes), BASE + 9, stamp=member.stamp(BASE + 9), befores=True)
        member.upsert(net.keeping("v < 100"))
        assert member.rows() == []

    def test_late_changes_are_appended_unless_they_are_there(self, member: Member) -> None:
        member.create()
        history, of = History(member), member.of
        early = [
            insert(of, BASE + 2, **source(1)),
            update(of, BASE + 4, source(1), v="4"),
            delete(of, BASE + 6, **source(1)),
        ]
        net = member.net(member.land(early), BASE + 9, stamp=history.stamp(9))
        history.append(Events(net.changes, BASE), 9)
        late = [
            update(of, BASE + 3, source(1), v="3"),
            insert(of, BASE + 6, **source(1)),
            insert(of, BASE + 1, **source(2)),
        ]
        net = member.net(member.land([*early, *late]), BASE + 9, stamp=history.stamp(9))
        history.append(Events(net.changes, BASE + 1, unless_there=True), 9)
        found = [(op, ts, key) for op, ts, key, *_ in history.rows()]
        assert found == [("I", 2, 1), ("U", 3, 1), ("U", 4, 1), ("D", 6, 1), ("I", 6, 1)]

    def test_what_is_appended_stays_as_it_is(self, member: Member) -> None:
        member.create()
        history = History(member)
        for ts in (10, 20):
            changes = [insert(member.of, BASE + ts, **source(1))]
            net = member.net(member.land(changes), BASE + ts, above=BASE + ts - 1, stamp=history.stamp(ts))
            history.append(Events(net.changes, BASE), ts)
        renamed = ColumnChanges(rename=(("v", "old_v"),), add=(member.columns[1],))
        member.sink.change_columns(history.name, renamed, history.stamp(25))
        changes = [insert(member.of, BASE + 30, **source(2))]
        net = member.net(member.land(changes), BASE + 30, above=BASE + 29, stamp=history.stamp(30))
        history.append(Events(net.changes, BASE), 30)
        assert history.rows() == [("I", 10, 1, None, "1"), ("I", 20, 1, None, "1"), ("I", 30, 2, 2, "2")]
        old = sorted((one["_tidb_commit_ts"] - BASE, one["old_v"]) for one in member.read(history.name))
        assert old == [(10, 1), (20, 1), (30, None)]

    def test_nothing_to_append_carries_the_stamp(self, member: Member) -> None:
        member.create()
        history = History(member)
        net = member.net(member.land([insert(member.of, BASE + 1, **source(1))]), BASE + 5, stamp=history.stamp(5))
        history.append(Events(net.changes, BASE + 1), 5)
        assert history.rows() == []
        assert member.found(history.name).stamp.mark == (BASE + 5, 2)  # type: ignore[union-attr]
        history.append(None, 6)
        assert history.rows() == []
        assert member.found(history.name).stamp.mark == (BASE + 6, 2)  # type: ignore[union-attr]

    def test_rows_that_cannot_be_read_append_nothing(self, member: Member) -> None:
        member.create()
        history = History(member)
        changes = [insert(member.of, BASE + 1, **source(1)), insert(member.of, BASE + 2, id="2", v="no", w=None)]
        net = member.net(member.land(changes), BASE + 5, stamp=history.stamp(5))
        with pytest.raises(UnreadableRows):
            history.append(Events(net.changes, BASE), 5)
        assert history.rows() == []
        history.append(Events(net.having(leave_out_unreadable=True).changes, BASE), 5)
        assert history.rows() == [("I", 1, 1, 1, "1")]

    def test_a_row_says_something_of_all_rows(self, member: Member) -> None:
        member.create()
        history = History(member)
        history.append(Marker("T", BASE + 7), 7)
        assert history.rows() == [("T", 7, None, None, None)]
        assert member.found(history.name).stamp.mark == (BASE + 7, 2)  # type: ignore[union-attr]

    def test_rows_of_the_table_are_appended_as_they_are(self, member: Member) -> None:
        member.fill(1, 2, 3)
        history = History(member)
        named = tuple(column.name for column in member.columns)
        below = ((Condition(column=member.columns[0], below="3"),),)
        history.append(RowsOf(op="P", commit_ts=BASE + 8, source=member.name, columns=named, where=below), 8)
        history.append(RowsOf(op="I", commit_ts=BASE + 9, source=member.name, columns=named[:1]), 9)
        assert history.rows()[:2] == [("P", 8, 1, 1, "1"), ("P", 8, 2, 2, "2")]
        assert sorted(one[2:] for one in history.rows()[2:]) == [(key, None, None) for key in (1, 2, 3)]
        assert member.rows() == [row(1), row(2), row(3)]

    @pytest.mark.parametrize("parts", [[[3, 4], [5]], [[]]], ids=["rows", "none"])
    def test_what_a_full_read_has_gathered_is_appended_after_a_row_that_says_so(
        self, member: Member, parts: list[list[int]]
    ) -> None:
        member.fill(1, 2)
        history = History(member)
        named = tuple(column.name for column in member.columns)
        read = RowsOf(op="S", commit_ts=BASE + 8, source=member.name, columns=named, gathered=True, marker="R")
        member.sink.begin_load(member.name, BEGUN)
        gather(member, parts)
        history.append(read, 8)
        member.sink.finish_load(member.name, member.stamp(BASE + 8))
        keys = [key for part in parts for key in part]
        wanted = [("S", 8, key, key, str(key)) for key in keys]
        assert history.rows() == [("R", 8, None, None, None), *wanted]
        assert member.rows() == [row(key) for key in keys]
        assert member.found(history.name).stamp.mark == (BASE + 8, 2)  # type: ignore[union-attr]
