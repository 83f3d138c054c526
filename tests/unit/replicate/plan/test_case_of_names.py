"""Names of tables and databases in another case than the one by which the job knows them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import Row, Table

PROTOCOLS = pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium", "simple"])
BATCHES = pytest.mark.parametrize("rows", [1, 3, 1000])
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, w VARCHAR(9))"


def sold(protocol: str, *, topic_per_table: bool = False, **job: Any) -> Shop:
    """A table with one row, which the job has."""
    shop = Shop(protocol, topic_per_table=topic_per_table, **job)
    shop.sql(TABLE)
    shop.insert("t", id="1", w="a")
    shop.watermark()
    shop.run()
    return shop


def renamed(table: Table, schema: str, name: str) -> Table:
    return msgspec.structs.replace(table, schema=schema, name=name)


def insert_as(shop: Shop, schema: str, name: str, row: Row, table: str = "t") -> None:
    """A row of a table of the shop, in whose message it has another name."""
    change = shop.row("insert", ("shop", table), row)
    shop.send_row(msgspec.structs.replace(change, table=renamed(change.table, schema, name)), shop.topic(None))


def ran_again(protocol: str, first: str, second: str) -> Shop:
    """A column is taken away and comes back, by two DDLs that are sent again after rows."""
    shop = sold(protocol)
    one = shop.change(first, typed=first.replace(" t ", " T "))
    shop.send_ddl(one)
    two = shop.change(second)
    shop.send_ddl(two)
    shop.insert("t", id="2", w="007")
    shop.watermark()
    shop.run()
    for change in (one, two):
        shop.send_ddl(change)
    shop.sql("ALTER TABLE t ADD COLUMN z INT")
    shop.insert("t", id="3", w="c", z="3")
    shop.watermark()
    return shop


@PROTOCOLS
@BATCHES
def test_a_column_that_was_dropped_under_another_case_and_added_keeps_its_values(protocol: str, rows: int) -> None:
    shop = ran_again(protocol, "ALTER TABLE t DROP COLUMN w", "ALTER TABLE t ADD COLUMN w VARCHAR(9)")
    shop.run(rows)
    assert shop.rows("t") == [(1, None, None), (2, "007", None), (3, "c", 3)]
    assert shop.condition("t") == "clean"
    assert set(shop.lab.view().tables) == {("shop", "t")}


@PROTOCOLS
def test_a_type_that_was_changed_under_another_case_and_back_keeps_its_values(protocol: str) -> None:
    shop = Shop(protocol)
    shop.sql(TABLE)
    shop.insert("t", id="1", w="1")
    shop.watermark()
    shop.run()
    one = shop.change("ALTER TABLE t MODIFY w INT", typed="ALTER TABLE SHOP.T MODIFY w INT")
    shop.send_ddl(one)
    two = shop.change("ALTER TABLE t MODIFY w VARCHAR(9)")
    shop.send_ddl(two)
    shop.insert("t", id="2", w="007")
    shop.watermark()
    shop.run()
    for change in (one, two):
        shop.send_ddl(change)
    shop.sql("ALTER TABLE t ADD COLUMN z INT")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, "1", None), (2, "007", None)]


@pytest.mark.parametrize("protocol", ["open", "simple"])
def test_ddl_that_is_sent_again_under_another_case_is_passed_over_wherever_the_job_was_killed(protocol: str) -> None:
    def judge(shop: Shop) -> None:
        assert shop.rows("t") == [(1, None, None), (2, "007", None), (3, "c", 3)]
        assert shop.condition("t") == "clean"

    def make() -> Shop:
        return ran_again(protocol, "ALTER TABLE t DROP COLUMN w", "ALTER TABLE t ADD COLUMN w VARCHAR(9)")

    assert after_every_death(make, judge) >= 6


@PROTOCOLS
@pytest.mark.parametrize(
    "query", ["ALTER TABLE t DROP COLUMN w", "TRUNCATE TABLE t", "RENAME TABLE t TO u", "DROP TABLE t"]
)
def test_one_ddl_that_is_sent_again_alone_does_not_hold_the_job(protocol: str, query: str) -> None:
    shop = sold(protocol)
    change = shop.change(query, typed=query.replace(" t", " T"))
    shop.send_ddl(change)
    shop.watermark()
    shop.run()
    before = {name: shop.status(name).condition for name in ("t", "u") if ("shop", name) in shop.lab.view().tables}
    shop.send_ddl(change)
    passed = shop.watermark()
    shop.run()
    assert shop.applied == passed - 1
    assert {name: shop.status(name).condition for name in before} == before
    assert set(shop.lab.view().tables) <= {("shop", "t"), ("shop", "u")}


@PROTOCOLS
@pytest.mark.parametrize("typed", ["T", "SHOP.T"])
def test_skip_ddl_marks_the_table_that_the_sql_names_in_another_case(protocol: str, typed: str) -> None:
    shop = sold(protocol)
    ts = shop.sql("ALTER TABLE t ADD COLUMN z INT", typed=f"ALTER TABLE {typed} ADD COLUMN z INT")
    shop.configure(skip_ddl=(SkipDdl(ts, f"ALTER TABLE {typed}"),))
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "diverged"
    assert "skip-ddl left out" in shop.status("t").detail
    assert set(shop.lab.view().tables) == {("shop", "t")}


@PROTOCOLS
@BATCHES
def test_drop_database_in_another_case_drops_its_tables(protocol: str, rows: int) -> None:
    shop = sold(protocol)
    shop.sql("DROP DATABASE shop", typed="DROP DATABASE SHOP")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("t"), shop.condition("t")) == (None, "dropped")


@PROTOCOLS
def test_a_database_that_comes_back_in_another_case_keeps_its_name(protocol: str) -> None:
    shop = Shop(protocol)
    shop.sql("CREATE DATABASE shop", typed="CREATE DATABASE Shop")
    shop.sql(TABLE)
    shop.insert("t", id="1", w="a")
    shop.watermark()
    shop.run()
    assert len({schema for schema, _ in shop.lab.lake.tables()}) == 1
    shop.sql("DROP DATABASE shop", typed="DROP DATABASE sHOP")
    shop.sql("CREATE DATABASE shop", typed="CREATE DATABASE SHOP")
    shop.sql(TABLE)
    shop.insert("t", id="2", w="b")
    shop.watermark()
    shop.run()
    ((name, table),) = shop.lab.lake.tables().items()
    assert [row["id"] for row in table.rows] == [2]
    assert shop.status("t", name[0]).condition == "clean"


@PROTOCOLS
@BATCHES
def test_a_table_is_made_in_a_database_that_the_sql_names_in_another_case(protocol: str, rows: int) -> None:
    shop = sold(protocol)
    create = "CREATE TABLE {} (id INT PRIMARY KEY, v INT)"
    shop.sql(create.format("t2"), typed=create.format("SHOP.t2"))
    shop.insert("t2", id="1", v="7")
    shop.sql("CREATE TABLE t3 LIKE t2", typed="CREATE TABLE t3 LIKE Shop.T2")
    shop.insert("t3", id="2", v="8")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("t2"), shop.rows("t3")) == ([(1, 7)], [(2, 8)])
    assert (shop.condition("t2"), shop.condition("t3")) == ("clean", "clean")


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize("typed", ["RENAME TABLE T TO SHOP.u", "ALTER TABLE T RENAME TO SHOP.u"])
def test_a_table_gets_a_name_in_a_database_that_the_sql_names_in_another_case(
    typed: str, protocol: str, rows: int
) -> None:
    shop = sold(protocol)
    shop.sql(typed.replace("SHOP.", "").replace(" T ", " t "), typed=typed)
    shop.insert("u", id="2", w="b")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("t"), shop.rows("u")) == (None, [(1, "a"), (2, "b")])
    assert shop.condition("u") == "clean"


@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
def test_a_table_goes_into_another_database_under_names_of_another_case(protocol: str) -> None:
    shop = sold(protocol)
    shop.sql("CREATE DATABASE bin")
    change = shop.change("RENAME TABLE t TO bin.u", typed="RENAME TABLE T TO BIN.u")
    shop.send_ddl(msgspec.structs.replace(change, schema="bin"), "cdc")
    shop.insert("u", "bin", id="2", w="b")
    shop.watermark()
    shop.run()
    assert shop.rows("t") is None
    assert shop.rows("u", "bin") == [(1, "a"), (2, "b")]


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize("taken", ["x1", "X1"])
@pytest.mark.parametrize("per_table", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_renames_of_one_moment_are_applied_in_the_order_of_their_names(
    first: int, per_table: bool, taken: str, rows: int, protocol: str
) -> None:
    shop = Shop(protocol, topic_per_table=per_table)
    for name, number in (("x1", "1"), ("t3", "3")):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        shop.insert(name, id=number)
    shop.watermark()
    shop.run()
    one = shop.change("RENAME TABLE x1 TO t1", typed="RENAME TABLE X1 TO t1")
    two = shop.change("RENAME TABLE t3 TO x1", typed=f"RENAME TABLE T3 TO {taken}", ts=one.commit_ts)
    for change in (one, two) if first == 0 else (two, one):
        shop.send_ddl(change)
    shop.insert("x1", id="31")
    shop.insert("t1", id="11")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("t1"), shop.rows("x1"), shop.rows("t3")) == ([(1,), (11,)], [(3,), (31,)], None)
    assert (shop.condition("t1"), shop.condition("x1")) == ("clean", "clean")


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize("name", [("SHOP", "t"), ("shop", "T"), ("Shop", "T")])
def test_rows_whose_message_has_a_name_in_another_case_are_of_the_table(
    name: tuple[str, str], rows: int, protocol: str
) -> None:
    shop = Shop(protocol)
    shop.sql(TABLE)
    shop.insert("t", id="1", w="a")
    insert_as(shop, *name, {"id": "2", "w": "b"})
    shop.watermark()
    shop.run(rows)
    insert_as(shop, *name, {"id": "3", "w": "c"})
    shop.sql("ALTER TABLE t ADD COLUMN z INT", typed=f"ALTER TABLE {'.'.join(name)} ADD COLUMN z INT")
    shop.watermark()
    shop.run(rows)
    assert shop.rows("t") == [(1, "a", None), (2, "b", None), (3, "c", None)]
    assert shop.condition("t") == "clean"
    assert set(shop.lab.view().tables) == {("shop", "t")}


@PROTOCOLS
def test_rows_that_come_again_under_another_case_count_as_replays(protocol: str) -> None:
    shop = Shop(protocol)
    shop.sql(TABLE)
    row = shop.row("insert", ("shop", "t"), {"id": "1", "w": "a"})
    shop.send_row(row)
    shop.watermark()
    shop.update("t", id="1", w="b")
    shop.watermark()
    shop.run()
    shop.send_row(msgspec.structs.replace(row, table=renamed(row.table, "SHOP", "t")), "cdc")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(1, "b")], "clean")
    assert shop.lab.state.progress is not None
    assert shop.lab.state.progress.counters.replays > 0


@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
@pytest.mark.parametrize("made", [True, False])
def test_a_table_that_a_rename_names_without_its_database_is_marked_unless_all_tables_are_known(
    made: bool, protocol: str
) -> None:
    """A table `bin.t` may have been there before the changefeed."""
    shop = sold(protocol)
    if made:
        shop.sql("CREATE DATABASE bin")
    change = shop.change("RENAME TABLE t TO bin.u", typed="RENAME TABLE t TO bin.u")
    shop.send_ddl(msgspec.structs.replace(change, schema="bin"), "cdc")
    shop.watermark()
    shop.run()
    assert (shop.rows("u", "bin"), shop.status("u", "bin").condition) == ([(1, "a")], "clean" if made else "diverged")


@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
def test_a_rename_that_may_be_of_two_tables_stops_the_job(protocol: str) -> None:
    shop = sold(protocol)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)", schema="bin")
    change = shop.change("RENAME TABLE t TO bin.u", typed="RENAME TABLE t TO bin.u")
    shop.send_ddl(msgspec.structs.replace(change, schema="bin"), "cdc")
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match="it may be one of several, such as `shop`"):
        shop.run()
    assert (shop.rows("t"), shop.rows("t", "bin")) == ([(1, "a")], [])
