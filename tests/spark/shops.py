"""A small shop as a recorded topic, replicated, and compared table by table with the truth."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.lake import lake, names, write_job
from tests.workload import Truth, WorkloadConfig, dispatch, generate, truth_at, write_topic
from tests.workload.compare import differences
from ticdc_spark.model import Message
from ticdc_spark.names import escape
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.sinks.iceberg.lake import read_table

SHOP = WorkloadConfig(seed=11, changes=60, watermark_every=5)
"""Small, in one partition, without schema changes but its tables' creation."""


def messages_of(config: WorkloadConfig) -> list[Message]:
    return list(dispatch(generate(config), config, encoder(SimpleConfig())))


def shop_job(folder: Path, config: WorkloadConfig = SHOP, more: str = "") -> Path:
    """Record a workload and write the job that replicates it."""
    write_topic(messages_of(config), folder / "topic")
    return write_job(folder, folder / "topic", more)


def truth_of(config: WorkloadConfig, ts: int | None = None) -> Truth:
    if ts is not None:
        return truth_at(config, ts)
    events = generate(config)
    for _ in events:
        pass
    return events.truth


def wrong(spark: SparkSession, folder: Path, truth: Truth) -> dict[tuple[str, str], list[str]]:
    """Where the lake differs from the truth, by table; empty: nowhere."""
    session = lake(spark, folder)
    wanted = {(escape(schema), escape(name)) for schema, name in truth}
    found = names(session)
    reported = {name: ["should not be there"] for name in found - wanted}
    reported |= {name: ["is missing"] for name in wanted - found}
    for name, (table, rows) in truth.items():
        if name not in reported:
            lines = differences(read_table(session, name), table, rows.values())
            if lines:
                reported[name] = lines
    return reported
