"""Columns that a table takes over from one that may lack a DDL, or from a file: such a table is never clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.job import SchemaFiles
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import SourceChanged, UnsupportedDdl
from ticdc_spark.protocols.base import Encoded

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"


def table(protocol: str, **job: object) -> Shop:
    shop = Shop(protocol, **job)  # type: ignore[arg-type]
    shop.sql(CREATE)
    shop.watermark()
    shop.run()
    return shop


def lose_message(shop: Shop) -> None:
    """A message that cannot be read, and is left out."""
    shop.send(Encoded(None, b"{"), "cdc")
    shop.watermark()
    shop.run()


@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
def test_a_table_like_one_that_lacks_a_message_is_not_clean(protocol: str) -> None:
    """Seed 8192022: the message that could not be read was an ALTER."""
    shop = table(protocol, on_reject="continue")
    shop.change("ALTER TABLE t DROP COLUMN v")
    lose_message(shop)
    shop.sql("CREATE TABLE u LIKE t")
    shop.watermark()
    shop.run()
    assert (shop.columns("u"), shop.condition("u")) == (("id", "v"), "unverified")


@pytest.mark.parametrize(("protocol", "condition"), [("open", "diverged"), ("simple", "clean")])
def test_a_truncate_heals_a_table_that_lacks_a_message_where_its_columns_come_with_it(
    protocol: str, condition: str
) -> None:
    shop = table(protocol, on_reject="continue")
    shop.insert("t", id="1", v="a")
    lose_message(shop)
    shop.sql("TRUNCATE TABLE t")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([], condition)


def test_a_truncate_does_not_heal_a_table_that_lacks_a_column() -> None:
    shop = table("simple", on_reject="continue")
    shop.change("ALTER TABLE t ADD COLUMN n INT")
    lose_message(shop)
    shop.sql("TRUNCATE TABLE t")
    shop.watermark()
    shop.run()
    assert (shop.columns("t"), shop.condition("t")) == (("id", "v"), "diverged")


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
def test_a_table_like_one_that_the_job_leaves_out_is_not_clean(protocol: str, split: bool) -> None:
    """Seed 8181196: it had a name that the job replicates before, and was changed under the other one."""
    shop = table(protocol, tables=("*.*", "!*.x*"))
    shop.sql("RENAME TABLE t TO x")
    if split:
        shop.watermark()
        shop.run()
    shop.sql("ALTER TABLE x RENAME COLUMN v TO w")
    shop.sql("CREATE TABLE u LIKE x")
    shop.watermark()
    if split:
        with pytest.raises(UnsupportedDdl, match="the columns that `x` had then are not known"):
            shop.run()
    else:
        shop.run()
        assert shop.condition("u") == "unverified"


@pytest.mark.parametrize("ddls", [("TRUNCATE TABLE t",), ("ALTER TABLE t ADD COLUMN n INT", "TRUNCATE TABLE t")])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("protocol", ["open", "canal-json"])
def test_a_table_that_is_made_of_a_file_alone_is_not_clean(
    protocol: str, split: bool, ddls: tuple[str, ...], tmp_path: Path
) -> None:
    """Seed 8155275: the table was dropped and made with other columns before the topic began."""
    file = tmp_path / "t.sql"
    file.write_text(f"USE `{SCHEMA}`;\nCREATE TABLE t (id INT PRIMARY KEY, old INT);\n")
    shop = Shop(protocol, schema=SchemaFiles(file=(file,)))
    shop.change(CREATE)
    for ddl in ddls:
        shop.sql(ddl)
        if split:
            shop.watermark()
            shop.run()
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "unverified"
    assert "its columns are those of `[schema] file`" in shop.status("t").detail
    assert "older rows" not in shop.status("t").detail


@pytest.mark.parametrize("protocol", ["open", "debezium"])
def test_a_table_like_one_a_ddl_of_which_is_skipped_in_the_batch_is_not_clean(protocol: str) -> None:
    """Seed 8211090: under another name by then."""
    shop = table(protocol)
    shop.configure(skip_ddl=(SkipDdl(shop.sql("ALTER TABLE t ADD COLUMN n INT"), "*"),))
    shop.sql("RENAME TABLE t TO w")
    shop.sql("CREATE TABLE u LIKE w")
    shop.watermark()
    shop.run()
    assert (shop.condition("w"), shop.condition("u")) == ("diverged", "unverified")


def test_a_drop_database_that_waits_holds_the_tables_that_come_into_it() -> None:
    """Seed 8214188: the DROP waited for another table, and this one went beyond it."""
    shop = Shop("simple", on_reject="quarantine", topic_per_table=True)
    for name in ("t", "u"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        shop.insert(name, id="1")
    shop.watermark()
    shop.run()
    shop.send(Encoded(None, b"{"), "cdc_shop_t")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "quarantined"
    shop.sql("CREATE DATABASE b")
    shop.sql("RENAME TABLE t TO b.t")
    shop.sql("RENAME TABLE u TO b.u")
    shop.send_row(shop.row("insert", ("b", "u"), {"id": "2"}))
    before = shop.applied
    dropped = shop.sql("DROP DATABASE b")
    for _ in range(2):
        shop.watermark()
        shop.run()
    assert shop.applied > dropped > before
    assert shop.rows("u", "b") == [(1,), (2,)]
    assert shop.status("u", "b").applied < dropped
    shop.resume()
    shop.watermark()
    shop.run()
    assert shop.rows("u", "b") is None


@pytest.mark.parametrize("point", ["save the plan"])
def test_a_topic_that_is_made_anew_before_the_first_batch_was_done_stops_the_job(point: str) -> None:
    """Seed 8176874: it began at an offset above 0, and the new topic has as many messages by now."""
    shop = Shop()
    shop.sql(CREATE)
    shop.insert("t", id="1", v="a")
    shop.broker.trim(("cdc", 0), 1)
    shop.watermark()
    shop.dies(point)
    shop.broker.create("cdc")
    shop.bootstrap("t")
    for number in ("2", "3", "4"):
        shop.insert("t", id=number, v="b")
    shop.watermark()
    with pytest.raises(SourceChanged, match="the id of topic cdc"):
        shop.run()


def test_a_topic_of_which_nothing_was_read_may_be_made_anew_before_the_first_batch() -> None:
    shop = Shop()
    shop.sql(CREATE)
    shop.insert("t", id="1", v="a")
    shop.watermark()
    shop.dies("save the plan")
    shop.broker.create("cdc")
    shop.bootstrap("t")
    shop.insert("t", id="2", v="b")
    shop.watermark()
    shop.run()
    assert (2, "b") in (shop.rows("t") or [])


@pytest.mark.parametrize("ddl", ["MODIFY COLUMN v DATETIME", "ADD COLUMN n INT DEFAULT 5, MODIFY COLUMN v DATETIME"])
@pytest.mark.parametrize("protocol", ["open", "simple"])
def test_a_death_in_the_midst_of_a_ddl_of_a_table_that_lacks_a_message(protocol: str, ddl: str) -> None:
    """Seed 8247609: what the lake had before the DDL is not to be seen in the midst of it."""

    def make() -> Shop:
        shop = Shop(protocol, on_reject="continue")
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v DATE)")
        shop.insert("t", id="1", v="2024-01-02")
        shop.send(Encoded(None, b"{"), "cdc")
        shop.watermark()
        shop.run()
        shop.sql(f"ALTER TABLE t {ddl}")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert shop.condition("t") == "diverged"
        assert shop.rows("t") == wanted

    whole = make()
    whole.run()
    wanted = whole.rows("t")
    assert wanted is not None and str(wanted[0][1]) == "2024-01-02 00:00:00"
    assert after_every_death(make, judge) > 6


def test_a_table_that_is_sent_again_before_any_watermark_waits_for_one() -> None:
    """Seed 8246794: its DROP was sent again, too, in the next batch."""
    shop = Shop()
    shop.change("CREATE TABLE x (id INT PRIMARY KEY)")
    row = shop.row("insert", (SCHEMA, "x"), {"id": "1"})
    made = shop.change("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.send_ddl(made)
    shop.insert("t", id="1")
    shop.bootstrap("x")
    dropped = shop.change("DROP TABLE x")
    shop.watermark()
    shop.send_ddl(made)
    shop.send_row(row)
    shop.run()
    assert shop.rows("x") is None
    shop.send_ddl(dropped)
    for _ in range(2):
        shop.watermark()
        shop.run()
    assert dropped.commit_ts < shop.applied
    assert (shop.rows("t"), shop.rows("x")) == ([(1,)], None)


def test_a_ddl_after_a_truncate_of_a_table_that_lacks_a_column_goes_on() -> None:
    shop = table("simple", on_reject="continue")
    shop.change("ALTER TABLE t ADD COLUMN n INT")
    lose_message(shop)
    for ddl in ("TRUNCATE TABLE t", "ALTER TABLE t ADD COLUMN m INT"):
        shop.sql(ddl)
        shop.watermark()
        shop.run()
    assert (shop.columns("t"), shop.condition("t")) == (("id", "v", "n", "m"), "diverged")


def test_a_full_read_makes_the_columns_of_a_table_certain() -> None:
    shop = Shop("open", on_reject="continue", snapshot="now")
    shop.sql(CREATE)
    shop.insert("t", id="1", v="a")
    settle(shop)
    shop.change("ALTER TABLE t ADD COLUMN n INT")
    shop.send(Encoded(None, b"{"), "cdc")
    settle(shop)
    assert shop.condition("t") == "diverged"
    shop.rebuild("t")
    settle(shop)
    assert (shop.columns("t"), shop.condition("t")) == (("id", "v", "n"), "clean")
    shop.sql("CREATE TABLE u LIKE t")
    settle(shop)
    assert (shop.columns("u"), shop.condition("u")) == (("id", "v", "n"), "clean")


def settle(shop: Shop) -> None:
    for _ in range(6):
        shop.watermark()
        shop.run()
        shop.batch()


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
def test_a_table_like_one_that_waits_and_lacks_a_message_is_not_clean(protocol: str, split: bool) -> None:
    shop = Shop(protocol, on_reject="continue")
    shop.sql(CREATE)
    shop.change("ALTER TABLE t RENAME COLUMN v TO w")
    shop.send(Encoded(None, b"{"), "cdc")
    if split:
        shop.run()
    shop.sql("CREATE TABLE u LIKE t")
    shop.watermark()
    shop.run()
    assert (shop.columns("u"), shop.condition("u")) == (("id", "v"), "unverified" if split else "diverged")


@pytest.mark.parametrize("ddl", ["TRUNCATE TABLE t", "CREATE TABLE u LIKE t"])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
def test_a_table_that_was_changed_while_it_had_a_name_that_is_left_out_is_not_clean(
    protocol: str, split: bool, ddl: str
) -> None:
    shop = table(protocol, tables=("*.*", "!*.x*"))
    for moved in ("RENAME TABLE t TO x", "ALTER TABLE x RENAME COLUMN v TO w", "RENAME TABLE x TO t"):
        shop.sql(moved)
    if split:
        shop.watermark()
        shop.run()
    shop.sql(ddl)
    shop.watermark()
    shop.run()
    assert "clean" not in {one.condition for one in shop.lab.view().tables.values()}


@pytest.mark.parametrize("ddl", ["TRUNCATE TABLE t", "CREATE TABLE u LIKE t"])
@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium", "simple"])
def test_a_table_that_diverged_before_it_was_left_out_is_not_clean(protocol: str, ddl: str) -> None:
    shop = table(protocol)
    shop.configure(skip_ddl=(SkipDdl(shop.sql("TRUNCATE TABLE t"), "*"),))
    shop.watermark()
    shop.run()
    shop.configure(tables=("*.*", "!*.t"))
    shop.sql("ALTER TABLE t RENAME COLUMN v TO w")
    shop.watermark()
    shop.run()
    shop.configure(tables=("*.*",))
    shop.sql(ddl)
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "diverged"
    if "LIKE" in ddl:
        assert (shop.columns("u"), shop.condition("u")) in [(("id", "v"), "unverified"), (("id", "w"), "clean")]


@pytest.mark.parametrize("ddl", ["MODIFY COLUMN v DATETIME", "ADD COLUMN n INT DEFAULT 5, MODIFY COLUMN v DATETIME"])
def test_a_death_in_the_midst_of_the_first_ddl_of_an_adopted_table(ddl: str) -> None:
    def make() -> Shop:
        shop = Shop(adopt=True)
        shop.change("CREATE TABLE t (id INT PRIMARY KEY, v DATE)")
        shop.lab.lake.create(shop.tables[SCHEMA, "t"], [{"id": "1", "v": "2024-01-02"}])
        shop.sql(f"ALTER TABLE t {ddl}")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert (shop.columns("t"), shop.rows("t")) == wanted

    whole = make()
    whole.run()
    wanted = (whole.columns("t"), whole.rows("t"))
    assert wanted[1] is not None and "2024-01-02 00:00:00" in map(str, wanted[1][0])
    assert after_every_death(make, judge) > 6


@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
def test_a_late_table_like_one_that_was_altered_since_is_not_clean(protocol: str) -> None:
    """Seed 8313587: the changefeed began to send it later."""
    shop = table(protocol)
    late = shop.change("CREATE TABLE u LIKE t")
    shop.sql("ALTER TABLE t DROP COLUMN v")
    for number in ("1", "2"):
        shop.insert("t", id=number)
        shop.watermark()
        shop.run()
    shop.send_ddl(late)
    for _ in range(2):
        shop.watermark()
        shop.run()
    assert (shop.columns("u"), shop.condition("u")) == (("id",), "unverified")
