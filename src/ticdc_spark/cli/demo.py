"""``ticdc-spark demo``: a shop's changes as TiCDC would send them, replicated, and compared with the truth."""

import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ticdc_spark.cli.output.logging import console, redacted_children
from ticdc_spark.cli.output.progress import shown
from ticdc_spark.cli.output.text import count, noun
from ticdc_spark.config.durations import duration
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Change, RowChange, SchemaChange
from ticdc_spark.mysql import tso_time
from ticdc_spark.names import unescape
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.replicate.report import Summary
from ticdc_spark.workload import DdlAction, Name, Truth, WorkloadConfig, dispatch, generate, write_topic

_MARK = ".ticdc-spark-demo"
"""A file in a folder that a demo made, and that the next one may therefore clear."""
_DDL: tuple[DdlAction, ...] = (
    "create_table",
    "drop_table",
    "truncate_table",
    "rename_table",
    "add_column",
    "drop_column",
    "rename_column",
    "modify_column",
    "add_index",
)
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


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What was generated."""

    truth: Truth
    changes: int
    ddls: int
    messages: int
    seconds: float


@click.command("demo")
@click.option(
    "--changes", type=click.IntRange(1), default=200_000, show_default=True, metavar="N", help="Row changes to make."
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo"),
    show_default=True,
    help="Where everything is put; what a former demo left there is removed.",
)
@click.option("--seed", type=int, default=7, show_default=True, help="Another seed gives another shop.")
def command(changes: int, folder: Path, seed: int) -> None:
    """Replicate a recorded shop into an Iceberg lake and show it.

    Customers, products, orders and more are inserted, updated, deleted, get new keys, and change their schemas. The
    messages that TiCDC would send of it go into a recorded topic of four partitions, with duplicates, rows out of
    order and restarts of TiCDC. Then the topic is replicated, and every table is compared with the truth.
    """
    began = time.monotonic()
    prepare(folder)
    made = make(workload(changes, seed), folder / "topic")
    job_file = folder / "shop.toml"
    job_file.write_text(_JOB.format(file=shlex.quote(str(job_file))), encoding="utf-8")
    with redacted_children():
        summary = replicate(job_file)
        result = compare(job_file, made.truth)
    show(made, summary, result, job_file, time.monotonic() - began)
    if any(result.values()):
        raise click.exceptions.Exit(1)


def prepare(folder: Path) -> None:
    """Make the folder, or clear what a former demo left in it.

    Raises: UsageError when something else is there.
    """
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / _MARK).is_file():
            raise UsageError(f"{folder} holds something that is no demo's; name another with --folder, or remove it")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).touch()


def workload(changes: int, seed: int) -> WorkloadConfig:
    """The demo's workload: everything that may happen, a few schema changes among it."""
    return WorkloadConfig(
        seed=seed,
        changes=changes,
        ddl_every=max(2, changes // 4 // 7),
        ddl_actions=_DDL,
        watermark_every=max(10, changes // 2000),
        bootstrap_every=max(200, changes // 40),
        partitions=4,
        duplicates=0.01,
        reorder=True,
        restart_every=max(1000, changes // 2),
    )


def make(config: WorkloadConfig, path: Path) -> Made:
    """Generate the events, encode them, and write them as a recorded topic."""
    began = time.monotonic()
    seen = _Seen()
    events = generate(config)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    with bar:
        task = bar.add_task("making changes", total=config.changes)
        counted = seen.count(events, lambda done: bar.update(task, completed=min(done, config.changes)))
        messages = write_topic(dispatch(counted, config, encoder(SimpleConfig())), path, "parquet")
    return Made(
        truth=events.truth,
        changes=seen.changes,
        ddls=seen.ddls,
        messages=messages,
        seconds=time.monotonic() - began,
    )


class _Seen:
    """Counts events on their way."""

    def __init__(self) -> None:
        self.changes = self.ddls = 0

    def count(self, events: Iterable[Change], report: Callable[[int], None]) -> Iterator[Change]:
        for event in events:
            if isinstance(event, RowChange):
                self.changes += 1
                if not self.changes % 1000:
                    report(self.changes)
            elif isinstance(event, SchemaChange):
                self.ddls += 1
            yield event
        report(self.changes)


def replicate(job_file: Path) -> Summary:
    """Replicate the topic up to its end."""
    job = load_job(job_file)
    # Only now: Spark takes a second to import.
    from ticdc_spark.replicate import loop

    with shown(job.name) as show_batch:
        return loop.run(job, once=True, on_progress=show_batch)


def compare(job_file: Path, truth: Truth) -> dict[Name, list[str]]:
    """Read every table with Spark and compare it with the truth: by table, where they differ."""
    from ticdc_spark.sinks.iceberg.lake import list_tables, open_lake, read_table
    from ticdc_spark.workload.compare import differences

    session = open_lake(job_file)
    found = {(unescape(schema), unescape(name)) for schema, name in list_tables(session)}
    result: dict[Name, list[str]] = {name: ["is in the lake, and should not be"] for name in found - truth.keys()}
    for name, (table, rows) in sorted(truth.items()):
        if name in found:
            result[name] = differences(read_table(session, name), table, rows.values())
        else:
            result[name] = ["is not in the lake"]
    return result


def show(made: Made, summary: Summary, result: dict[Name, list[str]], job_file: Path, seconds: float) -> None:
    """Print what was done."""
    out = Console(highlight=False, soft_wrap=True)
    out.print(_tables(made.truth, result))
    wrong = sum(bool(lines) for lines in result.values())
    if wrong:
        out.print(f"[bold red]{noun(wrong, 'table')} of {len(result)} differ from the truth")
    else:
        out.print(f"[bold green]all {noun(len(result), 'table')} equal the truth: every column, type and row")
    applied = summary.progress.applied
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row(
        "made",
        f"{noun(made.changes, 'row change')}, {noun(made.ddls, 'DDL')} in {noun(made.messages, 'message')},"
        f" {duration(made.seconds)}",
    )
    facts.add_row(
        "replicated",
        f"in {noun(summary.batches, 'batch', 'batches')}, {duration(summary.seconds)} with Spark's start:"
        f" {count(round(made.changes / max(summary.seconds, 0.001)))} changes/s",
    )
    facts.add_row("resolved ts", f"{applied}  {tso_time.utc(applied)}")
    facts.add_row("tables", str(job_file.parent / "lake"))
    facts.add_row("job file", str(job_file))
    facts.add_row("all of it", duration(seconds))
    out.print(facts)
    schema, table = max(made.truth, key=lambda name: len(made.truth[name][1]))
    code = (
        f"from ticdc_spark.sinks.iceberg.lake import open_lake; "
        f'open_lake("{job_file}").table("lake.{schema}.{table}").show()'
    )
    out.print("\nread a table:")
    out.print(Text(f"  {shlex.join([_python(), '-c'])} {shlex.quote(code)}"))


def _tables(truth: Truth, result: dict[Name, list[str]]) -> Table:
    grid = Table(box=None, padding=(0, 2), pad_edge=False)
    grid.add_column("table")
    grid.add_column("columns", justify="right")
    grid.add_column("rows", justify="right")
    grid.add_column("compared with the truth")
    for name in sorted(result):
        lines = result[name]
        columns, rows = (count(len(truth[name][0].columns)), count(len(truth[name][1]))) if name in truth else ("", "")
        verdict = Text("\n".join(lines), "red") if lines else Text("equal", "green")
        grid.add_row(Text(".".join(name)), columns, rows, verdict)
    return grid


def _python() -> str:
    """The interpreter, as short as it can be typed here."""
    path = Path(sys.executable)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
