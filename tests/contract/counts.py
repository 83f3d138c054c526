"""Whole rows of a table without a key: as many equal ones as the source has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.loads import BEGUN, gather
from tests.contract.member import Member, delete, insert, update
from ticdc_spark.changes.tries import find_tries
from ticdc_spark.errors import SourceChanged
from ticdc_spark.model import Column, ColumnType, Row, RowChange, Table
from ticdc_spark.spark.tasks import UnreadableRows

KINDS = {
    "f": ColumnType(name="float"),
    "d": ColumnType(name="decimal", length=9, decimal=2),
    "t": ColumnType(name="datetime", decimal=3),
    "c": ColumnType(name="char", length=5, charset="utf8mb4", collate="utf8mb4_general_ci"),
    "b": ColumnType(name="varbinary", length=5, charset="binary", collate="binary"),
    "j": ColumnType(name="json"),
    "n": ColumnType(name="bigint", unsigned=True),
}
"""Columns of every kind of equality."""
ALIKE: dict[str, tuple[str | bytes, str | bytes]] = {
    "f": ("1.1", "1.1000001"),
    "d": ("1.10", "1.11"),
    "t": ("2026-01-01 00:00:00.000", "2026-01-01 00:00:00.001"),
    "c": ("a", "A"),
    "b": (b"a", b"a\0"),
    "j": ('{"a": 1}', '{"a": "1"}'),
    "n": ("18446744073709551615", "18446744073709551614"),
}
"""Two values of each that are nearly equal."""


class CountsContract:
    def test_equal_rows_come_and_go_one_by_one(self, member: Member) -> None:
        of = begin(member)
        count(member, 20, *(insert(of, 15, **row) for row in (one(1), one(1), one(1), one(2), one(3, w=None))))
        assert values(member) == [(1, "1"), (1, "1"), (1, "1"), (2, "2"), (3, None)]
        changes = [
            delete(of, 21, **one(1)),
            update(of, 22, one(1), w="x"),
            update(of, 23, one(3, w=None), w=None),
            delete(of, 24, **one(3, w=None)),
            insert(of, 24, **one(2)),
            insert(of, 25, **one(4)),
            delete(of, 26, **one(4)),
        ]
        count(member, 30, *changes, above=20)
        assert values(member) == [(1, "1"), (1, "x"), (2, "2"), (2, "2")]
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.changed_by) == ((30, 2), "")

    def test_what_is_not_there_does_not_go(self, member: Member) -> None:
        of = begin(member)
        count(member, 20, insert(of, 15, **one(1)))
        count(member, 30, *(delete(of, 25, **one(key)) for key in (1, 1, 2)), insert(of, 26, **one(3)), above=20)
        assert values(member) == [(3, "3")]

    def test_what_was_sent_in_two_tries_counts_once(self, member: Member) -> None:
        begin(member)
        first, second = insert(member.of, 15, **one(1)), insert(member.of, 16, **one(1))
        count(member, 20, first, second, first, second)
        assert values(member) == [(1, "1"), (1, "1")]

    def test_a_full_read_has_equal_rows_of_all_its_waves(self, member: Member) -> None:
        of = begin(member)
        member.sink.begin_load(member.name, BEGUN)
        gather(member, [[1, 1], [2]])
        assert gather(member, [[2], [1]]).rows == 5
        member.sink.finish_load(member.name, member.stamp(15))
        assert values(member) == [(1, "1"), (1, "1"), (1, "1"), (2, "2"), (2, "2")]
        count(member, 30, delete(of, 25, **one(1)), update(of, 26, one(2), w="x"), above=15)
        assert values(member) == [(1, "1"), (1, "1"), (2, "2"), (2, "x")]

    def test_counts_of_nothing_carry_their_stamp(self, member: Member) -> None:
        begin(member)
        count(member, 20, insert(member.of, 15, **one(1)), delete(member.of, 16, **one(1)))
        assert values(member) == []
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.changed_by) == ((20, 2), "")

    def test_one_unreadable_row_keeps_all_counts_out(self, member: Member) -> None:
        of = begin(member)
        count(member, 20, insert(of, 15, **one(1)))
        bad = insert(of, 25, id="1", v="one", w="1")
        controls = member.land([delete(of, 24, **one(1)), bad])
        net = member.net(controls, 30, above=20, stamp=member.stamp(30))
        net = net.having(begins=find_tries(net.changes.raw, net.changes.plan.protocol).begins)
        with pytest.raises(UnreadableRows):
            member.sink.change_counts(net.table, net.changes, net.stamp)
        assert values(member) == [(1, "1")]
        net = net.having(leave_out_unreadable=True)
        member.sink.change_counts(net.table, net.changes, net.stamp)
        assert values(member) == []

    def test_fewer_rows_than_the_scan_counted_change_no_count(self, member: Member) -> None:
        begin(member)
        net = member.net(member.land([insert(member.of, 15, **one(1))]), 20, stamp=member.stamp(20), scanned=2)
        net = net.having(begins=find_tries(net.changes.raw, net.changes.plan.protocol).begins)
        with pytest.raises(SourceChanged):
            member.sink.change_counts(net.table, net.changes, net.stamp)
        assert values(member) == []

    def test_rows_are_equal_by_their_bytes(self, member: Member) -> None:
        """Two rows for each column, which differ in it alone, and two with nothing but NULL."""
        columns = (Column(name=name, type=kind) for name, kind in KINDS.items())
        member.of = msgspec.structs.replace(member.of, columns=(*member.of.columns, *columns))
        of, none = begin(member), one(1) | dict.fromkeys(KINDS)
        firsts = [none | {name: value} for name, (value, _) in ALIKE.items()]
        seconds = [none | {name: value} for name, (_, value) in ALIKE.items()]
        count(member, 20, *(insert(of, 15, **row) for row in (*firsts, none)))
        alone = filled(member)
        assert [*alone] == sorted([*KINDS, ""])
        count(member, 30, *(insert(of, 25, **row) for row in (*seconds, none)), above=20)
        assert len(member.rows()) == 2 * len(alone)
        count(member, 40, *(delete(of, 35, **row) for row in (*seconds, none)), above=30)
        assert len(member.rows()) == len(alone) and filled(member) == alone
        count(member, 50, *(delete(of, 45, **row) for row in firsts), above=40)
        assert [*filled(member)] == [""]

    def test_zeros_of_both_signs_come_and_go(self, member: Member) -> None:
        member.of = msgspec.structs.replace(
            member.of, columns=(*member.of.columns, Column(name="z", type=ColumnType(name="double")))
        )
        of = begin(member)
        some = [one(1) | {"z": zero} for zero in ("0", "-0")]
        count(member, 20, *(insert(of, 15, **row) for row in some))
        count(member, 30, *(delete(of, 25, **row) for row in some), above=20)
        assert member.rows() == []

    def test_text_that_ends_in_spaces_is_other_text(self, member: Member) -> None:
        of = begin(member)
        count(member, 20, *(insert(of, 15, **one(1, w=text)) for text in ("a", "a ", "", None)))
        count(member, 30, *(delete(of, 25, **one(1, w=text)) for text in ("a ", "")), above=20)
        assert values(member) == [(1, "a"), (1, None)]

    def test_columns_of_others_stay_with_their_rows(self, member: Member) -> None:
        mine = keyless(member)
        extra = Column(name="extra", type=mine.columns[1].type)
        member.of = msgspec.structs.replace(mine, columns=(*mine.columns, extra))
        member.create()
        member.of = mine
        for _ in range(2):
            member.others.insert(member.name, {"id": 1, "v": 1, "w": "1", "extra": 7})
        count(member, 20, delete(mine, 15, **one(1)), insert(mine, 15, **one(2)))
        assert [row.get("extra") for row in member.rows()] == [7, None]


def keyless(member: Member) -> Table:
    """The member's table has no key."""
    if not member.sink.capabilities.counts:
        pytest.skip("this sink keeps no tables without a key")
    member.of = msgspec.structs.replace(member.of, indexes=())
    return member.of


def begin(member: Member) -> Table:
    """Create the table without a key."""
    of = keyless(member)
    member.create()
    return of


def count(member: Member, upto: int, *changes: RowChange, above: int = 10) -> None:
    """Send changes and apply them, as a job does."""
    net = member.net(member.land(changes), upto, above=above, stamp=member.stamp(upto))
    net = net.having(begins=find_tries(net.changes.raw, net.changes.plan.protocol).begins)
    member.sink.change_counts(net.table, net.changes, net.stamp)


def one(key: int, **more: str | None) -> Row:
    """A row as the source has it."""
    return {"id": str(key), "v": str(key), "w": str(key)} | more


def values(member: Member) -> list[tuple[int, str | None]]:
    return sorted(((row["id"], row["w"]) for row in member.read(member.name)), key=repr)


def filled(member: Member) -> dict[str, Any]:
    """The name and the value of that column which is not NULL, of each row."""
    rows = [{name: row[name] for name in KINDS if row[name] is not None} for row in member.rows()]
    return {"".join(row): [*row.values()] for row in sorted(rows, key=lambda row: "".join(row))}
