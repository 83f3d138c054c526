"""What each kind of DDL does by ``[ddl]`` in the job file."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.config.ddl import DdlRule
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import UnsupportedDdl

BATCHES = pytest.mark.parametrize("rows", [1, 1000])
PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])


def shop_of(protocol: str = "simple", **job: Any) -> Shop:
    """A table with the rows 1 and 2."""
    shop = Shop(protocol, **job)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT, w VARCHAR(9))")
    shop.insert("t", id="1", v="1", w="a")
    shop.insert("t", id="2", v="2", w="b")
    return shop


STOPS = [
    ("drop_table", "DROP TABLE t"),
    ("drop_table", "DROP DATABASE shop"),
    ("truncate_table", "TRUNCATE TABLE t"),
    ("drop_column", "ALTER TABLE t DROP COLUMN v"),
    ("drop_column", "ALTER TABLE t ADD COLUMN x INT, DROP COLUMN v"),
    ("rename_table", "RENAME TABLE t TO u"),
    ("rename_table", "ALTER TABLE t RENAME TO u"),
    ("rename_column", "ALTER TABLE t RENAME COLUMN v TO x"),
    ("rename_column", "ALTER TABLE t CHANGE COLUMN v x INT"),
    ("modify_column", "ALTER TABLE t MODIFY COLUMN v BIGINT"),
    ("modify_column", "ALTER TABLE t MODIFY COLUMN v VARCHAR(20)"),
    ("modify_column", "ALTER TABLE t CHANGE COLUMN v x BIGINT"),
]


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize(("key", "query"), STOPS)
def test_a_kind_of_ddl_stops_the_job_before_it_and_all_before_it_is_applied(
    protocol: str, rows: int, key: str, query: str
) -> None:
    shop = shop_of(protocol, **{key: "stop"})
    ts = shop.sql(query)
    shop.watermark()
    for _ in range(2):
        with pytest.raises(UnsupportedDdl, match=f'(?s){key.replace("_", "-")} = "stop" under .ddl.*SQL: {query[:20]}'):
            shop.run(rows)
        assert shop.rows("t") == [(1, 1, "a"), (2, 2, "b")]
        assert (shop.condition("t"), shop.applied) == ("clean", ts - 1)


@PROTOCOLS
@pytest.mark.parametrize(("key", "query"), STOPS)
def test_the_error_names_the_lines_by_which_the_job_goes_on(protocol: str, key: str, query: str) -> None:
    for way in ("allow", "skip", "apply"):
        shop = shop_of(protocol, **{key: "stop"})
        ts = shop.sql(query)
        shop.watermark()
        with pytest.raises(UnsupportedDdl) as stop:
            shop.run()
        before = (shop.columns("t"), shop.rows("t"))
        assert f'under [ddl]: allow = ["{ts}:{query[:8]}' in str(stop.value)
        assert f'under [job]: skip-ddl = ["{ts}:{query[:8]}' in str(stop.value)
        assert f'{key.replace("_", "-")} = "apply"' in str(stop.value)
        decided = {"allow": {"allow": (SkipDdl(ts, query[:8]),)}, "skip": {"skip_ddl": (SkipDdl(ts, query[:8]),)}}
        shop.configure(**decided.get(way, {key: "apply"}))
        shop.run()
        assert shop.applied == shop.ts - 1
        as_it_was = shop.lake("t") is not None and (shop.columns("t"), shop.rows("t")) == before
        assert as_it_was == (way == "skip" or ("BIGINT" in query and "MODIFY" in query))


@PROTOCOLS
@pytest.mark.parametrize(
    "query",
    [
        "ALTER TABLE t ADD COLUMN x INT",
        "ALTER TABLE t MODIFY COLUMN w VARCHAR(20)",
        "ALTER TABLE t RENAME COLUMN v TO V",
        "ALTER TABLE t ADD INDEX i (v)",
        "CREATE TABLE u LIKE t",
    ],
)
def test_what_changes_nothing_that_the_target_has_stops_nothing(protocol: str, query: str) -> None:
    keys = {key: "stop" for key, _ in STOPS}
    shop = shop_of(protocol, **keys)
    shop.sql(query)
    shop.watermark()
    shop.run()
    assert shop.applied == shop.ts - 1
    assert shop.condition("t") == "clean"


def test_a_ddl_that_was_allowed_does_not_make_a_later_one_stop() -> None:
    shop = shop_of(modify_column="stop")
    ts = shop.sql("ALTER TABLE t MODIFY COLUMN v BIGINT")
    shop.sql("ALTER TABLE t ADD COLUMN x INT")
    shop.watermark()
    shop.configure(allow=(SkipDdl(ts, "*"),))
    shop.run()
    assert shop.rows("t") == [(1, 1, "a", None), (2, 2, "b", None)]


def test_a_rule_is_for_the_tables_that_it_names() -> None:
    rules = (DdlRule(tables=("shop.a*",), drop_table="stop"), DdlRule(tables=("shop.ab",), drop_table="keep"))
    shop = Shop(rules=rules, truncate_table="keep")
    for name in ("t", "ab", "ac"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        shop.insert(name, id="1")
    for name in ("t", "ab"):
        shop.sql(f"DROP TABLE {name}")
    shop.sql("TRUNCATE TABLE ac")
    shop.sql("DROP TABLE ac")
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match=r"(?s)drop-table.*DROP TABLE ac"):
        shop.run()
    assert (shop.rows("t"), shop.rows("ab"), shop.rows("ac")) == (None, [(1,)], [(1,)])


def test_a_database_whose_tables_may_not_all_go_stops_the_job() -> None:
    shop = shop_of(rules=(DdlRule(tables=("shop.u",), drop_table="stop"),))
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.sql("DROP DATABASE shop")
    shop.watermark()
    with pytest.raises(UnsupportedDdl, match="drop-table"):
        shop.run()
    assert shop.rows("u") == []


def test_a_stop_that_is_set_while_the_ddl_is_half_done_asks_for_its_end() -> None:
    shop = shop_of()
    shop.sql("ALTER TABLE t MODIFY COLUMN v VARCHAR(20)")
    shop.watermark()
    shop.dies("change columns", after=True)
    shop.configure(modify_column="stop")
    with pytest.raises(UnsupportedDdl, match="skipped it when this batch began"):
        shop.run()
    shop.configure(modify_column="apply")
    shop.run()
    assert shop.rows("t") == [(1, "1", "a"), (2, "2", "b")]


# ---- columns that stay


@PROTOCOLS
@BATCHES
def test_a_dropped_column_stays_with_its_values_and_rows_that_change_have_null_there(protocol: str, rows: int) -> None:
    shop = shop_of(protocol, drop_column="keep")
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.update("t", id="2", w="c")
    shop.insert("t", id="3", w="d")
    shop.watermark()
    shop.run(rows)
    assert shop.columns("t") == ("id", "v", "w")
    assert shop.rows("t") == [(1, 1, "a"), (2, None, "c"), (3, None, "d")]
    assert shop.condition("t") == "clean"
    shop.update("t", id="1", w="e")
    shop.sql("TRUNCATE TABLE t")
    shop.insert("t", id="4", w="f")
    shop.watermark()
    shop.run(rows, again=True)
    assert (shop.rows("t"), shop.condition("t")) == ([(4, None, "f")], "clean")


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("query", ["ADD COLUMN v VARCHAR(5) DEFAULT 'x' FIRST", "RENAME COLUMN w TO v"])
def test_a_dropped_column_makes_room_for_another_one_of_its_name(
    protocol: str, rows: int, again: bool, query: str
) -> None:
    shop = shop_of(protocol, drop_column="keep")
    ts = shop.sql("ALTER TABLE t DROP COLUMN v")
    if again:
        shop.watermark()
        shop.run(rows)
    shop.sql(f"ALTER TABLE t {query}")
    more = {"w": "c"} if "ADD" in query else {}
    shop.insert("t", id="3", v="y", **more)
    shop.watermark()
    shop.run(rows, again=again)
    aside = f"v_dropped_{ts}"
    assert set(shop.columns("t")) == {"id", "v", aside, *more}
    found = shop.lake("t")
    assert found is not None
    assert sorted((row["id"], row["v"], row[aside]) for row in found.rows) == [
        (1, "x" if more else "a", 1), (2, "x" if more else "b", 2), (3, "y", None)
    ]  # fmt: skip
    assert shop.condition("t") == "clean"


@PROTOCOLS
def test_a_column_that_takes_the_name_of_one_that_the_same_ddl_drops(protocol: str) -> None:
    shop = shop_of(protocol, drop_column="keep")
    ts = shop.sql("ALTER TABLE t DROP COLUMN v, RENAME COLUMN w TO v")
    shop.update("t", id="2", v="c")
    shop.watermark()
    shop.run()
    found = shop.lake("t")
    assert found is not None
    assert sorted((row["id"], row["v"], row[f"v_dropped_{ts}"]) for row in found.rows) == [(1, "a", 1), (2, "c", None)]


def test_a_dropped_column_goes_with_its_table_to_another_name_and_through_other_ddl() -> None:
    shop = shop_of(drop_column="keep")
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.sql("RENAME TABLE t TO u")
    shop.sql("ALTER TABLE u ADD COLUMN x INT DEFAULT 5, MODIFY COLUMN w VARCHAR(20)")
    shop.insert("u", id="3", w="c", x="6")
    shop.watermark()
    shop.run()
    assert shop.columns("u") == ("id", "v", "w", "x")
    assert shop.rows("u") == [(1, 1, "a", 5), (2, 2, "b", 5), (3, None, "c", 6)]


def test_a_dropped_column_stays_wherever_the_job_was_killed() -> None:
    def make() -> Shop:
        shop = shop_of(drop_column="keep")
        make.ts = shop.sql("ALTER TABLE t DROP COLUMN v")  # type: ignore[attr-defined]
        shop.update("t", id="2", w="c")
        shop.sql("ALTER TABLE t ADD COLUMN v INT DEFAULT 7 AFTER id")
        shop.insert("t", id="3", v="3", w="d")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        aside = f"v_dropped_{make.ts}"  # type: ignore[attr-defined]
        found = shop.lake("t")
        assert found is not None
        rows = sorted((row["id"], row["v"], row["w"], row[aside]) for row in found.rows)
        assert rows == [(1, 7, "a", 1), (2, 7, "c", None), (3, 3, "d", None)]
        assert shop.condition("t") == "clean"

    assert after_every_death(make, judge, 3) >= 10


def test_a_dropped_column_that_somebody_removes_is_missed_by_nobody() -> None:
    shop = shop_of(drop_column="keep")
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.watermark()
    shop.run()
    held = shop.lab.tables.table((SCHEMA, "t"))
    held.fields = tuple(field for field in held.fields if field.name != "v")
    shop.insert("t", id="3", w="c")
    shop.watermark()
    shop.run(again=True)
    assert shop.rows("t") == [(1, "a"), (2, "b"), (3, "c")]


def test_a_dropped_column_stays_without_watermarks_too() -> None:
    shop = shop_of("canal-json", mode="arrival", drop_column="keep")
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.update("t", id="2", w="c")
    shop.run()
    shop.insert("t", id="3", w="d")
    shop.run(again=True)
    assert [row[:3] for row in shop.rows("t") or ()] == [(1, 1, "a"), (2, None, "c"), (3, None, "d")]


def test_a_full_read_leaves_a_dropped_column_without_values() -> None:
    shop = shop_of(drop_column="keep", snapshot="now")
    shop.sql("ALTER TABLE t DROP COLUMN v")
    shop.watermark()
    shop.run()
    shop.rebuild("t")
    for key in range(3, 13):
        shop.insert("t", id=str(key), w="c")
        shop.watermark()
        shop.run()
    assert shop.columns("t") == ("id", "v", "w")
    assert [row[1] for row in shop.rows("t") or ()] == [None] * 12
    assert shop.condition("t") == "clean"


def test_a_dropped_column_with_a_long_name_makes_room_under_a_name_that_mysql_holds() -> None:
    name = "n" * 64
    shop = Shop(drop_column="keep")
    shop.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {name} INT)")
    shop.insert("t", id="1", **{name: "7"})
    shop.sql(f"ALTER TABLE t DROP COLUMN {name}")
    shop.sql(f"ALTER TABLE t ADD COLUMN {name} INT")
    shop.watermark()
    shop.run()
    assert shop.rows("t") == [(1, 7, None)]
    assert max(map(len, shop.columns("t"))) == 64
