"""Replaying dead letters: a row is applied once its cause is gone, where its key has no newer change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.memory_sink.letters import open_letters
from tests.simulator.faults import Fault
from tests.support.shop import Shop
from ticdc_spark.config.values import MessagePlace
from ticdc_spark.errors import UsageError
from ticdc_spark.operate.replay import replay_of
from ticdc_spark.protocols import decoder

PROTOCOLS = pytest.mark.parametrize("protocol", ["simple", "open"])
DAY = "2026-01-02"


def letters_of(shop: Shop) -> list[dict[str, Any]]:
    kept = open_letters(shop.lab.tables, "sim").held
    return [
        {**msgspec.structs.asdict(letter), "stage": stage} for (_, stage), group in kept.items() for letter in group
    ]


def replay(shop: Shop, offset: int | None = None) -> None:
    """`ticdc-spark dead-letters --replay`, of all or of one message."""
    wanted = [one for one in letters_of(shop) if offset in (None, one["offset"])]
    assert wanted
    job = shop.steps.job if shop.steps is not None else None
    if job is None:
        shop.start()
        assert shop.steps is not None
        job = shop.steps.job
    shop.lab.state.ask(replay_of(job, shop.lab.state.load(), wanted, decoder(shop.wire.name)))


def shop_with_zero_date(protocol: str = "open") -> Shop:
    """A shop whose job has left out the row of key 1, for its zero date."""
    shop = Shop(protocol, on_reject="continue", zero_dates="error")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d="0000-00-00")
    shop.insert("t", id="2", d=DAY)
    shop.watermark()
    shop.run()
    assert len(shop.rows("t") or []) == 1
    assert shop.condition("t") == "diverged"
    return shop


def keys(shop: Shop) -> list[tuple[int, str | None]]:
    return [(row[0], None if row[1] is None else str(row[1])) for row in shop.rows("t") or []]


@PROTOCOLS
def test_a_row_is_applied_once_the_job_can_read_it(protocol: str) -> None:
    shop = shop_with_zero_date(protocol)
    shop.configure(zero_dates="null")
    replay(shop)
    shop.run()
    assert keys(shop) == [(1, None), (2, DAY)]
    assert shop.condition("t") == "diverged"
    shop.clear("t")
    shop.run()
    assert shop.condition("t") == "unverified"


@PROTOCOLS
def test_a_row_whose_key_has_a_newer_change_is_superseded(protocol: str) -> None:
    shop = shop_with_zero_date(protocol)
    shop.configure(zero_dates="null")
    shop.update("t", id="1", d="2026-03-04")
    shop.watermark()
    shop.run()
    replay(shop)
    shop.run()
    assert keys(shop) == [(1, "2026-03-04"), (2, DAY)]


@PROTOCOLS
def test_a_row_that_was_deleted_since_does_not_come_back(protocol: str) -> None:
    shop = shop_with_zero_date(protocol)
    shop.configure(zero_dates="null")
    shop.delete("t", id="1")
    shop.watermark()
    shop.run()
    replay(shop)
    shop.run()
    assert keys(shop) == [(2, DAY)]


def test_a_skipped_message_can_be_replayed() -> None:
    shop = Shop("open", skip_messages=(MessagePlace("cdc", 0, 1),))
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d=DAY)
    shop.insert("t", id="2", d=DAY)
    shop.watermark()
    shop.run()
    assert keys(shop) == [(2, DAY)]
    replay(shop)
    shop.run()
    assert keys(shop) == [(1, DAY), (2, DAY)]


def test_a_replay_survives_the_death_of_the_job_at_any_action() -> None:
    deaths = 0
    for kind in ("die_before", "die_after"):
        for at in range(40):
            shop = shop_with_zero_date()
            shop.configure(zero_dates="null")
            replay(shop)
            shop.insert("t", id="3", d=DAY)
            shop.watermark()
            if not shop.dies_at(Fault(at=at, kind=kind)):
                break
            shop.run(again=True)
            assert keys(shop) == [(1, None), (2, DAY), (3, DAY)]
            deaths += 1
    assert deaths > 4


def test_a_row_that_still_cannot_be_read_stays_a_dead_letter() -> None:
    shop = shop_with_zero_date()
    replay(shop)
    shop.run()
    assert keys(shop) == [(2, DAY)]
    assert shop.condition("t") == "diverged"


def test_a_message_that_kafka_has_removed_is_left_out_of_a_replay(caplog: pytest.LogCaptureFixture) -> None:
    shop = shop_with_zero_date()
    shop.configure(zero_dates="null")
    replay(shop)
    shop.broker.trim(("cdc", 0), 2)
    shop.run()
    assert keys(shop) == [(2, DAY)]
    assert "topic cdc, partition 0, offset 1 is not in the topic any more" in caplog.text
    shop.insert("t", id="3", d=DAY)
    shop.watermark()
    shop.run()
    assert keys(shop) == [(2, DAY), (3, DAY)]


def test_what_cannot_be_replayed_is_refused_with_the_reason() -> None:
    shop = shop_with_zero_date()
    shop.sql("DROP TABLE t")
    shop.watermark()
    shop.run()
    with pytest.raises(UsageError, match=r"cdc/0/1 cannot be replayed: the job has no table shop\.t now"):
        replay(shop)
    assert shop.steps is not None
    ddl = {"topic": "cdc", "partition": 0, "offset": 0, "key": b"", "value": b"\xff"}
    with pytest.raises(UsageError, match=r"cdc/0/0 cannot be replayed: .*`rebuild` reads its table again"):
        replay_of(shop.steps.job, shop.lab.state.load(), [ddl], decoder("open"))
    with pytest.raises(UsageError, match="the job has no progress yet"):
        replay_of(shop.steps.job, None, [ddl], decoder("open"))


def test_a_quarantined_table_is_resumed_and_not_replayed() -> None:
    shop = Shop("open", on_reject="quarantine", zero_dates="error")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d="0000-00-00")
    shop.watermark()
    shop.run()
    with pytest.raises(UsageError, match=r"shop\.t is quarantined\. `resume` applies all that waits for it"):
        replay(shop)
