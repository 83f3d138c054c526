"""A DDL on a table that the lake has and the progress does not."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop, after_every_death

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"
DDLS = {
    "TRUNCATE TABLE t": ([(3, "c")], ("id", "v")),
    "ALTER TABLE t DROP COLUMN v": ([(1,), (2,), (3,)], ("id",)),
    "ALTER TABLE t ADD COLUMN n INT": ([(1, "a", None), (2, "b", None), (3, "c", 7)], ("id", "v", "n")),
    "ALTER TABLE t RENAME COLUMN v TO w": ([(1, "a"), (2, "b"), (3, "c")], ("id", "w")),
}


def rows_then(ddl: str) -> Shop:
    """BOOTSTRAP, rows, a DDL and a row: all that a job finds at its first start."""
    shop = Shop()
    shop.change(CREATE)
    shop.bootstrap("t")
    shop.insert("t", id="1", v="a")
    shop.insert("t", id="2", v="b")
    shop.sql(ddl)
    shop.insert("t", id="3", v="c", w="c", n="7")
    shop.watermark()
    return shop


@pytest.mark.parametrize("rows", [3, 1000])
@pytest.mark.parametrize("ddl", DDLS)
def test_a_job_killed_anywhere_in_its_first_batches_applies_the_ddl_all_the_same(ddl: str, rows: int) -> None:
    """One SIGKILL in the first batch of a topic with BOOTSTRAP, rows, DDL."""
    wanted, columns = DDLS[ddl]

    def judge(shop: Shop) -> None:
        assert shop.columns("t") == columns
        assert shop.rows("t") == wanted
        assert shop.condition("t") in ("clean", "unverified")

    assert after_every_death(lambda: rows_then(ddl), judge, rows) >= 16


@pytest.mark.parametrize("ddl", DDLS)
def test_an_adopted_table_follows_a_ddl_that_comes_before_its_first_row(ddl: str) -> None:
    """Adopt, with a TRUNCATE or an ALTER first."""
    wanted, columns = DDLS[ddl]
    shop = Shop(adopt=True)
    shop.change(CREATE)
    shop.lab.lake.create(shop.tables["shop", "t"], [{"id": "1", "v": "a"}, {"id": "2", "v": "b"}])
    shop.sql(ddl)
    shop.insert("t", id="3", v="c", w="c", n="7")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.columns("t")) == (wanted, columns)
    assert shop.condition("t") == "unverified"


def test_an_adopted_table_is_empty_after_a_truncate_wherever_the_job_was_killed() -> None:

    def make() -> Shop:
        shop = Shop(adopt=True)
        shop.change(CREATE)
        shop.lab.lake.create(shop.tables["shop", "t"], [{"id": "1", "v": "a"}])
        shop.sql("TRUNCATE TABLE t")
        shop.insert("t", id="3", v="c")
        shop.watermark()
        return shop

    def judge(shop: Shop) -> None:
        assert shop.rows("t") == [(3, "c")]

    assert after_every_death(make, judge) >= 12


@pytest.mark.parametrize(("more", "condition"), [("", "clean"), (", n INT", "unverified")])
def test_an_adopted_table_is_clean_after_a_truncate_only_with_the_columns_of_the_source(
    more: str, condition: str
) -> None:
    other = Shop()
    other.change(f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9){more})")
    shop = Shop(adopt=True)
    shop.lab.lake.create(other.tables["shop", "t"], [{"id": "1", "v": "a", "n": None}])
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.sql("TRUNCATE TABLE t")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([], condition)
