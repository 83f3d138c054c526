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
from ticdc_spark.replicate.state.requests import Replay

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
    job = shop.steps.open.job if shop.steps is not None else None
    if job is None:
        shop.start()
        assert shop.steps is not None
        job = shop.steps.open.job
    request, refused = replay_of(job, shop.lab.state.load(), wanted, decoder(shop.wire.name))
    if refused:
        raise UsageError("\n".join(refused))
    shop.lab.state.ask(request)


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
    assert "topic cdc, partition 0, offset 1 cannot be replayed: it is no longer in the topic" in caplog.text
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
    _, (why,) = replay_of(shop.steps.open.job, shop.lab.state.load(), [ddl], decoder("open"))
    assert why.startswith("cdc/0/0 cannot be replayed: ")
    assert why.endswith("`rebuild` reads its table again")


def test_a_quarantined_table_is_resumed_and_not_replayed() -> None:
    shop = Shop("open", on_reject="quarantine", zero_dates="error")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d="0000-00-00")
    shop.watermark()
    shop.run()
    with pytest.raises(UsageError, match=r"shop\.t is quarantined\. `resume` applies its waiting rows"):
        replay(shop)


def shop_without(message: int, **job: Any) -> Shop:
    """A shop whose job leaves out one message; its tables are made by the test."""
    return Shop("open", skip_messages=(MessagePlace("cdc", 0, message),), **job)


def shop_and_request() -> tuple[Shop, Replay]:
    """A shop whose job has left out the row of key 1, and the request to replay it, which nobody has made yet."""
    shop = shop_without(1)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="10")
    shop.insert("t", id="2", v="20")
    shop.watermark()
    shop.run()
    (letter,) = letters_of(shop)
    assert shop.steps is not None
    request, _ = replay_of(shop.steps.open.job, shop.lab.state.load(), [letter], decoder("open"))
    return shop, request


@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE t ADD COLUMN w INT DEFAULT 7",
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t MODIFY COLUMN v VARCHAR(10)",
        "ALTER TABLE t RENAME COLUMN v TO w",
    ],
)
def test_a_row_from_before_a_ddl_is_refused_and_rows_that_are_right_stay(ddl: str) -> None:
    shop = shop_without(1)
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    shop.insert("t", id="1", v="10")
    shop.insert("t", id="2", v="20")
    shop.sql(ddl)
    shop.watermark()
    shop.run()
    before = shop.rows("t")
    with pytest.raises(UsageError, match=r"a DDL has changed shop\.t since, at commitTs \d+.*`ticdc-spark rebuild`"):
        replay(shop)
    shop.run()
    assert shop.rows("t") == before


def test_a_ddl_that_comes_before_the_job_takes_the_request_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    shop, request = shop_and_request()
    shop.sql("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
    shop.watermark()
    shop.run()
    shop.lab.state.ask(request)
    shop.run()
    assert shop.rows("t") == [(2, 20, 7)]
    assert "cdc/0/1 cannot be replayed: a DDL has changed shop.t since" in caplog.text


def test_a_row_does_not_come_into_another_table_that_took_the_name() -> None:
    shop = shop_without(2)
    shop.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
    shop.sql("CREATE TABLE b (id INT PRIMARY KEY, v INT)")
    shop.insert("b", id="1", v="10")
    shop.insert("a", id="2", v="20")
    shop.sql("DROP TABLE b")
    shop.sql("RENAME TABLE a TO b")
    shop.watermark()
    shop.run()
    with pytest.raises(UsageError, match=r"a DDL has changed shop\.b since"):
        replay(shop)


def test_a_row_from_before_a_truncate_is_refused_as_no_row_of_the_table() -> None:
    shop = shop_with_zero_date()
    shop.sql("TRUNCATE TABLE t")
    shop.watermark()
    shop.run()
    with pytest.raises(UsageError, match=r"shop\.t was created, truncated or read in full since"):
        replay(shop)


def test_a_replay_that_is_asked_while_a_batch_is_interrupted_waits_for_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    late = 0
    for at in range(40):
        shop, request = shop_and_request()
        shop.insert("t", id="3", v="30")
        shop.sql("RENAME TABLE t TO u")
        shop.watermark()
        if not shop.dies_at(Fault(at=at, kind="die_after")):
            break
        is_begun = shop.lab.state.plan is not None and shop.lab.state.plan.resolved is not None
        shop.lab.state.ask(request)
        shop.start()
        assert bool(shop.lab.state.requests()) == is_begun
        shop.run()
        shop.run()
        assert not shop.lab.state.requests()
        is_applied = len(shop.rows("u") or []) == 3
        assert is_applied or "cannot be replayed: the job has no table shop.t now" in caplog.text
        caplog.clear()
        late += is_begun
    assert late > 2


def test_a_row_of_a_topic_that_is_not_read_is_refused() -> None:
    shop = shop_with_zero_date()
    shop.watermark("other")
    shop.configure(topics=("other",), zero_dates="null")
    shop.run()
    with pytest.raises(UsageError, match=r"cdc/0/1 cannot be replayed: the job does not read topic cdc now"):
        replay(shop)


def test_rows_on_both_sides_of_a_ddl_of_one_batch_are_all_kept() -> None:
    shop = Shop("open", on_reject="continue", zero_dates="error")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d="0000-00-00")
    shop.sql("ALTER TABLE t ADD COLUMN v INT")
    shop.insert("t", id="2", d="0000-00-00", v="1")
    shop.watermark()
    shop.run()
    assert sorted(letter["offset"] for letter in letters_of(shop)) == [1, 3]


def test_of_many_messages_those_that_can_be_replayed_are() -> None:
    shop = Shop("open", on_reject="continue", zero_dates="error")
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    shop.insert("t", id="1", d="0000-00-00")
    shop.sql("TRUNCATE TABLE t")
    shop.insert("t", id="2", d="0000-00-00")
    shop.watermark()
    shop.run()
    shop.configure(zero_dates="null")
    shop.start()
    assert shop.steps is not None
    request, refused = replay_of(shop.steps.open.job, shop.lab.state.load(), letters_of(shop), decoder("open"))
    assert [row.offset for row in request.rows] == [3]
    assert [why.split(" ")[0] for why in refused] == ["cdc/0/1"]
    shop.lab.state.ask(request)
    shop.run()
    assert keys(shop) == [(2, None)]
