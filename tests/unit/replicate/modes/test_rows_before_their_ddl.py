"""canal-json without watermarks: a DDL is in partition 0, and other partitions may be read further than that one."""

from __future__ import annotations

import pytest

from tests.support.arrival_shop import CREATE, ArrivalShop
from tests.support.shop import Shop, after_every_death


def shop_behind(*ddls: str, create: str = CREATE, drop_table: str = "drop", **row: str) -> ArrivalShop:
    """A row in partition 1 that follows some DDLs is applied, and the DDLs are read after it."""
    shop = ArrivalShop("canal-json", 2, drop_table=drop_table)
    shop.ddl(create)
    shop.put("t", id="1", v="1")
    shop.run()
    end = shop.broker.end_offsets()["cdc", 0]
    for query in ddls:
        shop.ddl(query)
    shop.put("t", 1, **row)
    shop.batch_before({("cdc", 0): end})
    return shop


@pytest.mark.parametrize("rows", [1, 1000])
def test_a_truncate_leaves_newer_rows(rows: int) -> None:
    shop = shop_behind("TRUNCATE TABLE t", "TRUNCATE TABLE t", id="3", v="3")
    assert shop.row_ids() == [1, 3]
    shop.run(rows)
    assert (shop.row_ids(), shop.condition("t")) == ([3], "unverified")


@pytest.mark.parametrize("drop_table", ["drop", "keep"])
@pytest.mark.parametrize("gap", ["DROP TABLE t", "RENAME TABLE t TO o"])
def test_a_table_that_lost_newer_rows_to_the_table_before_it_is_marked(gap: str, drop_table: str) -> None:
    shop = shop_behind(gap, CREATE, drop_table=drop_table, id="3", v="3")
    shop.run()
    assert (shop.row_ids(), shop.condition("t")) == ([], "diverged")
    assert "rows from behind it" in shop.status("t").detail
    assert gap.startswith("DROP") or shop.condition("o") == "diverged"
    shop.ddl("TRUNCATE TABLE t")
    shop.run()
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize(
    "ddls",
    [
        ["ALTER TABLE t MODIFY COLUMN v VARCHAR(9)"],
        ["ALTER TABLE t MODIFY COLUMN e ENUM('y', 'x')"],
        ["ALTER TABLE t DROP COLUMN v", "ALTER TABLE t ADD COLUMN v INT DEFAULT 5"],
        ["ALTER TABLE t RENAME COLUMN v TO w, RENAME COLUMN w TO v"],
    ],
)
def test_columns_that_change_under_newer_rows_mark_the_table(ddls: list[str]) -> None:
    create = "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT, e ENUM('x', 'y'))"
    shop = shop_behind(*ddls, create=create, id="3", v="3", w="4", e="1")
    shop.run()
    assert (shop.row_ids(), shop.condition("t")) == ([1, 3], "diverged")
    assert "rows from behind it" in shop.status("t").detail


def test_a_ddl_that_changes_no_column_marks_no_table() -> None:
    shop = shop_behind("ALTER TABLE t ADD INDEX (v)", id="3", v="3")
    shop.run()
    assert (shop.row_ids(), shop.condition("t")) == ([1, 3], "unverified")


def test_deaths_do_not_change_what_a_truncate_leaves() -> None:
    def judge(shop: Shop) -> None:
        assert [row[0] for row in shop.rows("t") or ()] == [3]
        assert shop.condition("t") == "unverified"

    assert after_every_death(lambda: shop_behind("TRUNCATE TABLE t", id="3", v="3"), judge) > 2


@pytest.mark.parametrize("gap", ["DROP TABLE t", "RENAME TABLE t TO o"])
def test_deaths_do_not_take_the_mark_of_lost_rows(gap: str) -> None:
    def judge(shop: Shop) -> None:
        assert (shop.rows("t"), shop.condition("t")) == ([], "diverged")

    assert after_every_death(lambda: shop_behind(gap, CREATE, id="3", v="3"), judge) > 4


def test_deaths_do_not_take_the_mark_of_changed_columns() -> None:
    def judge(shop: Shop) -> None:
        assert shop.condition("t") == "diverged"

    query = "ALTER TABLE t MODIFY COLUMN v VARCHAR(9)"
    assert after_every_death(lambda: shop_behind(query, id="3", v="3"), judge) > 4


def test_the_partition_with_ddl_is_read_to_its_end_before_the_others() -> None:
    shop = ArrivalShop("canal-json", 2)
    shop.ddl(CREATE)
    shop.run()
    for number in range(30):
        shop.put("t", id=str(10 + number), v="1")
    shop.ddl("ALTER TABLE t ADD COLUMN c INT")
    shop.put("t", 1, id="3", v="3", c="9")
    shop.run(10)
    assert sorted(shop.row_ids()) == [3, *range(10, 40)]
    assert shop.condition("t") == "unverified"


def test_a_partition_with_ddl_that_grows_as_fast_as_it_is_read_does_not_hold_back_the_others() -> None:
    shop = ArrivalShop("canal-json", 2)
    shop.ddl(CREATE)
    shop.run()
    for number in range(40):
        for at in range(5):
            shop.put("t", id=str(10 + at), v=str(number))
        shop.put("t", 1, id="1", v=str(number))
        shop.batch(5)
    assert 1 in shop.row_ids()
    assert shop.steps is not None
    ends = shop.steps.ends()
    shop.put("t", 1, id="2", v="2")
    shop.ddl("ALTER TABLE t ADD COLUMN c INT")
    assert ends == {place: end - 1 for place, end in shop.steps.ends().items()}


@pytest.mark.parametrize(
    "ddls", [["DROP TABLE t", CREATE], ["ALTER TABLE t MODIFY COLUMN v VARCHAR(9)"]], ids=["drop", "modify"]
)
def test_a_truncate_that_leaves_rows_leaves_the_mark_of_a_ddl_before_it(ddls: list[str]) -> None:
    shop = shop_behind(*ddls, "TRUNCATE TABLE t", id="3", v="3")
    shop.run()
    assert shop.condition("t") == "diverged"
