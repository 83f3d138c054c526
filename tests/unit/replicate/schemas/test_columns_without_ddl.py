"""Columns without a DDL, and a table that is made anew behind a schema file."""

from __future__ import annotations

import pytest

from tests.memory_sink.lake import Field
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.errors import DecisionNeeded

BATCHES = pytest.mark.parametrize("rows", [2, 1000])


def silently_changed() -> Shop:
    """A column that came by a DDL which TiCDC does not send, seen in a BOOTSTRAP."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="a")
    shop.change("ALTER TABLE t ADD COLUMN n INT, ADD COLUMN m INT")
    shop.bootstrap("t")
    shop.insert("t", id="2", v="b", n="5", m="6")
    shop.update("t", id="1", v="a", n="7")
    shop.watermark()
    return shop


@BATCHES
def test_a_death_after_columns_without_a_ddl_were_added_does_not_stick(rows: int) -> None:
    """The columns that are missing are those that the lake lacks."""

    def judge(shop: Shop) -> None:
        assert shop.columns("t") == ("id", "v", "n", "m")
        assert shop.rows("t") == [(1, "a", 7, None), (2, "b", 5, 6)]
        assert shop.condition("t") == "unverified"

    assert after_every_death(silently_changed, judge, rows) >= 14


def made_anew(protocol: str, between: tuple[str, ...]) -> Shop:
    create = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"
    shop = Shop(protocol, schema_sql=f"USE `shop`;\n{create};\n")
    shop.change(create)
    shop.insert("t", id="1", v="a")
    for ddl in between:
        shop.sql(ddl)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT, d DATETIME)")
    shop.insert("t", id="2", n="5", d="2024-01-01 00:00:00")
    shop.watermark()
    return shop


@BATCHES
@pytest.mark.parametrize(
    "between", [("DROP TABLE t",), ("RENAME TABLE t TO u",), ("RENAME TABLE t TO u", "DROP TABLE u")]
)
@pytest.mark.parametrize("protocol", ["open", "canal-json"])
def test_a_table_of_the_schema_file_that_is_made_anew_has_its_new_columns(
    protocol: str, between: tuple[str, ...], rows: int
) -> None:
    """Row, DROP, CREATE, row in one batch; rows name no schema, so each is read by that of its
    time."""

    def judge(shop: Shop) -> None:
        assert shop.columns("t") == ("id", "n", "d")
        assert [row[:2] for row in shop.rows("t") or ()] == [(2, 5)]
        assert shop.rows("u") == ([(1, "a")] if between == ("RENAME TABLE t TO u",) else None)
        assert shop.condition("t") == "clean"

    shop = made_anew(protocol, between)
    shop.run(rows)
    judge(shop)
    if rows == 1000:
        assert after_every_death(lambda: made_anew(protocol, between), judge) >= 10


@BATCHES
@pytest.mark.parametrize("protocol", ["open", "canal-json"])
def test_an_alter_of_a_table_of_the_schema_file_reads_rows_on_both_sides(protocol: str, rows: int) -> None:
    """The file has the table as it was before the topic."""
    create = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"
    shop = Shop(protocol, schema_sql=f"USE `shop`;\n{create};\n")
    shop.change(create)
    shop.insert("t", id="1", v="a")
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.sql("ALTER TABLE t ADD COLUMN v INT")
    shop.insert("t", id="2", v="5")
    shop.watermark()
    shop.run(rows)
    assert shop.rows("t") == [(1, None), (2, 5)]


def test_a_column_dropped_by_hand_after_an_interrupted_alter_stops_every_start_with_its_way_out() -> None:
    """Seed 7330830: the second start took the ALTER for one that had not come to its end, and set values of a column
    that is not there."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, c INT, v VARCHAR(9) NOT NULL)")
    shop.sql("ALTER TABLE t DROP COLUMN c")
    shop.insert("t", id="1", v="a")
    shop.watermark()
    shop.dies("apply rows of shop.t")
    shop.lab.lake.drop_column((SCHEMA, "t"), "v")
    for _ in range(3):
        with pytest.raises(DecisionNeeded, match="renamed columns in the target: `v`") as told:
            shop.run()
        assert "(ALTER TABLE `shop`.`t` ADD COLUMNS (`v` string))" in str(told.value)


@pytest.mark.parametrize("ddl", ["RENAME COLUMN c TO v", "ADD COLUMN v INT"])
def test_a_column_that_somebody_else_made_stops_a_ddl_that_brings_its_name(ddl: str) -> None:
    """Seed 7334081: the lake's table was there before the job, with the columns that the source's has in the end."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, c INT)")
    shop.watermark()
    shop.run()
    shop.stop()
    table = shop.lab.tables.tables[SCHEMA, "t"]
    table.fields = (*table.fields, Field(shop.lab.tables.next_id(), "v", table.fields[1].type))
    shop.sql(f"ALTER TABLE t {ddl}")
    shop.watermark()
    for _ in range(2):
        with pytest.raises(DecisionNeeded, match=r"column `v`.*rename or drop it"):
            shop.run()
    shop.lab.lake.drop_column((SCHEMA, "t"), "v")
    shop.run()
    assert "v" in shop.columns("t")


def in_type_change(*, after: bool) -> Shop:
    """A job that died in a type change, before or after it converted the values."""
    shop = Shop(source_timezone="America/New_York")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v DATETIME)")
    shop.insert("t", id="1", v="2024-01-01 00:00:00")
    shop.sql("ALTER TABLE t MODIFY COLUMN v VARCHAR(30)")
    shop.watermark()
    shop.dies("set column v of shop.t", after=after)
    assert "_ticdc_old" in shop.columns("t")
    shop.lab.lake.drop_column((SCHEMA, "t"), "_ticdc_old")
    return shop


def test_a_type_change_whose_old_values_somebody_dropped_stops_with_the_way_out() -> None:
    """Seed 7867416."""
    shop = in_type_change(after=False)
    for _ in range(2):
        with pytest.raises(DecisionNeeded, match=r"column `v`.*dropped `_ticdc_old`.*roll the table back"):
            shop.run()


def test_a_type_change_whose_old_values_somebody_dropped_at_its_end_is_done() -> None:
    shop = in_type_change(after=True)
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(1, "2024-01-01 00:00:00")], "clean")


@pytest.mark.parametrize(
    ("ddl", "column", "value"),
    [
        ("ADD COLUMN n INT NOT NULL DEFAULT 7", "n", 7),
        ("MODIFY COLUMN v VARCHAR(30)", "v", "2024-01-01 00:00:00"),
    ],
)
def test_a_new_column_that_somebody_dropped_before_it_had_its_values_stops_with_the_way_out(
    ddl: str, column: str, value: object
) -> None:
    """Seed 9087181."""
    shop = Shop(source_timezone="America/New_York")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v DATETIME)")
    shop.insert("t", id="1", v="2024-01-01 00:00:00")
    shop.sql(f"ALTER TABLE t {ddl}")
    shop.watermark()
    shop.dies(f"set column {column} of shop.t")
    table = shop.lab.tables.tables[SCHEMA, "t"]
    (field,) = (one for one in table.fields if one.name == column)
    shop.lab.lake.drop_column((SCHEMA, "t"), column)
    for _ in range(2):
        with pytest.raises(DecisionNeeded, match=rf"gives values to column `{column}`.*ADD COLUMNS \(`{column}` "):
            shop.run()
    table.fields = (*table.fields, Field(shop.lab.tables.next_id(), column, field.type))
    shop.run()
    assert [row[-1] for row in shop.rows("t") or ()] == [value]
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize("protocol", ["simple", "canal-json", "debezium"])
@pytest.mark.parametrize("ddl", ["MODIFY COLUMN v VARCHAR(30)", "ADD COLUMN n INT NOT NULL DEFAULT 7"])
@pytest.mark.parametrize("first", ["RENAME TABLE t TO u", "ALTER TABLE t ADD COLUMN a INT NOT NULL DEFAULT 5"])
def test_the_second_of_two_ddls_of_one_commit_ts_is_done_whole_after_every_death(
    first: str, ddl: str, protocol: str
) -> None:
    """Its commits follow those of the first: one in the middle is not the last."""
    name = "u" if first.startswith("RENAME") else "t"

    def make() -> Shop:
        shop = Shop(protocol, source_timezone="America/New_York")
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v DATETIME)")
        shop.insert("t", id="1", v="2024-01-01 00:00:00")
        shop.watermark()
        shop.run()
        change = shop.change(first)
        shop.send_ddl(change)
        shop.send_ddl(shop.change(f"ALTER TABLE {name} {ddl}", ts=change.commit_ts))
        shop.watermark()
        return shop

    def seen(shop: Shop) -> object:
        return shop.columns(name), shop.rows(name), shop.condition(name)

    whole = make()
    whole.run()
    wanted = seen(whole)

    def judge(shop: Shop) -> None:
        assert seen(shop) == wanted

    assert after_every_death(make, judge) > 5


@pytest.mark.parametrize("ddl", ["MODIFY COLUMN v VARCHAR(30), RENAME TO u", "RENAME TO u, ADD COLUMN n INT DEFAULT 7"])
def test_an_alter_that_renames_too_is_done_whole_after_every_death(ddl: str) -> None:
    def make() -> Shop:
        shop = Shop(source_timezone="America/New_York")
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v DATETIME)")
        shop.insert("t", id="1", v="2024-01-01 00:00:00")
        shop.sql(f"ALTER TABLE t {ddl}")
        shop.watermark()
        return shop

    whole = make()
    whole.run()

    def judge(shop: Shop) -> None:
        assert (shop.columns("u"), shop.rows("u")) == (whole.columns("u"), whole.rows("u"))

    assert after_every_death(make, judge) > 5


@pytest.mark.parametrize("protocol", ["simple", "canal-json", "debezium"])
def test_a_column_that_one_alter_drops_and_adds_again_marks_the_table(protocol: str) -> None:
    """The source has the default in every row then; schemas alone do not show it."""
    shop = Shop(protocol)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="5")
    shop.sql("ALTER TABLE t DROP COLUMN v, ADD COLUMN `V` BIGINT NOT NULL DEFAULT 3")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "diverged"
    assert "dropped and added by one ALTER" in shop.status("t").detail


EXCHANGES = {
    "RENAME COLUMN v TO n, RENAME COLUMN n TO v": (("id", "n", "v"), [(1, "a", 5), (2, "b", 6)]),
    "CHANGE v n VARCHAR(9), CHANGE n v BIGINT": (("id", "n", "v"), [(1, "a", 5), (2, "b", 6)]),
    "CHANGE v n VARCHAR(9) AFTER v, CHANGE n v BIGINT": (("id", "v", "n"), [(1, 5, "a"), (2, 6, "b")]),
    "CHANGE v n TEXT, CHANGE n v VARCHAR(20)": (("id", "n", "v"), [(1, "a", "5"), (2, "b", "6")]),
    "RENAME COLUMN v TO w, RENAME COLUMN n TO v": (("id", "w", "v"), [(1, "a", 5), (2, "b", 6)]),
    "RENAME COLUMN v TO n, DROP COLUMN n": (("id", "n"), [(1, "a"), (2, "b")]),
    "RENAME COLUMN v TO w, ADD COLUMN v INT DEFAULT 3": (("id", "w", "n", "v"), [(1, "a", 5, 3), (2, "b", 6, 3)]),
}


@pytest.mark.parametrize("protocol", ["simple", "open"])
@pytest.mark.parametrize("parts", EXCHANGES)
def test_columns_that_exchange_their_names_in_one_statement(protocol: str, parts: str) -> None:
    columns, rows = EXCHANGES[parts]

    def story() -> Shop:
        create = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), n INT)"
        shop = Shop(protocol, schema_sql=f"USE `shop`;\n{create};\n")
        shop.sql(create)
        shop.insert("t", id="1", v="a", n="5")
        shop.sql(f"ALTER TABLE t {parts}")
        two = {name: str(value) for name, value in zip(columns, rows[1], strict=True)}
        shop.insert("t", **two)
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert shop.columns("t") == columns
        assert shop.rows("t") == rows
        assert shop.condition("t") == "clean"

    assert after_every_death(story, judge, 2) >= 6
