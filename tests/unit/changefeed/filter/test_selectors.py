"""Column selectors: what is sent, and what must not be left out."""

from __future__ import annotations

import pytest

from tests.support.changefeed_tables import change, changefeed, dispatch_rule, table
from ticdc_spark.changefeed.config.settings import ColumnSelector, DispatchRule
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.filter.selectors import compile_selectors, select_columns, sent_columns
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Table

T = table("t (Id int primary key, a int, B int, v int as (a + 1) virtual, s int as (a + 1) stored, key ab (a, B))")
KEYLESS = table("k (a int, b int, c int, unique key u (a, b))")


def sent(
    columns: list[str], of: Table = T, matcher: str = "test.*", rule: DispatchRule | None = None
) -> tuple[str, ...]:
    selectors = compile_selectors([ColumnSelector(matcher=(matcher,), columns=tuple(columns))], case_sensitive=False)
    return sent_columns(selectors, of, rule)


@pytest.mark.parametrize(
    ("columns", "kept"),
    [
        (["*"], ("Id", "a", "B", "s")),  # a virtual generated column is in no row, a stored one is sent
        (["*", "!b"], ("Id", "a", "s")),
        (["*", "!b", "B"], ("Id", "a", "B", "s")),
        (["id", "?"], ("Id", "a", "B", "s")),
        (["ID", "[a-a]"], ("Id", "a")),
        (["id", "/^s$/", "v"], ("Id", "s")),
    ],
)
def test_the_last_pattern_that_matches_decides(columns: list[str], kept: tuple[str, ...]) -> None:
    assert sent(columns) == kept


def test_the_first_selector_that_accepts_the_table_decides() -> None:
    entries = [ColumnSelector(matcher=("test.x",), columns=("no",)), ColumnSelector(matcher=("*.T",), columns=("id",))]
    assert sent_columns(compile_selectors([*entries, entries[0]], case_sensitive=False), T) == ("Id",)
    assert sent_columns(compile_selectors(entries, case_sensitive=True), T) == ("Id", "a", "B", "s")


@pytest.mark.parametrize(
    ("columns", "of", "rule", "reason"),
    [
        (["*", "!id"], T, None, "`test`.`t`: column 'Id' is excluded, but belongs to the handle key"),
        ([], T, None, "column 'Id' is excluded"),
        (["!a"], T, None, "column 'Id' is excluded"),
        (["a", "c"], KEYLESS, None, "`test`.`k`: no primary key and no unique index is left of the columns a, c"),
        (["id", "a"], T, ("columns", ("b",)), "column 'B' is excluded, but a dispatcher needs it"),
    ],
)
def test_what_is_needed_cannot_be_left_out(
    columns: list[str], of: Table, rule: tuple[str, tuple[str, ...]] | None, reason: str
) -> None:
    dispatcher = dispatch_rule(matcher=("*.*",), partition=rule[0], columns=rule[1]) if rule else None
    with pytest.raises(UsageError, match=reason):
        sent(columns, of, rule=dispatcher)


def test_a_nullable_unique_index_is_enough_where_there_is_no_handle_key() -> None:
    assert sent(["*", "!c"], KEYLESS) == ("a", "b")


def test_the_table_that_is_sent_has_the_columns_and_whole_indexes() -> None:
    found = select_columns(T, ("Id", "a"))
    assert [column.name for column in found.columns] == ["Id", "a"]
    assert [index.name for index in found.indexes] == ["primary"]


def test_rows_are_sent_with_these_columns() -> None:
    selectors = (ColumnSelector(matcher=("test.t",), columns=("id", "a")),)
    route = Router(changefeed(column_selectors=selectors)).route(T)
    before, after = {"Id": "1", "a": "1", "B": "1", "s": "2"}, {"Id": "1", "a": "1", "B": "5", "s": "2"}
    (update,) = route.events(change(T, before, after))
    assert (update.before, update.after) == ({"Id": "1", "a": "1"}, {"Id": "1", "a": "1"})
    assert route.columns == ("Id", "a")
    with pytest.raises(UsageError, match="handle key"):
        Router(changefeed(column_selectors=(ColumnSelector(matcher=("test.t",), columns=("a",)),))).route(T)


def test_wrong_patterns_are_refused_with_the_rule() -> None:
    for matcher, columns in ((("a",), ("*",)), (("*.*",), ("a.b",))):
        with pytest.raises(UsageError, match="rule"):
            compile_selectors([ColumnSelector(matcher=matcher, columns=columns)], case_sensitive=False)
