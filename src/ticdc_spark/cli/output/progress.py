"""How a running job shows itself: a live table in a terminal, log lines elsewhere."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ticdc_spark.cli.output.logging import console
from ticdc_spark.cli.output.text import count, duration, noun
from ticdc_spark.config.secrets import redact
from ticdc_spark.mysql import tso_time
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.state.progress import Progress

log = logging.getLogger(__name__)
Show: TypeAlias = Callable[[BatchReport], None]
_MOST_TABLES = 12
_QUIET = 30.0
"""Seconds between log lines of batches that changed nothing."""


@contextmanager
def shown(job: str) -> Iterator[Show]:
    """Show reports while this lasts."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield LogLines()
        return
    view = View(job)
    # Secrets of a job file never reach this far, but names and DDL of the source do.
    with Live(
        view, console=console, refresh_per_second=4, transient=True, redirect_stdout=False, redirect_stderr=False
    ):
        yield view


class LogLines:
    """Each batch that did something as a log line; now and then that nothing came."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self, report: BatchReport) -> None:
        now = time.monotonic()
        if not (report.messages or report.rows) and now - self._last < _QUIET:
            return
        self._last = now
        log.info("%s", line(report, time.time()))


def line(report: BatchReport, now: float) -> str:
    """A report in one line."""
    progress = report.progress
    parts = [f"batch {progress.batch}: {noun(report.messages, 'message')}, {noun(report.rows, 'row')} applied"]
    if report.seconds and report.rows:
        parts.append(f"{count(round(report.rows / report.seconds))} rows/s")
    parts.append(f"resolved ts {progress.applied} ({tso_time.utc(progress.applied)})")
    if progress.applied:
        parts.append(f"lag {duration(tso_time.lag(progress.applied, now))}")
    parts.append(noun(sum(not table.dropped for table in progress.tables), "table"))
    if progress.pending:
        parts.append(waiting(progress))
    if report.left:
        parts.append(f"{noun(report.left, 'message')} to read")
    if progress.hold.kind != "none":
        parts.append(f"held back by {progress.hold.what}")
    return redact(", ".join(parts))


def waiting(progress: Progress) -> str:
    """How many rows wait: ``3 rows waiting``, ``at most 3 rows waiting`` where they were not counted."""
    at_most = "at most " if any(one.uncounted for one in progress.pending) else ""
    return f"{at_most}{noun(sum(one.waiting for one in progress.pending), 'row')} waiting"


class View:
    """The live view: what was done, how far behind, and the tables that have most rows."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._report: BatchReport | None = None
        self._started = time.monotonic()
        self._rows = 0
        self._spinner = Spinner("dots")

    def __call__(self, report: BatchReport) -> None:
        self._report = report
        self._rows += report.rows

    def __rich__(self) -> RenderableType:
        elapsed = time.monotonic() - self._started
        if self._report is None:
            self._spinner.update(text=Text(f" {self._job}: starting, {duration(elapsed)}"))
            return self._spinner
        report, progress = self._report, self._report.progress
        self._spinner.update(text=Text(f" {self._job}: batch {progress.batch}, running {duration(elapsed)}"))
        facts = Table.grid(padding=(0, 2))
        facts.add_row("rows", f"{count(progress.rows)}  (this run {count(self._rows)}, {self._rows / elapsed:,.0f}/s)")
        facts.add_row("resolved ts", f"{progress.applied}  {tso_time.utc(progress.applied)}")
        facts.add_row("lag", duration(tso_time.lag(progress.applied, time.time())))
        if report.left is not None:
            facts.add_row("to read", noun(report.left, "message"))
        if progress.pending:
            facts.add_row("", waiting(progress))
        if progress.hold.kind != "none":
            facts.add_row("held back by", Text(redact(progress.hold.what)))
        return Group(self._spinner, facts, _tables(report))


def _tables(report: BatchReport) -> Table:
    live = [table for table in report.progress.tables if not table.dropped]
    shown = sorted(live, key=lambda table: -table.rows)[:_MOST_TABLES]
    grid = Table(box=None, padding=(0, 2), show_footer=len(live) > len(shown))
    rest = noun(len(live) - len(shown), "more table")
    grid.add_column("table", footer=f"… and {rest}")
    grid.add_column("rows", justify="right")
    grid.add_column("applied")
    for table in shown:
        grid.add_row(Text(f"{table.schema}.{table.name}"), count(table.rows), tso_time.utc(table.applied))
    return grid
