"""docs/how-to/moving-changefeed.md on a real Kafka: the tables go on and equal the source. Without a section
[snapshot] nothing can be read again."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from tests.simulator.broker import Broker as MemoryBroker
from tests.spark.lake import lake, read_table, replicate
from tests.support.changefeed import SCHEMA
from tests.support.kafka_broker import Broker
from tests.support.moving_feed import BOTH, MovingFeed
from ticdc_spark.config.load import load_identity
from ticdc_spark.errors import LateRow
from ticdc_spark.operate.status import JobStatus, job_status

JOB = """
[job]
name = "moved"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = {topics}
protocol = "{protocol}"
[sink]
kind = "iceberg"
warehouse = "lake"
"""


class Kafka:
    """What a changefeed needs of a broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def append(self, place: tuple[str, int], key: bytes | None, value: bytes | None, ms: int) -> None:
        self.broker.produce(place[0], [(key, value)], place[1])


class Mirror(MovingFeed):
    """The changefeed, and the job that reads it."""

    def __init__(self, broker: Broker, spark: SparkSession, folder: Path) -> None:
        super().__init__("simple", "UTC", topic_per_table=False)
        self.broker = cast(MemoryBroker, Kafka(broker))
        self.kafka, self.spark, self.file = broker, spark, folder / "job.toml"

    def configure(self, *topics: str) -> None:
        text = JOB.format(servers=self.kafka.servers, topics=[*topics], protocol=self.wire.name)
        self.file.write_text(text.replace("'", '"'))

    def run(self) -> JobStatus:
        self.send_watermark()
        replicate(self.file)
        return job_status(load_identity(self.file))

    def judge(self, *tables: str) -> JobStatus:
        """Run the job; these tables equal the source then, and are ``clean``."""
        status = self.run()
        session = lake(self.spark, self.file.parent)
        for table in BOTH:
            found = sorted(((row["id"], row["v"]) for row in read_table(session, SCHEMA, table)), key=repr)
            assert found == self.source(table), table
        assert {one.table for one in status.tables if one.condition == "clean"} == {*tables}
        return status


@pytest.fixture
def mirror(broker: Broker, spark: SparkSession, tmp_path: Path, topic_name: str) -> Mirror:
    """Its job has read a topic of two partitions to its end."""
    found = Mirror(broker, spark, tmp_path)
    found.to = broker.create_topic(topic_name, 2)
    found.make_tables()
    found.configure(topic_name)
    found.judge(*BOTH)
    return found


@pytest.mark.slow
def test_tables_go_on_in_a_new_topic_then_in_another_protocol_and_then_with_more_partitions(
    broker: Broker, mirror: Mirror
) -> None:
    old, more, other = mirror.to, f"{mirror.to}.more", f"{mirror.to}.other"
    again = mirror.changes()
    mirror.send_all(again)
    mirror.judge(*BOTH)
    waiting = mirror.changes(20)  # behind the last watermark of the old changefeed
    mirror.send_all(waiting)
    replicate(mirror.file)

    # A new topic, one partition more, beside the old one. The changefeed begins a little before the resolved ts.
    mirror.replace(broker.create_topic(more, 3), 3)
    mirror.configure(old, more)
    mirror.send_all([*again, *waiting, *mirror.changes(30)])
    status = mirror.judge(*BOTH)
    assert (status.replays, status.late) == (len(again), 0)

    # Another protocol, in a new topic alone. The changefeed begins at the resolved ts.
    waiting = mirror.changes(40)
    mirror.send_all(waiting)
    replicate(mirror.file)
    mirror.replace(broker.create_topic(other, 2), 2, "open")
    mirror.configure(other)
    mirror.send_all([*waiting, *mirror.changes(50)])
    mirror.judge("t")
    mirror.sql("ALTER TABLE quiet MODIFY COLUMN v VARCHAR(20)")
    mirror.update("quiet", id="2", v="z")
    mirror.judge(*BOTH)

    # The same topic, with partitions added to it, and a changefeed that begins a little before the resolved ts.
    again = mirror.changes(60)
    mirror.send_all(again)
    mirror.judge(*BOTH)
    broker.add_partitions(other, 4)
    mirror.replace(other, 4)
    mirror.send_all([*again, *mirror.changes(70)])
    status = mirror.judge(*BOTH)
    assert (status.replays, status.late) == (2 * len(again), 0)


@pytest.mark.slow
def test_a_new_topic_alone_that_begins_too_early_stops_the_job_until_the_old_one_is_named_too(
    broker: Broker, mirror: Mirror
) -> None:
    old, new = mirror.to, f"{mirror.to}.new"
    again = mirror.changes()
    mirror.send_all(again)
    mirror.judge(*BOTH)
    mirror.replace(broker.create_topic(new, 3), 3)
    mirror.configure(new)
    mirror.send_all([*again, *mirror.changes(20)])
    with pytest.raises(LateRow):
        mirror.run()
    mirror.configure(old, new)
    mirror.judge(*BOTH)
