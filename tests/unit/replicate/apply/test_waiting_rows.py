"""Rows that wait: for the schema of a file, and for what a batch before them does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from tests.unit.replicate.test_long_stories import unreadable
from ticdc_spark.config.job import SchemaFiles
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import SchemaChange


def create(file: Path) -> str:
    file.write_text(f"CREATE TABLE `{SCHEMA}`.`t` (id INT PRIMARY KEY);\n")
    return str(file)


@pytest.mark.parametrize("rows", [1, 1000])
def test_rows_before_an_alter_wait_for_the_file_with_their_schema(rows: int, tmp_path: Path) -> None:
    """The table was there before the changefeed, and its ALTER is queued: it needs the schema as its rows do."""
    shop = Shop("canal-json")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.insert("t", id="2", n="5")
    shop.watermark()
    shop.run(rows)
    assert shop.rows("t") is None
    shop.configure(schema=SchemaFiles(file=(Path(create(tmp_path / "t.sql")),)))
    shop.run(rows, again=True)
    assert shop.rows("t") == [(1, None), (2, 5)]
    assert shop.condition("t") == "unverified"


def test_rows_wait_for_their_schema_until_the_drop_of_their_table_is_due() -> None:
    shop = Shop("open")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    drop = shop.change("DROP TABLE t")
    shop.send(shop.encoder.watermark(drop.commit_ts), "cdc")
    shop.send_ddl(drop)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    shop.run()
    assert "waits for the schema" in shop.lab.view().hold
    shop.insert("t", id="2", n="5")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(2, 5)], "clean")


@pytest.mark.parametrize("protocol", ["open", "canal-json"])
def test_rows_before_a_rename_to_and_fro_wait_for_the_file_with_their_schema(protocol: str, tmp_path: Path) -> None:
    """The name is one that a DDL leaves behind, and the first DDL needs the schema that the rows do."""
    shop = Shop(protocol)
    shop.change("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.sql("RENAME TABLE t TO u")
    shop.sql("RENAME TABLE u TO t")
    shop.insert("t", id="2")
    shop.watermark()
    shop.run()
    assert "waits for the schema" in shop.lab.view().hold
    shop.configure(schema=SchemaFiles(file=(Path(create(tmp_path / "t.sql")),)))
    shop.run(again=True)
    assert (shop.rows("t"), shop.condition("t")) == ([(1,), (2,)], "unverified")


def test_a_table_that_waits_to_be_made_like_another_keeps_its_columns_when_that_one_is_dropped() -> None:
    """It shares a DDL with a table that stands still."""
    shop = Shop("open", on_reject="quarantine", topic_per_table=True)
    for name in ("t", "stands"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    unreadable(shop, "cdc_shop_stands")
    shop.sql("RENAME TABLE stands TO u")
    shop.sql("DROP TABLE u")
    shop.sql("CREATE TABLE u LIKE t")
    shop.sql("DROP TABLE t")
    shop.insert("u", id="1")
    shop.watermark()
    shop.run()
    assert shop.rows("t") is None
    shop.resume()
    shop.watermark()
    shop.run()
    assert shop.rows("u") == [(1,)]


def test_rows_before_a_truncate_wait_for_the_file_with_their_schema(tmp_path: Path) -> None:
    shop = Shop("open")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.sql("TRUNCATE TABLE t")
    shop.watermark()
    shop.run()
    assert "waits for the schema" in shop.lab.view().hold
    shop.configure(schema=SchemaFiles(file=(Path(create(tmp_path / "t.sql")),)))
    shop.run(again=True)
    assert (shop.rows("t"), shop.condition("t")) == ([], "unverified"), "the file may be of another time"


def test_a_ddl_of_an_interrupted_batch_is_done_again_where_full_reads_are_configured(tmp_path: Path) -> None:
    """Before the batch is done again a full read looks at the table, which has been through the DDL already."""
    shop = Shop("canal-json", snapshot="now")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    file = tmp_path / "t.sql"
    file.write_text(f"CREATE TABLE `{SCHEMA}`.`t` (id INT PRIMARY KEY, v VARCHAR(9));\n")
    shop.configure(schema=SchemaFiles(file=(file,)))
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.insert("t", id="1")
    shop.broker.add_partition("cdc")
    shop.watermark()
    shop.run()
    assert not shop.applied, "the second partition has no watermark yet"
    shop.clock.advance(3600.0)
    shop.dies("apply rows", after=True)
    for _ in range(4):
        shop.run()
        shop.watermark()
    assert (shop.columns("t"), shop.rows("t")) == (("id",), [(1,)])


def dropped_without_schema() -> Shop:
    """Rows of a table that no DDL describes, which is dropped and made anew behind them; nothing is read yet."""
    shop = Shop("open", skip_ddl=())
    shop.change("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.change("CREATE TABLE x (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    return shop


def test_rows_of_a_table_that_is_dropped_need_no_schema_where_rows_of_another_wait_for_theirs(tmp_path: Path) -> None:
    """Seed 7312827: the other one holds the resolved ts below the DROP, which would have made the rows needless."""
    shop = dropped_without_schema()
    shop.insert("x", id="1")
    shop.insert("t", id="2")
    shop.sql("DROP TABLE t")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    shop.watermark()
    shop.run()
    assert "`shop`.`x` waits for the schema" in shop.lab.view().hold
    file = tmp_path / "x.sql"
    file.write_text(f"CREATE TABLE `{SCHEMA}`.`x` (id INT PRIMARY KEY);\n")
    shop.configure(schema=SchemaFiles(file=(file,)))
    shop.run(again=True)
    assert (shop.rows("t"), shop.condition("t"), shop.rows("x")) == ([], "clean", [(1,)])


def test_rows_of_a_table_that_is_dropped_need_no_schema_where_a_ddl_before_the_drop_is_refused() -> None:
    shop = dropped_without_schema()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    refused = SchemaChange(
        commit_ts=shop.tick(),
        query="FLASHBACK TABLE u TO w",
        kind="RECOVER",
        schema=SCHEMA,
        name="w",
    )
    shop.send_ddl(refused, "cdc")
    shop.sql("DROP TABLE t")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    shop.watermark()
    with pytest.raises(UnsupportedDdl):
        shop.run()
    shop.configure(skip_ddl=(SkipDdl(refused.commit_ts, "*"),))
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([], "clean")


def test_rows_of_a_table_that_is_dropped_and_kept_need_their_schema() -> None:
    shop = dropped_without_schema()
    shop.configure(drop_table="keep")
    shop.sql("DROP TABLE t")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    shop.watermark()
    shop.run()
    assert "waits for the schema" in shop.lab.view().hold
