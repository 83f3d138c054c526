"""A table that somebody replaced by an older copy, and a state folder that was lost."""

from __future__ import annotations

import pytest

from tests.simulator.seams import Copy
from tests.unit.test_holes.changefeed import SCHEMA
from tests.unit.test_holes.shop import Shop


def two_tables(protocol: str = "simple") -> tuple[Shop, Copy]:
    """Two tables with rows, and a backup of them."""
    shop = Shop(protocol)
    for name in ("t", "u"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(9))")
        shop.insert(name, id="1", v="a")
        shop.insert(name, id="2", v="b")
    shop.watermark()
    shop.run()
    return shop, shop.saved()


@pytest.mark.parametrize("rows", [1, 2, 1000])
@pytest.mark.parametrize("kept", ["alone", "with one that is as it was"])
def test_an_older_copy_of_a_table_gets_its_rows_again_after_the_state_was_lost(kept: str, rows: int) -> None:
    """Seed 7708759: what all tables had applied said that it had them."""
    shop, backup = two_tables()
    shop.delete("t", id="1")
    shop.update("t", id="2", v="c")
    shop.watermark()
    shop.run()
    if kept != "alone":
        shop.insert("u", id="3", v="d")
        shop.watermark()
        shop.run()
    shop.lose_state()
    shop.lab.lake.restore_table((SCHEMA, "t"), backup)
    shop.run(rows, again=True)
    shop.insert("t", id="4", v="e")
    shop.watermark()
    shop.run(rows)
    assert (shop.rows("t"), shop.condition("t")) == ([(2, "c"), (4, "e")], "clean")
    assert shop.condition("u") == "clean"


@pytest.mark.parametrize("rows", [1, 2, 1000])
@pytest.mark.parametrize(
    "ddl", ["ALTER TABLE t ADD COLUMN n INT DEFAULT 7", "TRUNCATE TABLE t", "ALTER TABLE t DROP COLUMN v"]
)
@pytest.mark.parametrize("protocol", ["simple", "canal-json", "debezium"])
def test_an_older_copy_of_a_table_gets_its_ddls_again_after_the_state_was_lost(
    protocol: str, ddl: str, rows: int
) -> None:
    shop, backup = two_tables(protocol)
    shop.delete("t", id="1")
    shop.sql(ddl)
    shop.insert("t", id="5")
    shop.watermark()
    shop.run()
    for key in ("3", "4"):
        shop.insert("u", id=key, v="c")
        shop.watermark()
        shop.run()
    wanted = shop.columns("t"), shop.rows("t")
    shop.lose_state()
    shop.lab.lake.restore_table((SCHEMA, "t"), backup)
    shop.run(rows, again=True)
    shop.watermark()
    shop.run(rows)
    assert (shop.columns("t"), shop.rows("t"), shop.condition("t")) == (*wanted, "clean")
    assert shop.condition("u") == "clean"


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_an_older_copy_of_a_table_that_had_another_name_since_is_marked(rows: int) -> None:
    """Rows under the other name count as replays: no table of that name is older than what all had applied."""
    shop, backup = two_tables()
    shop.sql("RENAME TABLE t TO w")
    shop.insert("w", id="3", v="c")
    shop.watermark()
    shop.run()
    shop.sql("RENAME TABLE w TO t")
    shop.insert("t", id="4", v="d")
    shop.insert("u", id="3", v="d")
    shop.watermark()
    shop.run()
    shop.lose_state()
    shop.lab.lake.restore_table((SCHEMA, "t"), backup)
    shop.run(rows, again=True)
    shop.watermark()
    shop.run(rows)
    assert (4, "d") in shop.rows("t")
    assert shop.condition("t") == "diverged"
    assert "RENAME TABLE t TO w" in shop.status("t").detail
    assert (shop.rows("u"), shop.condition("u")) == ([(1, "a"), (2, "b"), (3, "d")], "clean")
