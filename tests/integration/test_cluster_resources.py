"""A Spark cluster whose workers have less than a job asks for: it stops and says so, and a signal ends the wait."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference.workloads import FAULTS, messages_of
from tests.support.kafka_broker import Broker
from tests.support.rest_catalog import RestCatalog
from tests.support.s3_server import BUCKET, S3Server
from tests.support.spark_session import S3_BUNDLE
from tests.support.standalone import Cluster

JOB = """
[job]
name = "job"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["{topic}"]
protocol = "simple"
[sink]
kind = "iceberg"
warehouse = "s3://{bucket}/resources"
{catalog}
[spark]
"spark.master" = "{master}"
"spark.local.dir" = "{folder}/driver"
"spark.jars.packages" = "{packages}"
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.driver.memory" = "1g"
"spark.executor.memory" = "{memory}"
"spark.executor.cores" = "{cores}"
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path / "cluster", 1)
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture
def catalog(store: S3Server, tmp_path: Path) -> Iterator[RestCatalog]:
    started = RestCatalog(tmp_path / "rest", f"s3://{BUCKET}/resources", store.catalog_options())
    try:
        started.start()
        yield started
    finally:
        started.stop()


def start(*arguments: str | Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "from ticdc_spark.cli import main; main()", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True)


@pytest.mark.slow  # it waits a minute for executors that never come
def test_too_few_resources_are_named_and_a_signal_ends_the_wait(
    cluster: Cluster, catalog: RestCatalog, store: S3Server, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    broker.create_topic(topic_name, 1)
    broker.produce(topic_name, [(message.key, message.value) for message in messages_of(FAULTS)[:40]])
    options = {"type": "rest", "uri": catalog.url, **store.catalog_options()}

    def job(name: str, memory: str, cores: int) -> Path:
        file = tmp_path / f"{name}.toml"
        text = JOB.format(
            folder=tmp_path / name,
            topic=topic_name,
            servers=broker.servers,
            bucket=BUCKET,
            catalog="\n".join(f'"catalog.{key}" = "{value}"' for key, value in options.items()),
            master=cluster.url,
            packages=S3_BUNDLE,
            memory=memory,
            cores=cores,
        )
        file.write_text(text)
        return file

    with (
        start("check", job("memory", "2g", 1)) as checking,
        start("replicate", job("cores", "512m", 4)) as waiting,
    ):
        assert waiting.stdout is not None
        for line in waiting.stdout:
            if "Spark: starting" in line:
                break
        time.sleep(10)  # it waits for executors by then; where it does not yet, the signal must end it all the same
        waiting.send_signal(signal.SIGTERM)
        rest = waiting.stdout.read()
        assert waiting.wait(30) == 0, rest
        assert "SIGTERM: stopping" in rest and "stopped: 0 " in rest

        checked = checking.communicate(timeout=240)[0]
    assert checking.returncode == 1
    (failed,) = [line for line in checked.splitlines() if line.startswith("FAILED")]
    assert failed.startswith("FAILED  spark ")
    assert "started no executor in 60 s" in failed
    assert "An executor asks for 2g of memory (spark.executor.memory) and 1 cores (spark.executor.cores)" in failed
    assert "1 of 1 cores and 1024 of 1024 MiB" in failed

    with start("check", job("fits", "512m", 1)) as checking:
        checked = checking.communicate(timeout=240)[0]
    assert (checking.returncode, "FAILED" in checked) == (0, False), checked
    assert f"ok      spark      Spark 4.1.1 runs at {cluster.url}" in checked
    assert "ok      catalog    lake responds; it has 1 namespaces" in checked  # that of the state
