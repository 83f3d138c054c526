"""Debezium without DDL: tables are learnt from the rows' schema blocks, as Avro's are from the registry."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.golden.equality import unequal
from tests.golden.test_reference import of
from tests.reference.faults import replayed, split
from tests.spark.lake import lake, read_table, replicate, write_job
from tests.spark.test_protocols import differences, write_topic
from tests.support.debezium_connect import SOURCE, change, field, key
from tests.support.vectors import case, needs_vectors
from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import Message


@needs_vectors
def test_rows_alone_end_in_the_final_state(spark: SparkSession, folder: Path) -> None:
    config = case("tiflow", "smoke").config("debezium_ext")
    rows = [sent.message for sent in config.messages if sent.kind == "row"]
    partitions = split(rows, of(config), 3, by_key=False)
    topic = write_topic(folder, (message for part in replayed(partitions, seed=3) for message in part))
    summary = replicate(write_job(folder, topic, "batch-rows = 15", "debezium"))
    assert summary.finished and not summary.progress.pending and summary.progress.mode == "arrival"
    found = unequal("debezium", differences(lake(spark, folder), config, summary.progress))
    assert {(one.what, one.where.rsplit(".", 1)[1], one.actual) for one in found} == {("type", "d", "double")}


ID, NAME, AGE = field("id", "int32"), field("name", "string"), field("age", "int32")
KEY = key({"id": 1}, {"type": "int32", "optional": False, "field": "id"})


def message(at: int, fields: Iterable[Any], **row: Any) -> Message:
    """An insert of Debezium's own connector, a second after the one before it."""
    source = {**SOURCE, "ts_ms": SOURCE["ts_ms"] + at * 1000}
    return Message(
        topic="shop", partition=0, offset=at, key=KEY, value=change("c", None, row, list(fields), source=source)
    )


def test_blocks_are_followed_as_far_as_they_add_columns(spark: SparkSession, folder: Path) -> None:
    grows = [
        message(0, (ID, NAME), id=1, name="a"),
        message(1, (ID, NAME, AGE), id=1, name="b", age=7),
        message(2, (ID, NAME, AGE), id=2, name="c", age=8),
    ]
    job = write_job(folder, write_topic(folder, grows), "batch-rows = 1", None)
    assert replicate(job).progress.mode == "arrival"
    table = read_table(lake(spark, folder), SOURCE["db"], SOURCE["table"])
    plain = [{name: row[name] for name in ("id", "name", "age")} for row in table]
    assert sorted(plain, key=lambda row: row["id"]) == [
        {"id": 1, "name": "b", "age": 7},
        {"id": 2, "name": "c", "age": 8},
    ]
    write_topic(folder, [*grows, message(3, (ID, AGE), id=3, age=9)])
    with pytest.raises(UnsupportedDdl, match="column `name` is gone"):
        replicate(job)
    assert len(read_table(lake(spark, folder), SOURCE["db"], SOURCE["table"])) == 2
