"""The progress of a running job: a live table in a terminal, log lines elsewhere."""

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
from ticdc_spark.cli.output.text import count, noun
from ticdc_spark.config.durations import duration
from ticdc_spark.config.secrets import redact
from ticdc_spark.mysql import tso_time
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.state.progress import Progress

log = logging.getLogger(__name__)
Show: TypeAlias = Callable[[BatchReport], None]
_MOST_TABLES = 12
_QUIET = 30.0
"""Seconds between log lines of batches that changed nothing."""
_LONGEST_HOLD = 60
"""Characters of what holds a job back, such as a DDL, in a line. ``status`` has all of them."""


@contextmanager
def shown(job: str) -> Iterator[Show]:
    """Show reports while this lasts."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield LogLines()
        return
    view = View(job)
    # No secret of a job file gets here, only names and DDL of the source.
    with Live(
        view, console=console, refresh_per_second=4, transient=True, redirect_stdout=False, redirect_stderr=False
    ):
        yield view


class LogLines:
    """Logs each batch that did something, and now and then that there are no new messages."""

    def __init__(self, write: Show | None = None) -> None:
        self._last = float("-inf")
        self._write = write or _log

    def __call__(self, report: BatchReport) -> None:
        now = time.monotonic()
        if not (report.messages or report.changes) and now - self._last < _QUIET:
            return
        self._last = now
        self._write(report)


def _log(report: BatchReport) -> None:
    log.info("%s", line(report, time.time()))
    log.debug("%s", details(report))


def line(report: BatchReport, now: float) -> str:
    """What an operator needs of a report, in one short line. It ends with what is in the way, or with the time."""
    progress = report.progress
    did = f"batch {progress.batch}: "
    if report.changes:
        tables = f" in {noun(len(report.commits), 'table')}" if report.commits else ""
        did += f"{noun(report.changes, 'change')}{tables}"
    elif report.messages:
        did += f"{noun(report.messages, 'message')}, no change to apply"
    else:
        did = "idle: no new messages"
    parts = [did]
    if report.messages or report.changes:
        parts.append(duration(report.seconds))
    if progress.applied:
        parts.append(f"lag {duration(tso_time.lag(progress.applied, now))}")
    if progress.hold.kind != "none":
        what = redact(progress.hold.what)
        parts.append(f"held back by {what if len(what) <= _LONGEST_HOLD else what[:_LONGEST_HOLD] + '…'}")
    elif report.full:
        parts.append(_to_read(report))
    elif progress.applied:
        at = "newest commitTs" if progress.mode == "arrival" else "resolved"
        parts.append(f"{at} {tso_time.utc(progress.applied)}")
    return redact(", ".join(parts))


def details(report: BatchReport) -> str:
    """The rest of a report, for ``--verbose``."""
    progress = report.progress
    parts = [f"batch {progress.batch}: {noun(report.messages, 'message')}"]
    if report.seconds and report.changes:
        parts.append(f"{count(round(report.changes / report.seconds))} changes/s")
    parts += [f"{phase} {duration(spent)}" for phase, spent in report.phases.items()]
    parts.append(f"resolved ts {progress.applied} ({tso_time.utc(progress.applied)})")
    parts.append(noun(sum(not table.is_gone for table in progress.tables), "table"))
    if progress.pending:
        parts.append(waiting(progress))
    if report.full:
        parts.append(_to_read(report))
    if progress.hold.kind != "none":
        parts.append(f"held back by {progress.hold.what}")
    return redact(", ".join(parts))


def _to_read(report: BatchReport) -> str:
    """The messages still to read, and how long they take at the rate of this batch."""
    left = report.left or 0
    took = report.seconds / report.messages if report.messages else 0.0
    return f"{noun(left, 'message')} to read" + (f", about {duration(left * took)} left" if left and took else "")


def waiting(progress: Progress) -> str:
    """How many changes wait: ``3 changes waiting``, ``at most 3 changes waiting`` where they were not counted."""
    at_most = "at most " if any(one.uncounted for one in progress.pending) else ""
    return f"{at_most}{noun(sum(one.waiting for one in progress.pending), 'change')} waiting"


class View:
    """The live view: what was done, how far behind, and the tables with most changes."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._report: BatchReport | None = None
        self._started = time.monotonic()
        self._changes = 0
        self._spinner = Spinner("dots")

    def __call__(self, report: BatchReport) -> None:
        self._report = report
        self._changes += report.changes

    def __rich__(self) -> RenderableType:
        elapsed = time.monotonic() - self._started
        if self._report is None:
            self._spinner.update(text=Text(f" {self._job}: starting, {duration(elapsed)}"))
            return self._spinner
        report, progress = self._report, self._report.progress
        self._spinner.update(text=Text(f" {self._job}: batch {progress.batch}, running {duration(elapsed)}"))
        facts = Table.grid(padding=(0, 2))
        facts.add_row(
            "changes",
            f"{count(progress.counters.rows)}  (this run {count(self._changes)}, {self._changes / elapsed:,.0f}/s)",
        )
        facts.add_row("resolved ts", f"{progress.applied}  {tso_time.utc(progress.applied)}")
        facts.add_row("lag", duration(tso_time.lag(progress.applied, time.time())))
        if report.left is not None:
            facts.add_row("", _to_read(report))
        if progress.pending:
            facts.add_row("", waiting(progress))
        if progress.hold.kind != "none":
            facts.add_row("held back by", Text(redact(progress.hold.what)))
        return Group(self._spinner, facts, _tables(report))


def _tables(report: BatchReport) -> Table:
    live = [table for table in report.progress.tables if not table.is_gone]
    shown = sorted(live, key=lambda table: -table.rows)[:_MOST_TABLES]
    grid = Table(box=None, padding=(0, 2), show_footer=len(live) > len(shown))
    rest = noun(len(live) - len(shown), "more table")
    grid.add_column("table", footer=f"… and {rest}")
    grid.add_column("changes", justify="right")
    grid.add_column("applied")
    for table in shown:
        grid.add_row(Text(f"{table.schema}.{table.name}"), count(table.rows), tso_time.utc(table.applied))
    return grid
