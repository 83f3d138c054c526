"""``ticdc-spark demo``: a recorded topic of a shop, replicated, and compared with the shop's tables."""

import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TypeAlias

import click
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ticdc_spark.cli.output.logging import redacted_children
from ticdc_spark.cli.output.run_events import watched
from ticdc_spark.cli.output.text import count, noun
from ticdc_spark.config.durations import duration
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import UsageError
from ticdc_spark.model import TableName
from ticdc_spark.mysql import tso_time
from ticdc_spark.names import unescape
from ticdc_spark.replicate.report import Summary

RECORDED = Path(__file__).parent / "recorded_shop"
"""``topic`` has the messages, ``tables`` the rows after them. ``scripts/demo_topic.py`` writes both."""
_MARK = ".ticdc-spark-demo"
"""A file that marks the folder of a demo. The next demo may clear such a folder."""
Tables: TypeAlias = dict[TableName, pa.Table]

_JOB = """\
# Written by `ticdc-spark demo`. Run it again: ticdc-spark replicate {file} --once
[job]
name = "demo"

[source]
kind = "files"
path = "topic"
protocol = "simple"

[sink]
kind = "iceberg"
warehouse = "lake"
"""


@click.command("demo")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo"),
    show_default=True,
    help="Folder for all files; an earlier demo in it is removed.",
)
def command(folder: Path) -> None:
    """Replicate a recorded shop into an Iceberg lake and show it.

    Customers, products, orders and more are inserted, updated, deleted, get new keys, and change their schemas. The
    recorded topic has the messages that TiCDC would send for it, in four partitions, with duplicates, rows out of order
    and restarts of TiCDC. The topic is replicated, and every table is compared with the shop's.
    """
    began = time.monotonic()
    prepare(folder)
    shutil.copytree(RECORDED / "topic", folder / "topic")
    job_file = folder / "shop.toml"
    job_file.write_text(_JOB.format(file=shlex.quote(str(job_file))), encoding="utf-8")
    wanted = recorded_tables()
    with redacted_children():
        summary = replicate(job_file)
        equal = compare(job_file, wanted)
    show(wanted, summary, equal, job_file, time.monotonic() - began)
    if not all(equal.values()):
        raise click.exceptions.Exit(1)


def recorded_tables() -> Tables:
    """The rows of the shop's tables after the last message."""
    files = sorted((RECORDED / "tables").glob("*/*.parquet"))
    return {(file.parent.name, file.stem): pq.read_table(file) for file in files}


def prepare(folder: Path) -> None:
    """Create the folder, or remove the files of an earlier demo.

    Raises: UsageError if the folder has other files.
    """
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / _MARK).is_file():
            raise UsageError(f"{folder} has files that no demo wrote; name another with --folder, or remove them")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).touch()


def replicate(job_file: Path) -> Summary:
    """Replicate the topic up to its end."""
    job = load_job(job_file)
    # Imported late: Spark takes a second to import.
    from ticdc_spark.replicate import loop

    with watched(job.name) as watcher:
        return loop.run(job, once=True, watchers=[watcher])


def compare(job_file: Path, wanted: Tables) -> dict[TableName, bool]:
    """Read every table with Spark. Returns: by table, whether it has the expected columns, types and rows."""
    from ticdc_spark.sinks.iceberg.lake import list_tables, open_lake, read_table

    session = open_lake(job_file)
    found = {(unescape(schema), unescape(name)) for schema, name in list_tables(session)}
    return {
        name: name in found and name in wanted and _equal(read_table(session, name), wanted[name])
        for name in sorted(found | wanted.keys())
    }


def _equal(found: pa.Table, wanted: pa.Table) -> bool:
    names = wanted.column_names
    if not set(names) <= set(found.column_names) or found.select(names).schema.types != wanted.schema.types:
        return False
    return sorted(map(repr, found.select(names).to_pylist())) == sorted(map(repr, wanted.to_pylist()))


def show(wanted: Tables, summary: Summary, equal: dict[TableName, bool], job_file: Path, seconds: float) -> None:
    """Print what was done."""
    out = Console(highlight=False, soft_wrap=True)
    out.print(_tables(wanted, equal))
    wrong = list(equal.values()).count(False)
    if wrong:
        out.print(f"[bold red]{noun(wrong, 'table')} of {len(equal)} differ from the shop's")
    else:
        out.print(f"[bold green]all {noun(len(equal), 'table')} equal the shop's: every column, type and row")
    applied = summary.progress.applied
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row(
        "replicated",
        f"{noun(summary.changes, 'row change')}, {noun(summary.ddls, 'DDL')} in"
        f" {noun(summary.batches, 'batch', 'batches')}, {duration(summary.seconds)} with Spark's start",
    )
    facts.add_row("resolved ts", f"{applied}  {tso_time.utc(applied)}")
    facts.add_row("tables", str(job_file.parent / "lake"))
    facts.add_row("job file", str(job_file))
    facts.add_row("all of it", duration(seconds))
    out.print(facts)
    schema, table = max(wanted, key=lambda name: wanted[name].num_rows)
    code = f'from ticdc_spark import open_lake; open_lake("{job_file}").table("lake.{schema}.{table}").show()'
    out.print("\nread a table:")
    out.print(Text(f"  {shlex.join([_python(), '-c'])} {shlex.quote(code)}"))


def _tables(wanted: Tables, equal: dict[TableName, bool]) -> Table:
    grid = Table(box=None, padding=(0, 2), pad_edge=False)
    grid.add_column("table")
    grid.add_column("columns", justify="right")
    grid.add_column("rows", justify="right")
    grid.add_column("compared with the shop's")
    for name, same in equal.items():
        table = wanted.get(name)
        columns, rows = ("", "") if table is None else (count(table.num_columns), count(table.num_rows))
        grid.add_row(".".join(name), columns, rows, Text("equal", "green") if same else Text("differs", "red"))
    return grid


def _python() -> str:
    """The shortest command that starts this interpreter."""
    path = Path(sys.executable)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
