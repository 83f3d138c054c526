"""A table that lacks DDLs, and that the source has made again with another key meanwhile."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop, after_every_death


def shop_with_another_key(key: str, *, snapshot: str = "", line: str = "INT", now: str = "INT") -> Shop:
    """``t`` has two rows, which are one by the key of the table that the source has now. ``line``: the type of one of
    its columns; ``now``: the same, of the newer table."""
    shop = Shop("simple", snapshot=snapshot)
    shop.sql(f"CREATE TABLE t (id INT, line {line}, v INT, PRIMARY KEY (id, line))")
    for number in "12":
        shop.insert("t", id="6", line=number, v=number)
    shop.watermark()
    shop.run()
    shop.configure(tables=("shop.other",))
    shop.sql("DROP TABLE t")
    shop.sql(f"CREATE TABLE t (id INT, line {now}, v INT, PRIMARY KEY ({key}))")
    shop.insert("t", id="6", line="3", v="5")
    shop.watermark()
    shop.run()
    shop.configure(tables=())
    return shop


def changed(shop: Shop) -> Shop:
    shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.insert("t", id="7", line="4", v="5", n="1")
    shop.watermark()
    return shop


def test_a_ddl_of_a_table_with_another_key_quarantines_the_older_one() -> None:
    shop = changed(shop_with_another_key("id"))
    shop.run()
    assert shop.condition("t") == "quarantined"
    assert "its key is (id int(11), line int(11)), and the source's is (id int(11))" in shop.status("t").detail
    assert shop.columns("t") == ("id", "line", "v")
    assert shop.rows("t") == [(6, 1, 1), (6, 2, 2)]


def test_a_table_with_the_same_key_goes_on_and_stays_diverged() -> None:
    shop = changed(shop_with_another_key("id, line"))
    shop.run()
    assert shop.condition("t") == "diverged"
    assert shop.columns("t") == ("id", "line", "v", "n")


def test_values_of_the_key_that_would_be_converted_quarantine_the_older_table() -> None:
    shop = changed(shop_with_another_key("id, line", line="VARCHAR(9)", now="INT"))
    shop.run()
    assert shop.condition("t") == "quarantined"
    assert "line varchar(9)), and the source's is (id int(11), line int(11))" in shop.status("t").detail
    assert shop.rows("t") == [(6, "1", 1), (6, "2", 2)]


def test_a_key_of_a_wider_type_is_the_same_key() -> None:
    shop = changed(shop_with_another_key("id, line", line="INT", now="BIGINT"))
    shop.run()
    assert shop.condition("t") == "diverged"
    assert shop.columns("t") == ("id", "line", "v", "n")


@pytest.mark.parametrize("ddl", ["DROP TABLE t", "DROP DATABASE shop"])
def test_a_table_that_is_dropped_next_is_not_quarantined(ddl: str) -> None:
    shop = changed(shop_with_another_key("id"))
    shop.sql(ddl)
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "dropped"
    assert shop.rows("t") is None


def test_resume_goes_on_behind_a_later_drop() -> None:
    shop = changed(shop_with_another_key("id"))
    shop.run()
    assert shop.condition("t") == "quarantined"
    shop.sql("DROP TABLE t")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="9")
    shop.watermark()
    shop.run()
    shop.resume("t")
    for _ in range(3):
        shop.watermark()
        shop.run()
    assert (shop.condition("t"), shop.rows("t")) == ("clean", [(9,)])


def test_a_renamed_table_that_its_topics_do_not_have_does_not_stop_the_others() -> None:
    shop = shop_with_another_key("id")
    shop.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    shop.sql("RENAME TABLE t TO u")
    shop.insert("u", id="7", line="4", v="5")
    shop.watermark()
    shop.run()
    shop.rebuild_from_topic("u")
    for number in "12":
        shop.insert("other", id=number)
        shop.watermark()
        shop.run()
    assert shop.rows("other") == [(1,), (2,)]
    assert "could not be read from its topics" in shop.status("u").detail


@pytest.mark.parametrize("way", ["database", "topic"])
def test_rebuild_makes_it_clean(way: str) -> None:
    shop = changed(shop_with_another_key("id", snapshot="now" if way == "database" else ""))
    shop.run()
    if way == "topic":
        shop.rebuild_from_topic("t")
    else:
        shop.rebuild("t")
    for number in range(6):
        shop.insert("t", id=str(10 + number), line="1", v="1", n="1")
        shop.watermark()
        shop.run()
    assert shop.condition("t") == "clean"
    rows = shop.rows("t") or []
    assert len(rows) == 8
    assert {(6, 3, 5, None), (7, 4, 5, 1)} <= set(rows)


def test_wherever_the_job_dies_it_keeps_its_rows() -> None:
    def judge(shop: Shop) -> None:
        assert shop.condition("t") == "quarantined"
        assert shop.rows("t") == [(6, 1, 1), (6, 2, 2)]

    assert after_every_death(lambda: changed(shop_with_another_key("id")), judge) > 3
