"""Value expressions: what MySQL's manual says, and that nothing unknown counts as false."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.changefeed_tables import table
from ticdc_spark.config.expressions.compile import compile_condition
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Row, Table, Value

DOCS = (Path(__file__).parents[4] / "docs" / "how-to" / "changefeed.md").read_text("utf-8")
SQL = """t (id int primary key, u bigint unsigned, d decimal(10,2), f float, g double, s varchar(20), ci varchar(20),
n varbinary(9), dt date, dm datetime(3), ts timestamp, tm time, e enum('a','b'), st set('x','y'), bt bit(9), y year,
j json, v int as (id + 1) virtual, `odd name` int, `select` int)"""
ROW: Row = {
    "id": "5",
    "u": "18446744073709551615",
    "d": "1.50",
    "f": "0.1",
    "g": "0.1",
    "s": "Ab%c",
    "ci": "Ab",
    "n": b"Ab\xff",
    "dt": "2024-02-29",
    "dm": "2024-02-29 12:30:00.500",
    "ts": "2024-02-29 23:00:00",
    "tm": "-01:30:00",
    "e": "2",
    "st": "3",
    "bt": "65",
    "y": "1999",
    "j": '{"a": {"b c": [1, "x"]}, "n": null}',
    "odd name": "1",
    "select": None,
}


def subject() -> Table:
    of = table(SQL)
    collate = {"ci": "utf8mb4_general_ci", "s": "utf8mb4_bin"}
    return replace(
        of,
        columns=tuple(
            replace(one, type=replace(one.type, collate=collate[one.name])) if one.name in collate else one
            for one in of.columns
        ),
    )


T = subject()


def holds(sql: str, row: Row = ROW, zone: str = "UTC") -> bool:
    return bool(compile_condition(sql, T, time_zone=zone, where="event-filters[0] ignore-insert-value-expr")(row))


def judged(sql: str, create: str, row: Row, **collate: str) -> bool:
    """A condition over a table of its own. ``collate``: collations by the names of columns."""
    of = table(create)
    columns = [
        replace(one, type=replace(one.type, collate=collate.get(one.name, one.type.collate))) for one in of.columns
    ]
    return bool(compile_condition(sql, replace(of, columns=tuple(columns)), time_zone="UTC", where="x")(row))


TRUE = [
    "id = 5",
    "ID = '5'",
    "t.id = 5",
    "test.t.id = 5",
    "`odd name` = 1",
    "`select` IS NULL",
    "TRUE",
    "id <> 4 and d > 1",
    "id between 5 and 5",
    "id in (1, 5, null)",
    "not (id in (1, 2))",
    "(id in (1, null)) is null",
    "null <=> null",
    "id <=> 5",
    "not (id <=> null)",
    "(null and id = 1) is false",
    "(null or id = 5) is true",
    "(null and true) is unknown",
    "id xor 0",
    "!(id = 4)",
    "id % 2 = 1",
    "id mod 2 = 1",
    "id div 2 = 2",
    "id / 2 = 2.5",
    "(id / 0) is null",
    "-id = -5",
    f"-{'9' * 35}.5 < -{'9' * 35}.4",
    f"abs(-{'9' * 35}.5) = {'9' * 35}.5",
    "concat(-(d - 1.5)) = '0.00'",
    "id | 2 = 7",
    "~0 = u",
    "u > 9223372036854775807",
    "u = 18446744073709551615",
    "u = '18446744073709551615'",
    # a number compares with a text by the number that the text begins with
    "id = '5x'",
    "s = 0",
    "'1e1' = 10",
    # FLOAT 0.1 is not the DOUBLE 0.1
    "f <> 0.1",
    "g = 0.1",
    "d = 1.5",
    "d = '1.5'",
    "d + 0.1 = 1.6",
    "0.1 + 0.2 = 0.3",
    "0.1e0 + 0.2e0 <> 0.3e0",
    # collations: bin, and without case; trailing blanks do not matter
    "s = 'Ab%c'",
    "s <> 'ab%c'",
    "s = 'Ab%c  '",
    "ci = 'aB'",
    "ci = 'ÁB '",
    "ci collate utf8mb4_bin <> 'ab'",
    "'a' <> 'A'",
    "n <> 'ab'",
    "hex(n) = '4162FF'",
    "length('é') = 2",
    "char_length('é') = 1",
    "s like 'A%'",
    "s like '__\\%c'",
    "s like 'Ab|%c' escape '|'",
    "s not like 'ab%'",
    "ci like 'AB'",
    "ci not like 'ab '",
    "s regexp '^A.*c$'",
    "s rlike 'b'",
    "s not regexp '^b'",
    "ci regexp '^ab$'",
    "regexp_like(s, 'A')",
    "dt = '2024-2-29'",
    "dt = 20240229",
    "dt > '2024-02-28 23:59:59'",
    "dm = '2024-02-29 12:30:00.5'",
    "dm > dt",
    "dm between '2024-02-29' and '2024-03-01'",
    "dm >= date '2024-02-29'",
    "dm = timestamp '2024-02-29 12:30:00.5'",
    "year(dt) = 2024",
    "month(dm) = 2",
    "dayofweek(dt) = 5",
    "weekday(dt) = 3",
    "dayofyear(dt) = 60",
    "hour(dm) = 12",
    "date(dm) = dt",
    "datediff('2024-03-01', dt) = 1",
    "dt + interval 1 month = '2024-03-29'",
    "quarter(dt) = 1",
    "date_sub(dm, interval 13 hour) < '2024-02-29'",
    "dt - interval 1 year = '2023-02-28'",
    "tm < '00:00:00'",
    "tm = '-01:30:00'",
    "tm = -13000",
    "hour(tm) = 1",
    "e = 'b'",
    "e = 2",
    "e > 1",
    "st = 'x,y'",
    "st = 3",
    "find_in_set('y', st) = 2",
    "concat(e, '-') = 'b-'",
    "bt = 65",
    "bt = b'1000001'",
    "bt = 0x41",
    "bt & 1",
    "bt + 0 = 65",
    "y = 99",
    "y = 1999",
    "y < 20",
    "j->>'$.a.\"b c\"[1]' = 'x'",
    "j->>'$.n' = 'null'",
    "json_unquote(json_extract(j, '$.a.\"b c\"[0]')) = 1",
    "j->'$.no' is null",
    "if(id > 3, 1, 0)",
    "case id when 5 then 1 else 0 end",
    "case when id < 5 then 0 end is null",
    "coalesce(`select`, null, id) = 5",
    "ifnull(`select`, 7) = 7",
    "nullif(id, 5) is null",
    "isnull(`select`)",
    "greatest(id, 9) = 9",
    "least(id, d) = 1.5",
    "greatest(id, null) is null",
    "lower(s) = 'ab%c'",
    "concat('a', id, d) = 'a51.50'",
    "concat(s, null) is null",
    "concat_ws('-', 'a', null, 'b') = 'a-b'",
    "substring(s, 2, 1) = 'b'",
    "substr(s, -1) = 'c'",
    "left(s, 2) = 'Ab'",
    "right(s, 1) = 'c'",
    "trim('  x ') = 'x'",
    "trim(both 'x' from 'xxaxx') = 'a'",
    "replace(s, 'b%', '') = 'Ac'",
    "locate('B', ci) = 2",
    "instr(s, 'B') = 0",
    "substring_index('a.b.c', '.', -2) = 'b.c'",
    "crc32('MySQL') = 3259397556",
    "md5('a') = '0cc175b9c0f1b6a831c399e269772661'",
    "abs(-3) = 3",
    "round(2.5) = 3",
    "round(-1.55, 1) = -1.6",
    "truncate(1.99, 1) = 1.9",
    "floor(-1.5) = -2",
    "ceil(1.2) = 2",
    "cast('12abc' as signed) = 12",
    "cast(-1 as unsigned) = u",
    "cast('1.555' as decimal(5,2)) = 1.56",
    "cast(1.5 as signed) = 2",
    "convert(id, char) = '5'",
    "cast(dm as date) = dt",
    "dt + interval -1 day = '2024-02-28'",
    "cast(-9.3e18 as signed) = -9223372036854775808",
    "id = +5",
    "id /* five */ = 5",
    "'a\\nb' <> 'anb'",
    "'it''s' = \"it's\"",
]


@pytest.mark.parametrize("sql", TRUE)
def test_it_is_true(sql: str) -> None:
    assert holds(sql)
    assert not holds(f"not ({sql})")


@pytest.mark.parametrize(
    "sql", ["id = null", "`select` = 1", "null", "not null", "`select` <> 1", "id + null = 5", "0", "5"]
)
def test_unknown_and_other_numbers_than_1_are_not_true(sql: str) -> None:
    assert not holds(sql)


def test_only_1_is_what_ticdc_looks_for() -> None:
    assert not holds("id & 4")
    assert holds("(id & 4) <> 0")


REFUSED = [
    ("nope = 1", "no column 'nope'; the table has id, u"),
    ("x.id = 1", "no column 'x.id'"),
    ("other.t.id = 1", "no column"),
    ("v = 1", "virtual generated column"),
    ("now() > dm", "function NOW"),
    ("current_timestamp > dm", "CURRENT_TIMESTAMP"),
    ("rand() < 1", "function RAND"),
    ("sleep(1) = 0", "function SLEEP"),
    ("date_format(dm, '%Y') = '2024'", "TIME_?TO_?STR|DATE_FORMAT"),
    ("id in (select 1)", "subquery"),
    ("id = (select 1)", "not supported"),
    ("exists (select 1)", "not supported"),
    ("(id, u) = (1, 2)", "Tuple"),
    ("count(*) = 1", "function COUNT|not supported"),
    ("* ", "not supported"),
    ("id = ?", "not supported"),
    ("@a = 1", "not supported"),
    ("id := 1", "not supported|cannot be read"),
    ("id as x", "not supported"),
    ("id = 1; drop table t", "one expression"),
    ("1 from t", "FROM"),
    ("1 where 1", "WHERE"),
    ("distinct id", "DISTINCT"),
    ("id, u", "one expression"),
    ("id =", "cannot be read|missing"),
    ("id = 'a", "cannot be read"),
    ("", "cannot be read|one expression"),
    ("id /*! = 1 */", "comments with SQL"),
    ("s", "a text value as a condition"),
    ("d", "a decimal value as a condition"),
    ("j = 1", "JSON"),
    ("j->'$.a' = 1", "JSON"),
    ("j->'$.*' is null", "JSON path"),
    ("dm > 'yesterday'", "'yesterday' as a date"),
    ("dm > tm", "date with a time of day"),
    ("tm = '1:2:3:4'", "as a time"),
    ("s regexp '('", "REGEXP"),
    ("s regexp '(?=a)'", "REGEXP"),
    ("regexp_like(s, 'a', 'i')", "not supported"),
    ("match (s) against ('a')", "not supported"),
    ("left(s) = 'a'", "function LEFT: Required"),
    ("DATE_FORMAT(dt, '%Y') = '2020'", "function DATE_FORMAT is not"),
    ("lower(Sha1(s)) = 'a'", r"function SHA1 is not"),
    ("VERSION() = s", "function VERSION is not"),
    ("CHAR(65) = s", r"function CHAR is not"),
    ("FROM_UNIXTIME(1) = dt", "function FROM_UNIXTIME is not"),
    ("TO_DAYS(dt) = 1", "function TO_DAYS is not"),
    ("SUBSTR(s) = 'a'", "function SUBSTR with 1 arguments"),
    ("MID(UPPER(s)) = 'a'", "function MID with 1 arguments"),
    ("CEILING(id, 1) = 1", "function CEILING with 2 arguments"),
    ("LCASE(s, 1) = 'a'", "function LCASE: The number of provided arguments"),
    ("POW(1) = 1", "function POW: Required"),
    ("hex(s, 1) = 'a'", "'1' is not understood"),
    ("hex(s, id) = 'a'", "'id' is not understood"),
    ("cast(s as json) = 1", "CAST to JSON"),
    ("_latin1'a' = s", "_latin1"),
    ("s = 1 or nofunction(s)", "function NOFUNCTION"),
    ("(" * 2000 + "1" + ")" * 2000, "nested too deep|cannot be read"),
]


@pytest.mark.parametrize(("sql", "reason"), REFUSED, ids=[sql[:30] for sql, _ in REFUSED])
def test_what_is_not_known_is_refused_and_named(sql: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        holds(sql)
    assert str(caught.value).startswith("event-filters[0] ignore-insert-value-expr")
    if len(sql) < 100:
        assert repr(sql) in str(caught.value) and "`test`.`t`" in str(caught.value)


def test_what_mysql_gives_an_error_for_is_one() -> None:
    for sql in ("u + 1 > 0", "u * u > 0", "id - u > 0", "-u < 0"):
        with pytest.raises(MessageError, match="out of the range"):
            holds(sql)
    with pytest.raises(MessageError, match="lacks column 'id'"):
        holds("id = 1", {})


def test_a_timestamp_is_local_time() -> None:
    assert holds("ts = '2024-03-01 07:00:00' and date(ts) = '2024-03-01'", zone="Asia/Shanghai")
    assert holds("ts = '2024-02-29 23:00:00'", zone="UTC")


def test_zero_dates() -> None:
    row = {**ROW, "dt": "0000-00-00", "dm": "2024-00-10 00:00:00.000"}
    assert holds("dt = '0000-00-00' and year(dt) = 0 and month(dm) = 0 and dt < dm", row)
    assert holds("(dt + interval 1 day) is null and datediff(dm, dt) is null", row)
    assert holds("dt + interval 10000 year is null")


CALLS_TEXT = """abs(id) ascii(s) ceil(d) char_length(s) coalesce(s,1) concat(s) concat_ws(s,s) crc32(s) date(dm)
date_add(dm,interval+1+day) date_sub(dm,interval+1+day) datediff(dm,dt) day(dm) dayofmonth(dm) dayofweek(dm)
dayofyear(dm) find_in_set(s,s) floor(d) greatest(id,1) hex(s) hour(dm) if(1,2,3) ifnull(s,1) instr(s,s) isnull(s)
json_extract(j,'$.a') json_unquote(json_extract(j,'$.a')) least(id,1) left(s,1) length(s) locate(s,s) lower(s) md5(s)
microsecond(dm) mid(s,1,1) minute(dm) mod(id,2) month(dm) nullif(id,1) octet_length(s) position('a'+in+s) power(id,2)
quarter(dm) replace(s,s,s) reverse(s) right(s,1) round(d) second(dm) sign(d) sqrt(id) strcmp(s,s) substring(s,1)
substring_index(s,s,1) trim(s) truncate(d,1) upper(s) weekday(dm) year(dm)"""
CALLS = CALLS_TEXT.split()


@pytest.mark.parametrize("call", CALLS)
def test_every_function_of_the_documentation_is_known(call: str) -> None:
    sql = f"({call.replace('+', ' ')}) is null"
    assert not holds(sql)


def test_the_documentation_names_every_function() -> None:
    listed = re.search(r"(?s)```text\n(abs .*?)```", DOCS)
    assert listed is not None
    assert listed[1].split() == sorted({call.partition("(")[0] for call in CALLS})


def test_text_that_is_no_utf8_is_looked_at_too() -> None:
    row = {**ROW, "s": b"a\xffb"}
    assert holds("s like 'a_b' and hex(s) = '61FF62' and s <> 'ab' and not s regexp 'x'", row)


@given(st.text(max_size=40))
def test_any_text_compiles_or_is_refused(sql: str) -> None:
    try:
        found = compile_condition(sql, T, time_zone="UTC", where="x")
    except UsageError:
        return
    with suppress(MessageError):
        assert found(ROW) in (True, False)


VOCABULARY = """id u d f s ci n dt dm tm e st bt y j v ( ) , = <=> < + - * / % | ~ ! and or not is null like in
between 1 0 1.5 'a' '2024-01-01' abs if case when then else end concat interval day date cast as char signed"""
WORDS = st.sampled_from(VOCABULARY.split())


@given(st.lists(WORDS, max_size=14))
def test_any_words_of_sql_compile_or_are_refused(words: list[str]) -> None:
    try:
        found = compile_condition(" ".join(words), T, time_zone="UTC", where="x")
    except UsageError:
        return
    with suppress(MessageError):
        assert found(ROW) in (True, False)


NUMBERS: st.SearchStrategy[Value] = st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1).map(str))


@given(NUMBERS, NUMBERS)
def test_three_values(left: Value, right: Value) -> None:
    row = {**ROW, "id": left, "odd name": right}
    known = left is not None and right is not None
    for sign, wanted in (("=", known and left == right), ("<", known and int(str(left)) < int(str(right)))):
        assert holds(f"id {sign} `odd name`", row) == wanted
        assert holds(f"not (id {sign} `odd name`)", row) == (known and not wanted)
        assert holds(f"(id {sign} `odd name`) is null", row) == (not known)
    assert holds("id <=> `odd name`", row) == (left == right)


def test_convert_using_keeps_the_collation_and_cast_cuts_to_its_length() -> None:
    of, row = "`t` (s VARCHAR(9))", {"s": "ab"}
    assert judged("convert(s using utf8mb4) = 'AB'", of, row, s="utf8mb4_general_ci")
    assert judged("cast(s as char(1) character set utf8mb4) = 'a'", of, row)
