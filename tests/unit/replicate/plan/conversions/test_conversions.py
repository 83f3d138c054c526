"""MODIFY COLUMN on canonical values. No Spark; the same values go through Spark and a real server elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.conversion_cases import VALUES, column, converted, every_conversion
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Value
from ticdc_spark.mysql import Ambiguous
from ticdc_spark.sinks.conversions import Conversion, conversion
from ticdc_spark.spark.types import LakeOptions, to_arrow

NEW_YORK = "America/New_York"


def modify(old: str, new: str, zone: str | None = NEW_YORK, ambiguous: Ambiguous = "earlier") -> Conversion:
    return conversion(column(old), column(new), zone, ambiguous)


@pytest.mark.parametrize(
    ("old", "new", "value", "wanted"),
    [
        ("datetime(6)", "datetime", "2024-12-31 23:59:59.500000", "2025-01-01 00:00:00"),
        ("datetime(6)", "datetime", "1969-12-31 23:59:59.499999", "1969-12-31 23:59:59"),
        ("datetime(6)", "datetime(2)", "2024-01-01 00:00:00.995000", "2024-01-01 00:00:01.00"),
        ("datetime", "datetime(3)", "2024-01-01 00:00:00", "2024-01-01 00:00:00.000"),
        ("timestamp(3)", "timestamp", "2024-06-30 23:59:59.500", "2024-07-01 00:00:00"),
        ("time(3)", "time", "23:59:59.500", "24:00:00"),
        ("time(3)", "time", "-10:00:00.501", "-10:00:01"),
        ("time(1)", "time", "-10:00:00.5", "-10:00:00"),
        ("time(6)", "time(3)", "838:59:58.999500", "838:59:59.000"),
        ("datetime(3)", "varchar(30)", "2024-01-01 00:00:00.120", "2024-01-01 00:00:00.120"),
        ("datetime", "timestamp", "2024-07-01 00:00:00", "2024-07-01 04:00:00"),
        ("timestamp(3)", "datetime(3)", "2024-01-01 00:00:00.120", "2023-12-31 19:00:00.120"),
        ("timestamp", "varchar(30)", "2024-07-01 00:00:00", "2024-06-30 20:00:00"),
        ("varchar(30)", "timestamp", "2024-07-01 00:00:00", "2024-07-01 04:00:00"),
        ("binary(2)", "binary(4)", b"ab", b"ab\0\0"),
        ("binary(4)", "varbinary(9)", b"ab\0\0", b"ab\0\0"),
        ("varbinary(9)", "binary(4)", b"ab", b"ab\0\0"),
        ("varchar(9)", "char(9)", "ab  ", "ab"),
        ("varchar(9)", "varchar(3)", "ab  ", "ab "),
        ("decimal(10,2)", "decimal(10,1)", "-2.25", "-2.3"),
        ("decimal(10,2)", "int", "-2.50", "-3"),
        ("double", "int", "2.5", "2"),
        ("double", "bigint unsigned", "1.844674407370955e19", "18446744073709549568"),
        ("float", "double", "0.1", "0.10000000149011612"),
        ("float", "decimal(20,10)", "0.1", "0.1000000015"),
        ("varchar(9)", "int", "2.5", "3"),
        ("int", "bit(8)", "255", "255"),
        ("bigint", "bit(64)", "-1", "18446744073709551615"),
        ("bit(8)", "int", "200", "200"),
        ("enum('a','b')", "varchar(9)", "2", "b"),
        ("enum('a','b')", "enum('b','c','a')", "2", "1"),
        ("enum('a','b')", "int", "2", "2"),
        ("varchar(9)", "enum('a','b')", "b", "2"),
        ("set('a','b')", "set('b','c','a')", "3", "5"),
        ("set('a','b','c')", "text", "5", "a,c"),
        ("int", "year", "70", "1970"),
        ("varchar(9)", "year", "0", "2000"),
        ("date", "int", "2024-02-29", "20240229"),
        ("datetime(3)", "bigint", "2024-12-31 23:59:59.500", "20250101000000"),
        ("time(1)", "int", "10:59:59.5", "110000"),
        ("int", "datetime", "240229", "2024-02-29 00:00:00"),
        ("bigint", "date", "20240229103000", "2024-02-29"),
        ("int", "time", "-103000", "-10:30:00"),
        ("datetime(6)", "date", "2024-12-31 23:59:59.900000", "2024-12-31"),
        ("json", "text", '{"a": 1}', '{"a": 1}'),
        ("tinyint(1)", "int", "5", "5"),
        ("date", "datetime(1)", "0000-00-00", "0000-00-00 00:00:00.0"),
    ],
)
def test_values_follow_the_type(old: str, new: str, value: Value, wanted: Value) -> None:
    change = modify(old, new)
    assert change.exact, change.reason
    assert change.python(value) == wanted


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("int", "tinyint", "128"),
        ("int", "int unsigned", "-1"),
        ("bigint unsigned", "bigint", "9223372036854775808"),
        ("decimal(10,2)", "bit(64)", "-1.00"),
        ("varchar(9)", "int", ""),
        ("varchar(9)", "int", "12x"),
        ("varchar(9)", "int", "1\n"),
        ("varchar(9)", "varchar(2)", "abc"),
        ("varbinary(9)", "text", b"\xff"),
        ("varbinary(9)", "binary(2)", b"abc"),
        ("varchar(9)", "enum('a','b')", "c"),
        ("enum('a','b')", "enum('b')", "1"),
        ("int", "enum('a','b')", "3"),
        ("int", "year", "1900"),
        ("decimal(10,2)", "decimal(3,1)", "99.95"),
        ("double", "float", "1e39"),
        ("datetime(1)", "datetime", "9999-12-31 23:59:59.5"),
        ("timestamp(1)", "timestamp", "2038-01-19 03:14:07.5"),
        ("datetime", "timestamp", "2024-03-10 02:30:00"),
        ("datetime", "timestamp", "1969-01-01 00:00:00"),
        ("int", "datetime", "20240230"),
        ("varchar(30)", "datetime", "yesterday"),
        ("varchar(30)", "date", "2024-01-01 23:59:59.5"),
    ],
)
def test_what_strict_mode_refuses_is_an_error_and_never_null(old: str, new: str, value: Value) -> None:
    change = modify(old, new)
    assert change.exact
    with pytest.raises(MessageError):
        change.python(value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("varchar(10)", "varchar(20)"),
        ("varchar(10)", "text"),
        ("char(10)", "varchar(10)"),
        ("datetime", "datetime(3)"),
        ("timestamp", "timestamp(6)"),
        ("int", "mediumint"),
        ("enum('a','b')", "enum('b','a','c')"),
        ("set('a','b')", "set('a','b','c')"),
        ("enum('a','b')", "text"),
        ("binary(4)", "blob"),
        ("json", "longtext"),
        ("time", "varchar(20)"),
        ("year", "int"),
        ("decimal(10,2)", "decimal(10,2) unsigned"),
    ],
)
def test_what_changes_no_value_of_the_lake_needs_no_rewrite(old: str, new: str) -> None:
    assert modify(old, new).keeps_lake


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("datetime(3)", "datetime"),
        ("time", "time(3)"),
        ("varchar(20)", "varchar(10)"),
        ("varchar(10)", "char(10)"),
        ("binary(4)", "binary(6)"),
        ("int", "year"),
        ("set('a','b')", "set('b','a')"),
        ("enum('a','b')", "enum('A','b')"),
    ],
)
def test_the_same_lake_type_with_other_values_is_rewritten(old: str, new: str) -> None:
    assert not modify(old, new).keeps_lake


@pytest.mark.parametrize(
    ("old", "new", "zone", "why"),
    [
        ("datetime", "timestamp", None, "ddl-timezone"),
        ("timestamp", "varchar(30)", None, "ddl-timezone"),
        ("time", "datetime", NEW_YORK, "day on which the DDL ran"),
        ("json", "int", NEW_YORK, "JSON to INT"),
        ("varchar(9)", "json", NEW_YORK, "VARCHAR to JSON"),
        ("bit(8)", "varchar(9)", NEW_YORK, "BIT"),
        ("enum('','a')", "int", NEW_YORK, "member ''"),
        ("text charset gbk", "blob", NEW_YORK, "gbk"),
        ("double", "text", NEW_YORK, "last digit"),
        ("decimal(50,5)", "decimal(50,2)", NEW_YORK, "38 digits"),
    ],
)
def test_what_cannot_be_exact_has_a_reason(old: str, new: str, zone: str | None, why: str) -> None:
    reason = modify(old, new, zone).reason
    assert reason.startswith("inexact: ") and why in reason


@pytest.mark.parametrize(
    ("ambiguous", "wanted"), [("earlier", "2024-11-03 05:30:00"), ("later", "2024-11-03 06:30:00")]
)
def test_a_time_that_happens_twice_is_chosen_by_the_option(ambiguous: Ambiguous, wanted: str) -> None:
    change = modify("datetime", "timestamp", NEW_YORK, ambiguous)
    assert change.python("2024-11-03 01:30:00") == wanted
    with pytest.raises(MessageError):
        modify("datetime", "timestamp", NEW_YORK, "reject").python("2024-11-03 01:30:00")


def test_names_compare_as_the_collation_does() -> None:
    change = modify("varchar(9)", "enum('a','B') collate utf8mb4_general_ci")
    assert [change.python(name) for name in ("A", "b ", "1")] == ["1", "2", "1"]
    assert isinstance(converted(modify("varchar(9)", "enum('a','B')"), "A"), MessageError)


def test_a_name_with_quotes_and_backslashes_is_no_sql() -> None:
    sql = modify("int", r"enum('a''); DROP','b\c')").sql("`c`")
    assert "DROP" not in sql and "\\" not in sql


def test_null_stays_null_everywhere() -> None:
    assert all(change.python(None) is None for *_, change in every_conversion())


CELLS = st.one_of(
    st.sampled_from([value for values in VALUES.values() for value in values]),
    st.text(max_size=12),
    st.binary(max_size=9),
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)


@given(at=st.integers(0, len(VALUES) ** 2 - 1), kind=st.sampled_from(sorted(VALUES)), data=st.data())
def test_every_value_is_converted_to_one_of_the_new_type_or_reported(at: int, kind: str, data: st.DataObject) -> None:
    old = sorted(VALUES)[at % len(VALUES)]
    text = old.startswith(("varchar", "text", "char"))
    value = data.draw(CELLS if text else st.sampled_from(VALUES[old]))
    if text and isinstance(value, bytes):
        return
    change = modify(old, kind)
    result = converted(change, value)
    if isinstance(result, MessageError) or result is None:
        assert isinstance(result, MessageError) or not change.exact
        return
    _, bad, _ = to_arrow(column(kind), LakeOptions())([result])
    assert not bad, (old, kind, value, bad)


@pytest.mark.parametrize("kind", ["bigint", "date", "double", "decimal(5,2)"])
def test_a_value_that_is_not_of_its_type_is_reported_in_our_words(kind: str) -> None:
    source = column(kind)
    _, bad, _ = to_arrow(source, LakeOptions())(["not-a-number"])
    assert bad == {0: f"column `{source.source}`: 'not-a-number' is no {source.column.type.name}"}
