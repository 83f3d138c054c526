"""Tables that were there before their changefeed, whose rows come before their full read has begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.integration.test_snapshot import JOB, condition, lake_rows, run
from tests.integration.test_snapshot import server as server
from tests.simulator.wire import encoder
from tests.support.kafka_broker import Broker
from tests.support.live_tables import LiveTables
from tests.support.mariadb_server import Server
from ticdc_spark.model import RowChange, Table
from ticdc_spark.protocols.base import Encoded


class UntoldTables(LiveTables):
    """Their changes are sent in a protocol that tells no schema before the first row."""

    def __init__(self, server: Server, schema: str, protocol: str, send_message: Callable[[Encoded], None]) -> None:
        super().__init__(server, schema, lambda _: None)
        self.wire, self.send_message = encoder(protocol, "UTC"), send_message

    def watermark(self) -> None:
        sent = self.wire.watermark(self.now())
        assert sent is not None
        self.send_message(sent)

    def _sent(self, op: Any, table: Table, before: Any, after: Any, ts: int = 0) -> None:
        change = RowChange(op=op, table=table, commit_ts=ts or self.now(), before=before, after=after)
        for sent in self.wire.rows([change]):
            self.send_message(sent)


@pytest.mark.parametrize(
    "protocol",
    [pytest.param("canal-json", marks=pytest.mark.slow), "debezium", pytest.param("open", marks=pytest.mark.slow)],
)
def test_rows_that_come_before_the_full_read_begins_do_not_hold_it_up(
    spark: SparkSession, tmp_path: Path, server: Server, broker: Broker, topic_name: str, protocol: str
) -> None:
    topic = broker.create_topic(topic_name)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5, "log_level": 0})

    def send(message: Encoded) -> None:
        producer.produce(topic, message.value, key=message.key, partition=0)
        producer.poll(0)

    live = UntoldTables(server, topic_name.replace(".", "_"), protocol, send)
    try:
        live.add("orders", "CREATE TABLE orders (id BIGINT PRIMARY KEY, v VARCHAR(40))", lambda rand: {"v": "a"}, 50)
        live.watermark()
        live.start(pause=0.02)
        job = tmp_path / "job.toml"
        text = JOB.format(servers=broker.servers, topic=topic, uri=server.uri, chunk=500, more="")
        job.write_text(text.replace('"simple"', f'"{protocol}"'))
        run(job)
        live.stop()
        live.settle()
        producer.flush(30)
        summary = run(job)
        assert summary is not None and not summary.held
        assert lake_rows(spark, tmp_path, live, "orders") == live.rows("orders")
        assert condition(job, "orders") == "clean"
    finally:
        live.close()
