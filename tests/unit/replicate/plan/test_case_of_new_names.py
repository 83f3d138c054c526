"""Tables that come, or are told apart, by names that differ in case only; and what else of a job has names."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.shop import Shop
from tests.unit.replicate.plan.test_case_of_names import BATCHES, PROTOCOLS, TABLE, insert_as, renamed, sold
from ticdc_spark.errors import DecisionNeeded, UsageError
from ticdc_spark.model import SchemaChange


def first_of(shop: Shop, *topics: str) -> None:
    """Topics that are there from the beginning."""
    for topic in topics:
        shop.send(shop.encoder.watermark(shop.ts), topic)


@PROTOCOLS
@BATCHES
def test_a_table_that_is_made_again_in_another_case_keeps_its_name_in_the_lake(protocol: str, rows: int) -> None:
    """Of TiDB: it is one name. Rows may be read before the CREATE, in another partition."""
    shop = sold(protocol)
    table = shop.tables["shop", "t"]
    shop.sql("DROP TABLE t")
    ts = shop.tick()
    new = renamed(table, "shop", "T")
    query = TABLE.replace(" t ", " T ")
    made = SchemaChange(commit_ts=ts, query=query, kind="CREATE", schema="shop", name="T", table=new)
    shop.send_ddl(made, "cdc")
    shop.tables["shop", "t"] = table
    insert_as(shop, "shop", "T", {"id": "2", "w": "b"})
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("t"), shop.condition("t")) == ([(2, "b")], "clean")
    shop.send_ddl(made, "cdc")
    insert_as(shop, "shop", "T", {"id": "3", "w": "c"})
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("t"), shop.condition("t")) == ([(2, "b"), (3, "c")], "clean")
    assert set(shop.lab.view().tables) == {("shop", "t")}


@pytest.mark.parametrize("protocol", ["simple", "open"])
@BATCHES
def test_rows_before_the_drop_of_a_table_that_is_made_again_in_another_case_are_of_the_old_one(
    protocol: str, rows: int
) -> None:
    """The table was there before the changefeed, so no DDL brought its name."""
    shop = Shop(protocol)
    shop.change(TABLE)
    table = shop.tables["shop", "t"]
    shop.insert("t", id="1", w="a")
    shop.sql("DROP TABLE t")
    ts = shop.tick()
    new = renamed(table, "shop", "T")
    query = TABLE.replace(" t ", " T ")
    shop.send_ddl(SchemaChange(commit_ts=ts, query=query, kind="CREATE", schema="shop", name="T", table=new), "cdc")
    shop.tables["shop", "t"] = table
    insert_as(shop, "shop", "T", {"id": "2", "w": "b"})
    shop.watermark()
    shop.run(rows)
    (name,) = (name for _, name in shop.lab.view().tables if shop.rows(name) is not None)
    assert (shop.rows(name), shop.condition(name)) == ([(2, "b")], "clean")


@BATCHES
def test_a_table_that_an_alter_brings_is_renamed_under_a_database_of_another_case(rows: int) -> None:
    """The table was there before the changefeed, and the database of a message may change its case (tiflow#10047)."""
    shop = Shop("simple")
    shop.change(TABLE)
    shop.sql("ALTER TABLE t ADD COLUMN z INT")
    change = shop.change("RENAME TABLE t TO t3", typed="RENAME TABLE SHOP.t TO shop.t3")
    assert change.table is not None and change.pre_table is not None
    table, before = renamed(change.table, "SHOP", "t3"), renamed(change.pre_table, "SHOP", "t")
    shop.send_ddl(msgspec.structs.replace(change, schema="SHOP", table=table, pre_table=before))
    shop.insert("t3", id="2", w="b", z="1")
    shop.watermark()
    shop.run(rows)
    assert set(shop.lab.lake.tables()) == {("shop", "t3")}
    assert shop.rows("t3") == [(2, "b", 1)]


def test_a_rename_that_is_the_first_to_name_a_database_stays_in_it_whatever_its_letters() -> None:
    shop = Shop("simple")
    shop.change(TABLE)
    change = shop.change("RENAME TABLE t TO t3", typed="RENAME TABLE shop.t TO SHOP.t3")
    assert change.table is not None
    shop.send_ddl(msgspec.structs.replace(change, table=renamed(change.table, "SHOP", "t3")))
    shop.insert("t3", id="1", w="a")
    shop.sql("TRUNCATE TABLE t3")
    shop.insert("t3", id="2", w="b")
    shop.watermark()
    shop.run()
    assert set(shop.lab.lake.tables()) == {("shop", "t3")}
    assert shop.rows("t3") == [(2, "b")]


@PROTOCOLS
@BATCHES
def test_a_second_table_whose_name_differs_in_case_only_stops_the_job(protocol: str, rows: int) -> None:
    """Of a server that compares names with case."""
    shop = sold(protocol)
    upper = renamed(shop.tables["shop", "t"], "shop", "T")
    made = SchemaChange(
        commit_ts=shop.tick(),
        query=TABLE.replace(" t ", " T "),
        kind="CREATE",
        schema="shop",
        name="T",
        table=msgspec.structs.replace(upper, table_id=99),
    )
    shop.send_ddl(made, "cdc")
    insert_as(shop, "shop", "T", {"id": "7", "w": "u"})
    shop.insert("t", id="2", w="b")
    shop.watermark()
    with pytest.raises(DecisionNeeded, match="a table whose name differs only in upper and lower case"):
        shop.run(rows)
    assert shop.rows("t") == [(1, "a")]


@PROTOCOLS
def test_what_waits_is_stored_by_the_name_of_the_table(protocol: str) -> None:
    shop = sold(protocol)
    insert_as(shop, "SHOP", "t", {"id": "2", "w": "b"})
    shop.sql("ALTER TABLE t ADD COLUMN z INT", typed="ALTER TABLE T ADD COLUMN z INT")
    shop.run()
    progress = shop.lab.state.progress
    assert progress is not None
    (ddl,), (rows,) = progress.ddls, progress.pending
    assert (ddl.change.schema, ddl.change.name, ddl.change.named) == ("shop", "t", (("shop", "t"),))
    assert (rows.schema, rows.name) == ("shop", "t")


@pytest.mark.parametrize("protocol", ["open", "canal-json", "debezium"])
def test_a_ddl_that_is_read_before_what_makes_its_table_finds_it(protocol: str) -> None:
    """Of two topics, the one with the RENAME is read first."""
    shop = Shop(protocol, topic_per_table=True)
    first_of(shop, "cdc_shop_a")
    create = shop.change("CREATE TABLE a (id INT PRIMARY KEY)")
    rename = shop.change("RENAME TABLE a TO b", typed="RENAME TABLE A TO b")
    shop.send_ddl(rename, "cdc_shop_b")
    shop.watermark("cdc_shop_b")
    shop.run()
    shop.send_ddl(create, "cdc_shop_a")
    shop.insert("b", id="1")
    shop.watermark()
    shop.run()
    assert (shop.rows("a"), shop.rows("b")) == (None, [(1,)])


def test_in_arrival_mode_a_ddl_under_another_case_that_comes_again_is_passed_over() -> None:
    shop = Shop("canal-json", mode="arrival")
    shop.sql(TABLE)
    shop.insert("t", id="1", w="a")
    shop.run()
    drop = shop.change("ALTER TABLE t DROP COLUMN w", typed="ALTER TABLE T DROP COLUMN w")
    add = shop.change("ALTER TABLE t ADD COLUMN w VARCHAR(9)")
    for change in (drop, add):
        shop.send_ddl(change)
    insert_as(shop, "SHOP", "T", {"id": "2", "w": "b"})
    shop.run()
    for change in (drop, add):
        shop.send_ddl(change)
    shop.run()
    assert [(row["id"], row["w"]) for row in shop.lab.lake.tables()["shop", "t"].rows] == [(1, None), (2, "b")]
    assert set(shop.lab.view().tables) == {("shop", "t")}


@PROTOCOLS
def test_a_filter_lets_a_table_in_whatever_the_case_of_its_name(protocol: str) -> None:
    shop = Shop(protocol, tables=("SHOP.T",))
    shop.sql(TABLE)
    shop.sql("CREATE TABLE out_of_it (id INT PRIMARY KEY)")
    insert_as(shop, "SHOP", "t", {"id": "1", "w": "a"})
    shop.sql("RENAME TABLE out_of_it TO left_out", typed="RENAME TABLE OUT_of_it TO left_out")
    shop.sql("ALTER TABLE t DROP COLUMN w", typed="ALTER TABLE T DROP COLUMN w")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(1,)], "clean")


def test_a_schema_file_in_another_case_reads_the_rows_of_the_table() -> None:
    shop = Shop("open")
    shop.change(TABLE)
    shop.insert("t", id="1", w="a")
    shop.watermark()
    shop.run()
    assert shop.rows("t") is None
    shop.configure(schema_sql=f"USE SHOP;\n{TABLE.replace(' t ', ' T ')};\n")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, "a")]


@pytest.mark.parametrize("rows", [1, 1000])
def test_a_rename_finds_a_table_that_is_known_by_its_rows_alone(rows: int) -> None:
    shop = Shop("open")
    shop.change(TABLE)
    shop.insert("t", id="1", w="a")
    shop.sql("RENAME TABLE t TO t2", typed="RENAME TABLE T TO t2")
    shop.watermark()
    shop.run(rows)
    shop.configure(schema_sql=f"USE shop;\n{TABLE};\n")
    shop.insert("t2", id="2", w="b")
    shop.watermark()
    shop.run(rows)
    assert set(shop.lab.lake.tables()) == {("shop", "t2")}
    assert shop.rows("t2") == [(1, "a"), (2, "b")]


def test_a_table_takes_the_name_in_another_case_of_one_that_was_known_by_its_rows_alone() -> None:
    shop = Shop("simple")
    shop.change("CREATE TABLE old (id INT PRIMARY KEY)")
    shop.insert("old", id="1")
    shop.sql("CREATE TABLE new (id INT PRIMARY KEY)")
    away = shop.change("RENAME TABLE old TO older")
    taken = shop.change("RENAME TABLE new TO old", typed="RENAME TABLE new TO SHOP.Old", ts=away.commit_ts)
    assert taken.table is not None
    shop.send_ddl(msgspec.structs.replace(taken, table=renamed(taken.table, "shop", "Old")))
    shop.send_ddl(away)
    insert_as(shop, "shop", "Old", {"id": "2"}, table="old")
    shop.watermark()
    shop.run()
    assert (shop.rows("older"), shop.rows("old"), shop.rows("Old")) == ([(1,)], [(2,)], None)


def test_a_table_that_only_an_alter_names_gives_up_its_name_to_another_one() -> None:
    """It was there before the changefeed, and `tables` lets it go where it is renamed."""
    shop = Shop("simple", tables=("shop.t*",))
    shop.change("CREATE TABLE t_old (id INT PRIMARY KEY, c INT)")
    shop.sql("CREATE TABLE t2 (id INT PRIMARY KEY)")
    shop.sql("ALTER TABLE t_old DROP COLUMN c", typed="ALTER TABLE T_old DROP COLUMN c")
    away = shop.change("RENAME TABLE t_old TO x1", typed="RENAME TABLE shop.T_OLD TO shop.x1")
    taken = shop.change("RENAME TABLE t2 TO t_old", typed="RENAME TABLE shop.t2 TO shop.T_OLD", ts=away.commit_ts)
    assert away.pre_table is not None
    assert taken.table is not None
    shop.send_ddl(msgspec.structs.replace(away, pre_table=renamed(away.pre_table, "shop", "T_OLD")))
    shop.send_ddl(msgspec.structs.replace(taken, table=renamed(taken.table, "shop", "T_OLD")))
    insert_as(shop, "shop", "T_OLD", {"id": "2"}, table="t_old")
    shop.watermark()
    shop.run()
    (name,) = (name for name in shop.lab.lake.tables() if name[1].lower() == "t_old")
    assert shop.rows(name[1]) == [(2,)]


@pytest.mark.parametrize("renames", [False, True])
@PROTOCOLS
def test_a_ddl_and_rows_that_are_read_before_the_create_of_another_topic_are_of_one_table(
    protocol: str, renames: bool
) -> None:
    """Rows have the database as it is, and DDL has it in lower case (tiflow#10047)."""
    shop = Shop(protocol)
    first_of(shop, "cdc", "cdc_x")
    if renames:
        shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    query = "RENAME TABLE a TO Bin.t" if renames else "CREATE TABLE Bin.t (id INT PRIMARY KEY)"
    typed = "RENAME TABLE a TO bin.t" if renames else "CREATE TABLE t (id INT PRIMARY KEY)"
    made = shop.change(query, schema="shop" if renames else "Bin", typed=typed)
    altered = shop.change("ALTER TABLE Bin.t ADD COLUMN w INT", schema="Bin", typed="ALTER TABLE t ADD COLUMN w INT")
    shop.send_ddl(in_lower_case(altered), "cdc_x")
    shop.send_row(shop.row("insert", ("Bin", "t"), {"id": "1"}), "cdc_x")
    shop.run()
    shop.send_ddl(in_lower_case(made), "cdc")
    shop.watermark()
    shop.run()
    found = shop.lab.view().tables
    (name,) = (name for name, table in found.items() if table.condition != "dropped")
    assert name in (("Bin", "t"), ("bin", "t"))
    # The SQL of the RENAME does not say in which database its table was, and no CREATE DATABASE was read.
    guessed = renames and protocol != "simple"
    assert found[name].condition == ("diverged" if guessed else "clean")
    assert shop.rows("t", name[0]) == [(1, None)]
    assert shop.lab.state.progress is not None
    assert not shop.lab.state.progress.pending


def in_lower_case(change: SchemaChange) -> SchemaChange:
    """A DDL whose message has its database in lower case."""
    tables = {
        name: msgspec.structs.replace(table, schema=table.schema.lower())
        for name in ("table", "pre_table")
        if (table := getattr(change, name)) is not None
    }
    return msgspec.structs.replace(change, schema=change.schema.lower(), **tables)


@BATCHES
def test_a_name_that_another_topic_gives_up_at_the_same_moment_is_no_second_table(rows: int) -> None:
    """Seed 1473775: the first RENAME of a swap was read after the second one, and after a row of the old table."""
    shop = Shop("open")
    first_of(shop, "cdc_a", "cdc_b")
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
    shop.sql("CREATE TABLE x2 (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    shop.sql("RENAME TABLE a TO t1")
    shop.run()
    insert_as(shop, "shop", "T1", {"id": "1", "v": "5"}, table="t1")
    away = shop.change("RENAME TABLE t1 TO t2")
    taken = shop.change("RENAME TABLE x2 TO t1", typed="RENAME TABLE x2 TO T1", ts=away.commit_ts)
    shop.send_ddl(msgspec.structs.replace(taken, name="T1"), "cdc_b")
    shop.run(rows)
    shop.send_ddl(away, "cdc_a")
    shop.watermark()
    shop.run(rows)
    assert set(shop.lab.lake.tables()) == {("shop", "t1"), ("shop", "t2")}
    assert (shop.rows("t2"), shop.rows("t1")) == ([(1, 5)], [])
    assert (shop.condition("t2"), shop.condition("t1")) == ("clean", "clean")


def test_on_a_server_that_tells_case_apart_a_rename_to_a_name_in_other_letters_stops_the_job() -> None:
    shop = Shop("simple")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    came = shop.change("RENAME TABLE u TO v", typed="RENAME TABLE shop.u TO shop.T")
    assert came.table is not None
    shop.send_ddl(msgspec.structs.replace(came, table=renamed(came.table, "shop", "T")))
    shop.watermark()
    with pytest.raises(DecisionNeeded, match="`t` is a table of this job"):
        shop.run()


def test_schema_files_in_which_a_table_has_two_spellings_are_refused() -> None:
    shop = Shop("open")
    shop.configure(schema_sql=f"USE shop;\n{TABLE};\n{TABLE.replace(' t ', ' T ')};\n")
    shop.watermark()
    with pytest.raises(UsageError, match=r"`shop`.`T` and `shop`.`t` differ only in upper"):
        shop.run()


def test_databases_in_two_spellings_of_schema_files_are_one() -> None:
    shop = Shop("open")
    for name in ("t", "u"):
        shop.change(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        shop.insert(name, id="1")
    creates = "CREATE TABLE SHOP.t (id INT PRIMARY KEY);\nCREATE TABLE shop.u (id INT PRIMARY KEY);\n"
    shop.configure(schema_sql=creates)
    shop.watermark()
    shop.run()
    assert {name.lower() for name, _ in shop.lab.lake.tables()} == {"shop"}
    assert len({name for name, _ in shop.lab.lake.tables()}) == 1
