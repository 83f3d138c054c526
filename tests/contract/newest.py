"""Arrival mode: each key's newest change, where the table has no newer one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.contract.member import Member, Net, delete, insert, row, source, update
from ticdc_spark.changes.typed import Deletes
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import Column, ColumnType, RowChange
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.tasks import UnreadableRows
from ticdc_spark.spark.types import LakeColumn, LakeType

TIME = LakeColumn(
    source="_ticdc_commit_ts",
    name="_ticdc_commit_ts",
    type=LakeType("bigint", "int64"),
    column=Column(name="_ticdc_commit_ts", type=ColumnType(name="bigint")),
)
EXACT = (1 << 18) * 1000 + 1
"""A TSO with a logical part; one without is a time in milliseconds."""
COARSE = (1 << 18) * 1000


def started(member: Member) -> None:
    member.sink.create(member.name, (*member.columns, TIME), member.stamp(1, 0))


def changes_of(member: Member, changes: Sequence[RowChange], batch: int, *, looks_back: bool = False) -> Net:
    net = member.net(member.land(changes), 2**62, stamp=member.stamp(batch + 1))
    back = earlier(member, net, net.changes.plan) if looks_back else None
    return net.having(ordered_by=TIME, deletes=back)


def earlier(member: Member, net: Net, plan: ReadPlan) -> Deletes:
    every = msgspec.structs.replace(net.scan, ranges=member.everything(), keys=None, ops=("delete", "update"))
    return Deletes(member.topic.raw(every), plan)


def arrive(member: Member, changes: Sequence[RowChange], batch: int, *, looks_back: bool = False) -> None:
    member.upsert(changes_of(member, changes, batch, looks_back=looks_back))


def now(member: Member) -> list[tuple[int, int | None, int]]:
    return [(one["id"], one["v"], one["_ticdc_commit_ts"]) for one in member.rows()]


class NewestContract:
    def test_an_older_change_never_wins(self, member: Member) -> None:
        started(member)
        of = member.of
        arrive(member, [insert(of, EXACT + 5, **source(1)), insert(of, EXACT, **source(2))], 1)
        arrive(member, [insert(of, EXACT + 4, id="1", v="4", w=""), update(of, EXACT + 6, source(2), v="6")], 2)
        arrive(member, [delete(of, EXACT + 3, **source(1)), delete(of, EXACT + 5, **source(2))], 3)
        assert now(member) == [(1, 1, EXACT + 5), (2, 6, EXACT + 6)]
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.changed_by) == ((4, 2), "")
        arrive(member, [delete(of, EXACT + 7, **source(1))], 4)
        assert now(member) == [(2, 6, EXACT + 6)]

    def test_a_row_that_is_not_kept_does_not_come_back_by_an_older_one(self, member: Member) -> None:
        started(member)
        of = member.of
        arrive(member, [insert(of, EXACT, **source(1)), insert(of, EXACT, **source(2))], 1)
        out = [update(of, EXACT + 9, source(1), v="100"), insert(of, EXACT + 9, id="3", v="100", w=None)]
        member.upsert(changes_of(member, out, 2).keeping("v < 100"))
        assert now(member) == [(2, 2, EXACT)]
        late = [update(of, EXACT + 4, source(1), v="4"), insert(of, EXACT + 5, **source(3))]
        net = changes_of(member, late, 3).keeping("v < 100")
        every = msgspec.structs.replace(net.scan, ranges=member.everything(), keys=None)
        member.upsert(net.having(deletes=Deletes(member.topic.raw(every), net.changes.plan)))
        assert now(member) == [(2, 2, EXACT)]
        member.upsert(changes_of(member, [update(of, EXACT + 10, source(1), v="5")], 4).keeping("v < 100"))
        assert now(member) == [(1, 5, EXACT + 10), (2, 2, EXACT)]

    def test_the_newest_of_a_batch_wins_wherever_it_stands(self, member: Member) -> None:
        started(member)
        of = member.of
        arrive(member, [insert(of, EXACT + at, id="1", v=str(at), w=None) for at in (3, 9, 5)], 1)
        assert now(member) == [(1, 9, EXACT + 9)]

    @pytest.mark.parametrize("batches", [1, 2])
    def test_at_one_exact_time_a_delete_comes_first(self, member: Member, batches: int) -> None:
        started(member)
        of = member.of
        arrive(member, [insert(of, EXACT, **source(1))], 1)
        moved = [insert(of, EXACT + 1, id="1", v="7", w=None), delete(of, EXACT + 1, **source(1))]
        if batches == 1:
            arrive(member, moved, 2)
        else:
            arrive(member, moved[:1], 2)
            arrive(member, moved[1:], 3)
        assert now(member) == [(1, 7, EXACT + 1)]

    def test_within_a_millisecond_the_later_message_wins(self, member: Member) -> None:
        started(member)
        of = member.of
        arrive(member, [insert(of, COARSE, **source(1)), delete(of, COARSE, **source(1))], 1)
        assert now(member) == []
        arrive(member, [insert(of, COARSE, **source(2))], 2)
        arrive(member, [delete(of, COARSE, **source(2))], 3)
        assert now(member) == []
        arrive(member, [insert(of, COARSE, id="2", v="9", w=None)], 4)
        assert now(member) == [(2, 9, COARSE)]

    @pytest.mark.parametrize("batches", [1, 2])
    @pytest.mark.parametrize("at", [EXACT, COARSE])
    def test_keys_that_are_shifted_keep_their_rows(self, member: Member, batches: int, at: int) -> None:
        started(member)
        of = member.of
        arrive(member, [insert(of, at, **source(1)), insert(of, at, **source(2))], 1)
        later = at + (1 << 18)
        shifted = [update(of, later, source(1), id="2"), update(of, later, source(2), id="3")]
        if batches == 1:
            arrive(member, shifted, 2)
        else:
            arrive(member, shifted[:1], 2)
            arrive(member, shifted[1:], 3)
        assert now(member) == [(2, 1, later), (3, 2, later)]

    def test_a_delete_that_hides_its_time_follows_its_partition(self, member: Member) -> None:
        started(member)
        of = member.of
        arrive(member, [insert(of, EXACT, **source(1)), insert(of, EXACT, **source(2))], 1)
        hidden = [delete(of, 0, **source(1)), insert(of, EXACT + 5, id="1", v="5", w=None), delete(of, 0, **source(2))]
        controls = member.land(hidden, has_watermarks=False)
        net = member.net(controls, 2**62, above=-1, stamp=member.stamp(3))
        member.upsert(net.having(ordered_by=TIME))
        assert now(member) == [(1, 5, EXACT + 5)]

    def test_what_was_deleted_does_not_come_back_by_an_older_row(self, member: Member) -> None:
        started(member)
        of = member.of
        arrive(member, [insert(of, EXACT, **source(1)), insert(of, EXACT, **source(2))], 1)
        newer = msgspec.structs.replace(of, version=11)
        member.of = newer  # the delete has another schema than the row that comes late
        arrive(member, [delete(newer, EXACT + 9, **source(1)), update(newer, EXACT + 9, source(2), id="8")], 2)
        assert now(member) == [(8, 2, EXACT + 9)]
        member.of = of
        late = [update(of, EXACT + 4, source(1), v="4"), update(of, EXACT + 5, source(2), v="5")]
        changes = changes_of(member, late, 3)
        plan = changes.changes.plan
        every = msgspec.structs.replace(plan, tables=dict.fromkeys((*plan.tables, "11", "10"), of))
        scan = msgspec.structs.replace(changes.scan, keys=tuple(plan.tables))
        member.upsert(changes.having(raw=member.topic.raw(scan), deletes=earlier(member, changes, every)))
        assert now(member) == [(8, 2, EXACT + 9)]

    def test_one_unreadable_row_keeps_all_out_of_arrival(self, member: Member) -> None:
        started(member)
        of = member.of
        arrive(member, [insert(of, EXACT, **source(1))], 1)
        before = member.found()
        late = [insert(of, EXACT + 1, **source(2)), insert(of, EXACT + 2, id="3", v="three", w=None)]
        changes = changes_of(member, late, 2)
        with pytest.raises(UnreadableRows):
            member.upsert(changes)
        assert member.found() == before
        member.upsert(changes.having(leave_out_unreadable=True))
        assert now(member) == [(1, 1, EXACT), (2, 2, EXACT + 1)]

    def test_a_table_without_the_column_of_times_takes_nothing(self, member: Member) -> None:
        member.fill(1)
        with pytest.raises(SinkFault):
            arrive(member, [insert(member.of, EXACT, **source(2))], 2)
        assert member.rows() == [row(1)]
