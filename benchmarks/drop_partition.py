"""What DROP PARTITION of one of ten partitions costs, beside the same DELETE in Spark.

    python -m benchmarks.drop_partition [--rows 10000000] [--rounds 3]

A job creates a table that is partitioned by RANGE at the source; then Spark appends the rows, in order of the key or
scattered. Each round drops one partition by a DDL that the job replays, and the same rows by DELETE in a copy of the
table with the same properties. Prints Markdown.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from pathlib import Path

import pyspark
from tests.workload import WorkloadConfig, dispatch, write_topic

from benchmarks.job import JOB, open_lake
from benchmarks.topic import link_topic
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Change, SchemaChange, Watermark
from ticdc_spark.protocols.open.encode import encoder
from ticdc_spark.replicate import loop
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.kind import EXTENSIONS
from ticdc_spark.spark.session.session import coordinates, cores, open_session

PARTITIONS = 10
_PRIME = 4_294_967_311


class Topic:
    """A recorded topic of one partition, to which messages are added."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._sent = folder, 0
        self._events: list[Change] = []

    def add(self, query: str) -> None:
        """Add a DDL, and a watermark behind it."""
        ts = 463_000_000_000_000_000 + (len(self._events) << 20)
        change = SchemaChange(commit_ts=ts, query=query, kind="", schema="s", name="t")
        self._events += [change, Watermark(ts + (1 << 20))]
        delivery = WorkloadConfig(seed=1, changes=0, partitions=1, topic="t")
        messages = list(dispatch(self._events, delivery, encoder()))
        part = self._folder.parent / f"part-{self._sent:05}"
        write_topic(messages[self._sent :], part, "parquet")
        link_topic(part, self._folder)
        self._sent = len(messages)


def run(folder: Path, rows: int, rounds: int, *, scattered: bool) -> list[tuple[float, float]]:
    """Seconds of the job and of DELETE, a pair a round. Raises: SystemExit for a wrong result"""
    folder.mkdir()
    topic, step = Topic(folder / "topic"), rows // PARTITIONS
    ranges = ", ".join(f"PARTITION p{at} VALUES LESS THAN ({(at + 1) * step})" for at in range(PARTITIONS))
    topic.add(
        f"CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, w VARCHAR(40)) PARTITION BY RANGE (id) ({ranges})",
    )
    file = folder / "job.toml"
    text = JOB.format(batch_rows=200_000, writer="python", topic=folder / "topic", warehouse="lake")
    file.write_text(text.replace('"simple"', '"open"') + "[upkeep]\nenabled = false\n")
    loop.run(load_job(file), once=True)
    catalog = open_lake(str(folder / "lake")).catalog
    table, copy = catalog.sql_name(("s", "t")), catalog.sql_name(("s", "copy"))
    key = f"id * 2654435761 % {_PRIME} % {rows}" if scattered else "id"
    chosen = f"SELECT {key} AS id, id * 7 AS v, concat('row ', id * 7919 % 1000000007) AS w FROM range(0, {rows}, 1, 4)"
    catalog.spark.sql(f"INSERT INTO {table} {chosen}")
    found = {row.key: row.value for row in catalog.spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    given = ", ".join(f"'{name}' = '{value}'" for name, value in found.items() if name.startswith("write."))
    catalog.spark.sql(f"CREATE TABLE {copy} USING iceberg TBLPROPERTIES ({given}) AS SELECT * FROM {table}")
    seconds = []
    for at in range(rounds):
        low = at * step
        began = time.monotonic()
        catalog.spark.sql(f"DELETE FROM {copy} WHERE id >= {low} AND id < {low + step}")
        deleted = time.monotonic() - began
        topic.add(f"ALTER TABLE t DROP PARTITION p{at}")
        began = time.monotonic()
        loop.run(load_job(file), once=True)
        seconds.append((time.monotonic() - began, deleted))
        _check(catalog, table, copy)
    return seconds


def _check(catalog: IcebergCatalog, table: str, copy: str) -> None:
    query = "SELECT count(*) AS rows, sum(id) AS ids FROM {}"
    (job,), (delete,) = (catalog.spark.sql(query.format(name)).collect() for name in (table, copy))
    if job != delete:
        raise SystemExit(f"wrong result: {job}; by DELETE {delete}")


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser("benchmarks.drop_partition", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    spark = open_session("bench", {"spark.sql.extensions": EXTENSIONS}, coordinates("iceberg", "sqlite"))
    spark.sparkContext.setLogLevel("ERROR")
    lines = []
    with tempfile.TemporaryDirectory(prefix="ticdc-bench-") as place:
        run(Path(place, "warm-up"), 10_000, 1, scattered=False)
        for order in ("in order of the key", "scattered"):
            for number, (job, delete) in enumerate(
                run(Path(place, order), arguments.rows, arguments.rounds, scattered=order == "scattered"), 1
            ):
                lines.append(f"| {order} | {number} | {job:.1f} | {delete:.1f} | {job / delete:.2f} |")
    master = str(spark.sparkContext.master)
    print(f"{cores(master)} cores, Spark {pyspark.__version__}, Python {platform.python_version()}, {sys.platform}\n")
    print("| rows of the files | round | job, seconds | DELETE, seconds | ratio |")
    print("|---|---:|---:|---:|---:|")
    print("\n".join(lines))
    spark.stop()


if __name__ == "__main__":
    main()
