"""MariaDB → changefeed → Kafka → replicate → Iceberg: the lake is the database, whoever is killed on the way."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from threading import Thread
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.integration.circle import database, process, wrong
from tests.integration.circle_work import CircleWorker
from tests.spark.lake import replicate
from tests.support.apicurio_registry import Registry
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server
from ticdc_spark.changefeed.progress import read_stored
from ticdc_spark.mysql import tso

FEED = """
[filter]
rules = ["{schema}*.*"]
[sink]
{dispatchers}
[ticdc-spark]
changefeed-id = "{schema}"
sink-uri = "kafka://{servers}/{schema}?protocol={protocol}&partition-num=3{more}"
source = "{source}"
"""
SOME = """dispatchers = [
    {matcher = ["*.t0"], partition = "index-value"},
    {matcher = ["*.t1", "*.t2"], topic = "SCHEMA_{schema}_{table}", partition = "table"},
]"""
EACH = 'dispatchers = [{matcher = ["*.*"], topic = "SCHEMA_{schema}_{table}", partition = "index-value"}]'
JOB = """
[job]
name = "{schema}"
source-timezone = "UTC"
poll-interval = "200ms"
commit-interval = "200ms"
idle-partition-timeout = "5s"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topic-pattern = '{schema}(_.+)?'
protocol = "{protocol}"
{registry}
[sink]
kind = "iceberg"
warehouse = "lake"
"""
TIDB = "&enable-tidb-extension=true"


class Way(NamedTuple):
    """A protocol, as both sides name it."""

    sent: str
    more: str = ""
    read: str = ""
    registry: bool = False
    """Then there is no DDL on the way: tables only grow."""


WAYS = {
    "simple": Way("simple", read="simple"),
    "simple-avro": Way("simple", "&encoding-format=avro", "simple"),
    "open": Way("open-protocol", read="open"),
    "canal-json": Way("canal-json", TIDB, "canal-json"),
    "debezium": Way("debezium", TIDB, "debezium"),
    "avro": Way("avro", TIDB + "&avro-bigint-unsigned-handling-mode=string", "avro", registry=True),
    "debezium-avro": Way("debezium-avro", TIDB + "&avro-bigint-unsigned-handling-mode=string", "debezium-avro", True),
}


def killed(log: Path, arguments: Sequence[str], after: float) -> None:
    """Run the command, and kill it."""
    with process(log, *arguments) as started:
        try:
            code = started.wait(after)
        except subprocess.TimeoutExpired:
            return
        pytest.fail(f"it ended with {code}: {log.read_text()[-3000:]}")


def circle(
    way: Way,
    server: Server,
    broker: Broker,
    registry: Registry | None,
    folder: Path,
    schema: str,
    *,
    seed: int,
    steps: int,
    feed_kills: int,
    job_kills: int,
) -> Path:
    """Run it; gives the job file."""
    server.execute(f"DROP DATABASE IF EXISTS {schema}", f"DROP DATABASE IF EXISTS {schema}_more")
    url = "" if registry is None else registry.url
    more = way.more + (f"&schema-registry={url}" if registry else "")
    dispatchers = (EACH if way.registry else SOME).replace("SCHEMA", schema)
    feed_file, job_file = folder / "feed.toml", folder / "job.toml"
    feed_file.write_text(
        FEED.format(
            schema=schema,
            servers=broker.servers,
            protocol=way.sent,
            more=more,
            source=server.uri,
            dispatchers=dispatchers,
        )
    )
    job_file.write_text(
        JOB.format(
            schema=schema,
            servers=broker.servers,
            protocol=way.read,
            registry=f'schema-registry = "{url}"' if registry else "",
        )
    )
    state, feed, job = folder / f"{schema}.state", ("changefeed", str(feed_file)), ("replicate", str(job_file))
    rand = Random(seed)
    with process(folder / "feed.log", *feed) as started:
        _wait(lambda: read_stored(state) is not None, started, folder)
    server.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4", f"CREATE TABLE {schema}.t0 (id INT PRIMARY KEY)")
    worker = CircleWorker(server, seed, schema, only_additions=way.registry)
    work = Thread(target=worker.run, args=(steps, 0.01))
    work.start()

    def keep_killing_the_job() -> None:
        for _ in range(job_kills):
            killed(folder / "job.log", job, rand.uniform(8, 16))

    killer = _Checked(target=keep_killing_the_job)
    killer.start()
    for _ in range(feed_kills):
        killed(folder / "feed.log", feed, rand.uniform(1.5, 4))
    work.join()
    assert worker.ddls and worker.rows
    with process(folder / "feed.log", *feed) as started:
        (now,) = server.execute("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0]
        _wait(lambda: (found := read_stored(state)) is not None and found.commit_ts > tso(int(now)), started, folder)
        started.terminate()
        assert started.wait(30) == 0, (folder / "feed.log").read_text()[-3000:]
    killer.join()
    if killer.error is not None:
        raise killer.error
    replicate(job_file)
    return job_file


class _Checked(Thread):
    """A thread whose failure is kept."""

    error: BaseException | None = None

    def run(self) -> None:
        try:
            super().run()
        except BaseException as error:  # noqa: BLE001  raised again in the test
            self.error = error


def _wait(reached: Callable[[], bool], started: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + 120
    while not reached():
        assert started.poll() is None, (folder / "feed.log").read_text()[-3000:]
        assert time.monotonic() < deadline, (folder / "feed.log").read_text()[-3000:]
        time.sleep(0.05)


_SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in WAYS if name != "simple"]


@pytest.mark.parametrize("name", ["simple", *_SLOW])
def test_the_lake_is_the_database(
    server: Server,
    broker: Broker,
    spark: SparkSession,
    tmp_path: Path,
    name: str,
    request: pytest.FixtureRequest,
) -> None:
    way, schema = WAYS[name], f"circle{name.replace('-', '')}"
    registry = request.getfixturevalue("registry") if way.registry else None
    short = name == "simple"
    job_file = circle(
        way,
        server,
        broker,
        registry,
        tmp_path,
        schema,
        seed=5,
        steps=400 if short else 800,
        feed_kills=2 if short else 4,
        job_kills=1 if short else 2,
    )
    truth = database(server, schema)
    assert any(rows for _, rows in truth.values())
    assert not wrong(job_file, truth, grown=way.registry)
