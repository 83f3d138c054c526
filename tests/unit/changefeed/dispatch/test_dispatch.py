"""Topics and partitions: TiCDC's own vectors, and that a row stays where it is."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.changefeed_tables import change, changefeed, dispatch_rule, event_filter, filters, table
from ticdc_spark.capture.base import CapturedDdl, Transaction
from ticdc_spark.changefeed.dispatch.partitions import compile_partitioner, dispatch_columns
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.dispatch.topics import compile_topic
from ticdc_spark.errors import MessageError, UnsupportedDdl, UsageError
from ticdc_spark.model import Row, RowChange, SchemaChange, Table

T1 = table("t1 (a int primary key, b int)")
T2 = table("t2 (a int, b int, primary key (a, b))")
WITH_INDEX = table("t1 (Col1 int, COL2 int, c3 varchar(9), unique key Idx (COL2, Col1), key plain (c3))")


def partition(of: Table, row: Row, n: int = 16, commit_ts: int = 1, **rule: object) -> int:
    rule = {"matcher": ("*.*",), **rule}
    of_row = compile_partitioner(dispatch_rule(**rule), of, time_zone="UTC")  # type: ignore[arg-type]
    return of_row(change(of, after=row, commit_ts=commit_ts), n)


@pytest.mark.parametrize(("name", "wanted"), [("t1", 15), ("t2", 5), ("t3", 3)])
@pytest.mark.parametrize("kind", ["default", "table", "Default", "no-such-rule"])
def test_by_table(name: str, wanted: int, kind: str) -> None:
    assert partition(table(f"{name} (a int)"), {"a": "1"}, partition=kind) == wanted


@pytest.mark.parametrize(
    ("of", "row", "wanted"),
    [
        (T1, {"a": "11", "b": "22"}, 2),
        (T1, {"a": "22", "b": "22"}, 11),
        (T2, {"a": "11", "b": "22"}, 5),
        (T2, {"a": "11", "b": "0"}, 14),
        (T2, {"a": "11", "b": "33"}, 2),
    ],
)
@pytest.mark.parametrize("kind", ["index-value", "rowid", "INDEX-VALUE"])
def test_by_handle_key(of: Table, row: dict[str, str], wanted: int, kind: str) -> None:
    assert partition(of, row, partition=kind) == wanted
    assert (
        partition(
            of, row, partition="columns", columns=tuple(name.upper() for name in row)[: len(of.indexes[0].columns)]
        )
        == wanted
    )


def test_by_a_named_index() -> None:
    row = {"Col1": "11", "COL2": "22", "c3": "x"}
    assert partition(WITH_INDEX, row, partition="index-value", index="idx") == 5
    # without a handle key it is the table alone
    assert partition(WITH_INDEX, row, partition="index-value") == 15
    # NULL is not written, so here too only the table is left
    assert partition(WITH_INDEX, {"Col1": None, "COL2": None, "c3": "x"}, partition="index-value", index="IDX") == 15


def test_by_commit_ts() -> None:
    assert partition(T1, {"a": "1", "b": "1"}, commit_ts=449_000_000_000_000_007, n=10, partition="ts") == 7


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"partition": "index-value", "index": "no"}, "`test`.`t1`.*no index 'no'; it has Idx, plain"),
        ({"partition": "index-value", "index": "plain"}, "'plain' is not unique"),
        ({"partition": "columns", "columns": ("Col1", "c4")}, "no column 'c4'; it has Col1, COL2, c3"),
    ],
)
def test_a_rule_that_does_not_fit_the_table_is_refused(rule: dict[str, object], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        dispatch_columns(dispatch_rule(matcher=("*.*",), **rule), WITH_INDEX)  # type: ignore[arg-type]


def test_a_virtual_column_cannot_dispatch() -> None:
    of = table("t (a int primary key, v int as (a + 1) virtual, unique key v (v))")
    for rule in ({"partition": "columns", "columns": ("v",)}, {"partition": "index-value", "index": "v"}):
        with pytest.raises(UsageError, match="'v' is a virtual generated column"):
            compile_partitioner(dispatch_rule(matcher=("*.*",), **rule), of, time_zone="UTC")  # type: ignore[arg-type]


# canonical value, and what TiCDC writes: Go's FormatFloat(v, 'f', -1), numbers of ENUM, SET and BIT, local time
TEXTS = [
    ("float", "1e10", "10000000000"),
    ("float", "1.5e-7", "0.00000015"),
    ("double", "1e308", "1" + "0" * 308),
    ("double", "-0", "-0"),
    ("double", "0.1", "0.1"),
    ("decimal(10,2)", "1.50", "1.50"),
    ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
    ("enum('x','y')", "2", "2"),
    ("set('x','y')", "3", "3"),
    ("bit(8)", "65", "65"),
    ("year", "0", "0"),
    ("date", "2024-01-31", "2024-01-31"),
    ("datetime(3)", "2024-01-31 23:00:00.120", "2024-01-31 23:00:00.120"),
    ("timestamp(3)", "2024-01-31 23:00:00.120", "2024-02-01 07:00:00.120"),
    ("timestamp", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
    ("time", "-01:00:00", "-01:00:00"),
    ("json", '{"a": 1}', '{"a": 1}'),
    ("varchar(9)", "日本", "日本"),
]


@pytest.mark.parametrize(("kind", "value", "text"), TEXTS)
def test_values_are_written_as_go_prints_them(kind: str, value: str, text: str) -> None:
    rule = dispatch_rule(matcher=("*.*",), partition="columns", columns=("a",))
    typed, plain = table(f"t (a {kind})"), table("t (a text)")
    found, wanted = (compile_partitioner(rule, of, time_zone="Asia/Shanghai") for of in (typed, plain))
    n = 2**31 - 1
    assert found(change(typed, after={"a": value}), n) == wanted(change(plain, after={"a": text}), n)


def test_bytes_are_written_as_they_are() -> None:
    rule = dispatch_rule(matcher=("*.*",), partition="columns", columns=("a",))
    of = compile_partitioner(rule, table("t (a varbinary(9))"), time_zone="UTC")
    text = compile_partitioner(rule, table("t (a varchar(9))"), time_zone="UTC")
    n = 2**31 - 1
    assert of(change(T1, after={"a": "é".encode()}), n) == text(change(T1, after={"a": "é"}), n)
    assert of(change(T1, after={"a": b"\xff"}), n) != of(change(T1, after={"a": b"\xfe"}), n)


def test_a_row_without_the_column_is_an_error() -> None:
    with pytest.raises(MessageError, match=r"`test`.`t1`: a row lacks \['a'\]"):
        partition(T1, {"b": "1"}, partition="index-value")


TEXT = st.one_of(st.none(), st.text(max_size=9), st.binary(max_size=9))


@given(st.fixed_dictionaries({"a": TEXT, "b": TEXT, "c": TEXT}), TEXT, st.integers(1, 1000))
def test_a_rows_changes_share_a_partition(
    row: dict[str, str | bytes | None], other: str | bytes | None, n: int
) -> None:
    of = table("t (a varchar(9), b varchar(9), c varchar(9), primary key (a, b))")
    rule = dispatch_rule(matcher=("*.*",), partition="index-value")
    partitioner = compile_partitioner(rule, of, time_zone="UTC")
    updated = {**row, "c": other}
    changes = [change(of, after=row), change(of, row, updated), change(of, before=updated)]
    found = {partitioner(one, n) for one in changes}
    assert len(found) == 1
    assert 0 <= found.pop() < n


@given(st.permutations(["a", "b", "c"]))
def test_the_order_of_columns_does_not_matter(names: list[str]) -> None:
    of = table("t (a int, b int, c int)")
    row = {"a": "1", "b": "2", "c": "3"}
    first = partition(of, row, 997, partition="columns", columns=("a", "b", "c"))
    assert partition(of, row, 997, partition="columns", columns=tuple(names)) == first


@pytest.mark.parametrize(
    ("rule", "name", "topic"),
    [
        ("", ("s", "t"), "default"),
        ("fixed.topic_1-x", ("s", "t"), "fixed.topic_1-x"),
        ("{schema}_{table}", ("s", "t"), "s_t"),
        ("a.{schema}.b.{table}.c", ("s", "t"), "a.s.b.t.c"),
        ("{schema}", ("s", "t"), "s"),
        ("x{table}", ("s", "t"), "xt"),
        ("{schema}{table}", (".", "."), "__"),
        ("{schema}", (".", "t"), "_"),
        ("{schema}_{table}", ("日本", "a b😀$"), "___a_b__"),
        ("{schema}_{table}", ("{table}", "t"), "_table__t"),
        ("{schema}_{table}", ("s" * 200, "t" * 200), "s" * 200 + "_" + "t" * 48),
    ],
)
def test_topics(rule: str, name: tuple[str, str], topic: str) -> None:
    assert compile_topic(rule, "default", one_table=False).topic(*name) == topic


@pytest.mark.parametrize(
    "rule",
    ["{table}_{schema}", "{schema}{schema}", "{Schema}", "a b", "a/b", "{x}", "{", "日本", ".", "..", "x" * 250, "a\n"],
)
def test_what_is_no_topic_is_refused(rule: str) -> None:
    with pytest.raises(UsageError, match="topic"):
        compile_topic(rule, "default", one_table=False)


def test_a_topic_of_one_table_needs_both_names() -> None:
    for rule in ("{schema}", "x_{table}", "{schema}"):
        with pytest.raises(UsageError, match="only one table"):
            compile_topic(rule, "default", one_table=True)
    assert compile_topic("{schema}-{table}", "default", one_table=True).topic("a", "b") == "a-b"
    with pytest.raises(UsageError, match=r"sink.dispatchers\[0\].*only one table"):
        Router(changefeed(protocol="avro", dispatchers=(dispatch_rule(matcher=("*.*",), topic="{schema}"),)))


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_topic_is_always_one_that_kafka_takes(schema: str, name: str) -> None:
    topic = compile_topic("{schema}{table}", "default", one_table=False).topic(schema, name)
    assert len(topic.encode()) <= 249
    assert topic not in (".", "..")
    assert all(char.isascii() and (char.isalnum() or char in "._-") for char in topic)


def router(**settings: object) -> Router:
    return Router(changefeed(**settings))


DISPATCHERS = (
    dispatch_rule(matcher=("shop.*", "!shop.log"), topic="shop_{table}", partition="index-value"),
    dispatch_rule(matcher=("shop.*",), topic="rest", partition="ts"),
)


def test_the_first_dispatcher_that_accepts_a_table_decides() -> None:
    found = router(dispatchers=DISPATCHERS)
    assert [found.topic(*name) for name in (("shop", "a"), ("SHOP", "log"), ("x", "y"))] == [
        "shop_a",
        "rest",
        "default",
    ]
    log = found.route(table("log (a int primary key)", "shop"))
    assert log.partition(change(log.table, after={"a": "1"}, commit_ts=33), 10) == 3


def test_watermarks_go_to_every_topic_of_a_table_that_is_sent() -> None:
    found = router(dispatchers=DISPATCHERS, filter=filters(rules=("*.*", "!x.*")))
    names = [("shop", "a"), ("shop", "b"), ("shop", "log"), ("x", "y"), ("z", "z")]
    tables = [table(f"{name} (a int primary key)", schema) for schema, name in names]
    tables.append(table("keyless (a int)", "shop"))
    assert found.active_topics(tables) == ["shop_a", "shop_b", "rest", "default"]


def ddl(query: str, before: Table | None = None, after: Table | None = None, **more: object) -> SchemaChange:
    named = before or after
    where: Mapping[str, object] = {"schema": named.schema, "name": named.name} if named else {}
    fields = {"commit_ts": 1, "kind": "alter table", "pre_table": before, "table": after, **where, **more}
    return SchemaChange(query=query, **fields)  # type: ignore[arg-type]


def test_ddl_goes_by_the_old_name_and_of_a_database_to_the_default_topic() -> None:
    found = router(dispatchers=DISPATCHERS)
    a = table("a (a int primary key)", "shop")
    b = replace(a, schema="z")
    assert found.ddl_topic(ddl("RENAME TABLE shop.a TO z.a", a, b)) == "shop_a"
    assert found.ddl_topic(ddl("CREATE TABLE a (a int primary key)", None, a)) == "shop_a"
    assert found.ddl_topic(ddl("DROP TABLE a", a)) == "shop_a"
    assert found.ddl_topic(ddl("DROP DATABASE shop", schema="shop", kind="drop database")) == "default"


@pytest.mark.parametrize(("protocol", "where"), [("canal-json", "first"), ("open-protocol", "all"), ("simple", "all")])
def test_ddl_goes_to_one_partition_or_all_by_protocol(protocol: str, where: str) -> None:
    captured = CapturedDdl(commit_ts=1, changes=(ddl("TRUNCATE TABLE t1", T1, T1),), position="")
    assert [found.partitions for found in router(protocol=protocol).ddl(captured)] == [where]


def test_a_transaction_is_filtered_split_and_sorted() -> None:
    found = router(
        filter=filters(
            rules=("test.*",), event_filters=(event_filter(matcher=("*.t1",), ignore_insert_value_expr="b = 9"),)
        ),
        dispatchers=(dispatch_rule(matcher=("*.*",), partition="index-value"),),
    )
    other = table("t (a int primary key)", "other")
    rows = (
        change(other, after={"a": "1"}),
        change(T1, after={"a": "5", "b": "1"}),
        change(T1, after={"a": "6", "b": "9"}),
        change(T1, {"a": "1", "b": "1"}, {"a": "1", "b": "2"}),
        change(T1, {"a": "2", "b": "1"}, {"a": "3", "b": "1"}),
        change(T1, before={"a": "4", "b": "1"}),
    )
    sent = [row.change for row in found.rows(Transaction(commit_ts=1, changes=rows, position=""))]
    assert [(row.op, (row.after or row.before or {})["a"]) for row in sent] == [
        ("delete", "2"),
        ("delete", "4"),
        ("update", "1"),
        ("insert", "5"),
        ("insert", "3"),
    ]


def test_rows_of_a_table_without_a_key_stay_in_their_order() -> None:
    """They are not followed: a delete that comes before the insert of its row would leave that row."""
    of = table("t (a int, unique key u (a))")
    changes = (
        change(of, after={"a": "1"}),
        change(of, {"a": "1"}, {"a": "2"}),
        change(of, {"a": "2"}),
    )
    sent = router(force_replicate=True).rows(Transaction(commit_ts=1, changes=changes, position=""))
    assert [(row.change.op, (row.change.after or row.change.before or {})["a"]) for row in sent] == [
        ("insert", "1"),
        ("delete", "1"),
        ("insert", "2"),
        ("delete", "2"),
    ]


def test_a_row_whose_unique_index_changes_leaves_its_old_partition_by_a_delete() -> None:
    of = table("t (a int primary key, u int, unique key u (u))")
    by_index = (dispatch_rule(matcher=("*.*",), partition="index-value", index="u"),)
    update = Transaction(commit_ts=1, changes=(change(of, {"a": "1", "u": "1"}, {"a": "1", "u": "2"}),), position="")
    assert [row.change.op for row in router(dispatchers=by_index).rows(update)] == ["delete", "insert"]
    assert [row.change.op for row in router(dispatchers=by_index, output_raw_change_event=True).rows(update)] == [
        "update"
    ]


def test_check_gives_all_that_is_wrong_at_once_and_why_a_table_is_left_out() -> None:
    rules = (dispatch_rule(matcher=("*.*",), partition="columns", columns=("zz",)),)
    wrong = router(dispatchers=rules)
    with pytest.raises(UsageError, match=r"(?s)`test`.`t1`.*\n.*`test`.`t2`"):
        wrong.check([T1, T2])
    routes = router(filter=filters(rules=("*.*", "!test.t2"))).check(
        [T1, T2, table("k (a int)"), table("u (x int)", "sys")]
    )
    assert [route.left_out[:30] for route in routes] == [
        "",
        "`filter.rules` does not accept",
        "it has no primary key and no u",
        "`sys` is a system schema",
    ]
    # what does not fit a table that is left out is no mistake
    assert router(dispatchers=rules, filter=filters(rules=("no.*",))).check([T1])[0].left_out


def test_a_router_travels_to_a_task(tmp_path: Path) -> None:
    one = router(
        dispatchers=DISPATCHERS,
        filter=filters(event_filters=(event_filter(matcher=("*.*",), ignore_delete_value_expr="a = 1"),)),
    )
    one.route(T1)
    assert len(pickle.dumps(one)) < 5_000
    rules = tmp_path / "rules.txt"
    rules.write_text("*.*")
    one = router(filter=filters(rules=(f"@{rules}",), event_filters=one.changefeed.filter.event_filters))
    other = pickle.loads(pickle.dumps(one))
    rules.unlink()
    gone = change(T1, before={"a": "1", "b": "1"})
    assert other.route(T1).events(gone) == one.route(T1).events(gone) == ()


def rename(old: str, new: str) -> SchemaChange:
    before = table("t (a int primary key)", old)
    return ddl(f"RENAME TABLE {old}.t TO {new}.t", before, replace(before, schema=new), kind="rename table")


def test_renames_at_the_edge_of_the_rules() -> None:
    found = router(filter=filters(rules=("in.*",)))

    def verdict(*changes: SchemaChange) -> list[str]:
        return [one.verdict for one in found.ddl(CapturedDdl(commit_ts=1, changes=changes, position=""))]

    # a table that leaves is sent its RENAME; of several renames in one statement each is judged by itself
    assert verdict(rename("in", "in"), rename("in", "out"), rename("out", "out")) == ["send", "send", "discard"]
    with pytest.raises(UnsupportedDdl, match=r"old name `out`.`t` is not accepted.*RENAME TABLE out.t TO in.t"):
        verdict(rename("out", "in"))


def test_an_ignored_transaction_is_left_out() -> None:
    found = router(filter=filters(ignore_txn_start_ts=(7,)))
    rows: tuple[RowChange, ...] = (change(T1, after={"a": "1", "b": "1"}),)
    assert found.rows(Transaction(commit_ts=9, start_ts=7, changes=rows, position="")) == []
    assert len(found.rows(Transaction(commit_ts=9, start_ts=8, changes=rows, position=""))) == 1
    captured = CapturedDdl(commit_ts=9, start_ts=7, changes=(ddl("TRUNCATE TABLE t1", T1, T1),), position="")
    assert [one.verdict for one in found.ddl(captured)] == ["ignore"]
