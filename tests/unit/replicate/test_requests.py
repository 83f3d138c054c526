"""What people ask of a job is taken at its start or between two batches, whatever dies meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.memory_sink.sink import MemorySink
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, after_every_death
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.protocols.base import Encoded
from ticdc_spark.replicate.state.conditions import Diverged, Quarantined
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.requests import Clear, Rebuild, Request, Resume, folded
from ticdc_spark.replicate.state.table import TableState

T = (SCHEMA, "t")
REQUESTS: tuple[Request, ...] = (Rebuild(tables=(T,), at=7), Resume(tables=(T,)), Clear(tables=(T,)))


def settled(shop: Shop, batches: int = 3) -> Shop:
    for _ in range(batches):
        shop.watermark()
        shop.run()
    return shop


def made(**job: Any) -> Shop:
    shop = Shop(**job)
    for name in ("t", "u"):
        shop.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        shop.insert(name, id="1")
    return settled(shop, 1)


def with_message_lost(**job: Any) -> Shop:
    """The job runs; one of its messages cannot be read, and more came after it."""
    shop = made(**job)
    shop.send(Encoded(None, b"{"), "cdc")
    shop.insert("t", id="2")
    return settled(shop, 1)


def waiting(shop: Shop) -> list[Request]:
    return list(shop.lab.state.requests())


def same_process(shop: Shop, before: object) -> bool:
    return shop.steps is not None and shop.steps is before


def test_a_running_job_resumes_a_table_at_its_next_batch_though_no_message_comes() -> None:
    shop = with_message_lost(on_reject="quarantine")
    assert (shop.condition("t"), shop.rows("t")) == ("quarantined", [(1,)])
    running = shop.steps
    shop.resume("t")
    shop.batch()
    assert same_process(shop, running) and not waiting(shop)
    assert (shop.condition("u"), shop.rows("t")) == ("quarantined", [(1,), (2,)]), "only the table that was named"
    assert shop.condition("t") == "diverged"


def test_a_running_job_clears_that_a_table_diverged_and_the_stamp_says_so() -> None:
    shop = with_message_lost(on_reject="continue")
    running = shop.steps
    shop.clear("t")
    shop.batch()
    assert same_process(shop, running)
    assert (shop.condition("t"), shop.condition("u")) == ("unverified", "diverged")
    shop.stop()
    found = MemorySink(shop.lab.tables).find(T)
    assert found is not None and found.stamp is not None
    assert msgspec.json.decode(found.stamp.about, type=TableState).diverged_since is None


def dropped(shop: Shop) -> None:
    shop.lab.lake.drop(T)


def set_back(shop: Shop) -> None:
    shop.rollback("t", 1)


def emptied(shop: Shop) -> None:
    shop.lab.lake.delete(T, 0)


@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
@pytest.mark.parametrize("harm", [dropped, set_back, emptied])
def test_a_table_that_was_changed_in_the_lake_is_read_again_beside_the_others(
    harm: Callable[[Shop], None], runs: bool
) -> None:
    shop = made(snapshot="now")
    shop.insert("t", id="2")
    settled(shop, 1)
    harm(shop)
    if not runs:
        shop.stop()
    running = shop.steps
    shop.rebuild("t")
    shop.insert("u", id="2")
    shop.insert("t", id="3")
    settled(shop, 4)
    assert same_process(shop, running) or not runs
    assert not waiting(shop)
    assert (shop.rows("t"), shop.condition("t")) == ([(1,), (2,), (3,)], "clean")
    assert (shop.rows("u"), shop.condition("u")) == ([(1,), (2,)], "clean")


def test_the_stop_for_a_table_that_is_gone_is_cured_while_the_job_is_down() -> None:
    shop = made(snapshot="now")
    shop.stop()
    dropped(shop)
    shop.insert("t", id="2")
    with pytest.raises(DecisionNeeded, match=r"no longer in the target.*`ticdc-spark rebuild job\.toml shop\.t`"):
        shop.run()
    shop.rebuild("t")
    settled(shop)
    assert (shop.rows("t"), shop.condition("t")) == ([(1,), (2,)], "clean")


def test_each_request_begins_a_read_behind_it_also_where_one_waits_already() -> None:
    """What a person changed at the source just before may not be in what the source had at the first request."""
    shop = made(snapshot="now")
    shop.rebuild("t")
    shop.batch()
    between = shop.watermark()
    shop.tick()
    asked_again = shop.tick()
    shop.rebuild("t")
    shop.run()
    shop.batch()
    assert shop.steps is not None and between - 1 == shop.steps.progress.applied < asked_again
    assert [(one.name, one.asked) for one in shop.steps.progress.wanted] == [("t", True)]
    settled(shop)
    assert shop.condition("t") == "clean" and not shop.steps.progress.wanted


def asked_to_resume() -> Shop:
    shop = with_message_lost(on_reject="quarantine")
    shop.resume()
    shop.insert("t", id="3")
    shop.watermark()
    return shop


def asked_to_rebuild() -> Shop:
    shop = with_message_lost(on_reject="quarantine", snapshot="now")
    shop.rebuild("t")
    for number in range(3, 6):
        shop.insert("t", id=str(number))
        shop.watermark()
    return shop


def test_a_death_at_any_point_resumes_once_and_for_all() -> None:
    def judge(shop: Shop) -> None:
        assert not waiting(shop)
        assert (shop.rows("t"), shop.condition("t")) == ([(1,), (2,), (3,)], "diverged")

    assert after_every_death(asked_to_resume, judge) > 6


def test_a_death_at_any_point_leaves_a_table_that_is_read_again() -> None:
    def judge(shop: Shop) -> None:
        settled(shop)
        assert not waiting(shop)
        assert (shop.rows("t"), shop.condition("t")) == ([(1,), (2,), (3,), (4,), (5,)], "clean")

    assert after_every_death(asked_to_rebuild, judge, rows=2) > 10


def test_a_rebuild_waits_where_the_job_has_no_source_to_read_from() -> None:
    shop = made()
    shop.lab.state.ask(Rebuild(tables=(T,)))
    shop.lab.state.ask(Resume(tables=(T,)))
    settled(shop)
    shop.stop()
    settled(shop)
    assert [type(one) for one in waiting(shop)] == [Rebuild]
    shop.configure(snapshot="now")
    settled(shop)
    assert not waiting(shop) and shop.condition("t") == "clean"


def test_a_request_changes_only_tables_that_it_fits() -> None:
    well = TableState(schema=SCHEMA, name="t", cleared=5)
    other = TableState(schema=SCHEMA, name="u", condition=Quarantined(why="a", lifted=Diverged(since=3)))
    progress = Progress(job="shop", tables=(well, other))
    for request in REQUESTS[1:]:
        assert folded(progress, request) == progress
