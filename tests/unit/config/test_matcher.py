"""The grammar of TiCDC's matchers: what TiDB's public documentation and its own tests say of it."""

import pickle
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.config.matcher import (
    SYSTEM_SCHEMAS,
    Matcher,
    compile_column_matcher,
    compile_matcher,
    fold_case,
)
from ticdc_spark.errors import UsageError

# rules; names that are accepted whatever case-sensitive is; those that are not; those accepted only without case
CASES: list[tuple[list[str], list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, str]]]] = [
    ([], [], [("foo", "bar")], []),
    (["*.*"], [("foo", "bar"), ("", ""), ("a\nb", "c")], [], []),
    (["foo.*"], [("foo", "bar")], [("foo1", "bar"), ("fo", "bar")], [("FOO", "bar")]),
    (["db1.tbl1", "db2.tbl2", "db3.tbl3"], [("db2", "tbl2")], [("db1", "tbl2")], [("DB1", "Tbl1")]),
    (["data.*", "sys*.t?"], [("data", "x"), ("system", "t1")], [("system", "t"), ("sysx", "t12")], []),
    (["*.*", "!foo1.*"], [("foo", "bar"), ("foo2", "bar")], [("foo1", "bar")], []),
    (["*.*", "!foo.bar"], [("foo", "bar1"), ("fff", "bar")], [("foo", "bar")], []),
    (["!foo.bar"], [], [("foo", "bar"), ("x", "y")], []),
    # the last rule decides, so an exclusion that a later rule takes back has no effect
    (["!foo.bar", "*.*"], [("foo", "bar")], [], []),
    (["db*.*", "!*.cfg*", "*.cfgsample"], [("db1", "t"), ("x", "cfgsample")], [("db1", "cfg1")], []),
    # a regular expression may be found anywhere in the name
    (["/^foo/.*", r"!/^foo/./^sbtest-\d/"], [("foo", "sbtest")], [("foo1", "sbtest-1"), ("fff", "bar")], []),
    ([r"/^db\d{2,}$/./^tbl\d{2,}$/"], [("db10", "tbl99")], [("db1", "tbl99"), ("xdb10", "tbl99")], []),
    (["/o/./b/"], [("foo", "abc")], [("f", "b")], [("FOO", "B")]),
    ([r"/a\/b/.t"], [("a/b", "t"), ("xa/by", "t")], [("ab", "t")], []),
    (["*.*", "!foo[bar].*"], [("foo[bar]", "b"), ("afooa", "i")], [("foor", "a")], []),
    (["*.*", r"!special\\.*"], [("special\\\\", "f"), ("special", "x")], [("special\\", "e")], []),
    ([r"\\\..*"], [("\\.", "a")], [("\\\\\\.", "b"), ("\\a", "c")], []),
    ([r"a\.b.c", r"a\-b.*"], [("a.b", "c"), ("a-b", "x")], [("a", "b.c")], []),
    (["[!a-z].[^a-z]"], [("!", "z"), ("1", "^")], [("!", "9"), ("a", "z")], []),
    (["[a-c].t[!0-9]"], [("b", "tx"), ("c", "t中")], [("b", "t5"), ("d", "tx"), ("ab", "tx")], []),
    (['"a ""b""".`c?`'], [('a "b"', "c?")], [('a "b"', "cd"), ('a ""b""', "c?")], [('A "B"', "C?")]),
    # a name is never empty, so this is a rule that accepts nothing
    ([".t"], [], [("t", "t"), ("", ".t")], []),
    (["`back``quote`.`*`"], [("back`quote", "*")], [("back`quote", "x"), ("back``quote", "*")], []),
    (["p_123$.45", "中文.表名"], [("p_123$", "45"), ("中文", "表名")], [("p_123", "45"), ("英文", "表名")], []),
    # a wildcard stands for one code point, not one byte or UTF-16 unit
    (["?.t"], [("中", "t"), ("😀", "t")], [("", "t"), ("ab", "t")], []),
    (["# comment", "x.y", "   \t", " \tz.z\t "], [("x", "y"), ("z", "z")], [("y", "y")], []),
    (["*.*", "!a*.A*"], [("b", "A")], [("aB", "Ab")], []),
]


@pytest.mark.parametrize(("rules", "accepted", "refused", "folded"), CASES, ids=lambda value: str(value)[:40])
def test_a_table_is_accepted_by_the_last_rule_that_matches(
    rules: list[str], accepted: list[tuple[str, str]], refused: list[tuple[str, str]], folded: list[tuple[str, str]]
) -> None:
    exact, without_case = (compile_matcher(rules, case_sensitive=sensitive) for sensitive in (True, False))
    for name in accepted:
        assert exact.accepts(*name), name
        assert without_case.accepts(*name), name
    for name in refused:
        assert not exact.accepts(*name), name
        assert not without_case.accepts(*name), name
    for name in folded:
        assert not exact.accepts(*name), name
        assert without_case.accepts(*name), name


@pytest.mark.parametrize(
    ("rules", "accepted", "refused"),
    [
        ([], [], ["foo"]),
        (["*.*"], ["foo"], []),
        (["foo.bar1"], ["foo"], ["foo1"]),
        (["*.*", "!foo1.*"], ["foo"], ["foo1"]),
        # one table excluded does not exclude the database
        (["*.*", "!foo.bar"], ["foo"], []),
        (["*.*", "!foo.**"], ["foo"], []),
        ([r"/^foo/.*", r"!/^foo/./^sbtest-\d/"], ["foo", "foo2"], ["x"]),
        (["!foo.*", "foo.x"], ["foo"], []),
        (["*.*", "mysql.*"], [], ["mysql", "MySQL"]),
    ],
)
def test_a_database_is_accepted_when_some_table_of_it_may_be(
    rules: list[str], accepted: list[str], refused: list[str]
) -> None:
    matcher = compile_matcher(rules, case_sensitive=True)
    assert [name for name in accepted if not matcher.accepts_schema(name)] == []
    assert [name for name in refused if matcher.accepts_schema(name)] == []
    # case is looked at only where it is wanted
    assert compile_matcher(["FOO.*"], case_sensitive=False).accepts_schema("foo")
    assert not compile_matcher(["FOO.*"], case_sensitive=True).accepts_schema("foo")


def test_system_schemas_are_never_accepted() -> None:
    matcher = compile_matcher(["*.*", "mysql.*", "`sys`.`x`"], case_sensitive=True)
    for schema in SYSTEM_SCHEMAS:
        assert not matcher.accepts(schema, "x")
        assert not matcher.accepts(schema.upper(), "x")
    assert matcher.accepts("mysql2", "user")


WRONG = [
    ("/^t[0-9]+((?!_copy).)*$/.*", "no regular expression of RE2"),
    (r"/(a)\1/.*", "no regular expression"),
    (r"/\C/.*", "no regular expression"),
    ("/a{1001}/.*", "no regular expression"),
    ("//.*", "closing / is missing"),
    (r"/a\/.b", "no regular expression"),
    ("a.b.c", "'.c' is left over"),
    ("a%b.c", "'%' must be escaped"),
    ("a-b.c", "'-' must be escaped"),
    (r"a\tb.c", "cannot be escaped"),
    ("[].*", "closing ] is missing"),
    ("[!].*", "no regular expression"),
    ("[z-a].*", "no regular expression"),
    ("[.*", "closing ] is missing"),
    (r"[\d\D].*", "closing ] is missing"),
    ("db", "a dot is expected"),
    ("db.", "a name is missing"),
    ("!", "a name is missing"),
    ("!!a.b", "'!' must be escaped"),
    ("! a.b", "' ' must be escaped"),
    ("`db`*.*", "a dot is expected"),
    ("db`x`.t", "'`' must be escaped"),
    ("/db.*", "closing / is missing"),
    ("`db.*", "closing ` is missing"),
    ('"db.*', 'closing " is missing'),
    ("``.t", "closing ` is missing"),
    ("db\\", "nothing follows"),
    ("db.tbl#no comment", "'#' must be escaped"),
    ("\ud800.t", "surrogate|half"),
    ("/\ud800/.t", "surrogate"),
    ("@", "cannot be read"),
    ("@a\0b", "cannot be read"),
    ("@/no/such/file", "No such file"),
]


@pytest.mark.parametrize(("rule", "reason"), WRONG, ids=lambda value: ascii(value)[:40])
def test_what_is_no_rule_is_an_error_that_names_it(rule: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.compile(reason)) as caught:
        compile_matcher(["*.*", rule], case_sensitive=False, folder=tmp_path)
    assert repr(rule) in str(caught.value)


def test_rules_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("\n\t\tdb?.tbl?\r\n# comment\r\n\t\tdb02.tbl02\n")
    (tmp_path / "2.txt").write_text("db03.tbl03\n!db4.tbl4")
    rules = ["@1.txt", f"@{tmp_path}/2.txt", "db04.tbl04"]
    matcher = compile_matcher(rules, case_sensitive=True, folder=tmp_path)
    accepted = [("db1", "tbl1"), ("db02", "tbl02"), ("db03", "tbl03"), ("db04", "tbl04")]
    assert all(matcher.accepts(*name) for name in accepted)
    assert not matcher.accepts("db4", "tbl4")
    # what was read travels with it, the file does not
    carried = pickle.loads(pickle.dumps(matcher))
    (tmp_path / "1.txt").unlink()
    assert carried == matcher and carried.accepts("db1", "tbl1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [(b"a.b\n\n@1.txt", ":3: a file of rules cannot name another"), (b"a.b\nc", ":2: a dot"), (b"\xff.t", "utf-8")],
)
def test_a_wrong_line_of_a_file_is_named(tmp_path: Path, text: bytes, reason: str) -> None:
    (tmp_path / "r.txt").write_bytes(text)
    with pytest.raises(UsageError, match=reason):
        compile_matcher(["@r.txt"], case_sensitive=True, folder=tmp_path)


def test_columns_match_without_case() -> None:
    matcher = compile_column_matcher(["*", "!B", "!/^x_/", "x_keep"])
    names = ["a", "b", "B", "x_1", "X_2", "x_keep", "X_KEEP", "ax_"]
    assert [name for name in names if matcher.accepts(name)] == ["a", "x_keep", "X_KEEP", "ax_"]
    assert not compile_column_matcher([]).accepts("a")
    assert not compile_column_matcher(["!a"]).accepts("b")
    assert pickle.loads(pickle.dumps(matcher)) == matcher
    for wrong in ("a.b", "a b", "`a`b", "/(/", "!"):
        with pytest.raises(UsageError, match=re.escape(repr(wrong))):
            compile_column_matcher([wrong])


def test_case_is_folded_rune_by_rune() -> None:
    assert fold_case("ΟΔΟΣ") == "οδοσ"
    assert fold_case("İI") == "ii"
    assert compile_matcher(["`ΟΔΟΣ`.t"], case_sensitive=False).accepts("οδοσ", "T")


def test_a_rule_that_would_blow_up_a_backtracking_matcher_is_read_at_once() -> None:
    began = time.perf_counter()
    matcher = compile_matcher(["/^(a+)+$/.*", "*a*a*a*a*a*a*a*a*b.*"], case_sensitive=False)
    assert not matcher.accepts("a" * 5_000 + "c", "t")
    with pytest.raises(UsageError):
        compile_matcher(["/" + "\\\\" * 5_000], case_sensitive=False)
    assert time.perf_counter() - began < 5


@given(st.lists(st.text(st.sampled_from('ab.*?[]!^-\\/`"#@ \t中$_(){}+|\0\n'), max_size=12), max_size=4), st.booleans())
def test_whatever_the_text_of_a_rule_is_it_compiles_or_is_refused(rules: list[str], sensitive: bool) -> None:
    try:
        matcher = compile_matcher(rules, case_sensitive=sensitive)
    except UsageError:
        return
    assert isinstance(matcher.accepts("a", "b"), bool)
    if matcher.accepts("a", "b"):  # a table that is accepted lies in a database that is
        assert matcher.accepts_schema("a")
    assert pickle.loads(pickle.dumps(matcher)) == matcher


@given(st.text(min_size=1), st.text(min_size=1))
def test_every_name_can_be_quoted(schema: str, table: str) -> None:
    for quote in ("`", '"'):
        rule = ".".join(quote + name.replace(quote, quote * 2) + quote for name in (schema, table))
        matcher: Matcher = compile_matcher([rule], case_sensitive=True)
        assert matcher.matches(schema, table)
        assert not matcher.matches(schema + "x", table)
