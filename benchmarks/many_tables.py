"""``python -m benchmarks.many_tables``: what a batch costs when each of many tables has a few changes.

    python -m benchmarks.many_tables [--tables 1000] [--batches 3] [--changes 10]

The lake is in an S3 server behind a REST catalog, as in production. Proxies before both count the requests. Each batch
brings ``--changes`` updates to each table. Prints Markdown: seconds, catalog requests, store requests and new files.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.spark.simple_topic import ID, INT, KEY
from tests.support.counting_proxy import counted
from tests.support.recorded_topics import Line, write_json
from tests.support.rest_catalog import RestCatalog
from tests.support.s3_server import BUCKET, S3Server
from tests.support.spark_session import S3_BUNDLE

from benchmarks.job import write_job
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Column, RowChange, SchemaChange, Table
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.replicate import loop
from ticdc_spark.sinks.iceberg.kind import EXTENSIONS
from ticdc_spark.spark.session.session import coordinates, open_session


class Feed:
    """A topic whose batches are written one at a time."""

    def __init__(self, folder: Path, tables: int, changes: int) -> None:
        self._file, self._changes, self._ts, self._round = folder / "topic" / "0.jsonl", changes, 1_000_000, 0
        self._simple = encoder(SimpleConfig())
        columns = (ID, Column(name="v", type=INT, nullable=True))
        self._tables = [
            Table(schema="s", name=f"t{at}", columns=columns, indexes=(KEY,), table_id=at + 1, version=10 + at)
            for at in range(tables)
        ]
        self._lines: list[Line] = []

    def create(self) -> None:
        """Send each CREATE TABLE."""
        for at, table in enumerate(self._tables):
            query = f"CREATE TABLE `{table.name}` (`id` INT PRIMARY KEY,`v` INT)"
            change = SchemaChange(
                commit_ts=10 + at, query=query, kind="CREATE TABLE", schema="s", name=table.name, table=table
            )
            self._send(self._simple.ddl(change))
        self._send(self._simple.watermark(self._ts))
        write_json(self._file, self._lines)

    def change(self) -> None:
        """Send a batch: first inserts, then updates of the same rows."""
        at = self._round
        self._round += 1
        for table in self._tables:
            for key in range(self._changes):
                self._ts += 1
                before = {"id": str(key), "v": str(at - 1)} if at else None
                op = "update" if at else "insert"
                after = {"id": str(key), "v": str(at)}
                row = RowChange(op=op, table=table, commit_ts=self._ts, before=before, after=after)
                for message in self._simple.rows([row]):
                    self._send(message)
        self._ts += 1
        self._send(self._simple.watermark(self._ts))
        write_json(self._file, self._lines)

    def _send(self, message: object) -> None:
        key, value = message.key, message.value  # type: ignore[attr-defined]
        self._lines.append(Line("topic", 0, len(self._lines), None, key, value))


def measure(tables: int, batches: int, changes: int) -> None:
    """Run the job once for each batch, and print what it took."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ticdc-bench-")))
        store = S3Server(folder / "s3")
        store.start()
        stack.callback(store.stop)
        catalog = RestCatalog(folder / "rest", f"s3://{BUCKET}/many", store.catalog_options())
        catalog.start()
        stack.callback(catalog.stop)
        before_store, before_catalog = (stack.enter_context(counted(one.url)) for one in (store, catalog))
        options = {
            "type": "rest",
            "uri": before_catalog.url,
            **store.catalog_options(),
            "s3.endpoint": before_store.url,
        }
        feed = Feed(folder, tables, changes)
        feed.create()
        lines = "\n".join(f'"catalog.{key}" = "{value}"' for key, value in options.items())
        more = f'{lines}\n[upkeep]\nenabled = false\n[spark]\n"spark.jars.packages" = "{S3_BUNDLE}"\n'
        job = load_job(
            write_job(folder, folder / "topic", tables * changes + 1, warehouse=f"s3://{BUCKET}/many", more=more)
        )
        spark = open_session(
            "bench", {"spark.sql.extensions": EXTENSIONS}, [*coordinates("iceberg", "sqlite"), S3_BUNDLE]
        )
        spark.sparkContext.setLogLevel("ERROR")
        stack.callback(spark.stop)
        print("| batch | seconds | catalog requests | store requests | new objects |\n|---|---:|---:|---:|---:|")
        for name in ("CREATE TABLE", *(f"{changes} changes a table" for _ in range(batches)), "nothing new"):
            if "changes" in name:
                feed.change()
            asked, stored, there = before_catalog.requests.copy(), before_store.requests.copy(), objects(folder)
            began = time.monotonic()
            loop.run(job, once=True)
            seconds = time.monotonic() - began
            asked, stored = before_catalog.requests - asked, before_store.requests - stored
            print(
                f"| {name} | {seconds:,.1f} | {_listed(asked)} | {_listed(stored)} | {objects(folder) - there:,} |",
                flush=True,
            )


def objects(folder: Path) -> int:
    """How many objects the store has."""
    return sum(path.is_file() for path in (folder / "s3" / "data").rglob("*"))


def _listed(requests: Counter[str]) -> str:
    each = ", ".join(f"{name} {count:,}" for name, count in sorted(requests.items()))
    return f"{requests.total():,} ({each})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--changes", type=int, default=10, help="of each table in a batch")
    options = parser.parse_args()
    measure(options.tables, options.batches, options.changes)


if __name__ == "__main__":
    main()
