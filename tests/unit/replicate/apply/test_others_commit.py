"""A lease that is taken, quiet tables, DROP DATABASE among threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.simulator.faults import Fault
from tests.simulator.job_lab import TTL
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from ticdc_spark.errors import LeaseHeld


def changing(rows: int = 3) -> Shop:
    """A table that a batch changes by rows and by DDL."""
    shop = Shop()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    shop.insert("t", id="1", v="old")
    shop.watermark()
    shop.run()
    shop.update("t", id="1", v="mid")
    shop.sql("ALTER TABLE t ADD COLUMN n INT")
    shop.insert("t", id="2", v="x", n="1")
    shop.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    shop.sql("RENAME TABLE u TO w")
    shop.insert("w", id="1")
    shop.watermark()
    return shop


NEWEST = [(1, "new", 5), (3, "y", 2)]


def test_an_owner_that_wakes_up_after_its_lease_was_taken_writes_nothing_more() -> None:
    """It was suspended between its check of the lease and any of its durable actions; meanwhile
    another owner went on, with newer rows. Without a fence on every commit it would write older images over them."""
    at = 0
    while True:
        shop = changing()

        def take_over(_fault: Fault, shop: Shop = shop) -> None:
            slept = shop.steps, shop.fence
            shop.steps = shop.fence = None
            shop.clock.advance(TTL + 1)
            shop.update("t", id="1", v="new", n="5")
            shop.delete("t", id="2")
            shop.insert("t", id="3", v="y", n="2")
            shop.watermark()
            shop.run()
            shop.stop()
            shop.steps, shop.fence = slept

        shop.faults.arm(Fault(at=at, kind="suspended"), take_over)
        with suppress(LeaseHeld):  # the last round takes nothing over
            shop.run()
        if shop.faults.fired is None:
            break
        assert shop.rows("t") == NEWEST, at
        assert shop.rows("w") == [(1,)]
        shop.run(again=True)
        assert shop.rows("t") == NEWEST
        assert (shop.condition("t"), shop.condition("w")) == ("clean", "clean")
        at += 1
    assert at >= 10


ACTIONS = ["apply rows", "change columns", "create", "rename", "save the plan", "save the progress"]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_lease_taken_just_before_a_commit_stops_that_very_commit(action: str) -> None:
    """The other owner does nothing yet; nothing of the first may come after it was overtaken."""
    shop = changing()
    before: list[object] = []

    def take() -> None:
        shop.clock.advance(TTL + 1)
        shop.lab.lease.take(shop.lab.state, shop.clock, 2)
        before.append((shop.saved(), shop.lab.state.save()))

    shop.faults.at, shop.faults.before = action, take
    with pytest.raises(LeaseHeld, match="was taken by job"):
        shop.run()
    assert repr((shop.saved(), shop.lab.state.save())) == repr(before[0])


@pytest.mark.parametrize("moves", ["compact", "expire", "compact expire", "compact compact expire"])
def test_a_quiet_table_goes_on_although_other_tools_removed_its_snapshots(moves: str) -> None:
    """The mark of a quiet table was lost to another tool's expiry."""
    shop = Shop()
    for name in ("quiet", "busy"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(9))")
        shop.insert(name, id="1", v="a")
    shop.watermark()
    shop.run()
    for number in range(3):
        shop.insert("busy", id=str(5 + number), v="b")
        shop.watermark()
        shop.run()
    for move in moves.split():
        getattr(shop.lab.lake, move)((SCHEMA, "quiet"))
    shop.run(again=True)
    assert shop.condition("quiet") == "clean"
    shop.insert("quiet", id="2", v="b")
    shop.update("quiet", id="1", v="c")
    shop.sql("ALTER TABLE quiet ADD COLUMN n INT")
    shop.watermark()
    shop.run()
    assert shop.rows("quiet") == [(1, "c", None), (2, "b", None)]
    assert shop.condition("quiet") == "clean"


def test_rows_that_another_writer_changed_in_a_quiet_table_are_reported_after_a_compaction() -> None:
    """A commit that changes rows is none of a compaction."""
    shop = Shop()
    shop.sql("CREATE TABLE quiet (id INT PRIMARY KEY)")
    shop.insert("quiet", id="1")
    shop.watermark()
    shop.run()
    shop.lab.lake.insert((SCHEMA, "quiet"), {"id": 9})
    shop.lab.lake.compact((SCHEMA, "quiet"))
    shop.insert("quiet", id="2")
    shop.watermark()
    shop.run()
    assert shop.condition("quiet") == "diverged"
    assert "another writer" in shop.status("quiet").detail


@pytest.fixture
def _threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_threads_change_often")
@pytest.mark.parametrize("again", [False, True])
def test_drop_database_in_one_timeline_while_others_create_tables(again: bool) -> None:
    """It went through all tables while other threads added theirs."""
    shop = Shop(parallel_tables=8)
    shop.sql("CREATE DATABASE old", schema="old")
    for number in range(20):
        shop.sql(f"CREATE TABLE o{number} (id INT PRIMARY KEY)", schema="old")
        shop.insert(f"o{number}", schema="old", id="1")
    shop.watermark()
    if again:
        shop.run()
    for number in range(60):
        shop.sql(f"CREATE TABLE n{number} (id INT PRIMARY KEY)")
        shop.insert(f"n{number}", id="1")
    ts = shop.sql("DROP DATABASE old", schema="old")
    shop.sql("CREATE DATABASE old", schema="old")
    shop.sql("CREATE TABLE o1 (id INT PRIMARY KEY)", schema="old")
    shop.insert("o1", schema="old", id="7")
    shop.watermark()
    shop.run()
    assert ts < shop.applied
    assert shop.rows("o1", "old") == [(7,)]
    assert [name for name in shop.lab.lake.tables() if name[0] == "old"] == [("old", "o1")]
    assert all(shop.rows(f"n{number}") == [(1,)] for number in range(60))
