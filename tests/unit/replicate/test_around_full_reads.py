"""What comes around a full read of several moments, which ends clean once all of them are applied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from tests.simulator.database import Database
from tests.simulator.snapshots import DatabaseView
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, ShopTables
from tests.unit.replicate.schemas.test_row_columns import LACKED, send_without
from ticdc_spark.config.values import MessagePlace
from ticdc_spark.errors import DecisionNeeded, UsageError


class ShopWithHistory(Shop):
    """The database shows its tables as they were when the job first began."""

    first: DatabaseView | None = None

    def reader(self) -> DatabaseView | None:
        tables = ShopTables(self)
        now = tables.now
        seen = SimpleNamespace(now=now, events=tables.events, meanwhile=None, ts=0, truth_at=lambda _ts: now)
        self.first = self.first or DatabaseView(cast(Database, seen), "exact", 0)
        return self.first


def shop_that_settles(protocol: str, columns: str) -> Shop:
    """A table that was there before its changefeed, has been read in full while it changed, and is not clean yet. No
    message and no database says which of its columns are generated."""
    shop = Shop(protocol, snapshot="now")
    shop.change(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    table = shop.tables[SCHEMA, "t"]
    unsaid = tuple(msgspec.structs.replace(column, virtual=None) for column in table.columns)
    shop.tables[SCHEMA, "t"] = msgspec.structs.replace(table, columns=unsaid)
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "1", "w": "1"}
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.start()
    assert shop.steps is not None
    for number in range(8):
        shop.watermark()
        shop.insert("other", id=str(number))
        shop.clock.advance(1.0)
        shop.steps.load(lambda _phase, _batch: None)
        if any(table.settles for table in shop.steps.progress.tables):
            return shop
        shop.steps.batch(None, lambda _phase, _batch: None)
    raise AssertionError("the table is not read in several moments")


def test_the_commits_of_a_full_read_are_counted_with_those_of_the_next_batch() -> None:
    shop = shop_that_settles("open", "v INT, w INT")
    assert shop.steps is not None
    counted = dict(shop.steps.open.commits._counts)
    assert counted[SCHEMA, "t"] >= 1, "no batch came after the read"
    report = shop.steps.batch(None, lambda _phase, _batch: None)
    assert report.commits[SCHEMA, "t"] >= counted[SCHEMA, "t"]


def test_a_column_that_rows_lack_while_a_full_read_settles_marks_the_table() -> None:
    shop = shop_that_settles("open", "v INT, w INT")
    send_without(shop, "w", id="2", v="2", w="2")
    for _ in range(3):
        shop.watermark()
        shop.run()
    rows = shop.rows("t")
    assert rows is not None
    assert (2, 2, None) in rows
    assert LACKED in shop.status("t").detail
    assert shop.condition("t") == "diverged"


def test_rows_that_come_late_while_a_full_read_settles_leave_the_table_unverified() -> None:
    """As they leave one that is clean. The table's topic is idle, so that the job goes on without it."""
    shop = Shop("simple", topic_per_table=True, snapshot="now", late_rows="apply-if-newest")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.bootstrap("t")
    shop.insert("t", id="1", v="1")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.watermark()
    shop.start()
    assert shop.steps is not None
    late, between = None, 0
    for number in range(8):
        shop.clock.advance(100.0)
        shop.steps.load(lambda _phase, _batch: None)
        if any(table.settles for table in shop.steps.progress.tables):
            break
        shop.watermark("cdc_shop_other")
        late = shop.row("insert", (SCHEMA, "t"), {"id": str(10 + number), "v": "2"})
        between = shop.tick()
        shop.insert("other", id=str(number))
        shop.steps.batch(None, lambda _phase, _batch: None)
    else:
        raise AssertionError("the table is not read in several moments")
    assert late is not None
    shop.send(shop.encoder.watermark(between), "cdc_shop_other")
    shop.batch()
    shop.send_row(late)
    shop.batch()
    assert shop.steps.progress.counters.late == 1
    for _ in range(2):
        shop.watermark()
        shop.run()
    assert shop.rows("t") == [(1, 1), (9 + number, 2)]
    assert shop.condition("t") == "unverified"


def test_a_row_that_is_skipped_marks_no_table_whose_full_read_began_behind_it() -> None:
    """The read takes several batches, and brings what the skipped row was."""
    shop = Shop("canal-json", snapshot="now")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    for number in range(20):
        shop.held[(SCHEMA, "t"), str(number)] = {"id": str(number), "v": "1"}
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.configure(skip_messages=(MessagePlace("cdc", 0, shop.broker.end_offsets()["cdc", 0]),))
    shop.insert("t", id="20", v="1")
    waves = 0
    for number in range(12):
        shop.watermark()
        shop.insert("other", id=str(number))
        shop.run()
        assert shop.steps is not None
        waves += any(table.load is not None for table in shop.steps.progress.tables)
    assert waves > 1
    shop.insert("t", id="21", v="1")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == sorted([(number, 1) for number in range(22)], key=repr)
    assert shop.condition("t") == "clean"


def test_a_topic_that_lost_messages_since_a_full_read_began_leaves_its_table_unverified() -> None:
    """The topic comes to `topics` while the table is read as of one moment."""
    shop = ShopWithHistory("canal-json", topic_per_table=True, topics=("cdc_shop_other",), snapshot="exact")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    for number in range(20):
        shop.held[(SCHEMA, "t"), str(number)] = {"id": str(number), "v": "1"}
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    for _ in range(3):
        shop.watermark()
        shop.run()
    assert shop.condition("t") == "snapshot"
    shop.insert("t", id="50", v="1")
    shop.watermark("cdc_shop_t")
    shop.broker.trim(("cdc_shop_t", 0), 2)
    shop.configure(topics=None)
    for number in range(6):
        shop.insert("t", id=str(60 + number), v="1")
        shop.watermark()
        shop.run()
    rows = shop.rows("t")
    assert rows is not None
    assert len(rows) == 26, "and not the row that is lost"
    assert shop.condition("t") == "unverified"


@pytest.mark.parametrize(("more", "condition"), [("", "clean"), (", n INT", "unverified")])
def test_a_full_read_of_an_adopted_table_is_clean_only_with_the_columns_of_the_source(
    more: str, condition: str
) -> None:
    other = Shop()
    other.change(f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9){more})")
    shop = Shop("canal-json", adopt=True, snapshot="now")
    shop.lab.lake.create(other.tables[SCHEMA, "t"], [{"id": "7", "v": "z", "n": None}])
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "a"}
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    for number in range(8):
        shop.insert("other", id=str(number))
        shop.watermark()
        shop.run()
    shop.insert("t", id="2", v="b")
    shop.watermark()
    shop.run()
    assert [row[:2] for row in shop.rows("t") or ()] == [(1, "a"), (2, "b")]
    assert shop.condition("t") == condition


class ShopWithDump(Shop):
    """The tables are read from a dump of what they were when the job first began."""

    dump: DatabaseView | None = None

    def reader(self) -> DatabaseView | None:
        tables = ShopTables(self).now
        seen = SimpleNamespace(now=tables, events=[], meanwhile=None, ts=0, truth_at=lambda _ts: tables)
        self.dump = self.dump or DatabaseView(cast(Database, seen), "dump", self.ts)
        return self.dump


@pytest.mark.parametrize("ddl", ["DROP TABLE t", "RENAME TABLE t TO u"])
@pytest.mark.parametrize("days", [0, 40])
def test_a_table_of_a_dump_that_was_dropped_since_is_not_read_again(days: int, ddl: str) -> None:
    shop = ShopWithDump("canal-json", snapshot="dump")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "a"}
    assert shop.reader() is not None
    shop.insert("other", id="1")
    shop.watermark()
    shop.run()
    shop.run()
    assert shop.rows("t") == [(1, "a")]
    shop.sql(ddl)
    shop.watermark()
    shop.run()
    shop.ts += days * 86_400_000 << 18
    for _ in range(2):
        shop.watermark()
        shop.run(again=True)
    if not days:
        shop.rebuild("t")
        shop.run()
    assert shop.rows("t") is None


@pytest.mark.parametrize("passed", [False, True])
def test_a_table_of_a_dump_lacks_what_was_left_out_since(*, passed: bool) -> None:
    """``passed``: the job is beyond what it left out when ``tables`` lets the table in."""
    shop = ShopWithDump("canal-json", snapshot="dump", tables=("shop.other",))
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "a"}
    assert shop.reader() is not None
    shop.update("t", id="1", v="b")
    if passed:
        shop.watermark()
    shop.run()
    shop.configure(tables=("shop.*",))
    for number in range(4):
        shop.insert("other", id=str(number))
        shop.watermark()
        shop.run()
    assert shop.condition("t") == "diverged"
    assert shop.condition("other") == "clean"


def test_a_table_that_is_created_after_what_was_left_out_lacks_nothing() -> None:
    shop = ShopWithDump("canal-json", snapshot="dump", tables=("shop.other",))
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    assert shop.reader() is not None
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    shop.configure(tables=("shop.*",))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="2", v="b")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(2, "b")], "clean")


@pytest.mark.parametrize("protocol", ["canal-json", "debezium", "open", "simple"])
def test_a_ddl_that_waited_is_not_done_again_behind_a_full_read(protocol: str) -> None:
    shop = Shop(protocol, on_reject="quarantine", snapshot="now")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="x")
    shop.watermark()
    shop.run()
    shop.insert("t", id="2", v="y")
    partition = shop.broker.topics["cdc"].partitions[0]
    partition.messages[-1] = msgspec.structs.replace(partition.messages[-1], value=b"{")
    shop.watermark()
    shop.run()
    shop.sql("ALTER TABLE t ADD COLUMN n INT DEFAULT 3")
    shop.held[(SCHEMA, "t"), "2"] = {"id": "2", "v": "y", "n": "3"}
    shop.held[(SCHEMA, "t"), "1"] = {"id": "1", "v": "x", "n": "3"}
    shop.insert("t", id="4", v="z", n="4")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "quarantined"
    assert shop.columns("t") == ("id", "v")
    shop.rebuild("t")
    for key in range(5, 15):
        shop.insert("t", id=str(key), v="z", n="5")
        shop.watermark()
        shop.run()
    later = [(key, "z", 5) for key in range(5, 15)]
    assert shop.rows("t") == sorted([(1, "x", 3), (2, "y", 3), (4, "z", 4), *later], key=repr)
    assert shop.condition("t") == "clean"


class ShopThatTellsCaseApart(Shop):
    """The database has two tables whose names differ in case alone."""

    def reader(self) -> DatabaseView | None:
        view = super().reader()
        assert view is not None
        view.tables = lambda: [(SCHEMA, "T"), (SCHEMA, "t")]  # type: ignore[method-assign]
        return view


def test_two_tables_of_the_source_whose_names_differ_in_case_only_stop_a_job_that_reads_them() -> None:
    shop = ShopThatTellsCaseApart("simple", snapshot="now")
    shop.sql("CREATE TABLE T (id INT PRIMARY KEY)")
    shop.watermark()
    with pytest.raises(DecisionNeeded, match=r"`shop`.`T` and `shop`.`t` at the source differ"):
        shop.run()
    shop.configure(tables=("shop.other",))
    shop.run()


def test_a_job_with_full_reads_that_waits_long_for_the_first_watermark_goes_on_once_it_comes() -> None:
    """Seed 3026727: the job had taken mode arrival, in which it reads no tables in full, for good."""
    shop = Shop("debezium", snapshot="now")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    for key in range(4):
        shop.insert("t", id=str(key))
    shop.batch(2)
    shop.clock.advance(100.0)
    with pytest.raises(UsageError, match=r"needs watermarks.* has received none"):
        shop.batch(2)
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(key,) for key in range(4)]
