"""What stories of the simulator found that are longer than a person thinks of."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.simulator.faults import Died
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from ticdc_spark.config.values import MessagePlace, SkipDdl
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.protocols.base import Encoded

MARKS = ("diverged", "quarantined")


def table(protocol: str = "simple", **job: object) -> Shop:
    """A table with a row that is applied."""
    shop = Shop(protocol, **job)  # type: ignore[arg-type]
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="a")
    shop.watermark()
    shop.run()
    return shop


def unreadable(shop: Shop, topic: str = "cdc") -> None:
    shop.send(Encoded(None, b"{"), topic)


# ---- skip-ddl


@pytest.mark.parametrize("again", [False, True])
def test_a_skipped_create_over_a_kept_table_marks_it(again: bool) -> None:
    shop = table(drop_table="keep")
    shop.sql("DROP TABLE t")
    ts = shop.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    if again:
        shop.insert("t", id="2", n="5")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "diverged"


@pytest.mark.parametrize("ddl", ["ALTER TABLE t RENAME COLUMN v TO w", "ALTER TABLE t DROP COLUMN v"])
def test_a_truncate_does_not_clear_the_mark_of_a_skipped_change_of_columns(ddl: str) -> None:
    shop = table("canal-json")
    ts = shop.sql(ddl)
    shop.sql("TRUNCATE TABLE t")
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    shop.watermark()
    shop.run()
    assert shop.columns("t") == ("id", "v")
    assert shop.condition("t") == "diverged"


def test_a_truncate_clears_the_mark_of_rows_that_were_left_out() -> None:
    shop = table(on_reject="continue")
    unreadable(shop)
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "diverged"
    shop.sql("TRUNCATE TABLE t")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "clean"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("point", ["change columns", "set column", "save the progress"])
@pytest.mark.parametrize(
    "ddl", ["ADD COLUMN n INT DEFAULT 5", "MODIFY COLUMN v DATETIME", "DROP COLUMN v, ADD COLUMN n INT"]
)
def test_a_ddl_that_is_skipped_when_it_is_half_done_leaves_a_table_that_goes_on(
    ddl: str, point: str, after: bool
) -> None:
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v DATE)")
    shop.insert("t", id="1", v="2024-01-01")
    shop.watermark()
    shop.run()
    ts = shop.sql(f"ALTER TABLE t {ddl}")
    shop.watermark()
    shop.faults.at, shop.faults.happens_first = point, after
    with suppress(Died):
        shop.run()
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    shop.run()
    assert "_ticdc_old" not in shop.columns("t")
    shop.sql("ALTER TABLE t ADD COLUMN m INT")
    shop.insert("t", id="2", m="7")
    shop.watermark()
    shop.run()
    found = shop.lake("t")
    assert found is not None
    assert sorted((row["id"], row["m"]) for row in found.rows) == [(1, None), (2, 7)]


def test_a_skipped_type_change_gives_the_old_values_back() -> None:
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v TIME)")
    shop.insert("t", id="1", v="10:00:00")
    shop.watermark()
    shop.run()
    ts = shop.sql("ALTER TABLE t MODIFY COLUMN v TIME(3)")
    shop.watermark()
    shop.dies("set column")
    assert shop.rows("t") == [(1, None, "10:00:00")]
    shop.configure(skip_ddl=(SkipDdl(ts, "*"),))
    shop.run()
    assert shop.rows("t") == [(1, "10:00:00")]
    assert shop.condition("t") == "diverged"


# ---- the lake in other hands


def test_a_column_that_was_dropped_by_hand_marks_a_quiet_table_at_the_next_start() -> None:
    shop = table()
    shop.stop()
    shop.lab.lake.drop_column((SCHEMA, "t"), "v")
    shop.run(again=True)
    assert shop.condition("t") == "diverged"
    assert "dropped or renamed columns in the target: `v`" in shop.status("t").detail


def test_a_column_that_was_dropped_by_hand_stops_the_job_and_the_way_back_is_named() -> None:
    shop = table()
    shop.lab.lake.drop_column((SCHEMA, "t"), "v")
    shop.update("t", id="1", v="2")
    shop.watermark()
    with pytest.raises(
        DecisionNeeded, match=r"add them again .* Then `ticdc-spark rebuild \S+ \S+\.t` clears the mark"
    ):
        shop.run()


@pytest.mark.parametrize("point", ["change columns", "set column"])
@pytest.mark.parametrize("after", [False, True])
def test_columns_in_the_midst_of_a_ddl_are_not_taken_for_dropped_ones(point: str, after: bool) -> None:
    shop = table()
    shop.sql("ALTER TABLE t MODIFY COLUMN v DATETIME")
    shop.sql("ALTER TABLE t DROP COLUMN v, ADD COLUMN n INT DEFAULT 5")
    shop.update("t", id="1", n="6")
    shop.lab.lake.delete((SCHEMA, "t"), 0)
    shop.watermark()
    shop.dies(point, after=after)
    shop.run()
    assert shop.columns("t") == ("id", "n")
    assert "columns" not in shop.status("t").detail


def test_a_table_that_is_restored_after_its_drop_is_kept_and_makes_room_for_a_new_one() -> None:
    shop = table()
    backup = shop.saved()
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    assert shop.rows("t") is None
    shop.stop()
    shop.lab.lake.restore_table((SCHEMA, "t"), backup)
    shop.run(again=True)
    assert shop.condition("t") == "kept"
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="7")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(7,)], "clean")


def test_a_table_rolled_back_amid_a_type_change_stops_the_job_with_a_way_out() -> None:
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v TIME)")
    shop.insert("t", id="1", v="10:00:00")
    shop.watermark()
    shop.run()
    shop.sql("ALTER TABLE t MODIFY COLUMN v TIME(3)")
    shop.watermark()
    shop.dies("set column")
    shop.rollback("t", 1)
    with pytest.raises(DecisionNeeded, match=r"set back to an older snapshot. Restore the table as the job left it"):
        shop.run()


# ---- unreadable messages


@pytest.mark.parametrize(("policy", "condition"), [("continue", "diverged"), ("quarantine", "quarantined")])
@pytest.mark.parametrize("split", [False, True])
def test_an_unreadable_message_marks_a_table_that_waits_to_be_made(policy: str, condition: str, split: bool) -> None:
    """Its CREATE waits for a watermark when the message is read; the table is made by a later batch."""
    shop = Shop("canal-json", on_reject=policy)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.insert("t", id="1")
    unreadable(shop)
    if split:
        shop.run()
    shop.watermark()
    shop.run()
    assert shop.condition("t") == condition


def test_a_key_whose_delete_cannot_be_read_has_one_row_in_a_table_that_waits_to_be_made() -> None:
    shop = Shop("canal-json", on_reject="continue")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="a")
    shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.row("delete", (SCHEMA, "t"), {"id": "1"})
    unreadable(shop)
    shop.insert("t", id="1", v="b")
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([(1, "b", None)], "diverged")


def test_an_unreadable_message_marks_a_table_that_is_made_anew_after_it() -> None:
    shop = table("open", on_reject="continue")
    shop.sql("DROP TABLE t")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    unreadable(shop)
    shop.run()
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "diverged"


def test_a_table_that_is_made_anew_once_a_quarantine_is_lifted_is_marked() -> None:
    """The old one was dropped, and the CREATE of the new one waited, when the message was read."""
    shop = table("open", on_reject="quarantine")
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    unreadable(shop)
    shop.watermark()
    shop.run()
    shop.resume()
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([], "diverged")


def test_an_unreadable_message_before_a_table_was_thought_of_does_not_mark_it() -> None:
    shop = table("open", on_reject="continue")
    unreadable(shop)
    shop.watermark()
    shop.run()
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.watermark()
    shop.run()
    assert shop.condition("u") == "clean"


def test_an_unreadable_message_of_the_topic_of_a_new_name_marks_the_renamed_table() -> None:
    shop = table("simple", on_reject="continue", topic_per_table=True)
    shop.sql("RENAME TABLE t TO u")
    shop.watermark()
    shop.run()
    unreadable(shop, "cdc_shop_u")
    shop.watermark()
    shop.run()
    assert shop.condition("u") == "diverged"


@pytest.mark.parametrize("readable", [False, True])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("ddl", ["TRUNCATE TABLE t", "DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY)"])
def test_a_message_that_is_skipped_marks_its_table_whatever_waited_for_it(
    ddl: str, split: bool, readable: bool
) -> None:
    """It stands behind what is done to the table once a watermark comes, which takes no mark of it away."""
    shop = table()
    for statement in ddl.split(";"):
        shop.sql(statement.strip())
    shop.configure(skip_messages=(MessagePlace("cdc", 0, shop.broker.end_offsets()["cdc", 0]),))
    if readable:
        shop.insert("t", id="5")
    else:
        unreadable(shop)
    if split:
        shop.run()
    shop.watermark()
    shop.run()
    assert (shop.rows("t"), shop.condition("t")) == ([], "diverged")
    shop.sql("TRUNCATE TABLE t")
    shop.watermark()
    shop.run()
    assert shop.condition("t") == "clean"


def test_a_drop_that_was_done_before_the_tables_were_to_stay_does_not_stop_the_job() -> None:
    """Seed 8816239: the try that was interrupted dropped the table; rows of the same batch were to be applied to it."""
    shop = table()
    shop.sql("TRUNCATE TABLE t")
    shop.insert("t", id="5", v="x")
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.dies("drop", after=True)
    assert shop.rows("t") is None
    shop.configure(drop_table="keep")
    shop.run()
    assert shop.condition("t") == "dropped"


@pytest.mark.parametrize("known", [False, True])
def test_a_column_that_was_dropped_by_hand_while_a_batch_was_interrupted_marks_its_table(known: bool) -> None:
    """The batch passes over what it has done, and so over the rows that lost the column."""
    shop = table() if known else Shop()
    if not known:
        shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="9", v="x")
    shop.watermark()
    shop.dies("apply rows", after=True)
    shop.lab.lake.drop_column((SCHEMA, "t"), "v")
    shop.run()
    assert shop.condition("t") == "diverged"
    assert "dropped or renamed columns in the target: `v`" in shop.status("t").detail


def test_a_table_whose_first_rows_come_with_the_drop_of_its_database_is_not_made() -> None:
    """No message before its rows shows the job that the database has it."""
    shop = Shop("simple")
    shop.change("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.bootstrap("t")
    shop.insert("t", id="1", v="a")
    shop.sql(f"DROP DATABASE {SCHEMA}")
    shop.watermark()
    shop.run()
    assert shop.rows("t") is None
    shop.watermark()
    shop.run(again=True)
    assert shop.rows("t") is None
