"""DDLs of which ``tables`` under [job] includes one table and not the other."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import UnsupportedDdl, UsageError

BATCHES = pytest.mark.parametrize("rows", [2, 1000])
PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json"])


def exchange(shop: Shop, whole: str, other: str) -> int:
    query = f"ALTER TABLE `{SCHEMA}`.`{whole}` EXCHANGE PARTITION `p0` WITH TABLE `{SCHEMA}`.`{other}`"
    change = shop.change(query)
    table, pre_table = shop.tables[SCHEMA, whole], shop.tables[SCHEMA, other]
    change = msgspec.structs.replace(change, table=table, pre_table=pre_table, schema=SCHEMA, name=whole)
    shop.send_ddl(change)
    return change.commit_ts


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize("wanted_is", ["partitioned", "partner"])
def test_exchange_partition_with_a_table_that_is_left_out_stops_the_job(
    wanted_is: str, rows: int, protocol: str
) -> None:
    """Rows of the wanted table change without a row message, whichever of the two it is."""
    shop = Shop(protocol, tables=("shop.t",))
    for name in ("t", "x"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        shop.insert(name, id="1")
    ts = exchange(shop, *(("t", "x") if wanted_is == "partitioned" else ("x", "t")))
    shop.insert("t", id="2")
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=r"(?s)a DDL cannot be replayed: .*EXCHANGE PARTITION.*skip-ddl = "):
        shop.run(rows)
    assert shop.rows("t") == [(1,)]
    shop.configure(skip_ddl=(SkipDdl(ts, "ALTER TABLE"),))
    shop.run(rows)
    assert shop.rows("t") == [(1,), (2,)]
    assert shop.rows("x") is None
    assert shop.condition("t") == "diverged"


def test_exchange_partition_of_tables_that_are_both_left_out_is_no_matter() -> None:
    shop = Shop(tables=("shop.t",))
    for name in ("t", "x", "y"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    exchange(shop, "x", "y")
    shop.insert("t", id="2")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(2,)]
    assert shop.condition("t") == "clean"


def out_and_in(protocol: str = "simple") -> Shop:
    """A table leaves the filter, is changed, and comes back."""
    shop = Shop(protocol, tables=("shop.t",))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.sql("RENAME TABLE t TO x")
    shop.insert("x", id="2")
    shop.sql("RENAME TABLE x TO t")
    shop.insert("t", id="3")
    shop.watermark()
    return shop


@PROTOCOLS
@BATCHES
def test_a_table_renamed_out_of_the_filter_is_kept_and_one_that_comes_back_is_marked(rows: int, protocol: str) -> None:
    """What happened to the table meanwhile was never read."""
    shop = out_and_in(protocol)
    shop.run(rows)
    assert shop.rows("t") == [(3,)]
    assert shop.condition("t") == "diverged"
    assert "its older rows are missing" in shop.status("t").detail
    kept = [name for _, name in shop.lab.lake.tables() if name.startswith("t_dropped_")]
    assert [shop.rows(name) for name in kept] == [[(1,)]]
    shop.insert("t", id="4")
    shop.watermark()
    shop.run(rows)
    assert shop.rows("t") == [(3,), (4,)]


def test_a_death_while_a_table_leaves_the_filter_and_comes_back_changes_nothing() -> None:

    def judge(shop: Shop) -> None:
        assert shop.rows("t") == [(3,)]
        assert shop.condition("t") == "diverged"

    assert after_every_death(out_and_in, judge) >= 12


@PROTOCOLS
def test_a_table_renamed_out_of_the_filter_stays_as_it_was(protocol: str) -> None:
    """It is not dropped, its new name is not filled, and status shows it."""
    shop = Shop(protocol, tables=("shop.t*",))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.watermark()
    shop.run()
    shop.sql("RENAME TABLE t TO x")
    shop.insert("x", id="2")
    shop.sql("CREATE TABLE t2 (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.rows("x"), shop.rows("t2")) == ([(1,)], None, [])
    assert shop.condition("t") == "kept"


@PROTOCOLS
@BATCHES
def test_a_table_renamed_into_the_filter_has_its_later_rows_and_is_marked(rows: int, protocol: str) -> None:
    """Its older rows were never read; the job does not pretend to have them."""
    shop = Shop(protocol, tables=("shop.t",))
    shop.sql("CREATE TABLE x (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("x", id="1", v="a")
    shop.sql("ALTER TABLE x ADD COLUMN n INT")
    shop.sql("RENAME TABLE x TO t")
    shop.insert("t", id="2", v="b", n="4")
    shop.watermark()
    if protocol != "simple":  # the schema of a table that was left out is not known
        with pytest.raises(UnsupportedDdl):
            shop.run(rows)
        return
    shop.run(rows)
    assert shop.rows("t") == [(2, "b", 4)]
    assert shop.condition("t") == "diverged"


@pytest.mark.parametrize("tables", [("shop.t",), ("shop.t", "shop.t_new"), ("shop.t", "shop.t_old")])
@BATCHES
def test_a_swap_with_a_table_that_is_left_out_is_marked_or_exact(rows: int, tables: tuple[str, ...]) -> None:
    """RENAME TABLE t TO t_old, t_new TO t, where the filter includes only some of the names."""
    shop = Shop(tables=tables)
    for name in ("t", "t_new"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(9))")
        shop.insert(name, id="1", v=name)
    first = shop.change("RENAME TABLE t TO t_old")
    shop.send_ddl(first)
    shop.send_ddl(shop.change("RENAME TABLE t_new TO t", ts=first.commit_ts))
    shop.insert("t", id="2", v="later")
    shop.insert("t_old", id="2", v="old")
    shop.watermark()
    shop.run(rows)
    exact = "shop.t_new" in tables
    assert shop.rows("t") == [*([(1, "t_new")] if exact else []), (2, "later")]
    assert shop.condition("t") == ("clean" if exact else "diverged")
    assert shop.rows("t_old") == ([(1, "t"), (2, "old")] if "shop.t_old" in tables else None)


# ---- `tables` is changed while something waits


WAITING = {
    "it is new": "CREATE TABLE u (id INT PRIMARY KEY)",
    "it is emptied": "TRUNCATE TABLE t",
    "it is another": "DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY)",
}


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("ddl", WAITING.values(), ids=WAITING)
def test_a_table_that_was_left_out_for_a_while_is_marked_whatever_waited_for_it(ddl: str, earlier: bool) -> None:
    """What is done to it once a watermark comes lies before the row that was not read, and takes no mark away."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.watermark()
    shop.run()
    for statement in ddl.split(";"):
        shop.sql(statement.strip())
    shop.run()
    name = "u" if " u " in ddl else "t"
    shop.configure(tables=("shop.others",))
    shop.insert(name, id="5")
    if earlier:
        shop.watermark()
    shop.run()
    shop.configure(tables=())
    shop.insert(name, id="6")
    shop.watermark()
    shop.run()
    assert shop.rows(name) == [(6,)]
    assert shop.condition(name) == "diverged"


@pytest.mark.parametrize(("point", "after"), [("create", True), ("apply rows", True), ("save the progress", False)])
def test_a_table_that_a_batch_made_before_it_was_interrupted_and_left_out_is_marked(point: str, after: bool) -> None:
    """The lake has it, and the progress does not: the batch was done again without it."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.insert("u", id="1")
    shop.watermark()
    shop.dies(point, after=after)
    shop.configure(tables=("shop.t",))
    shop.insert("u", id="2")
    shop.watermark()
    shop.run()
    shop.configure(tables=())
    shop.bootstrap("u")
    for number in "34":
        shop.insert("u", id=number)
        shop.watermark()
        shop.run()
    rows = shop.rows("u")
    assert rows is not None
    assert (2,) not in rows
    assert (4,) in rows
    assert shop.condition("u") == "diverged"


@pytest.mark.parametrize("tables", [("shop.t",), ("shop.x",)], ids=["out", "in"])
@pytest.mark.parametrize(
    ("point", "after"), [("stamp", True), ("rename", False), ("rename", True), ("save the progress", False)]
)
def test_a_rename_that_was_begun_comes_to_its_end_whatever_is_left_out_then(
    point: str, after: bool, tables: tuple[str, ...]
) -> None:
    """It would be a table that goes out of the filter, or comes into it. What is in the lake already stays so."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.watermark()
    shop.run()
    shop.sql("RENAME TABLE t TO x")
    shop.insert("x", id="2")
    shop.watermark()
    shop.dies(point, after=after)
    shop.configure(tables=tables)
    shop.run()
    shop.insert("x", id="3")
    shop.watermark()
    shop.run(again=True)
    shop.configure(tables=())
    shop.insert("x", id="4")
    shop.watermark()
    shop.run()
    rows = shop.rows("x")
    assert rows is not None
    assert {(1,), (4,)} <= set(rows)
    whole = rows == [(1,), (2,), (3,), (4,)]
    assert (shop.rows("t"), shop.condition("x")) == (None, "clean" if whole else "diverged")
    assert whole == ("shop.x" in tables)


@pytest.mark.parametrize("what", ["INSERT", "DROP TABLE x", "TRUNCATE TABLE x", "ALTER TABLE x ADD COLUMN v INT"])
@pytest.mark.parametrize("late", [False, True])
def test_what_was_left_out_before_the_rename_that_brings_its_name_marks_the_table(late: bool, what: str) -> None:
    """Seeds 8292371 (rows) and 9259521 (DDLs): the topic of the new name is read before that of the old one, and
    `tables` is widened between."""
    shop = Shop("simple", topic_per_table=True, tables=("*.t*",))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.watermark()
    shop.run()
    rename = shop.change("RENAME TABLE t TO x")
    if what == "INSERT":
        shop.insert("x", id="2")
    else:
        shop.sql(what)
    if not late:
        shop.send_ddl(rename)
    shop.run()
    shop.configure(tables=("*.*",))
    if late:
        shop.send_ddl(rename)
    if not what.startswith("DROP"):
        shop.insert("x", **{"id": "3", "v": "3"} if what.startswith("ALTER") else {"id": "3"})
    for _ in range(2):
        shop.watermark()
        shop.run()
    conditions = {name: one.condition for (_, name), one in shop.lab.view().tables.items()}
    assert "clean" not in conditions.values()
    if late or what == "INSERT":
        assert conditions["x"] == "diverged"


def test_a_full_read_of_a_table_that_tables_leaves_out_is_refused() -> None:
    shop = Shop(snapshot="now")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    shop.configure(tables=("*.*", "!*.t"))
    with pytest.raises(UsageError, match=r"'shop\.t': `tables` under \[job\] in .* excludes it"):
        shop.rebuild("t")
    shop.configure(tables=None)
    shop.rebuild("t")
