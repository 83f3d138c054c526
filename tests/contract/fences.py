"""The fence: it is checked before each commit, and where it closes nothing more is written."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.contract.changes import MANY
from tests.contract.member import Member, insert, letter, row, source, update
from tests.contract.others import KINDS, began, every_kind, mark
from ticdc_spark.errors import LeaseHeld, SinkFault
from ticdc_spark.sinks.base import Stamp


def _both(member: Member, stamp: Stamp) -> None:
    """New keys and others, in two commits where Spark writes them."""
    appended = msgspec.structs.replace(stamp, mark=(40, 1))
    changes = [insert(member.of, 30, **source(5)), update(member.of, 30, source(1), v="9")]
    new = mark(member) < (40, 1)  # as a job does when it goes on between the two
    net = member.net(member.land(changes), 40, above=20, stamp=stamp, appended=appended, new_keys=new, **MANY)
    member.upsert(net)


class FenceContract:
    """Every durable action of a sink is fenced."""

    @pytest.mark.parametrize("kind", [*KINDS, "append and merge"])
    def test_a_commit_behind_a_closed_fence_does_nothing(self, member: Member, kind: str) -> None:
        """Whichever call of the fence closes: the rows and the mark are those of one commit or of another."""
        began(member)
        act = KINDS.get(kind, _both)
        was = (mark(member), member.rows())
        reported = member.found()
        states = [was]
        for calls in range(1, 9):
            stamp = member.stamp(40, 5)
            member.guard.open()
            member.guard.closes_at = calls
            try:
                act(member, stamp)
            except LeaseHeld:
                now = (mark(member), member.rows())
                assert member.found().changed_by == ""
                if calls == 1:
                    assert (member.found(), now) == (reported, was)
                if now != states[-1]:
                    assert now[0] > states[-1][0], "rows change with their mark"
                    states.append(now)
            else:
                break
            finally:
                member.guard.open()
        else:
            pytest.fail("the fence is checked without end")
        assert mark(member) == (40, 5)
        assert calls > 1, "the fence was checked"

    @pytest.mark.parametrize("act", ["create", "drop", "rename", "create_database", "drop_database"])
    def test_tables_come_and_go_by_the_fence(self, member: Member, act: str) -> None:
        other, spare = (member.schema, "u"), f"{member.schema}_spare"
        member.fill(1)
        if act == "drop_database":
            member.sink.create_database(spare)
        stamp = member.stamp(30)
        member.guard.open()
        member.guard.closes_at = 1
        acts: dict[str, Callable[[], None]] = {
            "create": lambda: member.sink.create(other, member.columns, stamp),
            "drop": lambda: member.sink.drop(member.name),
            "rename": lambda: member.sink.rename(member.name, other),
            "create_database": lambda: member.sink.create_database(spare),
            "drop_database": lambda: member.sink.drop_database(spare),
        }
        with pytest.raises(LeaseHeld):
            acts[act]()
        member.guard.open()
        assert member.sink.find(other) is None
        assert member.rows() == [row(1)]

    def test_dead_letters_are_written_by_the_fence(self, member: Member) -> None:
        member.guard.closes_at = 1
        with pytest.raises(LeaseHeld):
            member.letters.keep(1, "decode", [letter(0, "r")], 0.0)
        member.guard.open()
        assert member.kept() == []

    @every_kind
    def test_another_writer_between_read_and_commit_is_kept(self, member: Member, kind: str) -> None:
        """Somebody's row, with a key that comes new from the source, too, lands just before the commit."""
        began(member)
        stamp = member.stamp(40, 5)
        member.guard.happens = lambda: member.others.insert(member.name, row(5, v=55))
        try:
            KINDS[kind](member, stamp)
        except SinkFault:
            assert (kind in {"fill", "convert"}, mark(member)) == (True, (20, 3)), "what was computed is not written"
            KINDS[kind](member, stamp)
        found = member.found()
        assert mark(member) == (40, 5)
        ids = [one["id"] for one in member.rows()]
        assert len(ids) == len(set(ids)) or found.changed_by, "a key twice is at least seen"
        if kind != "truncate":
            assert 5 in ids
            assert found.changed_by or not member.sink.capabilities.sees_others
        if kind == "append":
            assert [one["v"] for one in member.rows() if one["id"] == 5] == [5]
