"""``make bench-store``: the same catch-up into a lake on the local disk and into one behind an S3 server.

    python -m benchmarks.store [--changes 400000] [--batch-rows 100000] [--rounds 2] [--writers python,spark]

Prints Markdown. The server (S3Proxy over a folder) runs on this machine, and its own processor time is left out. The
sides take turns in one process and one JVM, after a small round that warms up; every lake is compared with the truth.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.s3_server import BUCKET, S3Server
from tests.support.spark_session import S3_BUNDLE

from benchmarks.job import open_lake, write_job
from benchmarks.measure import processor_seconds
from benchmarks.topic import Recorded, configs, recorded
from ticdc_spark.config.load import load_job
from ticdc_spark.replicate import loop
from ticdc_spark.sinks.iceberg.kind import EXTENSIONS
from ticdc_spark.spark.session.session import coordinates, cores, open_session


@dataclass(slots=True)
class Side:
    """Runs of one writer into one kind of warehouse."""

    place: str
    writer: str
    clock: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    """Processor seconds of the job: Python and the JVM."""
    server: list[float] = field(default_factory=list)


def run(side: Side, server: S3Server, topic: Recorded, batch_rows: int, folder: Path) -> None:
    """Catch up once and check what came of it."""
    folder.mkdir(parents=True)
    warehouse = str(folder / "lake") if side.place == "disk" else f"s3://{BUCKET}/{folder.name}"
    (folder / "lake").mkdir()
    options = {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=60000",
        "jdbc.schema-version": "V1",
    }
    if side.place == "store":
        options |= server.catalog_options()
    lines = "\n".join(f'"catalog.{key}" = "{value}"' for key, value in options.items())
    job = write_job(folder, topic.path, batch_rows, writer=side.writer, warehouse=warehouse, more=f"{lines}\n")
    assert server.process is not None
    pid = server.process.pid
    before, served, began = processor_seconds(without=[pid]), processor_seconds(pid), time.monotonic()
    loop.run(load_job(job), once=True)
    side.clock.append(time.monotonic() - began)
    side.cost.append(processor_seconds(without=[pid]) - before)
    side.server.append(processor_seconds(pid) - served)
    lake = open_lake(warehouse, options)
    counts = {one.name: lake.spark.table(lake.sql_name((one.schema, one.name))).count() for one in topic.tables}
    if counts != topic.rows:
        raise SystemExit(f"{side.place}, {side.writer}: wrong result: {counts}, and should be {topic.rows}")
    shutil.rmtree(folder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--changes", type=int, default=400_000)
    parser.add_argument("--batch-rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workload", default="update-heavy")
    parser.add_argument("--writers", default="python,spark")
    parser.add_argument("--places", default="disk,store")
    given = parser.parse_args()
    cache = Path(".cache/bench")
    topic = recorded(configs(given.changes, 1)[given.workload], cache)
    small = recorded(configs(20_000, 1)[given.workload], cache)
    sides = [Side(place, writer) for writer in given.writers.split(",") for place in given.places.split(",")]
    settings = {
        "spark.master": f"local[{cores('local[*]')}]",
        "spark.sql.extensions": EXTENSIONS,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "3g",
    }
    with tempfile.TemporaryDirectory(prefix="bench-store-") as made:
        folder = Path(made)
        server = S3Server(folder / "server")
        server.start()
        try:
            open_session("bench", settings, [*coordinates("iceberg", "sqlite"), S3_BUNDLE])
            for at, side in enumerate(sides):
                run(Side(side.place, side.writer), server, small, 10_000, folder / f"warm{at}")
            for number in range(given.rounds):
                for at, side in enumerate(sides):
                    run(side, server, topic, given.batch_rows, folder / f"run{number}-{at}")
        finally:
            server.stop()
    print(
        f"{topic.messages:,} messages of {given.workload}, batches of {given.batch_rows:,}, {given.rounds} runs each\n"
    )
    print(
        "| warehouse | writer | changes a second of the job's processor time | processor seconds | clock | server's |"
    )
    print("|---|---|---:|---:|---:|---:|")
    for side in sides:
        cost, clock, served = (sum(one) / len(one) for one in (side.cost, side.clock, side.server))
        rate = f"{given.changes / cost:,.0f}"
        print(f"| {side.place} | {side.writer} | {rate} | {cost:.1f} | {clock:.1f} s | {served:.1f} |")


if __name__ == "__main__":
    main()
