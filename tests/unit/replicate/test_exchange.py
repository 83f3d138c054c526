"""EXCHANGE PARTITION: a partition and a table give each other their rows, for which no row messages come."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from tests.unit.replicate.test_partition_ddl import BY_RANGE, IDS, ids, with_id
from tests.unit.replicate.test_policies import partition_ddl
from ticdc_spark.config.ddl import DdlRule
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import SchemaChange

BATCHES = pytest.mark.parametrize("rows", [1, 2, 1000])
PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
EXCHANGE = "ALTER TABLE `shop`.`t` EXCHANGE PARTITION `p0` WITH TABLE `shop`.`o`"


def shop_of(protocol: str = "simple", create: str = BY_RANGE, **job: Any) -> Shop:
    """A table with the rows 1, 11 and 21, and one with the rows 2 and 3."""
    shop = Shop(protocol, **job)
    shop.sql(create)
    shop.sql("CREATE TABLE o (id INT PRIMARY KEY)")
    for table, key in (("t", "1"), ("t", "11"), ("t", "21"), ("o", "2"), ("o", "3")):
        shop.insert(table, id=key)
    return shop


def exchange(shop: Shop, query: str = EXCHANGE, *, of_other: bool = False) -> int:
    """Send it; with ``of_other`` under the name of the other table, as newer TiCDC does. Returns: its commit_ts"""
    tables = shop.tables
    ts = shop.tick()
    if not of_other:
        shown = {"name": "t", "table": tables[SCHEMA, "t"], "pre_table": tables[SCHEMA, "t"]}
    elif shop.wire.name == "simple":
        shown = {"name": "o", "table": tables[SCHEMA, "t"], "pre_table": tables[SCHEMA, "o"]}
    else:
        shown = {"name": "o", "table": tables[SCHEMA, "o"], "pre_table": tables[SCHEMA, "o"]}
    shop.send_ddl(SchemaChange(commit_ts=ts, query=query, kind="ALTER", schema=SCHEMA, **shown), "cdc")
    return ts


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize("of_other", [False, True])
@pytest.mark.parametrize("more", ["", " WITH VALIDATION", " WITHOUT VALIDATION"])
def test_both_tables_have_each_others_rows_and_go_on(protocol: str, rows: int, of_other: bool, more: str) -> None:
    shop = shop_of(protocol)
    exchange(shop, EXCHANGE + more, of_other=of_other)
    shop.insert("t", id="4")
    shop.insert("o", id="5")
    shop.watermark()
    shop.run(rows)
    assert (ids(shop), ids(shop, "o")) == ([2, 3, 4, 11, 21], [1, 5])
    assert (shop.condition("t"), shop.condition("o")) == ("clean", "clean")
    assert shop.applied == shop.ts - 1


@PROTOCOLS
@BATCHES
def test_rows_that_changed_place_are_changed_where_they_are(protocol: str, rows: int) -> None:
    shop = shop_of(protocol)
    exchange(shop)
    for table, gone in (("t", "2"), ("o", "1")):
        shop.held[(SCHEMA, table), gone] = {"id": gone}
        shop.delete(table, id=gone)
    shop.insert("o", id="2")
    shop.watermark()
    shop.run(rows)
    assert (ids(shop), ids(shop, "o")) == ([3, 11, 21], [2])


@PROTOCOLS
def test_the_partitions_are_known_afterwards_and_take_part_in_the_next_ddl(protocol: str) -> None:
    shop = shop_of(protocol)
    exchange(shop)
    exchange(shop)
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p0")
    shop.watermark()
    shop.run()
    assert (ids(shop), ids(shop, "o")) == ([11, 21], [2, 3])
    assert shop.condition("t") == "clean"


@PROTOCOLS
@BATCHES
def test_without_validation_the_partitions_are_not_known_any_more(protocol: str, rows: int) -> None:
    shop = shop_of(protocol)
    shop.insert("o", id="15")
    exchange(shop, EXCHANGE + " WITHOUT VALIDATION")
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match="not known"):
        shop.run(rows)
    assert (ids(shop), ids(shop, "o")) == ([2, 3, 11, 15, 21], [1])
    assert (shop.condition("t"), shop.condition("o")) == ("clean", "clean")


def test_without_validation_a_key_is_in_the_table_once() -> None:
    shop = shop_of()
    shop.insert("o", id="11")
    exchange(shop, EXCHANGE + " WITHOUT VALIDATION")
    shop.watermark()
    shop.run()
    assert (ids(shop), ids(shop, "o")) == ([2, 3, 11, 21], [1])


LATER = ("RENAME TABLE t TO u", "RENAME TABLE o TO u", "DROP TABLE t", "DROP TABLE o", "TRUNCATE TABLE o")


@pytest.mark.parametrize("rows", [2, 1000])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("later", [(), *((query,) for query in LATER), ("DROP TABLE t", "DROP TABLE o")])
def test_both_tables_are_right_wherever_the_job_was_killed(rows: int, later: tuple[str, ...], begun: bool) -> None:
    """``begun``: the tables are there from an earlier batch."""

    def make() -> Shop:
        shop = shop_of()
        if begun:
            shop.watermark()
            shop.run()
            shop.stop()
        shop.insert("o", id="6")
        exchange(shop)
        shop.insert("t", id="4")
        shop.insert("o", id="5")
        for query in later:
            shop.sql(query)
        shop.watermark()
        return shop

    whole: dict[str, Any] = {"t": [2, 3, 4, 6, 11, 21], "o": [1, 5]}
    for verb, _, name, *_ in map(str.split, later):
        gone = whole.pop(name)
        whole |= {"RENAME": {"u": gone}, "TRUNCATE": {name: []}, "DROP": {}}[verb]

    def judge(shop: Shop) -> None:
        for name in ("t", "o", "u"):
            assert (shop.rows(name) is None) == (name not in whole), name
            if name in whole:
                assert (ids(shop, name), shop.condition(name)) == (whole[name], "clean")
        assert shop.applied == shop.ts - 1

    assert after_every_death(make, judge, rows) >= 10


def test_an_exchange_that_was_begun_comes_to_its_end_though_it_is_skipped_now() -> None:
    shop = shop_of()
    ts = exchange(shop)
    shop.watermark()
    shop.dies("take rows")
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    shop.run()
    assert (ids(shop), ids(shop, "o"), shop.condition("t")) == ([2, 3, 11, 21], [1], "clean")


def test_an_exchange_does_not_take_what_another_one_had_gathered() -> None:
    """A first one died behind its gathering and was skipped; a later one finds its own gathered rows gone."""
    shop = shop_of()
    first = exchange(shop)
    shop.watermark()
    shop.dies("delete rows")
    held = shop.lab.tables.table((SCHEMA, "o"))
    old = held.gathered
    shop.configure(skip_ddl=(SkipDdl(first, "*"),))
    shop.run()
    exchange(shop)
    shop.watermark()
    shop.dies("take rows")
    assert old is not None and held.gathered is not None and held.gathered.note != old.note
    held.gathered = old
    shop.run(again=True)
    assert shop.condition("o") == "diverged"
    assert "was not applied" in shop.status("o").detail or "skip-ddl" in shop.status("o").detail
    assert ids(shop, "o") == [2, 3], "they are not taken for what was gathered"


def test_an_exchange_that_is_skipped_marks_both_tables() -> None:
    shop = shop_of()
    shop.configure(skip_ddl=(SkipDdl(exchange(shop), "*"),))
    shop.watermark()
    shop.run()
    assert (ids(shop), ids(shop, "o")) == ([1, 11, 21], [2, 3])
    assert (shop.condition("t"), shop.condition("o")) == ("diverged", "diverged")


@PROTOCOLS
def test_a_replay_changes_nothing(protocol: str) -> None:
    shop = shop_of(protocol)
    at = len(shop.broker.read(("cdc", 0), 0, 1000))
    exchange(shop)
    (copy,) = shop.broker.read(("cdc", 0), at, 1000)
    shop.watermark()
    shop.run()
    shop.insert("t", id="4")
    shop.broker.append(("cdc", 0), copy.key, copy.value, shop.ts >> 18)
    shop.watermark()
    shop.run(again=True)
    assert (ids(shop), ids(shop, "o")) == ([2, 3, 4, 11, 21], [1])


@IDS
def test_physical_ids_change_their_places(protocol: str) -> None:
    """The id of the partition is that of the other table afterwards, and the other way round."""
    shop = Shop(protocol)
    shop.sql(BY_RANGE)
    shop.sql("CREATE TABLE o (id INT PRIMARY KEY)")
    for number, key in ((101, "1"), (102, "11")):
        with_id(shop, number, key)
    shop.insert("o", id="2")
    exchange(shop)
    with_id(shop, shop.tables[SCHEMA, "o"].table_id or 0, "4")
    other = shop.tables[SCHEMA, "o"]
    shop.tables = {**shop.tables, (SCHEMA, "o"): replace(other, table_id=101)}
    shop.insert("o", id="5")
    with_id(shop, 102, "12")
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    shop.watermark()
    shop.run(2)
    assert (ids(shop), ids(shop, "o"), shop.condition("t")) == ([2, 4], [1, 5], "clean")


@PROTOCOLS
@pytest.mark.parametrize("missing", ["it is excluded", "it has another column", "by KEY"])
def test_an_exchange_that_is_not_exact_is_one_of_partition_ddl(protocol: str, missing: str) -> None:
    create = "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY KEY (id) PARTITIONS 4" if "KEY" in missing else BY_RANGE
    shop = shop_of(protocol, create)
    if "column" in missing:
        shop.sql("ALTER TABLE o ADD COLUMN v INT")
    if "excluded" in missing:
        shop.configure(tables=("shop.t",))
    exchange(shop)
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=r'(?s)EXCHANGE PARTITION.*skip-ddl.*partition-ddl = "mark"'):
        shop.run()
    assert ids(shop) == [1, 11, 21]
    shop.configure(rules=(DdlRule(tables=("shop.t",), partition_ddl="mark"),))
    shop.run()
    assert (ids(shop), shop.condition("t")) == ([1, 11, 21], "diverged")
