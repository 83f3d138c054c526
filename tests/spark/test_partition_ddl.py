"""DROP PARTITION in an Iceberg table, and the physical ids that Spark's tasks compare with the partitions."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.spark.lake import lake, read_table, replicate, write_job
from tests.spark.simple_topic import ddl, insert, table, topic
from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import Change, SchemaChange, Watermark
from ticdc_spark.spark import tasks

OF = table(10)
CREATE = SchemaChange(
    commit_ts=10,
    query="CREATE TABLE `t` (`id` INT PRIMARY KEY) PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (100), "
    "PARTITION `p1` VALUES LESS THAN (200), PARTITION `pm` VALUES LESS THAN (MAXVALUE))",
    kind="CREATE",
    schema="s",
    name="t",
    table=OF,
)
DROP = ddl("ALTER", 40, "ALTER TABLE `t` DROP PARTITION `p1`", OF, OF)


def events(*, planted: bool) -> list[Change]:
    """Rows 0 to 299 with the ids of their partitions; of a planted one the id is another's."""
    rows = [replace(insert(OF, 20, id=str(at)), table_id=101 + at // 100) for at in range(300)]
    if planted:
        rows[150] = replace(rows[150], table_id=101)
    later = replace(insert(OF, 50, id="150"), table_id=103)
    return [CREATE, *rows, Watermark(40), DROP, later, Watermark(60)]


@pytest.fixture(params=["driver", "tasks"], autouse=True)
def reads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads the rows of the test: few rows are read by the driver."""
    if request.param == "tasks":
        monkeypatch.setattr(tasks, "SMALL_ROWS", 0)


@pytest.mark.parametrize("writer", ["python", "spark"])
def test_the_rows_of_a_dropped_partition_go(spark: SparkSession, folder: Path, writer: str) -> None:
    job = write_job(folder, topic(folder, events(planted=False)), f'writer = "{writer}"')
    replicate(job)
    left = sorted(row["id"] for row in read_table(lake(spark, folder), "s", "t"))
    assert left == [*range(100), 150, *range(200, 300)]


@pytest.mark.parametrize("writer", ["python", "spark"])
def test_a_physical_id_with_rows_of_two_partitions_stops_the_job(
    spark: SparkSession, folder: Path, writer: str
) -> None:
    job = write_job(folder, topic(folder, events(planted=True)), f'writer = "{writer}"')
    for _ in range(2):
        with pytest.raises(UnsupportedDdl, match="physical id 101 lie in p0 and in p1"):
            replicate(job)
    assert len(read_table(lake(spark, folder), "s", "t")) == 300
