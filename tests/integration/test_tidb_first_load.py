"""The first load of a TiDB, run against MariaDB: its statement that shows the past is replaced by MariaDB's own.

MariaDB keeps old rows of tables WITH SYSTEM VERSIONING, and shows a session all of them as of a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.integration.test_snapshot import write_job
from tests.spark.lake import lake, read_table
from tests.support.kafka_broker import Broker
from tests.support.live_tables import LiveTables
from tests.support.mariadb_server import Server, running
from ticdc_spark.capture.snapshot import database
from ticdc_spark.capture.snapshot.database import DatabaseReader
from ticdc_spark.cli import main
from ticdc_spark.config.load import load_identity, load_job
from ticdc_spark.mysql import tso_physical_ms
from ticdc_spark.operate.status import job_status
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.watch import Watcher
from ticdc_spark.replicate.state.progress import Progress

CREATE = "CREATE TABLE {} (id BIGINT PRIMARY KEY, v VARCHAR(9), secret INT)"
VERSIONED = " WITH SYSTEM VERSIONING"


def as_of(commit_ts: int | None) -> str:
    """In place of ``tidb_snapshot``."""
    if commit_ts is None:
        return "SET @@system_versioning_asof = DEFAULT"
    return f"SET @@system_versioning_asof = FROM_UNIXTIME({tso_physical_ms(commit_ts) / 1000})"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("mariadb")) as started:
        yield started


@pytest.fixture
def live(server: Server, broker: Broker, topic_name: str) -> Iterator[LiveTables]:
    topic = broker.create_topic(topic_name)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5, "log_level": 0})

    def send(value: bytes) -> None:
        producer.produce(topic, value, partition=0)
        producer.poll(0)

    tables = LiveTables(server, "tidb", send)
    yield tables
    tables.close()
    producer.flush(30)


@pytest.fixture(autouse=True)
def tidb(live: LiveTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "as_of", as_of)
    monkeypatch.setattr(DatabaseReader, "exact", True)
    monkeypatch.setattr(DatabaseReader, "_current_ts", lambda _: live.now())
    create = DatabaseReader._create

    def without_history(self: DatabaseReader, name: tuple[str, str], at: int | None) -> str | None:
        found = create(self, name, at)
        return None if found is None else found.replace(VERSIONED, "")

    monkeypatch.setattr(DatabaseReader, "_create", without_history)


def values(rand: Random) -> dict[str, Any]:
    return {"v": rand.choice([None, "a", "b"]), "secret": rand.randrange(9)}


ROUTE = """
[[route]]
tables = ["tidb.*"]
target-schema = "mirror"
drop-columns = ["secret"]
rename-columns = { v = "value" }
"""


def test_a_database_that_changes_is_loaded_as_of_one_commit_and_followed(
    spark: SparkSession, tmp_path: Path, server: Server, broker: Broker, live: LiveTables, topic_name: str
) -> None:
    for name, rows in (("orders", 3000), ("small", 5)):
        live.add(name, CREATE.format(name), values, rows)
        server.execute(f"ALTER TABLE {live.schema}.{name} ADD SYSTEM VERSIONING")
    job = write_job(tmp_path, broker, server, topic_name, 1000, 'tables = ["tidb.*"]')
    job.write_text(job.read_text() + ROUTE)
    printed = CliRunner().invoke(main, ["cdc-command", str(job), "--server", "http://cdc:8300"])
    assert printed.exit_code == 0, printed.output
    start = int(printed.output.partition("--start-ts=")[2].split()[0])
    assert start == live.ts, "the changefeed begins at the clock of the database"
    live.begin()
    live.start(pause=0.01)
    stop, reports = threading.Event(), Queue[BatchReport]()

    def follow(done: Callable[[Progress], bool]) -> None:
        for _ in range(1000):
            if done(reports.get(timeout=120).progress):
                return
        raise AssertionError(f"it does not come so far: {job_status(load_identity(job))}")

    with ThreadPoolExecutor(1) as pool:
        running_job = pool.submit(lambda: loop.run(load_job(job), watchers=[Watcher(committed=reports.put)], stop=stop))
        try:
            # As of the base, a table is clean with the commit that brings it in: nothing has to settle.
            follow(lambda now: all(one.is_clean and one.origin == "snapshot" for one in now.tables) and not now.wanted)
            live.stop()
            follow(lambda now: now.applied >= live.ts - 1)
        finally:
            live.stop()
            stop.set()
            summary = running_job.result()
    session = lake(spark, tmp_path)
    for name in ("orders", "small"):
        found = read_table(session, "mirror", name)
        truth = [{"id": row["id"], "value": row["v"]} for row in live.rows(name)]
        assert sorted(found, key=lambda row: int(row["id"])) == truth
        assert len(truth) == live.count(name)
    assert live.changes > 20
    (orders,) = (one for one in summary.progress.tables if one.name == "orders")
    base = orders.emptied
    (loaded, *_) = session.sql(
        f"SELECT snapshot_id FROM lake.mirror.orders.snapshots WHERE summary['ticdc.applied'] LIKE '{base}:%' "
        "ORDER BY committed_at DESC"
    ).collect()
    first = session.sql(f"SELECT id, value FROM lake.mirror.orders VERSION AS OF {loaded[0]}").collect()
    at_base = server.execute(as_of(base), f"SELECT id, v FROM {live.schema}.orders")
    assert sorted(map(tuple, first)) == sorted(at_base)
    assert sorted(at_base) != [(row["id"], row["v"]) for row in live.rows("orders")], "it changed since"
