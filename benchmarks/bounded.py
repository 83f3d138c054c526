"""``make bench-bounded``: what a job costs if it must read far ahead before it may apply anything.

    python -m benchmarks.bounded [--rows 10000000]

The same inserts, in transactions of 1,000, as one transaction, and in small transactions while one of two partitions
has no watermark before its end. Each job is a process of its own. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.workload import WorkloadConfig, dispatch, write_topic
from tests.workload.columns import column_type

from benchmarks.job import write_job
from benchmarks.measure import Measured, measured
from ticdc_spark.model import (
    Bootstrap,
    Change,
    Column,
    Index,
    Message,
    RowChange,
    SchemaChange,
    Table,
    Watermark,
)
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

_COLUMNS = {"id": "BIGINT", "name": "VARCHAR(40)", "amount": "DECIMAL(12,2)", "seen": "DATETIME"}
_COMMAND = (sys.executable, "-c", "from ticdc_spark.cli import main; main()")
_SMALL = 1_000
_LOGICAL = 1 << 18
CASES = {
    "transactions of 1,000 rows": (_SMALL, False),
    "one transaction": (0, False),
    "one of two partitions without watermarks before its end": (_SMALL, True),
}


def _table() -> Table:
    columns = tuple(
        Column(name=name, type=column_type(sql), nullable=name != "id", default=None) for name, sql in _COLUMNS.items()
    )
    key = Index(name="PRIMARY", unique=True, primary=True, nullable=False, columns=("id",))
    return Table(schema="bank", name="entries", columns=columns, indexes=(key,), table_id=1, version=1)


def events(rows: int, size: int) -> Iterator[Change]:
    """The table, and its inserts in transactions of ``size`` rows, each with a watermark behind it; 0: in one."""
    ts, table = 1_767_225_600_000 * _LOGICAL, _table()
    columns = ",".join(f"`{name}` {sql}" for name, sql in _COLUMNS.items())
    query = f"CREATE TABLE `entries` ({columns},PRIMARY KEY(`id`))"
    yield SchemaChange(commit_ts=ts, query="CREATE DATABASE `bank`", kind="QUERY", schema="bank")
    yield SchemaChange(commit_ts=ts + 1, query=query, kind="CREATE", schema="bank", table=table)
    yield Bootstrap(table)
    yield Watermark(ts + 2)
    ts += _LOGICAL
    for number in range(rows):
        row = {"id": str(number), "name": f"entry {number}", "amount": "12.50", "seen": "2026-01-01 10:00:00"}
        yield RowChange(op="insert", table=table, commit_ts=ts, after=row)
        if size and number % size == size - 1:
            ts += _LOGICAL
            yield Watermark(ts)
    yield Watermark(ts + _LOGICAL)


def _without_watermarks(messages: Iterator[Message], last: int) -> Iterator[Message]:
    """Without those of partition 1, but for the last one."""
    for message in messages:
        if (
            message.partition == 0
            or b'"WATERMARK"' not in (message.value or b"")[:200]
            or (message.timestamp or 0) >= last
        ):
            yield message


def measure(topic: Path, folder: Path, rows: int) -> Measured:
    """One job over a topic, from its start to its end."""
    job = write_job(folder, topic, 500_000)
    command = [*_COMMAND, "replicate", str(job), "--once"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        with measured(process.pid) as result:
            _, errors = process.communicate()
        if process.returncode:
            raise SystemExit(errors.decode())
    shown = subprocess.run([*_COMMAND, "status", str(job), "--json"], capture_output=True, check=False)
    (table,) = json.loads(shown.stdout)["tables"]
    assert (table["changes"], table["condition"]) == (rows, "clean"), table
    return result


def main(arguments: list[str] | None = None) -> None:
    """Measure all cases."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounded", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args(arguments)
    print(f"{options.rows:,} inserts, {platform.platform()}\n")
    print("| case | seconds | processor seconds | peak of Python's driver, MB | of its workers, MB | of the JVM, MB |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, (size, behind) in CASES.items():
        folder = Path(tempfile.mkdtemp(prefix="ticdc-spark-bounded-"))
        try:
            config = WorkloadConfig(changes=options.rows, partitions=2, topic="bank")
            messages = dispatch(events(options.rows, size), config, encoder(SimpleConfig()))
            if behind:
                last = 1_767_225_600_000 + 1 + options.rows // _SMALL
                messages = _without_watermarks(messages, last)
            write_topic(messages, folder / "topic", "parquet")
            found = measure(folder / "topic", folder / "job", options.rows)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        peaks = " | ".join(f"{peak / 1e6:,.0f}" for peak in (found.driver, found.workers, found.jvm))
        print(f"| {name} | {found.seconds:.0f} | {found.cpu:.0f} | {peaks} |", flush=True)


if __name__ == "__main__":
    main()
