"""Virtual generated columns, which no message has: the job computes the values that it is sure of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.draw_snapshots import draw_generated
from tests.simulator.job_lab import JobLab
from tests.simulator.story import run
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from tests.unit.replicate.test_exchange import exchange
from tests.unit.replicate.test_partition_ddl import BY_RANGE
from ticdc_spark.config.job import Recording, Route
from ticdc_spark.model import RowChange

PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
COLUMNS = "id INT PRIMARY KEY, a INT, b DECIMAL(9,2), total DECIMAL(12,2) AS (a * b) VIRTUAL"


def shop_of(protocol: str = "simple", columns: str = COLUMNS, **job: Any) -> Shop:
    shop = Shop(protocol, **job)
    shop.sql(f"CREATE TABLE t ({columns})")
    shop.insert("t", id="1", a="2", b="1.50")
    shop.insert("t", id="2", a="3", b="0.10")
    shop.insert("t", id="3", a="3", b=None)
    shop.watermark()
    return shop


def rows(shop: Shop, table: str = "t") -> list[tuple[str, ...]]:
    return [tuple(map(str, row)) for row in shop.rows(table) or ()]


def read(shop: Shop) -> None:
    for _ in range(3):
        shop.watermark()
        shop.run()


@PROTOCOLS
@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_a_row_has_the_value_of_its_expression(protocol: str, batch: int) -> None:
    shop = shop_of(protocol)
    shop.update("t", id="2", a="5", b="0.10")
    shop.delete("t", id="3")
    shop.watermark()
    shop.run(batch)
    assert rows(shop) == [("1", "2", "1.50", "3.00"), ("2", "5", "0.10", "0.50")]
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_full_reads_and_the_topic_compute_the_same_values(protocol: str) -> None:
    shop = shop_of(protocol, snapshot="now")
    shop.run()
    fed = rows(shop)
    assert fed[0] == ("1", "2", "1.50", "3.00")
    for again in (shop.rebuild, shop.rebuild_from_topic):
        again("t")
        read(shop)
        assert rows(shop) == fed
    shop.insert("t", id="4", a="1", b="7.00")
    read(shop)
    assert rows(shop)[-1] == ("4", "1", "7.00", "7.00")
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_a_column_that_an_alter_adds_is_null_in_every_row_until_a_full_read(protocol: str) -> None:
    shop = shop_of(protocol, "id INT PRIMARY KEY, a INT, b DECIMAL(9,2)", snapshot="now")
    shop.run()
    shop.sql("ALTER TABLE t ADD COLUMN total DECIMAL(12,2) AS (a * b) VIRTUAL")
    shop.insert("t", id="4", a="1", b="7.00")
    read(shop)
    assert [row[3] for row in rows(shop)] == ["None"] * 4
    assert shop.condition("t") == "clean"
    shop.rebuild("t")
    read(shop)
    assert [row[3] for row in rows(shop)] == ["3.00", "0.30", "None", "7.00"]
    shop.update("t", id="4", a="2", b="7.00")
    read(shop)
    assert rows(shop)[-1][3] == "14.00"
    assert shop.condition("t") == "clean"


@PROTOCOLS
@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE t MODIFY total DECIMAL(12,2) AS (a + b) VIRTUAL",
        "ALTER TABLE t MODIFY a BIGINT",
        "ALTER TABLE t MODIFY total DECIMAL(12,1) AS (a * b) VIRTUAL",
    ],
)
def test_a_ddl_that_changes_the_values_of_older_rows_marks_the_table(protocol: str, ddl: str) -> None:
    shop = shop_of(protocol, snapshot="now")
    shop.run()
    shop.sql(ddl)
    read(shop)
    assert shop.condition("t") == "diverged"
    assert "generated column `total`" in shop.status("t").detail
    shop.rebuild("t")
    read(shop)
    shop.insert("t", id="4", a="1", b="7.00")
    read(shop)
    assert rows(shop)[-1][3] in ("7.00", "7.0", "8.00")
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_other_ddl_leaves_the_values_right(protocol: str) -> None:
    shop = shop_of(protocol)
    shop.sql("ALTER TABLE t MODIFY a INT(5), MODIFY total DECIMAL(12,2) AS ((`a` * `b`)) COMMENT 'sum'")
    shop.sql("ALTER TABLE t ADD COLUMN c INT FIRST")
    shop.sql("ALTER TABLE t RENAME COLUMN total TO sum")
    shop.sql("RENAME TABLE t TO u")
    shop.insert("u", id="4", a="1", b="7.00", c="1")
    shop.watermark()
    shop.run()
    assert sorted(row[-1] for row in rows(shop, "u")) == ["0.30", "3.00", "7.00", "None"]
    assert shop.condition("u") == "clean"
    shop.sql("ALTER TABLE u DROP COLUMN sum")
    shop.watermark()
    shop.run()
    assert shop.condition("u") == "clean"


def test_an_expression_whose_value_depends_on_the_server_stays_null_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    shop = shop_of(columns=COLUMNS.replace("a * b", "a / b"))
    shop.run()
    assert [row[3] for row in rows(shop)] == ["None"] * 3
    assert shop.condition("t") == "clean"
    assert "`shop`.`t`: generated column `total` is NULL: it has REGEXP or a quotient" in caplog.text


def test_a_value_that_the_column_cannot_hold_is_null() -> None:
    shop = shop_of(snapshot="now")
    shop.insert("t", id="4", a="2147483647", b="9999999.99")
    shop.watermark()
    shop.run()
    assert rows(shop)[-1] == ("4", "2147483647", "9999999.99", "None")
    shop.rebuild("t")
    read(shop)
    assert [row[3] for row in rows(shop)] == ["3.00", "0.30", "None", "None"]


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ({"drop_columns": ("a",)}, [("2", "0.10", "None")]),
        ({"mask_columns": (("b", "null"),)}, [("2", "3", "None", "None")]),
        ({"rename_columns": (("total", "sum"),)}, [("2", "3", "0.10", "0.30")]),
        ({"mask_columns": (("total", "constant:7"),)}, [("2", "3", "0.10", "7.00")]),
        ({"drop_columns": ("total",)}, [("2", "3", "0.10")]),
    ],
)
def test_a_value_never_shows_a_column_that_a_rule_hides(rule: dict[str, Any], left: list[tuple[str, ...]]) -> None:
    shop = shop_of(routes=(Route(tables=("*.*",), where="id = 2", **rule),), snapshot="now")
    shop.run()
    assert rows(shop) == left
    shop.rebuild("t")
    read(shop)
    assert rows(shop) == left


@PROTOCOLS
def test_constants_have_their_values_after_a_full_read_too(protocol: str) -> None:
    shop = Shop(protocol, snapshot="now")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, kind VARCHAR(9) AS ('user') VIRTUAL)")
    shop.insert("t", id="1")
    shop.watermark()
    shop.run()
    shop.rebuild("t")
    read(shop)
    shop.insert("t", id="2")
    read(shop)
    assert rows(shop) == [("1", "user"), ("2", "user")]


@pytest.mark.parametrize("before_images", [False, True])
def test_a_history_has_the_values_before_and_after(before_images: bool) -> None:
    shop = shop_of(histories=(Recording(tables=("*.*",), before_images=before_images),))
    shop.update("t", id="1", a="4", b="1.50")
    shop.watermark()
    shop.run()
    history = [tuple(map(str, row)) for row in shop.rows("t_history") or ()]
    assert any("6.00" in row for row in history), history
    assert any("3.00" in row for row in history)


def test_tables_without_a_key_match_their_rows_with_computed_values() -> None:
    shop = Shop(no_key="apply")
    shop.sql("CREATE TABLE log (a INT, b INT, c BIGINT AS (a + b) VIRTUAL)")
    table, image = shop.tables[SCHEMA, "log"], {"a": "1", "b": "2"}
    for _ in range(2):
        shop.send_row(RowChange(op="insert", table=table, commit_ts=shop.tick(), before=None, after=image))
    shop.watermark()
    shop.run()
    assert rows(shop, "log") == [("1", "2", "3")] * 2
    shop.send_row(RowChange(op="delete", table=table, commit_ts=shop.tick(), before=image, after=None))
    shop.watermark()
    shop.run()
    assert (rows(shop, "log"), shop.condition("log")) == ([("1", "2", "3")], "clean")


@pytest.mark.parametrize("protocol", ["simple", "canal-json"])
def test_values_are_right_whatever_dies(protocol: str) -> None:
    def told() -> Shop:
        shop = shop_of(protocol)
        shop.sql("ALTER TABLE t MODIFY a BIGINT")
        shop.insert("t", id="4", a="1", b="7.00")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert [row[3] for row in rows(shop)] == ["3.00", "0.30", "None", "None"]
        assert shop.condition("t") == "diverged"

    assert after_every_death(told, judge) > 5


@pytest.mark.parametrize("protocol", ["simple", "canal-json"])
def test_exchanged_rows_have_their_values_in_both_tables_or_mark_them(protocol: str) -> None:
    column = "v INT AS (id * 2) VIRTUAL"

    def exchanged(made: str, *alters: str) -> Shop:
        shop = Shop(protocol)
        shop.sql(BY_RANGE.replace("id INT PRIMARY KEY", f"id INT PRIMARY KEY, {column}", 1))
        shop.sql(made)
        for alter in alters:
            shop.sql(alter)
        for table, key in (("t", "1"), ("t", "11"), ("o", "2")):
            shop.insert(table, id=key)
        exchange(shop)
        shop.insert("o", id="3")
        shop.watermark()
        return shop

    shop = exchanged(f"CREATE TABLE o (id INT PRIMARY KEY, {column})")
    shop.run()
    assert (rows(shop), rows(shop, "o")) == ([("11", "22"), ("2", "4")], [("1", "2"), ("3", "6")])
    assert (shop.condition("t"), shop.condition("o")) == ("clean", "clean")
    shop = exchanged("CREATE TABLE o (id INT PRIMARY KEY)", f"ALTER TABLE o ADD COLUMN {column}")
    shop.run()
    assert (rows(shop), rows(shop, "o")) == ([("11", "22"), ("2", "None")], [("1", "2"), ("3", "None")])
    assert (shop.condition("t"), shop.condition("o")) == ("diverged", "diverged")
    assert "values in other generated columns" in shop.status("t").detail


@pytest.mark.parametrize("seed", [3, 18, 49, 77])
def test_a_story_with_generated_columns_ends_in_the_truth(seed: int) -> None:
    assert run(draw_generated(seed), JobLab).finding is None
