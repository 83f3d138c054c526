"""Tables that were there before their changefeed, whose rows come before their full read has begun."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.integration.test_snapshot import JOB, condition, lake_rows, run
from tests.simulator.wire import encoder
from tests.support.kafka_broker import Broker
from tests.support.live_tables import LiveTables
from tests.support.mariadb_server import Server, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("mariadb")) as started:
        yield started


@pytest.mark.parametrize("protocol", ["canal-json", "debezium", "open"])
def test_rows_that_come_before_the_full_read_begins_do_not_hold_it_up(
    spark: SparkSession, tmp_path: Path, server: Server, broker: Broker, topic_name: str, protocol: str
) -> None:
    topic = broker.create_topic(topic_name)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5, "log_level": 0})
    live = LiveTables(server, topic_name.replace(".", "_"), lambda _: None)
    wire = encoder(protocol, "UTC")

    def send(message: Any) -> None:
        producer.produce(topic, message.value, key=message.key, partition=0)
        producer.poll(0)

    def sent(op: Any, table: Any, before: Any, after: Any, ts: int = 0) -> None:
        from ticdc_spark.model import RowChange

        for one in wire.rows([RowChange(op=op, table=table, commit_ts=ts or live.now(), before=before, after=after)]):
            send(one)

    live._sent = sent  # type: ignore[method-assign]
    live.watermark = lambda: send(wire.watermark(live.now()))  # type: ignore[method-assign]
    try:
        live.add("orders", "CREATE TABLE orders (id BIGINT PRIMARY KEY, v VARCHAR(40))", lambda rand: {"v": "a"}, 50)
        live.watermark()
        live.start(pause=0.02)
        job = tmp_path / "job.toml"
        text = JOB.format(servers=broker.servers, topic=topic, uri=server.uri, chunk=500, more="")
        job.write_text(text.replace('"simple"', f'"{protocol}"'))
        for _ in range(3):
            print(run(job))
        live.stop()
        live.settle()
        producer.flush(30)
        for _ in range(2):
            summary = run(job)
        assert summary is not None and not summary.held
        assert lake_rows(spark, tmp_path, live, "orders") == live.rows("orders")
        assert condition(job, "orders") == "clean"
    finally:
        live.close()
