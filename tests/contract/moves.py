"""Rows of one table become those of another one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.contract.loads import BEGUN
from tests.contract.member import Member, delete, insert, row
from ticdc_spark.errors import LeaseHeld
from ticdc_spark.model import TableName
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.loads_base import LoadNote

DONE = LoadNote(token="one", done=True)


def two_tables(member: Member, *keys: int) -> TableName:
    """The table u with rows of some keys, and the table of the member with 1, 2 and 3."""
    member.fill(*keys)
    other = (member.schema, "u")
    member.sink.rename(member.name, other)
    member.fill(1, 2, 3)
    return other


class MovesContract:
    """``take_rows`` and ``load_rows`` of ``sinks.base``."""

    def test_a_table_takes_the_rows_of_another_one_which_keeps_them(self, member: Member) -> None:
        other = two_tables(member, 7, 8)
        member.sink.take_rows(member.name, member.columns, other, member.stamp(40), new_keys=True)
        assert member.rows() == [row(1), row(2), row(3), row(7), row(8)]
        assert member.rows(other) == [row(7), row(8)]
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.stamp.about, found.changed_by) == ((40, 2), '{"at": 40}', "")

    def test_a_row_of_the_same_key_is_replaced(self, member: Member) -> None:
        other = two_tables(member, 2, 4)
        member.sink.delete_where(member.name, [[Condition(column=member.columns[0], any_of=("1",))]], member.stamp(30))
        member.apply([insert(member.of, 40, id="2", v="22", w="2")], 40, above=30)
        member.sink.take_rows(member.name, member.columns, other, member.stamp(50), new_keys=False)
        assert member.rows() == [row(2), row(3), row(4)]

    def test_a_table_without_rows_gives_none_and_the_stamp_is_there(self, member: Member) -> None:
        other = two_tables(member)
        member.sink.take_rows(member.name, member.columns, other, member.stamp(40), new_keys=True)
        assert member.rows() == [row(1), row(2), row(3)]
        assert member.found().stamp.mark == (40, 2)  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("where", "left"),
        [([["1"], ["3", "4"]], [1, 3]), ([], []), ([[]], [1, 2, 3])],
        ids=["some", "none", "all"],
    )
    def test_rows_of_another_table_that_meet_conditions_are_gathered(
        self, member: Member, where: Sequence[Sequence[str]], left: list[int]
    ) -> None:
        other = two_tables(member, 7, 8)
        conditions = [[Condition(column=member.columns[0], any_of=tuple(keys))] if keys else [] for keys in where]
        member.sink.begin_load(other, BEGUN)
        member.sink.load_rows(other, member.columns, member.name, conditions, DONE)
        assert member.sink.load_note(other) == DONE
        assert member.rows(other) == [row(7), row(8)]
        member.sink.finish_load(other, member.stamp(40))
        assert member.rows(other) == [row(key) for key in left]
        assert member.rows() == [row(1), row(2), row(3)]

    def test_a_partition_and_a_table_exchange_their_rows_and_go_on(self, member: Member) -> None:
        other = two_tables(member, 2, 8)
        where = [[Condition(column=member.columns[0], below="3")]]
        member.sink.begin_load(other, BEGUN)
        member.sink.load_rows(other, member.columns, member.name, where, DONE)
        member.sink.delete_where(member.name, where, member.stamp(40, 1000))
        member.sink.take_rows(member.name, member.columns, other, member.stamp(40, 1001), new_keys=True)
        member.sink.finish_load(other, member.stamp(40, 1000))
        assert (member.rows(), member.rows(other)) == ([row(2), row(3), row(8)], [row(1), row(2)])
        member.apply([delete(member.of, 50, id="8", v="8", w="8")], 50, above=40)
        assert member.rows() == [row(2), row(3)]

    def test_nothing_moves_once_the_lease_is_lost(self, member: Member) -> None:
        other = two_tables(member, 7)
        member.sink.begin_load(other, BEGUN)
        member.guard.closes_at = member.guard.calls + 1
        with pytest.raises(LeaseHeld):
            member.sink.take_rows(member.name, member.columns, other, member.stamp(40), new_keys=True)
        with pytest.raises(LeaseHeld):
            member.sink.load_rows(other, member.columns, member.name, [[]], DONE)
        member.guard.open()
        assert member.sink.load_note(other) == BEGUN
        assert member.rows() == [row(1), row(2), row(3)]
