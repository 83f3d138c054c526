"""A DROP that ``skip-ddl`` leaves out, with other DDLs before it in the batch."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.values import SkipDdl

BATCHES = pytest.mark.parametrize("rows", [2, 1000])
DROPS = ["DROP TABLE t", "DROP DATABASE shop"]


def dropped(drop: str, *ddls: str, table: str = "t", skip: bool = True) -> Shop:
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="a")
    for number, ddl in enumerate(ddls):
        shop.sql(ddl)
        shop.insert(table, id=str(2 + number), v="b", n="3")
    ts = shop.sql(drop)
    shop.watermark()
    if skip:
        shop.configure(skip_ddl=(SkipDdl(ts, drop[:8]),))
    return shop


@BATCHES
@pytest.mark.parametrize("drop", DROPS)
def test_a_skipped_drop_keeps_the_rows_before_an_alter(drop: str, rows: int) -> None:
    """The operator keeps the table; all its rows are kept, and status shows it."""
    shop = dropped(drop, "ALTER TABLE t ADD COLUMN n INT")
    shop.run(rows)
    assert shop.rows("t") == [(1, "a", None), (2, "b", 3)]
    assert shop.condition("t") == "kept"


@BATCHES
@pytest.mark.parametrize("drop", ["DROP TABLE u", DROPS[1]])
def test_a_skipped_drop_keeps_the_rows_before_a_rename(drop: str, rows: int) -> None:
    """Under whatever name."""
    shop = dropped(drop, "RENAME TABLE t TO u", "ALTER TABLE u DROP COLUMN v", table="u")
    shop.run(rows)
    assert shop.rows("t") is None
    assert shop.rows("u") == [(1,), (2,), (3,)]
    assert shop.condition("u") == "kept"


@pytest.mark.parametrize("drop", DROPS)
def test_a_skipped_drop_keeps_the_rows_wherever_the_job_was_killed(drop: str) -> None:

    def judge(shop: Shop) -> None:
        assert shop.rows("t") == [(1, "a", None), (2, "b", 3), (3, "b", 3)]
        assert shop.condition("t") == "kept"

    ddls = ("ALTER TABLE t ADD COLUMN n INT", "ALTER TABLE t MODIFY COLUMN v VARCHAR(20)")
    assert after_every_death(lambda: dropped(drop, *ddls), judge) >= 16


@pytest.mark.parametrize("drop", DROPS)
def test_a_drop_that_is_not_skipped_drops_wherever_the_job_was_killed(drop: str) -> None:

    def judge(shop: Shop) -> None:
        assert shop.rows("t") is None

    ddls = ("ALTER TABLE t ADD COLUMN n INT",)
    assert after_every_death(lambda: dropped(drop, *ddls, skip=False), judge) >= 10


@BATCHES
def test_a_table_made_anew_after_a_skipped_drop_has_its_own_rows_and_the_kept_one_moves_aside(rows: int) -> None:
    shop = dropped("DROP TABLE t", "ALTER TABLE t ADD COLUMN n INT")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="9")
    shop.watermark()
    shop.run(rows)
    assert shop.rows("t") == [(9,)]
    assert shop.condition("t") == "clean"
    (aside,) = [name for _, name in shop.lab.lake.tables() if name.startswith("t_dropped_")]
    assert shop.rows(aside) == [(1, "a", None), (2, "b", 3)]


@BATCHES
def test_a_skipped_alter_before_a_drop_marks_and_the_drop_drops(rows: int) -> None:
    """Skip-ddl of the ALTER instead; the DROP is done all the same."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="a")
    ts = shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    shop.watermark()
    shop.run(rows)
    assert shop.condition("t") == "diverged"
    assert "skip-ddl left out" in shop.status("t").detail
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run(rows)
    assert shop.rows("t") is None


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("key", ["skip-ddl", "drop-table"])
def test_a_death_while_a_kept_table_makes_room_for_a_new_one_does_not_stick(key: str, first: bool) -> None:
    """Killed between the rename of the kept table and the CREATE of the new one; ``first``: in the
    first batch of the job."""

    def make() -> Shop:
        shop = Shop()
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        shop.insert("t", id="1")
        shop.watermark()
        if not first:
            shop.run()
        shop.insert("t", id="2")
        ts = shop.sql("DROP TABLE t")
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        shop.insert("t", id="3")
        shop.watermark()
        if key == "skip-ddl":
            shop.configure(skip_ddl=(SkipDdl(ts, "DROP TABLE"),))
        else:
            shop.configure(drop_table="keep")
        return shop

    def judge(shop: Shop) -> None:
        assert shop.rows("t") == [(3,)]
        kept = [name for _, name in shop.lab.lake.tables() if name.startswith("t_dropped_")]
        assert [shop.rows(name) for name in kept] == [[(1,), (2,)]]

    assert after_every_death(make, judge) >= 12


@pytest.mark.parametrize("keys", [{"drop_table": "keep"}, {}], ids=["kept", "skipped"])
@pytest.mark.parametrize(("point", "after"), [("drop", False), ("drop", True), ("save the progress", False)])
def test_a_drop_that_was_done_before_it_is_skipped_does_not_stop_the_job(
    point: str, after: bool, keys: dict[str, str]
) -> None:
    """The batch was interrupted behind it; what is gone is not kept, and no later start looks for it."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="a")
    shop.watermark()
    shop.run()
    ts = shop.sql("DROP TABLE t")
    shop.watermark()
    shop.dies(point, after=after)
    there = point == "drop" and not after
    shop.configure(**(keys or {"skip_ddl": (SkipDdl(ts, "*"),)}))
    shop.run()
    shop.watermark()
    shop.run(again=True)
    assert (shop.rows("t"), shop.condition("t")) == (([(1, "a")], "kept") if there else (None, "dropped"))


@pytest.mark.parametrize(
    ("point", "after"), [("stamp", True), ("rename", False), ("rename", True), ("save the progress", False)]
)
def test_a_rename_that_was_begun_before_it_is_skipped_comes_to_its_end(point: str, after: bool) -> None:
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.watermark()
    shop.run()
    ts = shop.sql("RENAME TABLE t TO x")
    shop.insert("x", id="2")
    shop.watermark()
    shop.dies(point, after=after)
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    shop.run()
    shop.insert("x", id="3")
    shop.watermark()
    shop.run(again=True)
    assert (shop.rows("t"), shop.rows("x"), shop.condition("x")) == (None, [(1,), (2,), (3,)], "clean")


def shop_that_takes_a_name_again(when: str) -> Shop:
    """The RENAME that freed the name is skipped; messages and SQL have the new table's name in other letters."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.watermark()
    shop.run()
    shop.insert("t", id="2")
    ts = shop.sql("RENAME TABLE t TO u")
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    if when == "in a later batch":
        shop.watermark()
        shop.run()
    shop.sql("CREATE TABLE T (id INT PRIMARY KEY)")
    shop.insert("T", id="3")
    shop.sql("TRUNCATE TABLE T", typed="TRUNCATE TABLE t")
    shop.insert("T", id="4")
    shop.watermark()
    return shop


BATCHES_OF_CREATE = pytest.mark.parametrize("when", ["in the same batch", "in a later batch"])


def judge_the_new_table(shop: Shop) -> None:
    assert (shop.rows("t"), shop.condition("t")) == ([(4,)], "clean")
    assert shop.rows("T") is None
    (aside,) = [name for _, name in shop.lab.lake.tables() if name.startswith("t_dropped_")]
    assert shop.rows(aside) == [(1,), (2,)]


@BATCHES_OF_CREATE
def test_a_table_takes_a_name_that_a_skipped_rename_freed(when: str) -> None:
    """SQL that names it in other letters would go to the table that has the name in the lake."""
    shop = shop_that_takes_a_name_again(when)
    shop.run()
    judge_the_new_table(shop)


@BATCHES_OF_CREATE
def test_no_death_keeps_a_table_from_a_name_that_a_skipped_rename_freed(when: str) -> None:
    assert after_every_death(lambda: shop_that_takes_a_name_again(when), judge_the_new_table) > 5


@pytest.mark.parametrize("ddl", ["RENAME TABLE s TO t", "CREATE TABLE t (id INT PRIMARY KEY)"])
def test_a_name_that_was_dropped_and_that_a_skipped_ddl_brings_back_is_marked(ddl: str) -> None:
    """The source has such a table, and the lake has not: it is not shown as dropped."""
    shop = Shop()
    for name in "st":
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        shop.insert(name, id="1")
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    ts = shop.sql(ddl)
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == (None, "diverged")
    shop.run(again=True)
    shop.bootstrap("t")
    shop.insert("t", id="2")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(2,)], "diverged")
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run(again=True)
    assert (shop.rows("t"), shop.condition("t")) == (None, "dropped")


@pytest.mark.parametrize("left_out", [False, True])
def test_a_table_like_one_whose_ddl_was_left_out_is_unverified(left_out: bool) -> None:
    """`tables` left the model out, and an ALTER of it."""
    shop = Shop("open")
    shop.sql("CREATE TABLE model (id INT PRIMARY KEY, c INT)")
    shop.watermark()
    shop.run()
    shop.configure(tables=("shop.t",) if left_out else ())
    shop.sql("ALTER TABLE model DROP COLUMN c")
    shop.sql("CREATE TABLE t LIKE model")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == ("unverified" if left_out else "clean")
