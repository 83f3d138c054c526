"""Rows that the target does not have: what a job does by ``where`` of ``[[route]]``."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from tests.unit.replicate.test_exchange import exchange, shop_of
from ticdc_spark.config.job import Recording, Route
from ticdc_spark.errors import RejectedMessage, UsageError
from ticdc_spark.model import RowChange
from ticdc_spark.protocols.base import Encoded

PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
RULE = Route(tables=("shop.*",), where="region = 'EU' AND amount >= 100")
COLUMNS = "id INT PRIMARY KEY, region VARCHAR(9), amount DECIMAL(9,2), note VARCHAR(20)"


def kept(protocol: str = "simple", rule: Route = RULE, **job: Any) -> Shop:
    shop = Shop(protocol, routes=(rule,), **job)
    shop.sql(f"CREATE TABLE t ({COLUMNS})")
    for key, region, amount in (("1", "EU", "100.00"), ("2", "US", "500.00"), ("3", "EU", "99.99"), ("4", None, "900")):
        shop.insert("t", id=key, region=region, amount=amount, note=f"note {key}")
    shop.watermark()
    return shop


def keys(shop: Shop, table: str = "t") -> list[Any]:
    return [row[0] for row in shop.rows(table) or ()]


@PROTOCOLS
@pytest.mark.parametrize("rows", [2, 1000])
def test_only_rows_that_meet_the_condition_come(protocol: str, rows: int) -> None:
    shop = kept(protocol)
    shop.run(rows)
    assert [tuple(map(str, row)) for row in shop.rows("t") or ()] == [("1", "EU", "100.00", "note 1")]
    assert shop.condition("t") == "clean"


@PROTOCOLS
@pytest.mark.parametrize("batches", [1, 2])
def test_an_update_moves_rows_in_and_out(protocol: str, batches: int) -> None:
    shop = kept(protocol)
    if batches == 2:
        shop.run()
    shop.update("t", id="1", region="US", amount="100.00", note="gone")
    shop.update("t", id="2", region="EU", amount="500.00", note="came")
    shop.update("t", id="3", region="EU", amount="1.00", note="still out")
    shop.delete("t", id="4")
    shop.watermark()
    shop.run()
    assert [tuple(map(str, row)) for row in shop.rows("t") or ()] == [("2", "EU", "500.00", "came")]
    shop.update("t", id="1", region="EU", amount="100.00", note="back")
    shop.delete("t", id="2")
    shop.watermark()
    shop.run()
    assert [tuple(map(str, row)) for row in shop.rows("t") or ()] == [("1", "EU", "100.00", "back")]
    assert shop.condition("t") == "clean"


@PROTOCOLS
@pytest.mark.parametrize("before_images", [False, True])
def test_the_target_never_holds_what_does_not_meet_the_condition(protocol: str, before_images: bool) -> None:
    shop = kept(protocol, histories=(Recording(tables=("*.*",), before_images=before_images),))
    shop.run()
    shop.update("t", id="2", region="US", amount="7.00", note="note 2b")
    shop.delete("t", id="3")
    shop.update("t", id="1", region="US", amount="1.00", note="secret")
    shop.watermark()
    shop.run()
    held = f"{[one.rows for table in shop.lab.tables.tables.values() for one in table.snapshots.values()]}"
    assert "note 1" in held
    for text in ("note 2", "note 3", "note 4", "secret"):
        assert text not in held


@PROTOCOLS
def test_the_condition_may_name_columns_that_are_dropped_or_masked(protocol: str) -> None:
    rule = msgspec.structs.replace(RULE, drop_columns=("region",), mask_columns=(("amount", "null"),))
    shop = kept(protocol, rule, snapshot="now")
    shop.run()
    assert shop.rows("t") == [(1, None, "note 1")]
    for rebuild in (shop.rebuild, shop.rebuild_from_topic):
        rebuild("t")
        for _ in range(3):
            shop.watermark()
            shop.run()
        assert shop.rows("t") == [(1, None, "note 1")]
    assert shop.condition("t") == "clean"


def test_full_reads_keep_the_same_rows_as_the_feed() -> None:
    shop = kept(snapshot="now")
    shop.run()
    fed, before = shop.rows("t"), len(shop.faults.done)
    shop.rebuild("t")
    for _ in range(3):
        shop.watermark()
        shop.run()
    assert any(action.startswith("load") for action in shop.faults.done[before:])
    shop.update("t", id="2", region="EU", amount="500.00", note="came")
    shop.watermark()
    shop.run()
    assert keys(shop) == [1, 2]
    shop.rebuild_from_topic("t")
    shop.run()
    assert keys(shop) == [1, 2]
    assert (fed, shop.condition("t")) == ([row for row in shop.rows("t") or () if row[0] == 1], "clean")


@pytest.mark.parametrize("rows", [1, 1000])
def test_whole_rows_of_a_table_without_a_key_are_judged_before_and_after(rows: int) -> None:
    shop = Shop(routes=(Route(tables=("*.*",), where="v > 1", drop_columns=("v",)),), no_key="apply")
    shop.sql("CREATE TABLE log (v INT, w VARCHAR(9))")
    table = shop.tables[SCHEMA, "log"]

    def do(op: Any, before: Any, after: Any) -> None:
        images = [None if one is None else {"v": one[0], "w": one[1]} for one in (before, after)]
        shop.send_row(RowChange(op=op, table=table, commit_ts=shop.tick(), before=images[0], after=images[1]))

    for image in (("1", "a"), ("2", "a"), ("2", "a"), (None, "b"), ("3", "c")):
        do("insert", None, image)
    shop.watermark()
    shop.run(rows)
    assert shop.rows("log") == [("a",), ("a",), ("c",)]
    do("delete", ("1", "a"), None)
    do("update", ("2", "a"), ("0", "a"))
    do("update", (None, "b"), ("5", "b"))
    do("update", ("3", "c"), ("4", "d"))
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("log"), shop.condition("log")) == ([("a",), ("b",), ("d",)], "clean")


@PROTOCOLS
def test_a_key_that_moves_takes_its_row_in_or_out(protocol: str) -> None:
    shop = Shop(protocol, routes=(Route(tables=("*.*",), where="id < 10"),))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    table = shop.tables[SCHEMA, "t"]
    for key in ("1", "2", "11"):
        shop.insert("t", id=key, v="0")
    moves = (("1", "12"), ("11", "3"), ("2", "4"))
    for old, new in moves:
        before, after = {"id": old, "v": "0"}, {"id": new, "v": "1"}
        shop.send_row(RowChange(op="update", table=table, commit_ts=shop.tick(), before=before, after=after))
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(3, 1), (4, 1)]


def test_of_one_commit_ts_the_last_event_of_a_key_counts() -> None:
    shop = Shop(routes=(Route(tables=("*.*",), where="v < 10"),))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    table, ts = shop.tables[SCHEMA, "t"], shop.tick()
    first, last = {"id": "1", "v": "1"}, {"id": "1", "v": "99"}
    shop.send_row(RowChange(op="insert", table=table, commit_ts=ts, before=None, after=first))
    shop.send_row(RowChange(op="update", table=table, commit_ts=ts, before=first, after=last))
    shop.watermark()
    shop.run()
    assert shop.rows("t") == []


def test_a_history_says_when_rows_came_and_went() -> None:
    shop = kept(histories=(Recording(tables=("*.*",)),))
    shop.update("t", id="2", region="EU", amount="500.00", note="came")
    shop.update("t", id="1", region="US", amount="100.00", note="gone")
    shop.watermark()
    shop.run()
    found = shop.lake("t_history")
    assert found is not None
    told = sorted((row["_tidb_commit_ts"], row["_tidb_op"], row["id"], row["note"]) for row in found.rows)
    assert [one[1:] for one in told] == [("I", 1, "note 1"), ("U", 2, "came"), ("D", 1, None)]


def test_an_older_change_does_not_bring_back_a_row_that_moved_out() -> None:
    shop = Shop("canal-json", mode="arrival", routes=(Route(tables=("*.*",), where="v < 10"),))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="1")
    late = shop.row("update", (SCHEMA, "t"), {"id": "1", "v": "2"})
    shop.update("t", id="1", v="99")
    shop.insert("t", id="2", v="50")
    shop.insert("t", id="3", v="5")
    shop.run()
    assert [row[:2] for row in shop.rows("t") or ()] == [(3, 5)]
    shop.send_row(late)
    shop.run()
    assert [row[:2] for row in shop.rows("t") or ()] == [(3, 5)]
    shop.update("t", id="1", v="3")
    shop.run()
    assert [row[:2] for row in shop.rows("t") or ()] == [(1, 3), (3, 5)]


def test_whatever_kills_the_job_the_same_rows_are_kept() -> None:
    def make() -> Shop:
        shop = kept(histories=(Recording(tables=("*.*",)),))
        shop.update("t", id="2", region="EU", amount="500.00", note="came")
        shop.sql("ALTER TABLE t MODIFY COLUMN region VARCHAR(20), ADD COLUMN more INT DEFAULT 5")
        shop.update("t", id="1", region="US", amount="100.00", note="gone", more="6")
        shop.insert("t", id="5", region="EU", amount="100.00", note="new", more="7")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert [(row[0], row[-1]) for row in shop.rows("t") or ()] == [(2, 5), (5, 7)]
        assert shop.condition("t") == "clean"

    assert after_every_death(make, judge) > 10


@PROTOCOLS
@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("no_such = 1", r"\[\[route\]\] where 'no_such = 1' for `shop`.`t`: there is no column 'no_such'"),
        ("other.region = 'EU'", "there is no column"),
    ],
)
def test_a_condition_that_fits_no_table_stops_the_job_before_the_table_is_made(
    protocol: str, where: str, text: str
) -> None:
    shop = kept(protocol, Route(tables=("*.*",), where=where))
    with pytest.raises(UsageError, match=text):
        shop.run()
    assert shop.lake("t") is None
    shop.configure(routes=(RULE,))
    shop.run()
    assert keys(shop) == [1]


@PROTOCOLS
@pytest.mark.parametrize(
    ("ddl", "becomes"),
    [
        ("DROP COLUMN region", "is dropped"),
        ("RENAME COLUMN region TO area", "becomes `area`"),
        ("RENAME COLUMN region TO note, RENAME COLUMN note TO region", "becomes `note`"),
        ("DROP COLUMN region, RENAME COLUMN note TO region", "is dropped"),
    ],
)
def test_a_ddl_that_takes_a_column_from_the_condition_stops_before_it(protocol: str, ddl: str, becomes: str) -> None:
    shop = kept(protocol)
    shop.run()
    shop.sql(f"ALTER TABLE t {ddl}")
    shop.watermark()
    said = rf"names column `region` of `shop`.`t`, which {becomes} at \d+\. Exclude the table with `tables`"
    for _ in range(2):
        with pytest.raises(UsageError, match=said):
            shop.run()
    assert keys(shop) == [1]
    shop.configure(tables=("*.*", "!shop.t"))
    shop.run()


@pytest.mark.parametrize(
    ("before", "after", "condition"),
    [
        ("INT", "BIGINT", "clean"),
        ("INT", "INT UNSIGNED", "diverged"),
        ("INT", "VARCHAR(9)", "diverged"),
        ("VARCHAR(9)", "TEXT", "clean"),
        ("VARCHAR(9) COLLATE utf8mb4_bin", "VARCHAR(9) COLLATE utf8mb4_general_ci", "clean"),
        ("DECIMAL(9,2)", "DECIMAL(9,1)", "diverged"),
        ("DATETIME", "DATETIME(3)", "diverged"),
        ("ENUM('a','5')", "ENUM('a','5','c')", "clean"),
        ("ENUM('a','5')", "ENUM('5','a')", "diverged"),
    ],
)
@pytest.mark.parametrize("dropped", [(), ("v",)])
def test_a_type_that_may_change_what_meets_the_condition_marks_the_table(
    before: str, after: str, condition: str, dropped: tuple[str, ...]
) -> None:
    shop = Shop(routes=(Route(tables=("*.*",), where="v IS NOT NULL OR id > 0", drop_columns=dropped),))
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v {before})")
    shop.sql(f"ALTER TABLE t MODIFY COLUMN v {after}")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == condition


def test_the_condition_of_a_table_that_is_there_cannot_change() -> None:
    shop = kept()
    shop.run()
    for where in (None, "region = 'EU'"):
        shop.configure(routes=(msgspec.structs.replace(RULE, where=where),))
        with pytest.raises(UsageError, match=r"do something else to the rows \(where\) of `shop`.`t`"):
            shop.start()
    other = Shop(routes=(Route(tables=("*.*",)),))
    other.sql(f"CREATE TABLE t ({COLUMNS})")
    other.watermark()
    other.run()
    other.configure(routes=(RULE,))
    with pytest.raises(UsageError, match=r"do something else to the rows \(where\) of `shop`.`t`"):
        other.start()


def test_a_table_does_not_leave_its_condition_by_a_rename() -> None:
    shop = kept(rule=msgspec.structs.replace(RULE, tables=("shop.t",)))
    shop.run()
    shop.sql("RENAME TABLE t TO plain")
    shop.watermark()
    with pytest.raises(UsageError, match=r"`shop`.`t` becomes `shop`.`plain` .* the rows \(where\) there"):
        shop.run()
    shop.configure(routes=(RULE,))
    shop.run()
    assert keys(shop, "plain") == [1]


@pytest.mark.parametrize("same", [True, False])
def test_partitions_are_exchanged_between_tables_of_one_condition(same: bool) -> None:
    rules = (
        Route(tables=("shop.t",), where="id <> 11"),
        Route(tables=("*.*",), where="id <> 11" if same else "id > 0"),
    )
    shop = shop_of("simple", routes=rules, partition_ddl="mark")
    exchange(shop)
    shop.watermark()
    shop.run()
    if same:
        assert (keys(shop), keys(shop, "o"), shop.condition("t")) == ([2, 21, 3], [1], "clean")
    else:
        assert (keys(shop), keys(shop, "o"), shop.condition("t")) == ([1, 21], [2, 3], "diverged")


def test_a_row_without_a_column_of_the_condition_cannot_be_read() -> None:
    shop = Shop(routes=(Route(tables=("*.*",), where="v = 1"),))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    version = shop.tables[SCHEMA, "t"].version
    image = '{"version":1,"database":"shop","table":"t","tableID":1,"type":"INSERT"'
    text = f'{image},"commitTs":{shop.tick()},"buildTs":1,"schemaVersion":{version},"data":{{"id":"1"}}}}'
    shop.send(Encoded(None, text.encode()), "cdc")
    shop.watermark()
    with pytest.raises(RejectedMessage, match="where: the row has no column `v`"):
        shop.run()


def test_a_value_that_only_other_rows_have_is_not_looked_at() -> None:
    shop = Shop(routes=(Route(tables=("*.*",), where="id > 1"),), zero_dates="error")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d="0000-00-00")
    shop.insert("t", id="2", d="2026-01-01")
    shop.watermark()
    shop.run()
    assert keys(shop) == [2]


@pytest.mark.parametrize("protocol", ["simple", "canal-json"])
@pytest.mark.parametrize(("kind", "value"), [("INT", "77777"), ("DECIMAL(9,2)", "77777.00")])
def test_a_value_of_the_condition_that_cannot_be_read_is_one_that_cannot_be_read(
    protocol: str, kind: str, value: str
) -> None:
    shop = Shop(protocol, routes=(Route(tables=("shop.*",), where="v <> 2"),), on_reject="continue")
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})")
    shop.insert("t", id="1", v="1")
    (encoded,) = shop.encoder.rows([shop.row("insert", (SCHEMA, "t"), {"id": "2", "v": value})])
    assert encoded.value is not None
    shop.send(msgspec.structs.replace(encoded, value=encoded.value.replace(b"77777", b"7777x")), "cdc")
    shop.watermark()
    shop.run()
    assert keys(shop) == [1]
    assert shop.condition("t") == "diverged"
