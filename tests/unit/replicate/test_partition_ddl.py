"""DDL on partitions: the rows that go are not sent, and go all the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from tests.unit.replicate.test_policies import partition_ddl
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.ddl.partitions import parse_partitioning
from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import SchemaChange
from ticdc_spark.protocols.open.frames import frame_key, split_keys

BATCHES = pytest.mark.parametrize("rows", [1, 2, 1000])
PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
BY_RANGE = (
    "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), "
    "PARTITION p1 VALUES LESS THAN (20), PARTITION pm VALUES LESS THAN (MAXVALUE))"
)


def shop_of(protocol: str = "simple", create: str = BY_RANGE, **job: Any) -> Shop:
    """A table with the rows 1, 11 and 21."""
    shop = Shop(protocol, **job)
    shop.sql(create)
    for key in ("1", "11", "21"):
        shop.insert("t", id=key)
    return shop


def ids(shop: Shop, table: str = "t") -> list[int]:
    return sorted(row[0] for row in shop.rows(table) or ())


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize("verb", ["DROP", "TRUNCATE"])
def test_the_rows_of_a_partition_go_and_the_table_stays_clean(protocol: str, rows: int, verb: str) -> None:
    shop = shop_of(protocol)
    partition_ddl(shop, f"ALTER TABLE t {verb} PARTITION p1")
    shop.insert("t", id="12")
    shop.watermark()
    shop.run(rows)
    assert ids(shop) == [1, 12, 21]
    assert shop.condition("t") == "clean"
    assert shop.applied == shop.ts - 1


@PROTOCOLS
def test_what_a_dropped_partition_held_belongs_to_the_next_one(protocol: str) -> None:
    shop = shop_of(protocol)
    partition_ddl(shop, "ALTER TABLE t DROP PARTITION p1")
    shop.insert("t", id="13")
    shop.watermark()
    shop.run()
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION pm")
    shop.watermark()
    shop.run(again=True)
    assert ids(shop) == [1]


@PROTOCOLS
def test_partitions_follow_the_ddl_that_adds_and_reorganizes_them(protocol: str) -> None:
    shop = shop_of(protocol)
    partition_ddl(
        shop,
        "ALTER TABLE t REORGANIZE PARTITION p1, pm INTO (PARTITION a VALUES LESS THAN (15), "
        "PARTITION b VALUES LESS THAN (30))",
    )
    partition_ddl(shop, "ALTER TABLE t ADD PARTITION (PARTITION c VALUES LESS THAN (40))")
    shop.insert("t", id="31")
    shop.watermark()
    shop.run(2)
    partition_ddl(shop, "ALTER TABLE t DROP PARTITION a, c")
    shop.watermark()
    shop.run(again=True)
    assert ids(shop) == [1, 21]
    assert shop.condition("t") == "clean"


@PROTOCOLS
@pytest.mark.parametrize(
    "ddl", ["RENAME TABLE t TO u", "ALTER TABLE t RENAME TO u", "CREATE TABLE u LIKE t", "TRUNCATE TABLE t"]
)
def test_a_table_keeps_its_partitions_under_another_name_and_gives_them_to_its_like(protocol: str, ddl: str) -> None:
    shop = shop_of(protocol)
    shop.sql(ddl)
    name = "t" if "TRUNCATE" in ddl else "u"
    shop.insert(name, id="2")
    shop.insert(name, id="14")
    shop.watermark()
    shop.run()
    table = shop.tables[SCHEMA, name]
    query = f"ALTER TABLE {name} TRUNCATE PARTITION p0"
    shop.send_ddl(
        SchemaChange(
            commit_ts=shop.tick(), query=query, kind="ALTER", schema=SCHEMA, name=name, table=table, pre_table=table
        )
    )
    shop.watermark()
    shop.run(again=True)
    assert ids(shop, name) == ([11, 14, 21] if "RENAME" in ddl else [14])


@PROTOCOLS
def test_a_ddl_between_keeps_the_partitions(protocol: str) -> None:
    shop = shop_of(protocol)
    shop.sql("ALTER TABLE t ADD COLUMN v INT")
    shop.sql("ALTER TABLE t MODIFY COLUMN id BIGINT")
    shop.insert("t", id="12", v="3")
    partition_ddl(shop, "ALTER TABLE t DROP PARTITION p1")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, None), (21, None)]


def test_a_replay_of_a_truncate_partition_does_not_remove_newer_rows() -> None:
    for rows in (1, 3, 1000):
        shop = shop_of()
        ts = partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
        shop.insert("t", id="12")
        shop.watermark()
        shop.run(rows)
        table = shop.tables[SCHEMA, "t"]
        shop.send_ddl(
            SchemaChange(
                commit_ts=ts, query="ALTER TABLE t TRUNCATE PARTITION p1", kind="ALTER", schema=SCHEMA, name="t",
                table=table, pre_table=table,
            )
        )  # fmt: skip
        shop.insert("t", id="13")
        shop.watermark()
        shop.run(rows, again=True)
        assert ids(shop) == [1, 12, 13, 21]


@pytest.mark.parametrize("rows", [2, 1000])
def test_the_same_rows_go_wherever_the_job_was_killed(rows: int) -> None:
    def make() -> Shop:
        shop = shop_of()
        partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
        shop.insert("t", id="12")
        partition_ddl(shop, "ALTER TABLE t DROP PARTITION p0")
        shop.insert("t", id="2")
        shop.sql("RENAME TABLE t TO u")
        shop.insert("u", id="3")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert ids(shop, "u") == [2, 3, 12, 21]
        assert shop.condition("u") == "clean"

    assert after_every_death(make, judge, rows) >= 10


@PROTOCOLS
def test_truncate_of_all_partitions_needs_no_expression(protocol: str) -> None:
    shop = shop_of(protocol, "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY KEY (id) PARTITIONS 4")
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION ALL")
    shop.insert("t", id="4")
    shop.watermark()
    shop.run()
    assert (ids(shop), shop.condition("t")) == ([4], "clean")


@pytest.mark.parametrize(
    ("create", "why"),
    [
        ("CREATE TABLE t (id INT PRIMARY KEY)", "the partitions of the table are not known"),
        ("CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY KEY (id) PARTITIONS 4", "it is partitioned by KEY"),
        (BY_RANGE.replace("p1", "q1"), "the partitions that are known are p0, q1, pm"),
        (BY_RANGE.replace("(id) (", "(id * 2) ("), "its partition expression is not a column"),
    ],
)
def test_a_partition_whose_rows_are_not_computed_stops_the_job(create: str, why: str) -> None:
    shop = shop_of(create=create)
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=rf'TRUNCATE PARTITION p1.*{why}(?s:.*)partition-ddl = "mark"'):
        shop.run()
    assert ids(shop) == [1, 11, 21]


TEXT = "CREATE TABLE t (id INT, r VARCHAR(9){}, PRIMARY KEY (id, r)){} PARTITION BY LIST COLUMNS (r) ({})"
LISTED = "PARTITION p0 VALUES IN ('a'), PARTITION p1 VALUES IN ('b')"


@PROTOCOLS
@pytest.mark.parametrize(
    ("column", "of_table", "alter", "protocols"),
    [
        (" COLLATE utf8mb4_bin", "", "", "simple open canal-json debezium"),
        ("", " COLLATE utf8mb4_bin", "", "simple open canal-json debezium"),
        ("", "", "", "simple"),
        (" COLLATE utf8mb4_bin", "", "ALTER TABLE t MODIFY COLUMN r VARCHAR(12)", "simple"),
    ],
)
def test_text_is_compared_where_its_collation_is_known(
    protocol: str, column: str, of_table: str, alter: str, protocols: str
) -> None:
    """SQL that names no collation means that of the database, which nothing tells."""
    shop = Shop(protocol)
    shop.sql(TEXT.format(column, of_table, LISTED))
    if alter:
        shop.sql(alter)
    shop.insert("t", id="1", r="a")
    shop.insert("t", id="2", r="b")
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    shop.watermark()
    if protocol in protocols:
        shop.run()
        assert shop.rows("t") == [(1, "a")]
    else:
        with pytest.raises(UnsupportedDdl, match="not known"):
            shop.run()


def test_partitions_are_followed_while_ddl_on_them_is_left_out() -> None:
    """EXCHANGE with a table of other columns marks the table, and DROP goes by the partitions that it has by then."""
    shop = shop_of(partition_ddl="mark")
    shop.sql("CREATE TABLE o (id INT PRIMARY KEY, v INT)")
    partition_ddl(shop, "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE o")
    partition_ddl(shop, "ALTER TABLE t DROP PARTITION p1")
    shop.watermark()
    shop.run()
    assert (ids(shop), shop.condition("t")) == ([1, 21], "diverged")


def test_the_other_table_of_an_exchange_is_not_taken_for_the_one_with_partitions() -> None:
    """In Simple it comes as the table before the DDL."""
    shop = shop_of("simple", partition_ddl="mark")
    shop.sql("CREATE TABLE o (id INT PRIMARY KEY)")
    of = shop.tables
    exchange = "ALTER TABLE `shop`.`t` EXCHANGE PARTITION `p0` WITH TABLE `shop`.`o`"
    named = {"schema": SCHEMA, "name": "t", "table": of[SCHEMA, "t"], "pre_table": of[SCHEMA, "o"]}
    shop.send_ddl(SchemaChange(commit_ts=shop.tick(), query=exchange, kind="ALTER", **named), "cdc")
    partition_ddl(shop, "ALTER TABLE t DROP PARTITION p1")
    shop.watermark()
    shop.run()
    assert (ids(shop), ids(shop, "o")) == ([21], [1])


def test_an_exchange_without_validation_leaves_the_partitions_unknown() -> None:
    shop = shop_of(partition_ddl="mark")
    shop.sql("CREATE TABLE o (id INT PRIMARY KEY)")
    partition_ddl(shop, "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE o WITHOUT VALIDATION")
    shop.watermark()
    shop.run()
    partition_ddl(shop, "ALTER TABLE t DROP PARTITION p1")
    shop.watermark()
    shop.configure(partition_ddl="stop")
    with pytest.raises(UnsupportedDdl, match="not known"):
        shop.run()


def test_a_table_that_may_lack_a_ddl_has_no_known_partitions_even_once_it_is_cleared() -> None:
    shop = shop_of()
    ts = shop.sql("ALTER TABLE t ADD COLUMN v INT")
    shop.watermark()
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    shop.run()
    shop.clear("t")
    shop.run(again=True)
    partition_ddl(shop, "ALTER TABLE t DROP PARTITION p1")
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match="not known"):
        shop.run()


@pytest.mark.parametrize("protocol", ["canal-json", "debezium"])
@pytest.mark.parametrize("cut", [False, True])
def test_without_watermarks_the_rows_of_a_partition_are_not_computed(protocol: str, cut: bool) -> None:
    shop = shop_of(protocol, mode="arrival")
    if cut:
        shop.run()
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    with pytest.raises(UnsupportedDdl, match="not known"):
        shop.run()


def test_late_rows_from_before_a_truncate_partition_do_not_come_back() -> None:
    shop = shop_of(late_rows="apply-if-newest")
    late = shop.row("insert", (SCHEMA, "t"), {"id": "15"})
    other = shop.row("insert", (SCHEMA, "t"), {"id": "5"})
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    shop.insert("t", id="12")
    shop.watermark()
    shop.run()
    shop.send_row(late, "other")
    shop.send_row(other, "other")
    shop.insert("t", id="16")
    shop.watermark()
    shop.run()
    assert ids(shop) == [1, 12, 16, 21]
    assert shop.condition("t") == "diverged"
    assert "late rows" in shop.status("t").detail and "are left out" in shop.status("t").detail


def test_a_full_read_tells_the_partitions_of_a_table_that_was_there_before_the_job() -> None:
    shop = Shop(snapshot=True)
    shop.change("CREATE TABLE t (id INT PRIMARY KEY)")
    by = BY_RANGE.partition("PARTITION BY ")[2]
    shop.tables[SCHEMA, "t"] = replace(shop.tables[SCHEMA, "t"], partitioning=parse_partitioning(by))
    shop.bootstrap("t")
    for key in ("1", "11", "21"):
        shop.row("insert", (SCHEMA, "t"), {"id": key})
    for _ in range(3):
        shop.watermark()
        shop.run()
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    shop.insert("t", id="12")
    shop.watermark()
    shop.run(again=True)
    assert (ids(shop), shop.condition("t")) == ([1, 12, 21], "clean")


def with_id(shop: Shop, number: int, key: str) -> None:
    """Send a new row with the physical id of its partition."""
    change = replace(shop.row("insert", (SCHEMA, "t"), {"id": key}), table_id=number)
    (encoded,) = shop.encoder.rows([change])
    if shop.wire.name == "open":
        (part,) = split_keys(encoded.key or b"")
        framed = frame_key([msgspec.json.encode({**msgspec.json.decode(part), "ptn": number})])
        encoded = replace(encoded, key=framed)
    shop.send(encoded, "cdc")


IDS = pytest.mark.parametrize("protocol", ["simple", "open"])


@IDS
@BATCHES
def test_rows_whose_physical_ids_agree_with_their_partitions_let_a_partition_go(protocol: str, rows: int) -> None:
    shop = Shop(protocol)
    shop.sql(BY_RANGE)
    for number, key in ((101, "1"), (102, "11"), (103, "21"), (101, "2"), (102, "12")):
        with_id(shop, number, key)
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    with_id(shop, 104, "13")  # The partition has a new id.
    partition_ddl(shop, "ALTER TABLE t DROP PARTITION p1")
    with_id(shop, 103, "14")  # What it held belongs to the next one.
    shop.watermark()
    shop.run(rows)
    assert (ids(shop), shop.condition("t")) == ([1, 2, 14, 21], "clean")


@IDS
@BATCHES
@pytest.mark.parametrize("between", [False, True])
def test_a_physical_id_with_rows_of_two_partitions_stops_the_job_before_it_removes_any(
    protocol: str, rows: int, between: bool
) -> None:
    """``between``: in another batch, and another process."""
    shop = Shop(protocol)
    shop.sql(BY_RANGE)
    with_id(shop, 101, "1")
    with_id(shop, 102, "11")
    if between:
        shop.watermark()
        shop.run(rows)
        shop.stop()
    with_id(shop, 101, "12")
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    shop.watermark()
    for _ in range(3):
        with pytest.raises(UnsupportedDdl, match=r"physical id 101 lie in p0 and in p1(?s:.*)skip-ddl"):
            shop.run(rows)
        assert ids(shop) == [1, 11, 12]
    shop.configure(partition_ddl="mark")
    shop.run(rows)
    assert (ids(shop), shop.condition("t")) == ([1, 11, 12], "diverged")


@IDS
def test_a_contradiction_is_not_forgotten_wherever_the_job_was_killed(protocol: str) -> None:
    def make() -> Shop:
        shop = Shop(protocol, partition_ddl="mark")
        shop.sql(BY_RANGE)
        with_id(shop, 101, "1")
        with_id(shop, 101, "12")
        shop.watermark()
        partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
        with_id(shop, 101, "13")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert (ids(shop), shop.condition("t")) == ([1, 12, 13], "diverged")

    assert after_every_death(make, judge, 3) >= 10


def test_the_id_of_the_whole_table_is_none_of_a_partition() -> None:
    shop = shop_of("simple")
    number = shop.tables[SCHEMA, "t"].table_id
    assert number is not None
    for key in ("2", "12"):
        with_id(shop, number, key)
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    shop.watermark()
    shop.run()
    assert ids(shop) == [1, 2, 21]


@PROTOCOLS
def test_a_rebuild_from_topics_knows_the_partitions_from_its_ddl(protocol: str) -> None:
    shop = shop_of(protocol)
    partition_ddl(shop, "ALTER TABLE t REORGANIZE PARTITION p1 INTO (PARTITION a VALUES LESS THAN (20))")
    shop.watermark()
    shop.run()
    shop.lab.lake.insert((SCHEMA, "t"), {"id": 99})
    shop.rebuild_from_topic("t")
    shop.insert("t", id="12")
    shop.watermark()
    shop.run()
    assert ids(shop) == [1, 11, 12, 21]
    partition_ddl(shop, "ALTER TABLE t DROP PARTITION a")
    shop.watermark()
    shop.run()
    assert (ids(shop), shop.condition("t")) == ([1, 21], "clean")


@PROTOCOLS
def test_a_rebuild_from_topics_is_refused_behind_a_ddl_that_removed_rows(protocol: str) -> None:
    shop = shop_of(protocol)
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    shop.watermark()
    shop.run()
    shop.rebuild_from_topic("t")
    shop.insert("t", id="2")
    shop.watermark()
    shop.run()
    assert shop.steps is not None
    (found,) = shop.steps.progress.refused
    assert "it removes rows of partitions" in found.why
    assert ids(shop) == [1, 2, 21]


def test_a_table_is_read_in_full_behind_a_ddl_whose_rows_are_not_computed() -> None:
    shop = Shop(snapshot=True, partition_ddl="rebuild")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY KEY (id) PARTITIONS 4")
    for key in ("1", "11", "21"):
        shop.insert("t", id=key)
    shop.watermark()
    shop.run()
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    del shop.held[(SCHEMA, "t"), "11"]
    shop.follow_source()
    for key in "234567":
        shop.insert("t", id=key)
        shop.watermark()
        shop.run()
    assert (ids(shop), shop.condition("t")) == ([*range(1, 8), 21], "clean")


def test_truncate_table_keep_keeps_the_rows_of_partitions_too() -> None:
    shop = shop_of(truncate_table="keep")
    partition_ddl(shop, "ALTER TABLE t TRUNCATE PARTITION p1")
    shop.watermark()
    shop.run()
    assert (ids(shop), shop.condition("t")) == ([1, 11, 21], "unverified")
