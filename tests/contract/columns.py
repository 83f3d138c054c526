"""Columns: changes without a rewrite, constants for new ones, conversions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.member import Member, columns_of, delete, insert, row, source
from ticdc_spark.config.layout import Layout
from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.model import Column, Table
from ticdc_spark.mysql import parse_type
from ticdc_spark.sinks.base import ColumnChanges, Fill
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.types import LakeColumn, LakeOptions


def column(name: str, sql: str) -> LakeColumn:
    kind = parse_type(sql)
    if kind.charset is None:
        kind = msgspec.structs.replace(kind, charset="binary" if "binary" in sql else "utf8mb4")
    (made,) = columns_of(Table(schema="s", name="t", columns=(Column(name=name, type=kind),), indexes=()))
    return made


def commented(one: LakeColumn, comment: str) -> LakeColumn:
    return msgspec.structs.replace(one, comment=comment)


INTEGER, LONG, WORDS = column("x", "int"), column("v", "bigint"), column("y", "varchar(20)")


class ColumnsContract:
    def test_every_change_in_one_commit(self, member: Member) -> None:
        member.fill(1, 2)
        changes = ColumnChanges(
            rename=(("w", "text"),), add=(INTEGER,), promote=(LONG,), order=("x", "text", "v", "id")
        )
        member.sink.change_columns(member.name, changes, member.stamp(30))
        renamed = msgspec.structs.replace(member.columns[2], name="text")
        now = member.kinds(INTEGER, renamed, LONG, member.columns[0])
        assert dict(now) == member.sink.columns(member.name)
        assert member.rows() == [{"x": None, "text": str(key), "v": key, "id": key} for key in (1, 2)]
        if member.sink.capabilities.column_order:
            names = [name for name, _ in now]
            assert [*member.sink.columns(member.name)] == [*member.rows()[0]] == names
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.changed_by, found.rolled_back) == ((30, 2), "", False)

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            (ColumnChanges(rename=(("v", "w"), ("w", "v"))), {"id": 1, "w": 1, "v": "1"}),
            (ColumnChanges(drop=("v",), rename=(("w", "v"),)), {"id": 1, "v": "1"}),
            (ColumnChanges(rename=(("w", "x"),), add=(column("w", "int"),)), {"id": 1, "v": 1, "x": "1", "w": None}),
            (ColumnChanges(drop=("w",), add=(column("w", "int"),)), {"id": 1, "v": 1, "w": None}),
            (ColumnChanges(add=(column("a.b/c `d", "int"), column("_file", "int"))), None),
        ],
        ids=["swap", "drop and rename onto", "rename away and add", "drop and add", "odd names"],
    )
    def test_names_that_move(self, member: Member, changes: ColumnChanges, expected: dict[str, Any] | None) -> None:
        member.fill(1)
        member.sink.change_columns(member.name, changes, member.stamp(30))
        added = {one.name: None for one in changes.add}
        assert member.rows() == [row(1) | added if expected is None else expected]

    def test_comments_come_with_columns_and_stay_until_they_are_changed(self, member: Member) -> None:
        odd = 'it\'s \\ 50% "of" {all} `ü` $1 \n --'
        key, value, text = member.columns
        made = [commented(key, "number"), commented(value, odd), text]
        member.sink.create(member.name, made, member.stamp(10, 0))
        assert member.others.comments(member.name) == {"id": "number", "v": odd}
        changes = ColumnChanges(rename=(("v", "x"),), add=(commented(WORDS, "new"),), comments=(("w", odd), ("x", "")))
        member.sink.change_columns(member.name, changes, member.stamp(30))
        assert member.others.comments(member.name) == {"id": "number", "w": odd, "y": "new"}
        assert member.found().stamp.mark == (30, 2)  # type: ignore[union-attr]
        member.sink.change_columns(member.name, ColumnChanges(rename=(("w", "v"),)), member.stamp(40))
        assert member.others.comments(member.name) == {"id": "number", "v": odd, "y": "new"}
        wider = ColumnChanges(promote=(column("x", "bigint"),), order=("y", "v", "x", "id"), comments=(("x", "wide"),))
        member.sink.change_columns(member.name, wider, member.stamp(50))
        assert member.others.comments(member.name) == {"id": "number", "v": odd, "x": "wide", "y": "new"}
        member.sink.change_columns(member.name, ColumnChanges(promote=(column("v", "varchar(30)"),)), member.stamp(60))
        member.sink.truncate(member.name, member.stamp(70))
        assert member.others.comments(member.name) == {"id": "number", "v": odd, "x": "wide", "y": "new"}

    def test_a_table_has_its_comment_until_it_is_changed(self, member: Member) -> None:
        odd = 'it\'s \\ 50% "of" {all} `ü` $1 \n --'
        member.sink.create(member.name, member.columns, member.stamp(10, 0), Layout(comment=odd))
        kept = member.others.comment(member.name) is not None
        assert member.others.comment(member.name) == (odd if kept else None)
        member.sink.change_columns(member.name, ColumnChanges(rename=(("v", "x"),)), member.stamp(20))
        member.sink.truncate(member.name, member.stamp(30))
        assert member.others.comment(member.name) == (odd if kept else None)
        for at, text in enumerate(("new", "", odd)):
            member.sink.change_columns(member.name, ColumnChanges(comment=text), member.stamp(40 + at))
            assert member.others.comment(member.name) == (text if kept else None)
            assert member.found().stamp.mark == (40 + at, 2)  # type: ignore[union-attr]

    def test_a_column_that_is_there_is_not_added(self, member: Member) -> None:
        member.fill(1)
        with pytest.raises(SinkFault):
            member.sink.change_columns(member.name, ColumnChanges(add=(column("V", "int"), LONG)), member.stamp(30))
        assert member.rows() == [row(1)]
        assert member.found().stamp.mark == (20, 2)  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("sql", "value"),
        [
            ("int", "-7"),
            ("varchar(20)", "it's \"\\ ${x} \n日"),
            ("varbinary(9)", b"\x00\xff"),
            ("decimal(20,5)", "-1.50000"),
            ("datetime(6)", "1999-12-31 23:59:59.000001"),
            ("timestamp", "2024-03-31 02:30:00"),
            ("date", "1582-10-10"),
            ("double", "1e+300"),
            ("bigint unsigned", "18446744073709551615"),
            ("enum('a','b')", "2"),
            ("int", None),
        ],
    )
    def test_a_constant_for_every_row(self, member: Member, sql: str, value: str | bytes | None) -> None:
        member.fill(1, 2)
        new = column("x", sql)
        member.sink.change_columns(member.name, ColumnChanges(add=(new,)), member.stamp(30, 0))
        member.sink.fill_column(member.name, new, Fill(value, LakeOptions()), member.stamp(30, 1))
        first, second = (one["x"] for one in member.rows())
        assert first == second
        assert (first is None) == (value is None)
        if isinstance(value, str):
            assert str(first).replace("+00:00", "") == {"2": "b", "1e+300": "1e+300"}.get(value, value)
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.changed_by) == ((30, 1), "")

    def test_a_constant_that_does_not_fit(self, member: Member) -> None:
        member.fill(1)
        member.sink.change_columns(member.name, ColumnChanges(add=(INTEGER,)), member.stamp(30, 0))
        with pytest.raises(DecisionNeeded, match="`x`"):
            member.sink.fill_column(member.name, INTEGER, Fill("seven", LakeOptions()), member.stamp(30, 1))
        assert member.found().stamp.mark == (30, 0)  # type: ignore[union-attr]

    def test_an_empty_table_is_filled_too(self, member: Member) -> None:
        member.create()
        member.sink.change_columns(member.name, ColumnChanges(add=(INTEGER,)), member.stamp(30, 0))
        member.sink.fill_column(member.name, INTEGER, Fill("7", LakeOptions()), member.stamp(30, 1))
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.changed_by) == ((30, 1), "")

    def test_values_are_converted(self, member: Member) -> None:
        member.fill(1, 2)
        member.sink.change_columns(member.name, ColumnChanges(add=(WORDS,)), member.stamp(30, 0))
        conversion = ColumnConversion(expression="CAST({old} AS STRING)")
        member.sink.convert_column(member.name, "v", WORDS, conversion, member.stamp(30, 1))
        assert member.rows() == [row(1) | {"y": "1"}, row(2) | {"y": "2"}]
        assert member.found().stamp.mark == (30, 1)  # type: ignore[union-attr]

    def test_values_that_do_not_fit_convert_nothing(self, member: Member) -> None:
        member.fill(1)
        member.apply([insert(member.of, 30, id="2", v="2", w="two")], 30, new_keys=True, above=20)
        member.sink.change_columns(member.name, ColumnChanges(add=(INTEGER,)), member.stamp(40, 0))
        with pytest.raises(DecisionNeeded, match="`x`"):
            member.sink.convert_column(
                member.name, "w", INTEGER, ColumnConversion(expression="CAST({old} AS INT)"), member.stamp(40, 1)
            )
        assert [one["x"] for one in member.rows()] == [None, None]
        assert member.found().stamp.mark == (40, 0)  # type: ignore[union-attr]

    def test_rows_that_are_gone_do_not_come_back_by_a_rewrite(self, member: Member) -> None:
        member.fill(1, 2)
        member.apply([delete(member.of, 30, **source(1))], 30)
        member.sink.change_columns(member.name, ColumnChanges(add=(INTEGER,)), member.stamp(40, 0))
        member.sink.fill_column(member.name, INTEGER, Fill("7", LakeOptions()), member.stamp(40, 1))
        assert member.rows() == [row(2) | {"x": 7}]
