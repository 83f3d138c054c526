"""What a sink says of itself, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.appends import BASE, History
from tests.contract.counts import count
from tests.contract.loads import BEGUN
from tests.contract.member import Member, insert, row, source, update
from tests.contract.newest import EXACT, arrive, started
from ticdc_spark.config.layout import Layout, PartitionBy, SortBy
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import Column, ColumnType, Table, Value
from ticdc_spark.sinks.appends import Marker
from ticdc_spark.sinks.base import ColumnChanges
from ticdc_spark.sinks.capabilities import NotSupported
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.spark.types import LakeOptions


def _rename(member: Member) -> None:
    member.fill(1)
    member.sink.rename(member.name, (member.schema, "u"))


def _full_reads(member: Member) -> None:
    member.fill(1)
    member.sink.begin_load(member.name, BEGUN)


def _ordered_upsert(member: Member) -> None:
    started(member)
    arrive(member, [insert(member.of, EXACT, **source(1))], 1)


def _time_travel(member: Member) -> None:
    member.fill(1)
    list(member.sink.read(member.name, ["id"], member.sink.snapshot_id(member.name)))


def _layouts(member: Member) -> None:
    layout = Layout(partition_by=(PartitionBy("bucket", "id", 4),), sort_by=(SortBy("id"),))
    member.sink.create(member.name, member.columns, member.stamp(10), layout)


def _history(member: Member) -> None:
    member.create()
    History(member).append(Marker("T", BASE), 1)


def _counts(member: Member) -> None:
    member.of = replace(member.of, indexes=())
    member.create()
    count(member, 20, insert(member.of, 15, **source(1)))


USES: dict[str, Callable[[Member], None]] = {
    "rename": _rename,
    "full_reads": _full_reads,
    "ordered_upsert": _ordered_upsert,
    "time_travel": _time_travel,
    "layouts": _layouts,
    "history": _history,
    "counts": _counts,
}
"""By capability: its use."""


class CapabilitiesContract:
    @pytest.mark.parametrize("name", USES)
    def test_what_a_sink_cannot_do_it_refuses(self, member: Member, name: str) -> None:
        if getattr(member.sink.capabilities, name):
            USES[name](member)
        else:
            with pytest.raises(NotSupported, match=name):
                USES[name](member)


class ReadsContract:
    def test_rows_are_read_in_some_columns(self, member: Member) -> None:
        member.fill(1, 2)
        found = [one for part in member.sink.read(member.name, ["w", "id"]) for one in part.to_pylist()]
        assert sorted(found, key=lambda one: int(one["id"])) == [{"w": "1", "id": 1}, {"w": "2", "id": 2}]

    def test_rows_are_read_as_they_were(self, member: Member) -> None:
        member.fill(1)
        if not member.sink.capabilities.time_travel:
            return
        before = member.sink.snapshot_id(member.name)
        member.apply([update(member.of, 30, source(1), v="9")], 30)
        now = [one for part in member.sink.read(member.name, ["v"]) for one in part.to_pylist()]
        then = [one for part in member.sink.read(member.name, ["v"], before) for one in part.to_pylist()]
        assert (now, then) == ([{"v": 9}], [{"v": 1}])
        with pytest.raises(SinkFault):
            list(member.sink.read(member.name, ["v"], 1 << 60))


class TypesContract:
    def test_the_columns_are_named_as_the_types_say(self, member: Member) -> None:
        kinds = [
            ColumnType(name="int"),
            ColumnType(name="bigint", unsigned=True),
            ColumnType(name="decimal", length=10, decimal=2),
            ColumnType(name="datetime", decimal=6),
            ColumnType(name="timestamp"),
            ColumnType(name="varchar", length=9, charset="utf8mb4", collate="utf8mb4_bin"),
            ColumnType(name="blob", charset="binary", collate="binary"),
            ColumnType(name="date"),
        ]
        columns = [Column(name=f"c{at}", type=kind) for at, kind in enumerate(kinds)]
        member.of = _having(member, (member.of.columns[0], *columns))
        member.create()
        wanted = member.sink.types.columns(member.of, ("id",), LakeOptions())
        assert member.sink.columns(member.name) == {column.name: column.type.name for column in wanted}

    def test_a_type_that_the_sink_promotes_keeps_its_values(self, member: Member) -> None:
        member.fill(1, 2)
        wide = Column(name="v", type=ColumnType(name="bigint"))
        (column,) = member.typed(_having(member, (member.of.columns[0], wide)))[1:]
        assert member.sink.types.promotes(member.columns[1].type.name, column.type.name)
        member.sink.change_columns(member.name, ColumnChanges(promote=(column,)), member.stamp(30))
        assert member.rows() == [row(1), row(2)]
        assert member.sink.columns(member.name)["v"] == column.type.name

    def test_names_come_back_as_the_source_has_them(self, member: Member) -> None:
        for name in ("t", "a.b", "_file", "9", "_9", " x", "é日", "a/b", "_x2e_"):
            assert member.sink.names.source(member.sink.names.held(name)) == name


class DeletesContract:
    @pytest.mark.parametrize(
        ("least", "below", "listed", "or_null", "left"),
        [
            ("2", "4", None, False, [1, 4, 5]),
            (None, "3", None, False, [3, 4, 5]),
            (None, None, ("1", "4", "7"), False, [2, 3, 5]),
            ("2", None, ("1", "2"), True, [1, 3, 4]),
            (None, None, (), False, [1, 2, 3, 4, 5]),
        ],
    )
    def test_the_rows_that_meet_every_condition_go(
        self,
        member: Member,
        least: Value,
        below: Value,
        listed: tuple[Value, ...] | None,
        or_null: bool,
        left: list[int],
    ) -> None:
        """Rows 1 to 4 have v as their key is, and row 5 has none."""
        member.fill(1, 2, 3, 4)
        member.apply([insert(member.of, 30, id="5", v=None, w="5")], 30, above=20)
        where = Condition(column=member.columns[1], at_least=least, below=below, any_of=listed, or_null=or_null)
        member.sink.delete_where(member.name, [[where]], member.stamp(40))
        assert [one["id"] for one in member.rows()] == left
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.changed_by) == ((40, 2), "")

    @pytest.mark.parametrize(
        ("none_of", "remainder", "or_null", "left"),
        [
            (("1", "4"), None, False, [1, 4, 5]),
            (("1", "4"), None, True, [1, 4]),
            ((), (3, 1), False, [2, 3, 5]),
            ((), (3, 0), True, [1, 2, 4]),
        ],
    )
    def test_the_rows_go_that_have_no_listed_value_or_a_remainder(
        self,
        member: Member,
        none_of: tuple[Value, ...],
        remainder: tuple[int, int] | None,
        or_null: bool,
        left: list[int],
    ) -> None:
        """Rows 1 to 4 have v as their key is, the fourth with a minus, and row 5 has none."""
        member.fill(1, 2, 3)
        member.apply([insert(member.of, 29, id="4", v="-4", w="4")], 29, above=20)
        member.apply([insert(member.of, 30, id="5", v=None, w="5")], 30, above=29)
        column = member.columns[1]
        none_of = tuple("-4" if value == "4" else value for value in none_of)
        where = Condition(column=column, none_of=none_of, remainder=remainder, or_null=or_null)
        member.sink.delete_where(member.name, [[where]], member.stamp(40))
        assert [one["id"] for one in member.rows()] == left

    def test_the_rows_go_that_meet_one_of_the_alternatives(self, member: Member) -> None:
        member.fill(1, 2, 3, 4)
        first, second = member.columns[:2]
        low = [Condition(column=first, below="2")]
        high = [Condition(column=first, at_least="3"), Condition(column=second, below="4")]
        member.sink.delete_where(member.name, [low, high], member.stamp(40))
        assert member.rows() == [row(2), row(4)]

    @pytest.mark.parametrize(
        ("tests", "left"),
        [
            ({"any_of": ("b",), "rtrim": True}, [1, 3, 4]),
            ({"at_least": "b", "below": "é"}, [1, 4]),
            ({"at_least": "b", "none_of": ("b",), "rtrim": True}, [1, 2]),
        ],
    )
    def test_text_compares_by_its_bytes_but_for_spaces_at_its_end(
        self, member: Member, tests: dict[str, Any], left: list[int]
    ) -> None:
        """Values 'B', 'b  ', 'bc' and 'é'."""
        member.create()
        texts = ("B", "b  ", "bc", "é")
        member.apply([insert(member.of, 30, id=str(at), v="1", w=text) for at, text in enumerate(texts, 1)], 30)
        member.sink.delete_where(member.name, [[Condition(column=member.columns[2], **tests)]], member.stamp(40))
        assert [one["id"] for one in member.rows()] == left

    def test_conditions_are_met_together(self, member: Member) -> None:
        member.fill(1, 2, 3)
        where = [
            Condition(column=member.columns[0], at_least="2"),
            Condition(column=member.columns[2], any_of=("3", "1")),
        ]
        member.sink.delete_where(member.name, [where], member.stamp(40))
        assert member.rows() == [row(1), row(2)]


def _having(member: Member, columns: tuple[Column, ...]) -> Table:
    return replace(member.of, columns=columns)
