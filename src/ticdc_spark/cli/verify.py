"""``ticdc-spark verify``."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ticdc_spark.cli.between import Between, between, between_options
from ticdc_spark.cli.options.tables import table_rules
from ticdc_spark.cli.output.logging import console, redacted_children
from ticdc_spark.cli.output.text import noun
from ticdc_spark.config.job import Job
from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import redact
from ticdc_spark.errors import UsageError
from ticdc_spark.operate.requests import rebuild, repair, taken_when
from ticdc_spark.verify.options import Options, Watcher
from ticdc_spark.verify.repair import MOST_ROWS, rows_to_repair
from ticdc_spark.verify.report import Report, TableReport
from ticdc_spark.verify.run import verify

_SHOWN = 10
"""How many differences of a table the terminal shows."""
_LIMIT = 100
_PLAIN_SECONDS = 5.0


@click.command("verify")
@click.argument("job_file", metavar="[JOB.toml]", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--table", "rules", multiple=True, callback=table_rules, metavar="RULE", help="shop.*, !shop.tmp; repeatable."
)
@click.option("--sample", type=click.FloatRange(0, 100, min_open=True), metavar="PERCENT", help="Compare some ranges.")
@click.option(
    "--report",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The JSON report. An interrupted run resumes from it.  [default: JOB.verify.json beside the job file]",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help=f"Differences of a table to find.  [default: {_LIMIT}; with --repair {MOST_ROWS}]",
)
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=120.0,
    show_default=True,
    help="Seconds to wait, for each look, until the job has committed changes that are on their way.",
)
@click.option("--no-writes", is_flag=True, help="Nothing writes to the source, and the job has caught up.")
@click.option("--chunk-rows", type=click.IntRange(100), default=50_000, show_default=True, help="Rows of a range.")
@click.option("--repair", is_flag=True, help="Ask the job to read the rows again that differ, or the whole table.")
@between_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    job_file: Path | None,
    rules: tuple[str, ...],
    sample: float | None,
    path: Path | None,
    limit: int | None,
    wait: float,
    no_writes: bool,
    chunk_rows: int,
    repair: bool,
    **topics: Any,
) -> None:
    """Compare the tables of a job with their source.

    It compares row counts and checksums of key ranges, and reads rows only of ranges that differ. The job may run, and
    the source may change: a row counts as different only after the job had time to apply its change.

    The source is the database of [snapshot] upstream. The job needs watermarks.

    With --between it compares two topics instead, such as a topic and its copy by `convert` or `changefeed`.

    Exit codes: 0 all compared tables are equal, 3 rows differ or could not be decided, 1 and 2 as for other commands.
    """
    limit = limit or (MOST_ROWS if repair else _LIMIT)
    if topics["between"]:
        if job_file is not None or repair or sample is not None:
            raise UsageError("--between compares two topics: it takes no JOB.toml, --repair or --sample")
        ctx.exit(0 if between(Between(**topics), rules, path, limit) else 3)
    if job_file is None:
        raise UsageError("name a job file, or two topics with --between")
    job = load_job(job_file)
    if repair and (job.snapshot is None or job.snapshot.upstream is None):
        raise UsageError(f"{job_file}: [snapshot] upstream: missing; --repair reads from the database that it names")
    options = Options(tables=rules, sample=sample, limit=limit, wait=wait, still=no_writes, chunk_rows=chunk_rows)
    path = path or job_file.with_suffix(".verify.json")
    with redacted_children(), _shown() as watcher:
        report = verify(job, options, path, watcher)
    click.echo(f"{summary(report)}; report: {path}")
    if repair:
        repair_by(job, report)
    if any(one.result in ("different", "undecided") for one in report.tables):
        ctx.exit(3)


def summary(report: Report) -> str:
    """How many tables were compared, and the result."""
    count = Counter(one.result for one in report.tables)
    compared = len(report.tables) - count["not compared"]
    undecided = f", {count['undecided']} undecided" if count["undecided"] else ""
    return f"{noun(compared, 'table')} compared, {count['different']} with differences{undecided}"


def repair_by(job: Job, report: Report) -> None:
    """Ask the job for what a report found, and say so. Raises: EnvironmentFault"""
    different = {one.table: rows_to_repair(one) for one in report.tables if one.result == "different"}
    rows = {table: keys for table, keys in different.items() if keys}
    whole = [table for table in different if table not in rows]
    undecided = [one.table for one in report.tables if one.result == "undecided"]
    refused: list[UsageError] = []
    for table in whole:
        try:
            rebuild(job, [table])
            click.echo(f"requested: {table} read in full")
        except UsageError as error:
            refused.append(error)
    if rows:
        repair(job, rows)
        named = ", ".join(f"{noun(len(keys), 'row')} of {table}" for table, keys in rows.items())
        click.echo(f"requested: {named} read again")
    if len(different) > len(refused):
        click.echo(taken_when(job))
    for why in refused:
        click.echo(f"not requested: {why}")
    if undecided:
        click.echo(f"not requested: {', '.join(undecided)} undecided. Run `verify` again, or `rebuild` them yourself")
    if not different and not undecided:
        click.echo("nothing requested: no table differs")


class _Shown(Watcher):
    """Shows tables on standard output, and the progress on standard error."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar, self._task, self._shown = bar, None if bar is None else bar.add_task(""), time.monotonic()

    def starting(self) -> None:
        console.print("Spark: starting")

    def parts(self, table: str, done: int, total: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=table, completed=done, total=total)
        elif time.monotonic() - self._shown > _PLAIN_SECONDS:
            self._shown = time.monotonic()
            console.print(f"{table}: {done:,} of {noun(total, 'part')} compared")

    def looks(self, table: str, rows: int) -> None:
        console.print(f"{table}: {noun(rows, 'row')} may be on their way; looking again once the job is past them")

    def table(self, report: TableReport) -> None:
        if self._bar is not None:
            self._bar.stop()  # the results may go to the same terminal
        for line in lines(report):
            click.echo(line)
        if self._bar is not None:
            self._bar.start()


@contextmanager
def _shown() -> Iterator[_Shown]:
    if not console.is_terminal:
        yield _Shown(None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        yield _Shown(bar)


def lines(report: TableReport) -> Iterator[str]:
    """A table as the terminal shows it: the verdict, and its first differences."""
    condition = "" if report.condition in ("", "clean") else f"  ({report.condition})"
    many = f"{report.rows_source:,} rows" if report.parts_compared == report.parts else _share(report)
    verdict = {
        "equal": f"equal         {many}",
        "different": f"different     {_differing(report)}",
        "undecided": f"undecided     {noun(report.undecided, 'row') + ': ' if report.undecided else ''}{report.why}",
        "not compared": f"not compared  {report.why}",
    }[report.result]
    yield redact(f"{report.table}  {verdict}{condition}")
    if report.result == "different" and report.undecided:
        yield redact(f"    and {noun(report.undecided, 'row')} undecided: {report.why}")
    for one in report.found[:_SHOWN]:
        key = ", ".join(f"{name}={value}" for name, value in one.key.items())
        values = ", ".join(f"{name}: {pair.source} → {pair.target}" for name, pair in one.columns.items())
        yield f"    {one.kind:<10}  {key}" + (f"  {values}" if values else "") + (f"  {one.why}" if one.why else "")
    if report.differences > _SHOWN:
        yield f"    … the report has {noun(len(report.found), 'row')}"
    for column, why in report.columns_not_compared.items():
        yield f"    column {column} not compared: {why}"


def _differing(report: TableReport) -> str:
    if not report.differences:
        return report.why  # its columns differ
    return f"{'at least ' if report.at_least else ''}{noun(report.differences, 'row')}"


def _share(report: TableReport) -> str:
    return f"{report.rows_source:,} rows, {report.parts_compared:,} of {noun(report.parts, 'part')}"
