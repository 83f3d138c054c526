"""DDLs of one commit_ts in several topics."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop, after_every_death

BATCHES = pytest.mark.parametrize("rows", [1, 3, 1000])
PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open"])
SWAPPED = ([(1, "new"), (2, "later")], [(1, "old"), (3, "later")])


def swapped(protocol: str = "simple", *, busy: str = "t", first: str = "t") -> Shop:
    """RENAME TABLE t TO t_old, t_new TO t. ``busy``: the table with the higher offsets in its topic. ``first``: the
    table whose DDL is sent first."""
    shop = Shop(protocol, topic_per_table=True)
    for name, value in (("t", "old"), ("t_new", "new")):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(9))")
        shop.insert(name, id="1", v=value)
        for _ in range(6 if name == busy else 0):
            shop.update(name, id="1", v=value)
    shop.watermark()
    one = shop.change("RENAME TABLE t TO t_old")
    two = shop.change("RENAME TABLE t_new TO t", ts=one.commit_ts)
    for change in (one, two) if first == "t" else (two, one):
        shop.send_ddl(change)
    shop.insert("t", id="2", v="later")
    shop.insert("t_old", id="3", v="later")
    shop.watermark()
    return shop


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize("busy", ["t", "t_new"])
@pytest.mark.parametrize("first", ["t", "t_new"])
def test_a_swap_of_tables_is_applied_whatever_the_offsets_and_topics(
    first: str, busy: str, rows: int, protocol: str
) -> None:
    """RENAME TABLE t TO t_old, t_new TO t with a topic per table; the batches end anywhere, between
    the two DDLs as well."""
    shop = swapped(protocol, busy=busy, first=first)
    shop.run(rows)
    assert (shop.rows("t"), shop.rows("t_old")) == SWAPPED
    assert shop.rows("t_new") is None
    assert (shop.condition("t"), shop.condition("t_old")) == ("clean", "clean")


@BATCHES
@pytest.mark.parametrize("busy", ["t", "t_new"])
def test_a_swap_whose_second_half_comes_in_a_later_batch_waits_for_it(busy: str, rows: int) -> None:
    """One topic has its DDL and its watermark, the other one not yet."""
    shop = Shop(topic_per_table=True)
    for name, value in (("t", "old"), ("t_new", "new")):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(9))")
        shop.insert(name, id="1", v=value)
        for _ in range(6 if name == busy else 0):
            shop.update(name, id="1", v=value)
    shop.watermark()
    one = shop.change("RENAME TABLE t TO t_old")
    two = shop.change("RENAME TABLE t_new TO t", ts=one.commit_ts)
    shop.send_ddl(two)
    shop.watermark("cdc_shop_t_new")
    shop.run(rows)
    assert (shop.rows("t"), shop.rows("t_new")) == ([(1, "old")], [(1, "new")])
    shop.send_ddl(one)
    shop.insert("t", id="2", v="later")
    shop.insert("t_old", id="3", v="later")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("t"), shop.rows("t_old")) == SWAPPED
    assert shop.rows("t_new") is None


@pytest.mark.parametrize("busy", ["t", "t_new"])
def test_a_swap_is_applied_wherever_the_job_was_killed(busy: str) -> None:

    def judge(shop: Shop) -> None:
        assert (shop.rows("t"), shop.rows("t_old")) == SWAPPED
        assert shop.rows("t_new") is None
        assert (shop.condition("t"), shop.condition("t_old")) == ("clean", "clean")

    assert after_every_death(lambda: swapped(busy=busy, first="t_new"), judge) >= 20


@BATCHES
def test_a_swap_by_way_of_a_third_name_is_applied_in_the_order_of_its_topic(rows: int) -> None:
    """RENAME TABLE a TO x, b TO a, x TO b."""
    shop = Shop()
    for name in ("a", "b"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(9))")
        shop.insert(name, id="1", v=name)
    one = shop.change("RENAME TABLE a TO x")
    two = shop.change("RENAME TABLE b TO a", ts=one.commit_ts)
    three = shop.change("RENAME TABLE x TO b", ts=one.commit_ts)
    for change in (one, two, three):
        shop.send_ddl(change)
    shop.insert("a", id="2", v="later")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("a"), shop.rows("b"), shop.rows("x")) == ([(1, "b"), (2, "later")], [(1, "a")], None)


@PROTOCOLS
@BATCHES
@pytest.mark.parametrize("busy", ["a", "b", "x"])
def test_a_swap_by_way_of_a_third_name_is_applied_with_a_topic_per_table(busy: str, rows: int, protocol: str) -> None:
    """The three DDLs stand in three topics, and their offsets do not order them."""
    shop = Shop(protocol, topic_per_table=True)
    for name in ("a", "b", "x"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(9))")
        shop.insert(name, id="1", v=name)
        for _ in range(6 if name == busy else 0):
            shop.update(name, id="1", v=name)
    shop.sql("DROP TABLE x")
    shop.watermark()
    one = shop.change("RENAME TABLE a TO x")
    two = shop.change("RENAME TABLE b TO a", ts=one.commit_ts)
    three = shop.change("RENAME TABLE x TO b", ts=one.commit_ts)
    for change in (one, two, three):
        shop.send_ddl(change)
    shop.insert("a", id="2", v="later")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("a"), shop.rows("b"), shop.rows("x")) == ([(1, "b"), (2, "later")], [(1, "a")], None)


@pytest.mark.parametrize(
    "later",
    [
        "DROP TABLE u; CREATE TABLE u (id INT PRIMARY KEY)",
        "RENAME TABLE u TO w; CREATE TABLE u (id INT PRIMARY KEY)",
        "DROP TABLE u; CREATE TABLE u (id INT PRIMARY KEY); DROP TABLE u; CREATE TABLE u (id INT PRIMARY KEY)",
        "DROP TABLE u; RENAME TABLE s TO u",
    ],
)
def test_a_name_that_a_batch_gave_to_one_table_after_the_other_survives_every_death(later: str) -> None:
    """All of it is done again: the first table is made again, and its new name is a later table's by then."""

    def story() -> Shop:
        shop = Shop()
        shop.sql("CREATE TABLE s (id INT PRIMARY KEY)")
        shop.insert("s", id="5")
        shop.watermark()
        shop.run()
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        shop.insert("t", id="1")
        shop.sql("RENAME TABLE t TO u")
        for statement in later.split("; "):
            shop.sql(statement)
        shop.insert("u", id="2")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        moved, kept = "TO u" in later, "TO w" in later
        assert shop.rows("u") == ([(2,), (5,)] if moved else [(2,)])
        assert shop.rows("w") == ([(1,)] if kept else None)
        assert shop.rows("s") == (None if moved else [(5,)])
        assert (shop.rows("t"), shop.condition("u")) == (None, "clean")

    assert after_every_death(story, judge) >= 10


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
def test_in_arrival_mode_a_swap_that_batches_cut_is_done_once(rows: int) -> None:
    """Its RENAMEs have one commit_ts, so that the last of them is no replay of the first."""
    shop = Shop("canal-json", mode="arrival")
    for number, name in enumerate(("a", "c"), 1):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        shop.insert(name, id=str(number))
    shop.run()
    ts = shop.tick()
    swap = [shop.change(f"RENAME TABLE {names}", ts=ts) for names in ("a TO t", "c TO a", "t TO c")]
    for change in swap:
        shop.send_ddl(change)
    shop.insert("a", id="12")
    shop.insert("c", id="11")
    shop.run(rows)
    shop.run()
    for change in swap:
        shop.send_ddl(change)
    shop.run(rows, again=True)
    assert [row[0] for row in shop.rows("a") or ()] == [12, 2]
    assert [row[0] for row in shop.rows("c") or ()] == [1, 11]
    assert shop.lake("t") is None


def test_in_arrival_mode_a_table_goes_there_and_back_whenever_the_job_dies() -> None:
    """A later DDL of the batch had renamed it again, so that a column of its ALTER counted as somebody else's."""

    def make() -> Shop:
        shop = Shop("canal-json", mode="arrival")
        shop.sql("CREATE TABLE a (id INT PRIMARY KEY)")
        shop.insert("a", id="1")
        shop.run()
        for query in ("a TO b", "b TO a"):
            shop.sql(f"RENAME TABLE {query}")
        shop.sql("ALTER TABLE a ADD COLUMN q INT")
        for query in ("a TO b", "b TO a"):
            shop.sql(f"RENAME TABLE {query}")
        shop.insert("a", id="2", q="3")
        return shop

    def judge(shop: Shop) -> None:
        assert shop.columns("a")[:2] == ("id", "q")
        assert [row[:2] for row in shop.rows("a") or ()] == [(1, None), (2, 3)]
        assert shop.lake("b") is None

    assert after_every_death(make, judge) > 20


def test_rows_of_another_table_that_has_the_name_before_and_after_mark_nothing() -> None:
    """One stretch of rows has the rows of ``b`` that another table is called before and behind this one."""
    shop = Shop("simple")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)")
    shop.sql("CREATE TABLE s (id INT PRIMARY KEY)")
    shop.insert("t", id="1", v="1", w="1")
    shop.sql("RENAME TABLE s TO b")
    shop.insert("b", id="1")
    shop.sql("RENAME TABLE b TO s")
    shop.sql("RENAME TABLE t TO b")
    shop.sql("RENAME TABLE b TO t")
    shop.sql("RENAME TABLE s TO b")
    shop.insert("b", id="2")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(1, 1, 1)], "clean")
    assert (shop.rows("b"), shop.condition("b")) == ([(1,), (2,)], "clean")
