"""``make bench-size``: what a change costs in tables of different sizes, with keys that rise and that are scattered.

    python -m benchmarks.table_size [--sizes 100000 10000000] [--changes 400000] [--batch-rows 200000]

A table is created by the job, then Spark appends the rows that it has before; the changes are of keys all over it.
Upkeep is off: it is measured by ``bench-catch-up``. Prints Markdown.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from random import Random

import pyspark
from tests.workload import WorkloadConfig, dispatch, write_topic

from benchmarks.accounts import Accounts, AccountsConfig
from benchmarks.job import PHASES, open_lake, phases_of, shown, write_job
from benchmarks.measure import Measured
from benchmarks.topic import link_topic
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Change, Row, RowChange, Watermark
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.replicate import loop
from ticdc_spark.sinks.iceberg.kind import EXTENSIONS
from ticdc_spark.spark.session.session import coordinates, cores, open_session

_FACTOR, _PRIME = 2_654_435_761, 4_294_967_311
_ROWS = """
SELECT {key} AS id, concat('branch-', id % 900) AS branch, concat('owner', id % 100000) AS owner,
  element_at(array('current', 'savings', 'deposit', 'credit'), CAST(id % 4 + 1 AS INT)) AS kind, 'open' AS state,
  element_at(array('EUR', 'USD', 'PLN', 'CHF'), CAST(id % 4 + 1 AS INT)) AS currency, 0 AS visits,
  CAST(id % 1000 AS DOUBLE) + 0.5 AS score, CAST(id % 1000000 / 100 AS DECIMAL(20, 2)) AS balance,
  TIMESTAMP_NTZ '2026-03-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id % 2000000) AS seen,
  concat('opened in branch ', id % 900, ' by clerk ', lpad(CAST(id * 7919 % 1000000007 AS STRING), 10, '0')) AS note
FROM range(0, {rows}, 1, {parts})
"""


class Sized:
    """A table of ``rows`` rows, and changes of them; what it ends with is known once these were iterated over."""

    def __init__(self, rows: int, changes: int, *, scattered: bool) -> None:
        self.rows, self.changes, self.scattered = rows, changes, scattered
        self.accounts = Accounts(AccountsConfig(tables=1, rows=0, changes=changes))
        self.table = self.accounts.tables[0]
        self.live = rows
        self.visits = 0

    def key(self, number: int) -> int:
        """Of the row of a number; Spark computes the same."""
        return number * _FACTOR % _PRIME if self.scattered else number

    def sql(self) -> str:
        """The rows before."""
        key = f"id * {_FACTOR} % {_PRIME}" if self.scattered else "id"
        return _ROWS.format(key=key, rows=self.rows, parts=max(2, self.rows // 2_500_000))

    def events(self) -> Iterator[Change]:
        """The CREATE, then 70 % updates and 10 % deletes of rows all over the table, 20 % inserts."""
        yield from self.accounts.before()
        rand, seen = Random(7), dict[int, int]()
        gone, newest = set[int](), self.rows
        accounts = self.accounts
        for count in range(self.changes):
            if count % 50_000 == 49_999:
                yield Watermark(accounts._ts)
            choice, number = rand.random(), int(rand.random() * newest)
            while number in gone:
                number = int(rand.random() * newest)
            if choice < 0.2:
                yield RowChange(op="insert", table=self.table, commit_ts=accounts._tick(), after=self._row(newest, 0))
                newest, self.live = newest + 1, self.live + 1
                continue
            before = self._row(number, seen.get(number, 0))
            if choice < 0.9:
                seen[number] = seen.get(number, 0) + 1
                after = self._row(number, seen[number])
                yield RowChange(op="update", table=self.table, commit_ts=accounts._tick(), before=before, after=after)
            else:
                gone.add(number)
                seen.pop(number, None)
                self.live -= 1
                yield RowChange(op="delete", table=self.table, commit_ts=accounts._tick(), before=before)
        self.visits = sum(seen.values())
        yield Watermark(accounts._tick())

    def _row(self, number: int, visits: int) -> Row:
        (change,) = (self.accounts._insert(0),)
        self.accounts.rows[0].clear()
        assert isinstance(change, RowChange) and change.after is not None
        return {**change.after, "id": str(self.key(number)), "visits": str(visits)}


def measure(sized: Sized, name: str, batch_rows: int, folder: Path, found: dict[str, Measured]) -> dict[str, float]:
    """Measure a job over a table; its phases. Raises: SystemExit for a wrong result"""
    topic = folder / "topic"
    delivery = WorkloadConfig(seed=1, changes=sized.changes, partitions=2, topic="accounts")
    messages = dispatch(sized.events(), delivery, encoder(SimpleConfig()))
    for loaded, part in groupby(messages, key=lambda _: sized.accounts.loaded):
        write_topic(part, folder / ("changes" if loaded else "before"), "parquet")
    link_topic(folder / "before", topic)
    more = "\n[upkeep]\nenabled = false\n"
    loop.run(load_job(write_job(folder, topic, batch_rows, more=more)), once=True)
    lake = open_lake(str(folder / "lake"))
    table = lake.sql_name((sized.table.schema, sized.table.name))
    lake.spark.sql(f"INSERT INTO {table} {sized.sql()}")
    link_topic(folder / "changes", topic)
    phases: dict[str, float] = {}
    job = load_job(write_job(folder, topic, batch_rows, more=more))
    with shown(name, found), phases_of(phases):
        loop.run(job, once=True)
    lake = open_lake(str(folder / "lake"))
    (row,) = lake.spark.table(table).selectExpr("count(*)", "sum(visits)").collect()
    if (row[0], row[1]) != (sized.live, sized.visits):
        raise SystemExit(f"{name}: wrong result: {row}; {sized.live}, {sized.visits}")
    return phases


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser("benchmarks.table_size", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 10_000_000])
    parser.add_argument("--changes", type=int, default=400_000)
    parser.add_argument("--batch-rows", type=int, default=200_000)
    parser.add_argument("--keys", choices=("rising", "scattered"), nargs="+", default=["rising", "scattered"])
    arguments = parser.parse_args()
    spark = open_session("bench", {"spark.sql.extensions": EXTENSIONS}, coordinates("iceberg", "sqlite"))
    spark.sparkContext.setLogLevel("ERROR")
    found: dict[str, Measured] = {}
    lines = []
    with tempfile.TemporaryDirectory(prefix="ticdc-bench-") as place:
        measure(Sized(20_000, 40_000, scattered=False), "warm-up", 20_000, Path(place, "warm-up"), {})
        for keys in arguments.keys:
            for rows in arguments.sizes:
                name = f"{rows:,} rows, keys {keys}"
                folder = Path(place, f"{keys}-{rows}")
                sized = Sized(rows, arguments.changes, scattered=keys == "scattered")
                phases = measure(sized, name, arguments.batch_rows, folder, found)
                spent = ", ".join(f"{phase} {phases.get(phase, 0.0):.1f}" for phase in PHASES)
                first, result = found[f"{arguments.sizes[0]:,} rows, keys {keys}"], found[name]
                rate, spent_each = arguments.changes / result.seconds, result.cpu / arguments.changes * 1e6
                beside = f"{result.seconds / first.seconds:.2f} | {result.cpu / first.cpu:.2f}"
                lines.append(f"| {name} | {rate:,.0f} | {spent_each:.1f} | {beside} | {spent} |")
                shutil.rmtree(folder)
    master = str(spark.sparkContext.master)
    print(f"{cores(master)} cores, Spark {pyspark.__version__}, Python {platform.python_version()}, {sys.platform}\n")
    print("| | changes/s | processor µs a change | beside the first, clock | processors | seconds |")
    print("|---|---:|---:|---:|---:|---|")
    print("\n".join(lines))
    spark.stop()


if __name__ == "__main__":
    main()
