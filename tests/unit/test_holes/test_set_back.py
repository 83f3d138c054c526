"""Hole 5: a lake table that is behind what the job brought it to."""

from __future__ import annotations

import pytest

from tests.unit.test_holes.shop import SCHEMA, Shop
from ticdc_spark.config.values import Retention
from ticdc_spark.errors import DecisionNeeded


def written(**keys: object) -> Shop:
    """A table with a row from each of four batches, and one that changes in each of them."""
    shop = Shop(**keys)  # type: ignore[arg-type]
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="0", v="0")
    for number in range(1, 5):
        shop.insert("t", id=str(number), v="x")
        shop.update("t", id="0", v=str(number))
        if number == 3:
            shop.delete("t", id="2")
        shop.watermark()
        shop.run()
    return shop


WHOLE = [(0, "4"), (1, "x"), (3, "x"), (4, "x")]


def test_a_lake_restored_as_a_whole_stops_the_job_and_is_rebuilt_without_the_state() -> None:
    """Issue 9, hole 5: the change log is as old as the tables; the way out that is named works."""
    shop = written()
    backup = shop.saved()
    shop.update("t", id="0", v="new")
    shop.watermark()
    shop.run()
    shop.stop()
    shop.lab.lake.restore(backup)
    with pytest.raises(DecisionNeeded, match=r"delete the state folder"):
        shop.run()
    assert shop.rows("t") == WHOLE
    shop.lose_state()
    shop.run()
    assert shop.rows("t") == [(0, "new"), *WHOLE[1:]]


def test_a_table_whose_missing_rows_the_log_has_no_more_stops_the_job() -> None:
    """Issue 9, hole 5: the log was pruned; and once the table is rolled forward again the job goes on."""
    shop = written(log_retention=Retention(batches=1))
    for number in range(5, 12):
        shop.insert("t", id=str(number), v="x")
        shop.watermark()
        shop.run()
    whole, newest = shop.rows("t"), shop.saved()
    shop.stop()
    shop.rollback("t", 9)
    with pytest.raises(DecisionNeeded, match=r"log-retention.*Roll the table forward again"):
        shop.run()
    shop.lab.lake.restore_table((SCHEMA, "t"), newest)
    shop.run()
    assert shop.rows("t") == whole
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize("ddl", ["TRUNCATE TABLE t", "ALTER TABLE t ADD COLUMN n INT", "ALTER TABLE t DROP COLUMN v"])
def test_a_table_rolled_back_beyond_a_ddl_stops_the_job(ddl: str) -> None:
    """Issue 9, hole 5."""
    shop = written()
    shop.sql(ddl)
    shop.insert("t", id="8", v="y")
    shop.watermark()
    shop.run()
    newest, whole = shop.saved(), shop.rows("t")
    shop.stop()
    shop.rollback("t", 2)
    with pytest.raises(DecisionNeeded, match=r"a DDL at \d+ is among what it lacks"):
        shop.run()
    shop.lab.lake.restore_table((SCHEMA, "t"), newest)
    shop.run()
    assert shop.rows("t") == whole


def test_a_rollback_and_a_lost_state_together_stop_the_job() -> None:
    """Issue 9, hole 5: then nothing says what the table lacks."""
    shop = written()
    shop.lose_state()
    shop.rollback("t", 2)
    with pytest.raises(DecisionNeeded, match="Roll it forward again, or drop it"):
        shop.run()
    shop.lab.lake.drop((SCHEMA, "t"))
    shop.run()
    assert shop.rows("t") == WHOLE
