"""A job on a Spark cluster: its tasks run on workers that share no folder with it and have none of its packages."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.support.kafka_broker import Broker
from tests.support.rest_catalog import RestCatalog
from tests.support.s3_server import BUCKET, S3Server
from tests.support.spark_session import S3_BUNDLE
from tests.support.standalone import Cluster
from tests.workload import Truth, WorkloadConfig, dispatch, generate
from tests.workload.compare import compare
from ticdc_spark.failpoints import ENVIRONMENT
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

WORKLOAD = WorkloadConfig(seed=21, changes=60_000, ddl_every=6_000, partitions=2, duplicates=0.01)
JOB = """
[job]
name = "job"
batch-rows = 25_000
commit-interval = "100ms"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["{topic}"]
protocol = "simple"
[sink]
kind = "iceberg"
warehouse = "{warehouse}"
{catalog}
[spark]
"spark.master" = "{master}"
"spark.local.dir" = "{folder}"
"spark.jars.packages" = "{packages}"
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.driver.memory" = "1g"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1"
"spark.executor.memory" = "768m"
"spark.executor.extraJavaOptions" = "-XX:TieredStopAtLevel=1"
"spark.sql.shuffle.partitions" = "2"
"spark.cores.max" = "2"
"spark.scheduler.minRegisteredResourcesRatio" = "1.0"
"spark.scheduler.maxRegisteredResourcesWaitingTime" = "120s"
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path / "cluster", 2)
    try:
        yield started
    finally:
        started.stop()
        shutil.rmtree(tmp_path / "driver", ignore_errors=True)


@pytest.fixture
def catalog(store: S3Server, tmp_path: Path) -> Iterator[RestCatalog]:
    started = RestCatalog(tmp_path / "rest", f"s3://{BUCKET}/cluster", store.catalog_options())
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.mark.slow
def test_the_driver_and_a_worker_are_killed(
    cluster: Cluster,
    catalog: RestCatalog,
    store: S3Server,
    broker: Broker,
    topic_name: str,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    truth = _send(broker, topic_name)
    options = {"type": "rest", "uri": catalog.url, **store.catalog_options()}
    text = JOB.format(
        topic=topic_name,
        servers=broker.servers,
        warehouse=f"s3://{BUCKET}/cluster",
        catalog="\n".join(f'"catalog.{key}" = "{value}"' for key, value in options.items()),
        master="{master}",
        packages=S3_BUNDLE,
        folder=tmp_path / "driver",
    )
    job_file = tmp_path / "job.toml"
    job_file.write_text(text.format(master=cluster.url))

    with _replicate(job_file, kill_at="write:3") as first:
        assert first.wait(240) == -signal.SIGKILL, _log(job_file)
    assert "are written by the Python tasks" in _log(job_file)
    assert len(cluster.packages()) == 2, "a worker got its packages from elsewhere"

    begun = _log(job_file).count("first batch")
    with _replicate(job_file) as second:
        _wait(second, job_file, lambda: _log(job_file).count("first batch") > begun)
        cluster.kill_at_work(0, 60)
        assert second.wait(240) == 0, _log(job_file)
    assert "Lost executor" in _log(job_file)

    local = tmp_path / "local.toml"
    local.write_text(text.format(master="local[2]"))
    found = {name: reported for name, reported in compare(local, truth).items() if reported}
    assert not found, f"{found}\n{_log(job_file)}"


def _send(broker: Broker, topic: str) -> Truth:
    events = generate(WORKLOAD)
    broker.create_topic(topic, WORKLOAD.partitions)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 50, "log_level": 0})
    for number, message in enumerate(dispatch(events, WORKLOAD, encoder(SimpleConfig()))):
        producer.produce(topic, message.value, message.key, message.partition)
        if number % 5_000 == 0:
            producer.flush(60)
    assert producer.flush(60) == 0
    return events.truth


def _replicate(job_file: Path, kill_at: str = "") -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", "from ticdc_spark.cli import main; main()", "replicate", str(job_file), "--once"]
    # A local Spark of this process has set the variable for itself.
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    with (job_file.parent / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment | {ENVIRONMENT: kill_at}
        )


def _wait(job: "subprocess.Popen[bytes]", job_file: Path, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not reached():
        assert job.poll() is None and time.monotonic() < deadline, _log(job_file)
        time.sleep(0.05)


def _log(job_file: Path) -> str:
    return (job_file.parent / "log").read_text(errors="replace")
