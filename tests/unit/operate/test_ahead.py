"""What will stop a job, found in its unread messages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.simulator.setup import job_of, scratch_folder, with_keys
from tests.support.shop import Shop
from ticdc_spark.config.ddl import DdlRule
from ticdc_spark.config.job import Route
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.model import Message, SchemaChange
from ticdc_spark.operate.ahead import Ahead, Look
from ticdc_spark.protocols import decoder
from ticdc_spark.streams.reader import EventReader

_FOLDER = scratch_folder("ahead")
PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "debezium"])


def messages_of(shop: Shop) -> list[Message]:
    ends = shop.broker.end_offsets()
    return [one for place in sorted(ends) for one in shop.broker.read(place, 0, ends[place])]


def ahead(shop: Shop, messages: list[Message] | None = None, **job: Any) -> Ahead:
    made = with_keys(job_of(shop.setup, _FOLDER), **job)
    return Look(made, EventReader(decoder(shop.wire.name))).at(messages or messages_of(shop))


@PROTOCOLS
def test_a_topic_without_stops_is_read_to_its_end(protocol: str) -> None:
    shop = Shop(protocol)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="1")
    shop.sql("ALTER TABLE t ADD COLUMN w INT")
    shop.update("t", id="1", v="2", w="3")
    shop.watermark()
    found = ahead(shop)
    assert (found.messages, found.rows, found.tables, found.stops) == (len(messages_of(shop)), 2, 1, ())


@pytest.mark.parametrize("protocol", ["open", "debezium"])
def test_a_ddl_that_cannot_be_replayed_is_named_once_with_the_line_that_skips_it(protocol: str) -> None:
    shop = Shop(protocol)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    ddl = shop.change("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE other")
    for _ in range(2):
        shop.send_ddl(ddl)
    (stop,) = ahead(shop).stops
    assert "EXCHANGE PARTITION p0" in stop.what and "topic cdc, partition 0, offset 1" in stop.what
    assert f'under [job]: skip-ddl = ["{ddl.commit_ts}:ALTER TABLE t EXCHANGE' in stop.line
    assert 'partition-ddl = "mark"' in stop.line
    assert ahead(shop, partition_ddl="mark").stops == ()


@PROTOCOLS
def test_a_ddl_that_was_read_and_is_not_applied_is_a_stop_until_the_job_file_decides(protocol: str) -> None:
    shop = Shop(protocol)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.watermark()
    shop.run()
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.run()
    progress = shop.lab.state.progress
    assert progress is not None
    assert progress.ddls
    tables = [state.table for state in progress.tables if state.table is not None]
    reader = EventReader(decoder(protocol))
    reader.go_on_from(tables)
    rule = DdlRule(tables=("shop.t",), drop_column="stop")
    job = with_keys(job_of(shop.setup, _FOLDER), rules=(rule,))
    (stop,) = Look(job, reader, tables, progress.tables).at([], progress.ddls).stops
    assert "DROP COLUMN v" in stop.what and "topic cdc, partition 0, offset 2" in stop.what
    assert "number 1 of [[ddl.rules]]" in stop.what
    assert 'under number 1 of [[ddl.rules]]: drop-column = "apply"' in stop.line


@PROTOCOLS
def test_a_table_without_a_key_is_a_stop_unless_its_rows_are_skipped(protocol: str) -> None:
    shop = Shop(protocol)
    shop.sql("CREATE TABLE t (id INT)")
    (stop,) = ahead(shop).stops
    assert stop.what == "`shop`.`t` has no key"
    assert ahead(shop, no_key="skip").stops == ()
    assert ahead(shop, tables=("*.*", "!shop.t")).stops == ()


def test_rows_without_a_schema_are_a_stop() -> None:
    shop = Shop("simple")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    (stop,) = ahead(shop, messages_of(shop)[1:]).stops
    assert "rows of `shop`.`t` have no schema" in stop.what
    assert 'skip-to-known = ["shop.t"]' in stop.line


def test_messages_that_cannot_be_read_are_one_stop_that_names_all_of_them() -> None:
    shop = Shop("open")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    for _ in range(2):
        shop.broker.append(("cdc", 0), b"\xff", b"no message", 0)
    (stop,) = ahead(shop).stops
    assert "cdc/0/1, and 1 more" in stop.what
    assert '[job] skip-messages = ["cdc/0/1", "cdc/0/2"]' in stop.line
    assert ahead(shop, on_reject="continue").stops == ()


@PROTOCOLS
def test_a_ddl_on_partitions_is_a_stop_only_where_their_rows_are_not_known(protocol: str) -> None:
    shop = Shop(protocol)
    partitions = "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) {partitions}")
    for partition, stops in (("p1", 0), ("p7", 1)):
        table = shop.tables["shop", "t"]
        ddl = shop.change(f"ALTER TABLE t DROP PARTITION {partition}")
        for _ in range(2):  # as each partition of a topic has a copy
            shop.send_ddl(msgspec.structs.replace(ddl, table=table, pre_table=table))
        found = ahead(shop).stops
        assert len(found) == stops
    assert "the partitions that are known are p0" in found[0].what


@PROTOCOLS
def test_a_table_that_a_rule_does_not_fit_is_a_stop(protocol: str) -> None:
    shop = Shop(protocol)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    rules = (Route(tables=("*.*",), where="v > 1"),)
    assert ahead(shop, routes=rules).stops == ()
    shop.sql("ALTER TABLE t DROP COLUMN v")
    (stop,) = ahead(shop, routes=rules).stops
    assert stop.what == "[[route]] where 'v > 1' for `shop`.`t`: there is no column 'v'; the table has id"
    assert '"!shop.t"' in stop.line
    assert ahead(shop, routes=rules, tables=("*.*", "!shop.t")).stops == ()
    (stop,) = ahead(shop, routes=(Route(tables=("*.*",), drop_columns=("id",)),)).stops
    assert "`id` is in the key" in stop.what


@PROTOCOLS
def test_two_tables_that_would_share_a_name_are_a_stop(protocol: str) -> None:
    shop = Shop(protocol)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    (stop,) = ahead(shop, routes=(Route(tables=("shop.*",), target_table="all"),)).stops
    assert stop.what == "`shop`.`t` and `shop`.`u` would both be `shop`.`all` in the target"
    assert stop.line.startswith("[[route]]. Give each a name of its own")
    assert ahead(shop, routes=(Route(tables=("shop.*",), target_table="{table}_v1"),)).stops == ()


@pytest.mark.parametrize("protocol", ["simple", "open"])
@pytest.mark.parametrize(("keep", "stops"), [(0.0, 1), (600.0, 0)])
def test_a_table_that_comes_back_is_a_stop_only_where_it_is_not_parked(protocol: str, keep: float, stops: int) -> None:
    shop = Shop(protocol)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    table = shop.tables["shop", "t"]
    shop.sql("DROP TABLE t")
    back = SchemaChange(
        commit_ts=shop.tick(), query="RECOVER TABLE t", kind="QUERY", schema="shop", name="t", table=table
    )
    shop.send_ddl(back, "cdc")
    assert len(ahead(shop, keep_dropped=keep).stops) == stops


@PROTOCOLS
def test_a_kind_of_ddl_that_stops_the_job_is_a_stop_unless_it_is_allowed(protocol: str) -> None:
    shop = Shop(protocol)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    ts = shop.sql("ALTER TABLE t DROP COLUMN v")
    (stop,) = ahead(shop, drop_column="stop").stops
    assert 'drop-column = "stop"' in stop.what and "under [ddl]: allow = [" in stop.line
    assert ahead(shop, drop_column="stop", allow=(SkipDdl(ts, "*"),)).stops == ()


@PROTOCOLS
def test_a_shard_that_does_not_fit_into_its_merged_table_is_a_stop(protocol: str) -> None:
    shop = Shop(protocol)
    routes = (Route(tables=("shop.o_*",), target_table="o", origin=("_table",)),)
    for name, kind in (("o_1", "INT"), ("o_2", "BIGINT"), ("o_3", "VARCHAR(9)")):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v {kind})")
        shop.insert(name, id="1", v="1")
    shop.sql("RENAME TABLE o_1 TO gone")
    shop.watermark()
    first, second = sorted(ahead(shop, routes=routes).stops, key=lambda stop: "RENAME" in stop.what)
    assert "`shop`.`o_3` does not fit into `shop`.`o`: column `v` is VARCHAR(9), but BIGINT" in first.what
    assert "`tables` under [[route]]" in first.line and "skip-ddl" in first.line
    assert "it renames a table that [[route]] merges with others" in second.what


@PROTOCOLS
@pytest.mark.parametrize(
    ("columns", "why"),
    [("id INT, v INT", "has no primary key"), ("id INT PRIMARY KEY, _table INT", "has a column `_table` already")],
)
def test_a_shard_that_cannot_be_merged_is_a_stop_beside_the_others(protocol: str, columns: str, why: str) -> None:
    shop = Shop(protocol)
    routes = (Route(tables=("shop.o_*",), target_table="o", origin=("_table",)),)
    shop.sql("CREATE TABLE o_1 (id INT PRIMARY KEY, v INT)")
    shop.sql(f"CREATE TABLE o_2 ({columns})")
    shop.sql("RENAME TABLE o_1 TO gone")
    shop.watermark()
    *others, last = sorted(ahead(shop, routes=routes, no_key="apply").stops, key=lambda stop: "RENAME" in stop.what)
    assert all(why in stop.what for stop in others)
    assert any("skip-ddl" in stop.line for stop in others)
    assert "it renames a table" in last.what
