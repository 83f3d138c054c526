"""Iceberg tables with other names than at the source."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.lake import lake, names, read_table, replicate, write_job
from tests.spark.simple_topic import ddl, insert, table, topic
from ticdc_spark import consistent, consistent_scans
from ticdc_spark.config.load import load_job
from ticdc_spark.model import SchemaChange, Watermark
from ticdc_spark.operate.upkeep import look_after

ROUTES = """
[[route]]
tables = ["s.archive"]
target-schema = "old"

[[route]]
tables = ["s.*"]
target-schema = "lake_{schema}"
target-table = "{table}.v1"
"""
OF, ARCHIVED = table(10), table(40, name="archive")
CREATE = SchemaChange(
    commit_ts=10, query="CREATE TABLE `t` (`id` INT PRIMARY KEY)", kind="CREATE", schema="s", name="t", table=OF
)


def test_a_table_is_read_under_its_name_in_the_lake_by_that_of_the_source(spark: SparkSession, folder: Path) -> None:
    rename = ddl("RENAME", 40, "RENAME TABLE `s`.`t` TO `s`.`archive`", ARCHIVED, OF)
    again = table(50)
    create = SchemaChange(commit_ts=50, query=CREATE.query, kind="CREATE", schema="s", name="t", table=again)
    before = [CREATE, insert(OF, 20, id="1"), Watermark(40)]
    after = [rename, insert(ARCHIVED, 45, id="2"), Watermark(50), create, insert(again, 55, id="3"), Watermark(60)]
    job = write_job(folder, topic(folder, [*before, *after]), "batch-rows = 3")
    job.write_text(job.read_text() + ROUTES)
    replicate(job)
    session = lake(spark, folder)
    assert names(session) == {("old", "archive"), ("lake_s", "t_x2e_v1")}
    assert sorted(row["id"] for row in read_table(session, "old", "archive")) == [1, 2]
    found = consistent(job, spark=session)
    assert {name: [row.id for row in frame.collect()] for name, frame in found.tables.items()} == {
        ("s", "archive"): [1, 2],
        ("s", "t"): [3],
    }
    snapshots, scans = consistent_scans(job)
    assert snapshots.targets == {("s", "archive"): ("old", "archive"), ("s", "t"): ("lake_s", "t.v1")}
    assert scans["s", "t"].to_arrow().to_pylist() == [{"id": 3}]
    assert [name for name, _ in look_after(load_job(job), ["s.archive"], None)] == [("s", "archive")]
