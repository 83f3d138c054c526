"""Arrival mode with a topic for each table: a DDL is read after DDLs or rows of another topic that come after it."""

from __future__ import annotations

import pytest

from tests.support.arrival_shop import CREATE, ArrivalShop
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import UnsupportedDdl

PROTOCOLS = pytest.mark.parametrize("protocol", ["canal-json", "debezium"])


def shop_behind(protocol: str, *ddls: tuple[str, str], row: dict[str, str] | None = None) -> ArrivalShop:
    """Table ``t`` is read, and then the topic of ``u``, while that of ``t`` is behind. ``ddls``: each with the name of
    its topic. ``row``: of ``u``."""
    shop = ArrivalShop(protocol)
    shop.ddl(CREATE, "cdc_t")
    shop.put("t", topic="cdc_t", id="1", v="1")
    shop.run()
    end = shop.broker.end_offsets()["cdc_t", 0]
    for topic, query in ddls:
        shop.ddl(query, topic)
    if row is not None:
        shop.put("u", topic="cdc_u", **row)
    shop.batch_behind({("cdc_t", 0): end})
    return shop


@PROTOCOLS
def test_a_copy_has_the_columns_of_its_model_whose_topic_is_read_later(protocol: str) -> None:
    ddls = [("cdc_t", "ALTER TABLE t ADD COLUMN c INT"), ("cdc_u", "CREATE TABLE u LIKE t")]
    shop = shop_behind(protocol, *ddls)
    assert shop.lake("u") is None
    assert "topics cdc_t are not read that far yet" in shop.lab.view().hold
    shop.run()
    assert (shop.columns("u")[:3], shop.condition("u")) == (("id", "v", "c"), "clean")


@PROTOCOLS
@pytest.mark.parametrize("later", ["ALTER TABLE u ADD COLUMN c INT", "TRUNCATE TABLE u", "DROP TABLE u"])
def test_the_first_ddl_of_a_new_name_waits_for_the_rename_in_the_topic_of_the_old_one(
    protocol: str, later: str
) -> None:
    shop = shop_behind(protocol, ("cdc_t", "RENAME TABLE t TO u"), ("cdc_u", later))
    shop.run()
    left = {"ALTER": [(1, 1, None)], "TRUNCATE": []}.get(later.split()[0])
    rows = shop.rows("u")
    assert (None if rows is None else [row[:-1] for row in rows]) == left
    assert shop.lake("t") is None


@PROTOCOLS
def test_a_drop_database_waits_for_the_tables_of_other_topics(protocol: str) -> None:
    shop = shop_behind(protocol, ("cdc_t", "ALTER TABLE t ADD COLUMN c INT"), ("cdc", "DROP DATABASE shop"))
    assert shop.row_ids() == [1]
    shop.run()
    assert shop.lake("t") is None


def renamed_late() -> ArrivalShop:
    return shop_behind("debezium", ("cdc_t", "RENAME TABLE t TO u"), row={"id": "2", "v": "2"})


def test_a_rename_that_is_read_after_rows_of_the_new_name_takes_their_place_and_marks_the_table() -> None:
    shop = renamed_late()
    assert shop.row_ids("u") == [2]
    shop.run()
    assert (shop.row_ids("u"), shop.condition("u"), shop.lake("t")) == ([1], "diverged", None)
    assert "was read after rows from behind it" in shop.status("u").detail
    shop.put("u", topic="cdc_u", id="3", v="3")
    shop.run()
    assert shop.row_ids("u") == [1, 3]
    shop.ddl("TRUNCATE TABLE u", "cdc_u")
    shop.run()
    assert (shop.row_ids("u"), shop.condition("u")) == ([], "clean")


def test_deaths_do_not_take_the_mark_of_a_late_rename() -> None:
    def judge(shop: Shop) -> None:
        assert [row[0] for row in shop.rows("u") or ()] == [1]
        assert (shop.condition("u"), shop.lake("t")) == ("diverged", None)

    assert after_every_death(renamed_late, judge) > 6


def copied_late(protocol: str) -> tuple[ArrivalShop, UnsupportedDdl]:
    """The copy's topic is read after the model was dropped, and the job stops."""
    shop = ArrivalShop(protocol)
    shop.ddl(CREATE, "cdc_t")
    shop.run()
    copy, drop = shop.change("CREATE TABLE u LIKE t"), shop.change("DROP TABLE t")
    shop.put_ddl(drop, "cdc_t")
    shop.run()
    shop.put_ddl(copy, "cdc_u")
    shop.put("u", topic="cdc_u", id="2", v="2")
    with pytest.raises(UnsupportedDdl, match="the columns that `t` had then are not known") as stopped:
        shop.run()
    return shop, stopped.value


@PROTOCOLS
def test_a_copy_of_a_table_that_is_gone_goes_on_with_a_schema_file(protocol: str) -> None:
    shop, _ = copied_late(protocol)
    shop.configure(schema_sql="CREATE TABLE shop.t (id INT PRIMARY KEY, v INT);")
    shop.run()
    assert (shop.row_ids("u"), shop.condition("u")) == ([2], "unverified")


def test_a_copy_of_a_table_that_is_gone_is_marked_where_its_ddl_is_skipped() -> None:
    shop, error = copied_late("debezium")
    progress = shop.lab.state.load()
    assert progress is not None
    (queued,) = progress.ddls
    ts, query = queued.change.commit_ts, queued.change.query
    assert f'skip-ddl = ["{ts}:{query}"]' in str(error)
    shop.configure(skip_ddl=(SkipDdl(commit_ts=ts, prefix=query),))
    shop.run()
    assert shop.condition("u") == "diverged"


def test_rows_that_wait_are_read_again_once_their_topic_is_named_again() -> None:
    shop = ArrivalShop("debezium", 1)
    for name in "tu":
        shop.ddl(CREATE.replace(" t ", f" {name} "), f"cdc_{name}")
        shop.put(name, topic=f"cdc_{name}", id="1", v="1")
    shop.run()
    end = shop.broker.end_offsets()["cdc_t", 0]
    shop.put("t", topic="cdc_t", id="9", v="9")
    shop.ddl("CREATE TABLE x LIKE t", "cdc_x")
    shop.put("u", topic="cdc_u", id="2", v="2")
    shop.ddl("ALTER TABLE u ADD COLUMN c INT", "cdc_u")
    shop.batch_behind({("cdc_t", 0): end})
    shop.configure(topics=tuple(one for one in shop.broker.topics if one != "cdc_u"))
    shop.run()
    shop.configure(topics=None)
    shop.run()
    shop.batch()
    assert sorted(shop.row_ids("u")) == [1, 2]
