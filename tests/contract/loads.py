"""Full reads: what is gathered is nobody's until it is the table, and survives who gathered it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pytest

from tests.contract.member import Member, Rows, delete, insert, row, source, update
from ticdc_spark.errors import LeaseHeld, MessageError, SourceChanged
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.spark.tasks import MOVED, UNREADABLE, ArrowTask, Counter, SourceMoved, UnreadableRows
from ticdc_spark.spark.types import arrow_type

BEGUN = LoadNote(token="one")


class Reads:
    """Parts with the rows of some keys; sent to tasks."""

    def __init__(self, member: Member, parts: Sequence[Sequence[int]], fails: str = "") -> None:
        self.fields = [(column.name, arrow_type(column.type)) for column in member.columns]
        self.parts, self.fails = [[row(key) for key in part] for part in parts], fails

    def __call__(self, zeros: Counter) -> ArrowTask:
        fields, parts, fails = self.fields, self.parts, self.fails

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    if parts[number]:
                        zeros.add(1)
                        yield pa.RecordBatch.from_pylist(parts[number], schema=pa.schema(fields))
                    if fails:
                        raise MessageError(fails)

        return run


def gather(member: Member, parts: Sequence[Sequence[int]], fails: str = "") -> LoadNote:
    """One wave."""
    before = member.sink.load_note(member.name)
    assert before is not None

    def note(rows: int, zeros: int) -> LoadNote:
        return LoadNote(token=before.token, upto=f"{len(parts)}", rows=before.rows + rows, zero_dates=zeros)

    return member.sink.load(member.name, member.columns, Reads(member, parts, fails), len(parts), note)


def whole(rows: int, zeros: int) -> LoadNote:
    """The note of all net changes."""
    return LoadNote(token=BEGUN.token, rows=rows, zero_dates=zeros, done=True)


class LoadsContract:
    """``sinks.base.Loads``."""

    def test_what_is_gathered_replaces_the_table_at_the_end(self, member: Member) -> None:
        member.fill(1, 2, 3)
        assert member.sink.load_note(member.name) is None
        member.sink.begin_load(member.name, BEGUN)
        assert member.sink.load_note(member.name) == BEGUN
        first = gather(member, [[3, 4], [], [5]])
        assert (first.rows, first.zero_dates, first.upto) == (3, 2, "3")
        assert member.sink.load_note(member.name) == first
        assert gather(member, [[6]]).rows == 4
        assert member.rows() == [row(1), row(2), row(3)]
        member.sink.finish_load(member.name, member.stamp(30))
        assert member.rows() == [row(3), row(4), row(5), row(6)]
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.stamp.about) == ((30, 2), '{"at": 30}')
        assert not found.changed_by
        assert not found.rolled_back
        assert member.sink.load_note(member.name) is None

    def test_a_read_that_begins_anew_has_nothing(self, member: Member) -> None:
        member.fill(1)
        member.sink.begin_load(member.name, BEGUN)
        gather(member, [[7]])
        member.sink.begin_load(member.name, LoadNote(token="two"))
        assert member.sink.load_note(member.name) == LoadNote(token="two")
        member.sink.finish_load(member.name, member.stamp(30))
        assert member.rows() == []

    def test_a_wave_that_fails_gathers_nothing(self, member: Member) -> None:
        member.fill(1)
        member.sink.begin_load(member.name, BEGUN)
        with pytest.raises(SourceMoved, match="it was altered"):
            gather(member, [[7]], f"{MOVED}: it was altered")
        with pytest.raises(UnreadableRows, match="no such number"):
            gather(member, [[7]], f"{UNREADABLE}: no such number")
        assert member.sink.load_note(member.name) == BEGUN
        assert gather(member, [[8]]).rows == 1
        member.sink.finish_load(member.name, member.stamp(30))
        assert member.rows() == [row(8)]

    def test_what_others_did_to_the_table_goes_with_it(self, member: Member) -> None:
        member.fill(1, 2)
        member.sink.begin_load(member.name, BEGUN)
        gather(member, [[1]])
        member.others.insert(member.name, row(9))
        member.sink.finish_load(member.name, member.stamp(30))
        assert member.rows() == [row(1)]
        assert not member.found().changed_by

    def test_nothing_is_gathered_once_the_lease_is_lost(self, member: Member) -> None:
        member.fill(1)
        member.sink.begin_load(member.name, BEGUN)
        member.guard.closes_at = member.guard.calls + 1
        with pytest.raises(LeaseHeld):
            gather(member, [[7]])
        with pytest.raises(LeaseHeld):
            member.sink.finish_load(member.name, member.stamp(30))
        member.guard.open()
        assert member.sink.load_note(member.name) == BEGUN
        assert member.rows() == [row(1)]

    def test_the_table_goes_on_after_it(self, member: Member) -> None:
        member.fill(1)
        member.sink.begin_load(member.name, BEGUN)
        gather(member, [[1, 2]])
        member.sink.finish_load(member.name, member.stamp(30))
        rows: Rows = member.rows()
        assert rows == [row(1), row(2)]
        changes = [delete(member.of, 40, id="1", v="1", w="1"), insert(member.of, 41, id="3", v="3", w="3")]
        member.apply(changes, 41, above=30)
        assert member.rows() == [row(2), row(3)]

    def test_what_net_changes_leave_is_gathered(self, member: Member) -> None:
        member.fill(1, 2, 9)
        member.sink.begin_load(member.name, BEGUN)
        of = member.of
        changes = [insert(of, ts, **source(key)) for ts, key in ((31, 1), (32, 2), (33, 3), (34, 4))]
        changes += [update(of, 35, source(2), v="7"), delete(of, 36, **source(3)), delete(of, 50, **source(4))]
        net = member.net(member.land(changes), 40, stamp=member.stamp(40), above=30)
        found = member.sink.load_changes(member.name, net.changes, whole)
        assert (found.rows, found.done) == (3, True)
        assert member.sink.load_note(member.name) == found
        assert member.rows() == [row(1), row(2), row(9)]
        member.sink.finish_load(member.name, member.stamp(40))
        assert member.rows() == [row(1), row(2, v=7), row(4)]

    def test_no_net_change_leaves_an_empty_table(self, member: Member) -> None:
        member.fill(1)
        member.sink.begin_load(member.name, BEGUN)
        net = member.net([], 40, stamp=member.stamp(40), above=30)
        assert member.sink.load_changes(member.name, net.changes, whole).rows == 0
        member.sink.finish_load(member.name, member.stamp(40))
        assert member.rows() == []

    def test_net_changes_that_cannot_all_be_read_gather_nothing(self, member: Member) -> None:
        member.fill(1)
        member.sink.begin_load(member.name, BEGUN)
        controls = member.land([insert(member.of, 31, **source(2))])
        net = member.net(controls, 40, stamp=member.stamp(40), above=30)
        with pytest.raises(SourceChanged, match="1 rows were read, and the topic had 2"):
            member.sink.load_changes(member.name, net.having(scanned=2).changes, whole)
        controls = member.land([insert(member.of, 32, id="3", v="no number", w="3")])
        net = member.net(controls, 40, stamp=member.stamp(40), above=30)
        with pytest.raises(UnreadableRows):
            member.sink.load_changes(member.name, net.changes, whole)
        assert member.sink.load_note(member.name) == BEGUN
        member.sink.finish_load(member.name, member.stamp(40))
        assert member.rows() == []
