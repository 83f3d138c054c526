"""The world alone: what it sends leads the reference applier to its own truth."""

from __future__ import annotations

from random import Random

import pytest

from tests.reference.applier import run
from tests.reference.faults import by_partition, interleaved
from tests.simulator.broker import Broker
from tests.simulator.columns import round_datetime, round_time
from tests.simulator.database import Database
from tests.simulator.ddl import DDL, create_table
from tests.simulator.feed import Feed
from tests.simulator.reference import FreesFirst
from tests.simulator.ticdc import TiCdc
from tests.simulator.wire import WIRES
from ticdc_spark.model import Message
from ticdc_spark.protocols.base import ReadOptions

REPLAYED = tuple(name for name in DDL if name not in ("exchange_partition", "silent_version", "silent_column"))


def world(seed: int, protocol: str) -> tuple[Database, TiCdc, Broker]:
    """A database after some dozens of transactions and schema changes, everything sent."""
    rand = Random(seed)
    feed = Feed(
        protocol=protocol,
        partitions=1 + rand.randrange(3),
        topic_per_table=rand.random() < 0.5,
        by_key=rand.random() < 0.7,
        bootstrap=rand.random() < 0.7,
        batched=rand.random() < 0.4,
        no_pre_table=rand.random() < 0.3,
        reorder=rand.choice((0.0, 0.3)),
        duplicates=rand.choice((0.0, 0.2)),
        uneven=rand.random() < 0.5,
    )
    database = Database(plain=True, raw_key_changes=rand.random() < 0.5)
    broker = Broker(feed.partitions)
    ticdc = TiCdc(feed, database, broker)
    for _ in range(3):
        create_table(database, rand)
    for _ in range(60):
        dice = rand.random()
        if dice < 0.5:
            database.transaction(rand)
        elif dice < 0.65:
            DDL[rand.choice(REPLAYED)](database, rand)
        elif dice < 0.9:
            ticdc.send(rand, 1 + rand.randrange(20))
        elif dice < 0.95:
            ticdc.restart(rand)
        else:
            ticdc.advance(rand)
    ticdc.drain(rand)
    return database, ticdc, broker


def messages(broker: Broker) -> list[Message]:
    return [
        message for topic in broker.topics.values() for partition in topic.partitions for message in partition.messages
    ]


@pytest.mark.parametrize("protocol", WIRES)
@pytest.mark.parametrize("seed", range(40))
def test_what_is_sent_leads_to_the_truth(protocol: str, seed: int) -> None:
    database, _, broker = world(seed, protocol)
    sent = interleaved(by_partition(messages(broker)), seed)
    applied = run(
        sent, WIRES[protocol].decoder, ReadOptions(source_timezone="UTC"), batch_size=10 + seed, applier=FreesFirst
    )
    truth = database.truth_at(database.ts)
    assert {name: rows for name, (_, rows) in applied.lake.tables.items()} == {
        name: live.rows for name, live in truth.items()
    }
    assert {name: [column.name for column in table.columns] for name, (table, _) in applied.lake.tables.items()} == {
        name: [column.name for column in live.table.columns] for name, live in truth.items()
    }
    assert not applied.progress.waiting


def test_the_past_stays_as_it_was() -> None:
    database, _, _ = world(1, "simple")
    rand = Random(2)
    at, before = database.ts, {name: dict(live.rows) for name, live in database.truth_at(database.ts).items()}
    for _ in range(30):
        database.transaction(rand)
        DDL[rand.choice(tuple(DDL))](database, rand)
    assert {name: dict(live.rows) for name, live in database.truth_at(at).items()} == before


def test_times_are_rounded_as_mysql_rounds_them() -> None:
    assert round_datetime("1999-12-31 23:59:59.500000", 0) == "2000-01-01 00:00:00"
    assert round_datetime("2024-02-29 23:59:59.499999", 0) == "2024-02-29 23:59:59"
    assert round_datetime("2024-02-29 23:59:59.999500", 3) == "2024-03-01 00:00:00.000"
    assert round_time("-00:00:00.500", 0) == "-00:00:01"
    assert round_time("-00:00:00.499", 0) == "00:00:00"
