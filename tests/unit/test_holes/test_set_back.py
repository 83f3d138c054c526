"""Hole 5: a lake table that is behind what the job brought it to."""

from __future__ import annotations

import pytest

from tests.unit.test_holes.changefeed import SCHEMA
from tests.unit.test_holes.shop import Shop
from ticdc_spark.config.values import Retention
from ticdc_spark.errors import DecisionNeeded, SinkFault


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


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("back", [1, 2, 3, 4, 5])
def test_a_table_that_was_rolled_back_gets_its_rows_again(back: int, later: bool) -> None:
    """Issue 9, hole 5: the change log has what is missing; whether the table is quiet or has new rows."""
    shop = written()
    shop.stop()
    shop.rollback("t", back)
    assert shop.rows("t") != WHOLE
    if later:
        shop.insert("t", id="9", v="y")
        shop.watermark()
    shop.run(again=True)
    assert shop.rows("t") == [*WHOLE, (9, "y")][: len(WHOLE) + later]
    assert shop.condition("t") in ("clean", "unverified")
    shop.insert("t", id="91", v="z")
    shop.watermark()
    shop.run()
    found = shop.rows("t")
    assert found is not None
    assert (91, "z") in found


@pytest.mark.parametrize("point", ["land", "apply rows", "save the progress"])
@pytest.mark.parametrize("after", [False, True])
def test_a_death_while_a_table_is_brought_forward_again_loses_nothing(point: str, after: bool) -> None:
    """Issue 9, hole 5."""
    shop = written()
    shop.stop()
    shop.rollback("t", 2)
    shop.dies(point, after=after)
    shop.run()
    assert shop.rows("t") == WHOLE


def test_a_table_rolled_back_under_a_running_job_ends_the_run_and_is_brought_forward_by_the_next() -> None:
    """Issue 9, hole 5."""
    shop = written()
    shop.rollback("t", 2)
    shop.insert("t", id="9", v="y")
    shop.watermark()
    with pytest.raises(SinkFault, match="Start the job again"):
        shop.run()
    shop.run()
    assert shop.rows("t") == [*WHOLE, (9, "y")]


def test_a_table_restored_from_a_backup_gets_its_rows_again() -> None:
    """Issue 9, hole 5: a backup of the table alone, with its properties."""
    shop = written()
    backup = shop.saved()
    shop.update("t", id="0", v="new")
    shop.delete("t", id="1")
    shop.watermark()
    shop.run()
    shop.stop()
    shop.lab.lake.restore_table((SCHEMA, "t"), backup)
    assert shop.rows("t") == WHOLE
    shop.run()
    assert shop.rows("t") == [(0, "new"), (3, "x"), (4, "x")]


def test_a_lake_restored_as_a_whole_stops_the_job_and_is_rebuilt_without_the_state() -> None:
    """Issue 9, hole 5: the change log is as old as the tables; the way out that is named works."""
    shop = written()
    backup = shop.saved()
    shop.update("t", id="0", v="new")
    shop.watermark()
    shop.run()
    shop.stop()
    shop.lab.lake.restore(backup)
    with pytest.raises(DecisionNeeded, match=r"drop the table of the job's state"):
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


def test_a_table_rolled_back_after_its_last_ddl_gets_its_rows_again() -> None:
    """Issue 9, hole 5: a DDL that the table still has is no obstacle."""
    shop = written()
    shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.insert("t", id="7", v="y", n="1")
    shop.watermark()
    shop.run()
    shop.update("t", id="7", v="y", n="2")
    shop.watermark()
    shop.run()
    shop.stop()
    shop.rollback("t", 1)
    shop.run()
    assert shop.rows("t") == [*((*row, None) for row in WHOLE), (7, "y", 2)]


def test_rows_that_others_wrote_after_a_rollback_mark_the_table() -> None:
    """Issue 9, hole 5: rolled back, then changed by hand; its rows are brought back, the foreign row is reported."""
    shop = written()
    shop.stop()
    shop.rollback("t", 1)
    shop.lab.lake.insert((SCHEMA, "t"), {"id": 77, "v": "foreign"})
    shop.run()
    assert shop.rows("t") == [*WHOLE, (77, "foreign")]
    assert shop.condition("t") == "diverged"


def test_a_rollback_and_a_lost_state_together_stop_the_job() -> None:
    """Issue 9, hole 5: then it is not known what the table lacks."""
    shop = written()
    shop.lose_state()
    shop.rollback("t", 2)
    with pytest.raises(DecisionNeeded, match="Roll it forward again, or drop every table"):
        shop.run()
    shop.lab.lake.drop((SCHEMA, "t"))
    shop.run()
    assert shop.rows("t") == WHOLE


@pytest.mark.parametrize("ddl", ["ALTER TABLE t ADD COLUMN n INT DEFAULT 5", "ALTER TABLE t MODIFY COLUMN d DATETIME"])
def test_a_table_set_back_into_the_midst_of_a_ddl_stops_the_job(ddl: str) -> None:
    """A DDL has several commits of one commit_ts: with the first of them alone, values are missing."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d="2024-01-01")
    shop.watermark()
    shop.run()
    shop.sql(ddl)
    shop.watermark()
    shop.run()
    shop.stop()
    shop.rollback("t", 1)
    with pytest.raises(DecisionNeeded, match=r"a DDL at .* is among what it lacks"):
        shop.run(again=True)


def test_a_table_set_back_to_the_end_of_a_ddl_gets_its_rows_again() -> None:
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.sql("ALTER TABLE t ADD COLUMN n INT DEFAULT 5")
    shop.watermark()
    shop.run()
    shop.insert("t", id="2", n="6")
    shop.watermark()
    shop.run()
    shop.stop()
    shop.rollback("t", 1)
    shop.run(again=True)
    assert shop.rows("t") == [(1, 5), (2, 6)]


@pytest.mark.parametrize("point", ["change columns", "set column", "save the progress"])
@pytest.mark.parametrize(
    "ddl", ["ADD COLUMN n INT DEFAULT 5", "MODIFY COLUMN d DATETIME", "DROP COLUMN d, ADD COLUMN n INT DEFAULT 5"]
)
def test_a_table_rolled_back_beyond_a_ddl_of_an_interrupted_batch_stops_the_job(ddl: str, point: str) -> None:
    """The progress does not know of the DDL, and no rollback undoes the columns that it has made."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d="2024-01-01")
    shop.watermark()
    shop.run()
    shop.sql(f"ALTER TABLE t {ddl}")
    shop.watermark()
    shop.dies(point, after=point != "save the progress")
    newest = shop.saved()
    shop.rollback("t", 1)
    with pytest.raises(DecisionNeeded, match=r"a DDL at \d+ is among what it lacks.*Roll the table forward again"):
        shop.run()
    shop.lab.lake.restore_table((SCHEMA, "t"), newest)
    shop.run()
    (row,) = shop.rows("t") or ()
    day = "2024-01-01"
    assert " ".join(map(str, row)) == {"ADD": f"1 {day} 5", "MOD": f"1 {day} 00:00:00", "DRO": "1 5"}[ddl[:3]]
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize("point", ["change columns", "set column"])
@pytest.mark.parametrize(
    ("ddl", "row"),
    [
        ("ADD COLUMN n INT DEFAULT 5", {"d": "2024-01-01", "n": "5"}),
        ("MODIFY COLUMN d DATETIME", {"d": "2024-01-01 00:00:00"}),
        ("RENAME COLUMN d TO e, ADD COLUMN n INT DEFAULT 5", {"e": "2024-01-01", "n": "5"}),
    ],
)
def test_a_full_read_mends_a_table_that_was_rolled_back_beyond_a_ddl(ddl: str, row: dict[str, str], point: str) -> None:
    """It is the way out that the stop names. Until it begins, the DDL must not be begun again."""
    shop = Shop(snapshot="now")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d="2024-01-01")
    shop.watermark()
    shop.run()
    shop.sql(f"ALTER TABLE t {ddl}")
    shop.held = {at: {"id": "1", **row} for at in shop.held}
    shop.watermark()
    shop.dies(point, after=True)
    shop.rollback("t", 1)
    with pytest.raises(DecisionNeeded, match=r"a DDL at \d+ is among what it lacks.*ticdc-spark rebuild"):
        shop.run()
    shop.rebuild("t")
    shop.run()
    assert shop.condition("t") in ("diverged", "snapshot")
    for _ in range(3):
        shop.watermark()
        shop.run()
    assert shop.columns("t") == ("id", *row)
    assert [tuple(map(str, found)) for found in shop.rows("t") or ()] == [("1", *row.values())]
    assert "diverged" not in shop.condition("t")


@pytest.mark.parametrize("messages", [0, 2])
def test_a_log_restored_from_between_two_tries_of_a_batch_stops_the_job(messages: int) -> None:
    """A batch is landed, the job dies, the lake is backed up, and the batch is done with more messages: the copy of the
    log has the batch, and not all of it."""
    shop = written()
    shop.update("t", id="0", v="5")
    shop.watermark()
    shop.dies("land", after=True)
    backup = shop.saved()
    for number in range(messages):
        shop.insert("t", id=str(5 + number), v="x")
    shop.watermark()
    shop.run()
    whole, newest = shop.rows("t"), shop.saved()
    shop.stop()
    shop.lab.lake.restore(backup)
    with pytest.raises(
        DecisionNeeded, match=r"the change log may be an older copy, too.*drop the table of the job's state"
    ):
        shop.run()
    shop.lab.lake.restore(newest)
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == (whole, "clean")
    shop.stop()
    shop.rollback("t", 1)
    shop.run()
    assert shop.rows("t") == whole, "the log has all that a table lacks which is only rolled back"


def test_an_older_state_from_before_names_were_swapped_does_not_mix_up_their_columns() -> None:
    """Seed 7314686: the lake is ahead, and the state folder is from before the tables were made."""
    shop = Shop("open")
    shop.watermark("cdc")
    shop.run()
    shop.stop()
    old = shop.lab.state.save()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.sql("CREATE TABLE u (id INT, line INT, n INT, PRIMARY KEY (id, line))")
    shop.watermark()
    one = shop.change("RENAME TABLE t TO w")
    shop.send_ddl(one)
    shop.send_ddl(shop.change("RENAME TABLE u TO t", ts=one.commit_ts))
    shop.watermark()
    shop.run()
    shop.stop()
    shop.lab.state.restore(old)
    # A batch that ends before the RENAMEs finds the table that has the name by now.
    shop.batch(3)
    shop.insert("w", id="1", v="a")
    shop.insert("t", id="2", line="1", n="5")
    shop.watermark()
    shop.run()
    assert (shop.columns("w"), shop.rows("w")) == (("id", "v"), [(1, "a")])
    assert (shop.columns("t"), shop.rows("t")) == (("id", "line", "n"), [(2, 1, 5)])


def test_a_lake_from_before_an_older_state_landed_its_batch_anew_stops_the_job() -> None:
    """The change log of that lake has a batch of the same number, with fewer messages."""
    shop = Shop()
    shop.watermark("cdc")
    shop.run()
    shop.stop()
    state = shop.lab.state.save()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    shop.watermark()
    shop.run()
    shop.stop()
    lake = shop.saved()
    shop.insert("t", id="2")
    shop.watermark()
    shop.lab.state.restore(state)
    shop.run()
    assert shop.rows("t") == [(1,), (2,)]
    shop.stop()
    shop.lab.lake.restore(lake)
    with pytest.raises(DecisionNeeded, match="change log may be an older copy"):
        shop.run()
    shop.lose_state()
    shop.run()
    assert shop.rows("t") == [(1,), (2,)]


def test_a_change_log_from_between_two_tries_of_a_batch_is_noticed() -> None:
    """Story 10723 of ``--harder``: it had the batch, and not the rows that only the second try read."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    for number in range(1, 4):
        shop.insert("t", id=str(number))
    shop.dies("land", after=True, rows=1)
    backup = shop.saved()
    shop.run()
    shop.stop()
    shop.lab.lake.restore(backup)
    shop.watermark()
    with pytest.raises(DecisionNeeded, match="the change log lacks rows of batches"):
        shop.run()
    shop.lose_state()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(1,), (2,), (3,)], "clean")
