"""RECOVER TABLE and FLASHBACK TABLE: rows come back for which no row messages come."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.simulator.faults import Fault
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from tests.unit.replicate.test_policies import partition_ddl
from ticdc_spark.config.ddl import DdlRule
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import SchemaChange, Table
from ticdc_spark.replicate.plan.parked import is_parked, parked_name

BATCHES = pytest.mark.parametrize("rows", [1, 2, 1000])
PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json"])
"""Debezium's messages have no such DDL."""
TEN_MINUTES = 600.0


def shop_of(protocol: str = "simple", **job: Any) -> Shop:
    """A table with the rows 1 and 2."""
    shop = Shop(protocol, **{"keep_dropped": TEN_MINUTES, **job})
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="1")
    shop.insert("t", id="2", v="2")
    return shop


def lose(shop: Shop, query: str = "DROP TABLE t") -> Table:
    """Drop or truncate t. Returns: what it was"""
    table = shop.tables[SCHEMA, "t"]
    shop.sql(query)
    return table


def bring_back(shop: Shop, was: Table, query: str = "FLASHBACK TABLE t TO u") -> int:
    """Send it, with the table that comes back as the protocol has it. Returns: its commit_ts"""
    name = query.split()[-1]
    ts = shop.tick()
    back = replace(was, name=name, version=ts - 1)
    shop.tables = {**shop.tables, (SCHEMA, name): back}
    shop.send_ddl(SchemaChange(commit_ts=ts, query=query, kind="QUERY", schema=SCHEMA, name=name, table=back), "cdc")
    return ts


def parked(shop: Shop) -> list[str]:
    """The parked tables of the lake."""
    return sorted(name for schema, name in shop.lab.lake.tables() if is_parked((schema, name)))


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize("query", ["FLASHBACK TABLE t TO u", "FLASHBACK TABLE t", "RECOVER TABLE t"])
def test_a_dropped_table_comes_back_with_its_rows_and_goes_on(protocol: str, rows: int, query: str) -> None:
    shop = shop_of(protocol)
    was = lose(shop)
    bring_back(shop, was, query)
    name = query.split()[-1]
    shop.insert(name, id="3", v="3")
    shop.held[(SCHEMA, name), "1"] = {"id": "1", "v": "1"}
    shop.delete(name, id="1")
    shop.watermark()
    shop.run(rows)
    assert shop.rows(name) == [(2, 2), (3, 3)]
    assert (shop.condition(name), parked(shop)) == ("clean", [])
    assert (shop.rows("t") is None) == (name == "u")
    assert shop.applied == shop.ts - 1


@PROTOCOLS
@BATCHES
def test_what_a_truncate_removed_comes_back_under_another_name(protocol: str, rows: int) -> None:
    shop = shop_of(protocol)
    was = lose(shop, "TRUNCATE TABLE t")
    shop.insert("t", id="1", v="9")
    bring_back(shop, was)
    shop.insert("u", id="3", v="3")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("t"), shop.rows("u")) == ([(1, 9)], [(1, 1), (2, 2), (3, 3)])
    assert (shop.condition("t"), shop.condition("u"), parked(shop)) == ("clean", "clean", [])


@PROTOCOLS
def test_the_last_table_of_a_name_comes_back_and_then_the_one_before_it_does_not(protocol: str) -> None:
    shop = shop_of(protocol)
    lose(shop)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, w VARCHAR(9))")
    shop.insert("t", id="7", w="seven")
    was = lose(shop)
    bring_back(shop, was)
    shop.watermark()
    shop.run(2)
    assert (shop.rows("u"), len(parked(shop))) == ([(7, "seven")], 1)


@PROTOCOLS
def test_a_table_that_comes_back_in_a_later_batch_of_another_process(protocol: str) -> None:
    shop = shop_of(protocol)
    was = lose(shop)
    shop.watermark()
    shop.run()
    (name,) = parked(shop)
    detail = shop.status(name).detail
    assert shop.condition(name) == "kept" and "FLASHBACK TABLE brings it back" in detail and "`shop`.`t`" in detail
    bring_back(shop, was, "RECOVER TABLE t")
    shop.watermark()
    shop.run(again=True)
    assert (shop.rows("t"), shop.condition("t"), parked(shop)) == ([(1, 1), (2, 2)], "clean", [])
    assert name not in {at for _, at in shop.lab.view().tables}


def test_a_parked_table_is_removed_after_its_time() -> None:
    shop = shop_of(keep_dropped=10.0, rules=(DdlRule(tables=("shop.o",), keep_dropped=1000.0),))
    shop.sql("CREATE TABLE o (id INT PRIMARY KEY)")
    was = lose(shop)
    shop.sql("DROP TABLE o")
    shop.watermark()
    shop.run()
    assert len(parked(shop)) == 2
    for _ in range(12):
        shop.watermark()
    shop.run()
    assert [name.rpartition("_")[2] for name in parked(shop)] == ["o"]
    bring_back(shop, was)
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=r"has not parked `shop`.`t` \(keep-dropped"):
        shop.run(again=True)


def test_without_the_key_nothing_is_parked_and_nothing_comes_back() -> None:
    shop = shop_of(keep_dropped=0.0)
    was = lose(shop)
    bring_back(shop, was)
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match="does not send the rows that come back"):
        shop.run()
    assert parked(shop) == []


LATER = (
    (),
    ("DROP TABLE u",),
    ("RENAME TABLE u TO w",),
    ("TRUNCATE TABLE u",),
    ("CREATE TABLE t (id INT PRIMARY KEY)",),
)


@pytest.mark.parametrize("rows", [2, 1000])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("query", ["DROP TABLE t", "TRUNCATE TABLE t"])
def test_rows_come_back_wherever_the_job_was_killed(query: str, rows: int, begun: bool, later: tuple[str, ...]) -> None:
    """``begun``: the table is there from an earlier batch."""
    if query.startswith("TRUNCATE") and later == LATER[-1]:
        return

    def make() -> Shop:
        shop = shop_of()
        if begun:
            shop.watermark()
            shop.run()
            shop.stop()
        shop.insert("t", id="3", v="3")
        was = lose(shop, query)
        bring_back(shop, was)
        shop.insert("u", id="4", v="4")
        for one in later:
            shop.sql(one)
        shop.watermark()
        return shop

    whole = [(1, 1), (2, 2), (3, 3), (4, 4)]
    expected: dict[str, Any] = {"u": whole} | ({"t": []} if query.startswith("TRUNCATE") else {})
    verbs = {"DROP": {}, "RENAME": {"w": whole}, "TRUNCATE": {"u": []}, "CREATE": {"t": []}}
    for one in later:
        if not one.startswith("CREATE"):
            expected.pop("u")
        expected |= verbs[one.split()[0]]

    def judge(shop: Shop) -> None:
        found = {name: shop.rows(name) for name in ("t", "u", "w") if shop.rows(name) is not None}
        assert found == expected
        assert {shop.condition(name) for name in expected} <= {"clean"}
        assert shop.applied == shop.ts - 1
        left = parked(shop)
        assert len(left) == (bool(later) and not later[0].startswith(("RENAME", "CREATE")))
        assert all(shop.condition(name) == "kept" for name in left)

    assert after_every_death(make, judge, rows) >= 10


def test_a_parked_table_is_removed_wherever_the_job_was_killed() -> None:
    def make() -> Shop:
        shop = shop_of(keep_dropped=5.0)
        lose(shop)
        shop.watermark()
        shop.run()
        shop.stop()
        for _ in range(8):
            shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert parked(shop) == []
        assert not any(is_parked(name) for name in shop.lab.view().tables)

    assert after_every_death(make, judge) >= 3


def test_a_table_comes_back_with_its_partitions() -> None:
    shop = Shop(keep_dropped=TEN_MINUTES)
    shop.sql(
        "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), "
        "PARTITION p1 VALUES LESS THAN (20))"
    )
    shop.insert("t", id="1")
    shop.insert("t", id="11")
    bring_back(shop, lose(shop), "RECOVER TABLE t")
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(1,)], "clean")


def test_a_dropped_column_that_was_kept_comes_back_too() -> None:
    shop = shop_of(drop_column="keep")
    shop.sql("ALTER TABLE t DROP COLUMN v")
    for query in ("DROP TABLE t", "TRUNCATE TABLE t"):
        was = lose(shop, query)
        bring_back(shop, was, "FLASHBACK TABLE t TO u" if "TRUNCATE" in query else "RECOVER TABLE t")
    shop.watermark()
    shop.run()
    assert (shop.rows("u"), shop.condition("u")) == ([(1, 1), (2, 2)], "clean")


def test_a_return_that_is_skipped_marks_the_table_and_leaves_what_is_parked() -> None:
    shop = shop_of()
    ts = bring_back(shop, lose(shop))
    shop.insert("u", id="3", v="3")
    shop.watermark()
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    shop.run()
    assert (shop.rows("u"), shop.condition("u"), len(parked(shop))) == ([(3, 3)], "diverged", 1)


def test_tables_of_a_dropped_database_are_not_parked() -> None:
    shop = shop_of()
    shop.sql("DROP DATABASE shop")
    shop.watermark()
    shop.run()
    assert shop.lab.lake.tables() == {}


def test_without_watermarks_nothing_is_parked() -> None:
    shop = shop_of("canal-json", mode="arrival")
    lose(shop)
    shop.run()
    assert parked(shop) == []


def test_a_parked_table_that_somebody_removes_cannot_come_back() -> None:
    shop = shop_of()
    was = lose(shop)
    shop.watermark()
    shop.run()
    (name,) = parked(shop)
    del shop.lab.tables.tables[SCHEMA, name]
    shop.watermark()
    shop.run(again=True)
    bring_back(shop, was)
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match="has not parked"):
        shop.run()


def test_a_table_that_was_left_out_while_it_was_parked_comes_back_marked() -> None:
    """It may have come back and gone again meanwhile."""
    shop = shop_of()
    was = lose(shop)
    shop.watermark()
    shop.run()
    shop.configure(tables=("*.*", "!shop.t"))
    bring_back(shop, was, "RECOVER TABLE t")
    shop.insert("t", id="3", v="3")
    lose(shop)
    shop.watermark()
    shop.run()
    bring_back(shop, was)
    shop.watermark()
    shop.configure(tables=())
    shop.run()
    assert (shop.rows("u"), shop.condition("u")) == ([(1, 1), (2, 2)], "diverged")


def test_a_return_that_was_begun_is_not_forgotten_at_a_restart() -> None:
    shop = shop_of()
    was = lose(shop)
    shop.watermark()
    shop.run()
    bring_back(shop, was)
    shop.watermark()
    shop.dies("rename", after=True)
    shop.run(again=True)
    assert (shop.rows("u"), shop.condition("u")) == ([(1, 1), (2, 2)], "clean")


@pytest.mark.parametrize("rows", [2, 1000])
def test_a_table_that_is_renamed_and_dropped_in_one_batch_is_parked_wherever_the_job_was_killed(rows: int) -> None:
    def make() -> Shop:
        shop = shop_of()
        shop.watermark()
        shop.run()
        shop.stop()
        shop.insert("t", id="3", v="3")
        shop.sql("RENAME TABLE t TO o")
        shop.insert("o", id="4", v="4")
        was = shop.tables[SCHEMA, "o"]
        shop.sql("DROP TABLE o")
        shop.watermark()
        bring_back(shop, was, "FLASHBACK TABLE o TO u")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert (shop.rows("u"), shop.condition("u")) == ([(1, 1), (2, 2), (3, 3), (4, 4)], "clean")
        assert (shop.rows("t"), shop.rows("o"), parked(shop)) == (None, None, [])

    assert after_every_death(make, judge, rows) >= 10


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("query", ["DROP TABLE t", "TRUNCATE TABLE t", "RECOVER TABLE t"])
def test_what_is_parked_is_not_taken_for_a_later_table_after_a_ddl_is_left_out(query: str, between: bool) -> None:
    shop = shop_of("open")
    was = lose(shop)
    if query.startswith("RECOVER"):
        ts = bring_back(shop, was, query)
        shop.insert("t", id="7", v="7")
        shop.sql("DROP TABLE t")
    else:
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        shop.insert("t", id="7", v="7")
        ts = shop.sql(query)
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    shop.watermark()
    if between:
        shop.run()
    bring_back(shop, was)
    shop.watermark()
    stopped = ""
    try:
        shop.run(again=between)
    except UnsupportedDdl as stop:
        stopped = str(stop)
    assert "has not parked" in stopped if stopped else shop.condition("u") in ("diverged", "unverified")


def test_names_of_parked_tables_fit_into_mysql_and_differ() -> None:
    ts = 2**63 - 1
    long = "n" * 64
    names = {parked_name(("s", name), at)[1] for name in ("t", long, long[:-1]) for at in (ts, ts - 1)}
    assert len(names) == 6 and max(map(len, names)) <= 64


@pytest.mark.parametrize("now", [{"keep_dropped": 0.0}, {"keep_dropped": 0.0, "drop_table": "keep"}])
@pytest.mark.parametrize("query", ["DROP TABLE t", "TRUNCATE TABLE t"])
def test_what_was_being_parked_comes_to_its_end_though_nothing_is_parked_any_more(
    query: str, now: dict[str, Any]
) -> None:
    is_drop = query.startswith("DROP")
    for kind in ("die_before", "die_after"):
        for at in range(30):
            shop = shop_of()
            shop.watermark()
            shop.run()
            shop.stop()
            lose(shop, query)
            shop.watermark()
            if not shop.dies_at(Fault(at=at, kind=kind)):
                assert at > 5
                break
            shop.configure(**now)
            for _ in range(2):
                shop.watermark()
                shop.run(again=True)
            assert parked(shop) == [], (kind, at)
            known = {name for _, name in shop.lab.view().tables}
            assert known == {"t"}, (kind, at)
            rows = shop.rows("t")
            if is_drop:
                condition = "dropped" if rows is None else "kept"
                assert shop.condition("t") == condition, (kind, at)
            else:
                assert (rows, shop.condition("t")) == ([], "clean"), (kind, at)


def test_a_table_that_was_dropped_by_hand_before_it_was_parked_comes_back_as_diverged() -> None:
    shop = shop_of()
    shop.watermark()
    shop.run()
    shop.lab.lake.drop((SCHEMA, "t"))
    bring_back(shop, lose(shop), "RECOVER TABLE t")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([], "diverged")
