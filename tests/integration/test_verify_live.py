"""``verify`` while the source changes and the job runs: no false difference, and every true one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.integration.test_snapshot import CREATE, condition, values
from tests.spark.lake import lake
from tests.support.kafka_broker import Broker
from tests.support.live_tables import LiveTables
from tests.support.mariadb_server import Server, running
from ticdc_spark.cli import main
from ticdc_spark.config.load import load_job
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.watch import Watcher
from ticdc_spark.verify.report import Report, load

RUNS = 2
JOB = """
[job]
name = "live"
poll-interval = "100ms"
commit-interval = "500ms"
idle-partition-timeout = "5s"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["{topic}"]
protocol = "simple"
[snapshot]
upstream = "{source}"
[sink]
{sink}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("mariadb")) as started:
        started.execute("SET GLOBAL sql_mode = ''")
        yield started


@pytest.fixture
def live(server: Server, broker: Broker, topic_name: str) -> Iterator[LiveTables]:
    topic = broker.create_topic(topic_name)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5, "log_level": 0})

    def send(value: bytes) -> None:
        producer.produce(topic, value, partition=0)
        producer.poll(0)

    tables = LiveTables(server, topic_name.replace(".", "_"), send)
    yield tables
    tables.close()
    producer.flush(30)


@contextmanager
def running_job(file: Path, live: LiveTables) -> Iterator[Callable[[Callable[[BatchReport], bool]], None]]:
    """A job that runs while this lasts; gives what waits for a batch that is as wanted."""
    stop, reports = threading.Event(), Queue[BatchReport]()

    def turn(wanted: Callable[[BatchReport], bool]) -> None:
        for _ in range(2000):
            if wanted(reports.get(timeout=120)):
                return
        raise AssertionError("no batch is as wanted")

    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(lambda: loop.run(load_job(file), watchers=[Watcher(committed=reports.put)], stop=stop))
        try:
            yield turn
        finally:
            stop.set()
            live.stop()
            run.result()


def loaded(report: BatchReport) -> bool:
    found = [table for table in report.progress.tables if table.origin == "snapshot" and table.is_clean]
    return bool(found) and not any(table.load for table in found) and not report.progress.wanted


def verify(file: Path, *more: str) -> tuple[int, str, Report]:
    done = CliRunner().invoke(main, ["verify", str(file), "--chunk-rows", "500", *more], catch_exceptions=False)
    report = load(file.with_suffix(".verify.json"))
    assert report is not None, done.output
    return done.exit_code, done.output, report


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mysql", "iceberg"])
def test_only_what_another_writer_changed_differs_while_the_source_changes_and_a_repair_ends_it(
    spark: SparkSession,
    tmp_path: Path,
    server: Server,
    target: Server,
    kind: str,
    broker: Broker,
    live: LiveTables,
    topic_name: str,
) -> None:
    target.execute("DROP DATABASE IF EXISTS _ticdc_spark")
    sink = f'kind = "mysql"\nuri = "{target.uri}"' if kind == "mysql" else 'kind = "iceberg"\nwarehouse = "lake"'
    live.add("orders", CREATE, values, 3000)
    live.begin()
    file = tmp_path / "job.toml"
    file.write_text(JOB.format(servers=broker.servers, topic=topic_name, source=server.uri, sink=sink))
    copy = f"{live.schema}.orders"

    def execute(*statements: str) -> None:
        if kind == "mysql":
            target.execute(*(sql.format(copy) for sql in statements))
            return
        session = lake(spark, tmp_path)
        for sql in statements:
            session.sql(sql.format(f"lake.{copy}")).collect()

    live.start(pause=0.001)
    with running_job(file, live) as turn:
        turn(loaded)
        for _ in range(RUNS):
            code, text, report = verify(file)
            assert (code, report.tables[0].result) == (0, "equal"), text
        # A change at the source would bring them back.
        gone, changed = live.leave("orders"), live.leave("orders")
        ts = live.ts
        turn(lambda report: report.progress.applied > ts)
        execute(f"DELETE FROM {{}} WHERE id = {gone}", f"UPDATE {{}} SET u = 5 WHERE id = {changed}")
        code, text, report = verify(file, "--repair")
        found = {(one.kind, one.key["id"], *one.columns) for one in report.tables[0].found}
        assert (code, found) == (3, {("missing", str(gone)), ("changed", str(changed), "u")}), text
        assert "requested: " in text
        turn(lambda report: not loaded(report))
        turn(loaded)
        code, text, report = verify(file)
        assert (code, report.tables[0].result) == (0, "equal"), text
    assert condition(file, "orders") == "clean"
    assert live.changes > 500
    # The job does not run now, and the source has moved on.
    live.change()
    code, text, report = verify(file)
    assert (code, report.tables[0].undecided > 0) == (3, True), text
    assert "the job does not run" in text
