"""Topics that are read late, and the names that tables had in them."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop

BATCHES = pytest.mark.parametrize("rows", [1, 3, 1000])


@BATCHES
@pytest.mark.parametrize("through", [True, False])
def test_a_table_that_takes_a_name_late_which_the_source_gave_up_since_is_marked(through: bool, rows: int) -> None:
    """Seed 8552105: the RENAME that gave the name up was applied before the topic was read that has the one to it."""
    shop = Shop(topic_per_table=True, topics=("cdc_shop_b",))
    shop.sql("CREATE TABLE w (id INT PRIMARY KEY)")
    shop.insert("w", id="7")
    shop.sql(f"RENAME TABLE w TO {'q' if through else 'b'}")
    if through:
        shop.sql("RENAME TABLE q TO b")
    shop.insert("b", id="1")
    shop.sql("RENAME TABLE b TO c")
    shop.watermark()
    shop.run()
    assert (shop.rows("c"), shop.condition("c")) == ([(1,)], "unverified")
    shop.configure(topics=None)
    for _ in range(3):
        shop.watermark()
        shop.run(rows)
    left = {name: shop.condition(name) for name in ("w", "q", "b") if shop.rows(name) is not None}
    assert left and set(left.values()) == {"diverged"}
    assert shop.condition("c") == "unverified", "it lacks the older rows"


@BATCHES
def test_so_is_one_that_takes_the_name_of_a_table_which_was_kept_when_it_left_the_tables_of_the_job(rows: int) -> None:
    """Seed 1469456: the name was given up by a RENAME to one that ``tables`` excludes."""
    shop = Shop(topic_per_table=True, topics=("cdc_shop_b",), tables=("*.*", "!shop.x*"))
    shop.sql("CREATE TABLE w (id INT PRIMARY KEY)")
    shop.insert("w", id="7")
    shop.sql("RENAME TABLE w TO b")
    shop.insert("b", id="1")
    shop.sql("RENAME TABLE b TO x")
    shop.watermark()
    shop.run()
    assert (shop.rows("b"), shop.condition("b")) == ([(1,)], "kept")
    shop.configure(topics=None)
    for _ in range(3):
        shop.watermark()
        shop.run(rows)
    assert shop.condition("b") == "diverged", "the source has no such table"


@pytest.mark.parametrize("each", [False, True])
def test_a_rename_in_a_late_topic_to_the_name_of_another_table_makes_no_clean_table_of_that_one(each: bool) -> None:
    shop = Shop(topic_per_table=True, topics=("cdc_shop_c",))
    shop.sql("CREATE TABLE y (id INT PRIMARY KEY)")
    shop.sql("CREATE TABLE c (id INT PRIMARY KEY)")
    shop.insert("y", id="7")
    shop.insert("c", id="1")
    for names in ("c TO a", "a TO b", "y TO c", "c TO a"):
        shop.sql(f"RENAME TABLE {names}")
        if each:
            shop.watermark()
            shop.run()
    shop.watermark()
    shop.run()
    shop.configure(topics=None)
    for _ in range(3):
        shop.watermark()
        shop.run()
    truth = {"a": [(7,)], "b": [(1,)], "c": None, "y": None}
    for name, rows in truth.items():
        found = shop.rows(name), shop.condition(name)
        assert found[0] == rows or found[1] == "diverged", (name, found)


@pytest.mark.parametrize("topics", ["c", "ad", "cd", "d", "a"])
@pytest.mark.parametrize("runs", [(0, 1, 2), (0, 1, 2, 3)])
def test_a_swap_that_is_read_in_parts_leaves_no_clean_table_without_a_copy(runs: tuple[int, ...], topics: str) -> None:
    shop = Shop(topic_per_table=True, topics=tuple(f"cdc_shop_{name}" for name in topics))
    renames = [f"RENAME TABLE {names}" for names in ("a TO d", "c TO a", "d TO c")]
    creates = [f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in "ac"]
    for at, sql in enumerate([*creates, *renames]):
        shop.sql(sql)
        shop.watermark()
        if at - 1 in runs:
            shop.run()
    shop.configure(topics=None)
    for _ in range(3):
        shop.watermark()
        shop.run()
    for name in "acd":
        assert (shop.rows(name) is None) == (name == "d") or shop.condition(name) in ("diverged", "unverified")


@pytest.mark.parametrize("topics", ["d", "bd"])
@pytest.mark.parametrize("rows", [0, 1])
def test_in_arrival_mode_a_rename_that_is_older_than_the_drop_of_its_new_name_leaves_no_clean_table(
    rows: int, topics: str
) -> None:
    shop = Shop("canal-json", mode="arrival", topic_per_table=True, topics=tuple(f"cdc_shop_{name}" for name in topics))
    shop.sql("CREATE TABLE d (id INT PRIMARY KEY)")
    if rows:
        shop.insert("d", id="1")
    for names in ("d TO b", "b TO c"):
        shop.sql(f"RENAME TABLE {names}")
    shop.run()
    shop.sql("RENAME TABLE c TO d")
    shop.sql("DROP TABLE d")
    shop.run()
    shop.configure(topics=None)
    for _ in range(3):
        shop.run()
    for name in "bcd":
        assert shop.rows(name) is None or shop.condition(name) == "diverged"


@BATCHES
def test_in_arrival_mode_a_rename_read_late_is_not_of_a_table_that_has_its_old_name_since(rows: int) -> None:
    shop = Shop("canal-json", topic_per_table=True, mode="arrival", topics=("cdc_shop_d", "cdc_shop_a"))
    for name in ("c", "d"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    shop.insert("c", id="1")
    shop.insert("d", id="2")
    shop.run()
    for names in ("d TO a", "c TO d", "a TO c"):  # what was d is c now, and what was c, which is not read, is d
        shop.sql(f"RENAME TABLE {names}")
    shop.run()
    of_d = shop.rows("c")
    assert [row[0] for row in of_d or ()] == [2], "behind it the hidden column of its commitTs"
    shop.configure(topics=None)
    for _ in range(3):
        shop.run(rows)
    assert shop.rows("c") == of_d
    assert [row[0] for row in shop.rows("d") or ()] in ([], [1]) and shop.condition("d") != "clean"


def test_a_table_that_takes_late_a_name_which_was_dropped_meanwhile_is_marked() -> None:
    """Seed 1672422: the RENAME that gave the name up first, also read late, hid when the name was dropped."""
    shop = Shop("simple")
    shop.change("CREATE TABLE b (id INT PRIMARY KEY)")
    create = shop.change("CREATE TABLE a (id INT PRIMARY KEY)")
    away = shop.change("RENAME TABLE b TO c")
    taken = shop.change("RENAME TABLE a TO b", ts=away.commit_ts)
    shop.sql("DROP TABLE b")
    shop.watermark()
    shop.run()
    for change in (create, away, taken):
        shop.send_ddl(change)
    shop.watermark()
    shop.run()
    assert shop.condition("b") == "diverged"
