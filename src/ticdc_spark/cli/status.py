"""``ticdc-spark status``."""

import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ticdc_spark.cli.options.serve import serve_option, serve_page
from ticdc_spark.cli.options.tables import table_rules
from ticdc_spark.cli.output.text import count, noun
from ticdc_spark.cli.signals import until_interrupted
from ticdc_spark.config.durations import duration
from ticdc_spark.config.job import Identity
from ticdc_spark.config.load import load_identity, load_metrics
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.config.values import Address
from ticdc_spark.durable import replace_file
from ticdc_spark.errors import EnvironmentFault, os_reason
from ticdc_spark.operate.page.changes import Changes
from ticdc_spark.operate.page.job_site import job_page, job_routes
from ticdc_spark.operate.page.job_source import StateReader
from ticdc_spark.operate.page.site import saved
from ticdc_spark.operate.page.view import MOST, Query
from ticdc_spark.operate.status import JobStatus, check_code, job_status
from ticdc_spark.operate.table_status import TableStatus

_COLOURS = {"normal": "green", "finished": "green", "warning": "yellow", "pending": "yellow", "failed": "red"}


_WHOLE = 20
"""With more tables than this, only the tables that need a look are shown."""
_NAMED = 5
"""How many tables the suggested `rebuild` command names."""
_WATCH_SECONDS = 2.0
_TAKEN = {True: "between two batches", False: "when it starts"}


@click.command("status")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option(
    "--table", "tables", multiple=True, callback=table_rules, metavar="RULE", help="shop.*, !shop.tmp; repeatable."
)
@click.option("--watch", is_flag=True, help=f"Print it every {_WATCH_SECONDS:.0f} s, until Ctrl-C.")
@click.option("--check", is_flag=True, help="Exit by the state: 0 is well, 3 needs a look, 1, 2 or 4 failed.")
@serve_option("Serve its status page until Ctrl-C, also while it is down")
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the status page into a file."
)
def command(
    job_file: Path,
    as_json: bool,
    tables: tuple[str, ...],
    watch: bool,
    check: bool,
    serve: Address | None,
    html: Path | None,
) -> None:
    """Show the state of a job, running or not.

    Reads only the job file and what the job has written. Starts no Spark, and needs a secret only for a state in an
    object store. Of more than 20 tables it shows only the ones that need a look; --table shows others.

    Exits 0 whatever the state is. With --check it exits 0 if the job runs well, finished, or was stopped on request.
    It exits 3 for a warning, or if the job has never run. If the job failed, it exits 1, or 2 or 4 as the job did.
    """
    ways = {"--check": check, "--watch": watch, "--serve": serve is not None, "--html": html is not None}
    if len(given := [name for name, chosen in ways.items() if chosen]) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other")
    identity = load_identity(job_file)
    if serve is not None:
        _serve(identity, serve)
        return
    if html is not None:
        _write(identity, html)
        return
    console = Console(highlight=False, soft_wrap=True, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = 1000  # not a terminal: never break a line

    def look() -> JobStatus:
        status = job_status(identity)
        _show(console, identity.file.name, _of_tables(status, tables), as_json, watch, bool(tables))
        return status

    if not watch:
        code = check_code(look())
        click.get_current_context().exit(code if check else 0)
    with until_interrupted() as rest:
        look()
        while rest(_WATCH_SECONDS):
            look()


def _serve(identity: Identity, address: Address) -> None:
    """Serve the page of a job by its state. Raises: UsageError"""
    changes, source = Changes(), StateReader(identity)
    source.seen()  # load what takes long before a request waits for it
    routes = job_routes(source, identity, changes, is_running=False)
    serve_page(address, routes, changes, load_metrics(identity.file).token)


def _write(identity: Identity, path: Path) -> None:
    """Write the page of a job into a file. Raises: EnvironmentFault, and what reading the state raises"""
    seen = StateReader(identity).seen()
    page = saved(job_page(seen, identity, Query(limit=MOST), is_running=False))
    try:
        replace_file(path, page.encode())
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be written: {os_reason(error)}") from error


def _show(console: Console, file: str, status: JobStatus, as_json: bool, watch: bool, whole: bool) -> None:
    if as_json:
        encoded = msgspec.json.encode(status)
        click.echo(encoded if watch else msgspec.json.format(encoded, indent=2))
    else:
        if watch and console.is_terminal:
            console.clear()
        _print(console, file, status, whole=whole)
    sys.stdout.flush()


def _of_tables(status: JobStatus, rules: tuple[str, ...]) -> JobStatus:
    if not rules:
        return status
    wanted = table_filter(rules)
    found = tuple(table for table in status.tables if wanted(table.schema, table.table))
    return msgspec.structs.replace(status, tables=found)


def _print(console: Console, file: str, status: JobStatus, *, whole: bool) -> None:
    """Print a status; ``whole``: with all tables that it has."""
    for name, value, style in _facts(status):
        console.print(Text.assemble(f"{name:<19}", (value, style)))
    shown = status.tables
    if len(shown) > _WHOLE and not whole:
        shown = tuple(table for table in shown if table.needs_a_look)
        console.print(Text.assemble(f"{'tables':<19}", _conditions(status.tables)))
    listed = shown if whole else shown[:_WHOLE]
    if listed:
        console.print(_grid(listed))
        # below the grid, as one long reason would make every row as wide
        for table in (table for table in listed if table.detail):
            console.print(Text(f"{table.name} is {table.condition}: {table.detail}"))
        curable = [table.name for table in listed if table.rebuild]
        if curable:
            names = " ".join(curable[:_NAMED]) + (" …" if len(curable) > _NAMED else "")
            needs = "[snapshot] names the database or a dump; or give --from topic"
            console.print(Text(f"a full read makes them clean ({needs}): ticdc-spark rebuild {file} {names}"))
    if len(shown) > len(listed):
        console.print(Text(f"and {count(len(shown) - len(listed))} more that need a look: --table '*.*' shows all"))


def _conditions(tables: tuple[TableStatus, ...]) -> str:
    counts = Counter(table.condition for table in tables)
    parts = ", ".join(f"{count(number)} {condition}" for condition, number in counts.most_common())
    return f"{count(len(tables))}: {parts} (--table '*.*' shows all)"


def _facts(status: JobStatus) -> list[tuple[str, str, str]]:
    facts: list[tuple[str, str, str]] = []
    colour = _COLOURS.get(status.state, "")

    def add(name: str, value: str, style: str = "") -> None:
        if value:
            facts.append((name, value, style))

    add("job", status.job)
    add("state", status.state, style=colour)
    error = status.last_error
    told = error is not None and error.message.splitlines()[:1] == [status.reason]
    add("reason", error.message if error is not None and told else status.reason)
    add("next", status.next)
    if status.heartbeat_age is not None:
        what = "running" if status.running else "not running"
        add("process", f"{what}, pid {status.pid}, last heartbeat {duration(status.heartbeat_age)} ago")
    if status.mode == "arrival":
        add("mode", "arrival: no watermarks, tables follow the messages", style="yellow")
    name = "newest commitTs" if status.mode == "arrival" else "resolved ts"
    add(name, f"{status.resolved_ts} ({status.resolved_time})" if status.resolved_ts else "none yet")
    if status.lag is not None:
        split = f" (upstream {duration(status.upstream_lag)}, this job {duration(status.own_lag)})"
        add("lag", duration(status.lag) + (split if status.upstream_lag is not None else ""))
    add("to read", _to_read(status))
    if status.last_commit_at is not None:
        at = f"{datetime.fromtimestamp(status.last_commit_at, UTC):%Y-%m-%d %H:%M:%SZ}"
        add("last commit", f"{duration(status.last_commit_age)} ago ({at}), batch {status.batch}")
    held = status.held_back_by
    since = f" (for {duration(held.seconds)})" if held.seconds is not None else ""
    what = "see the reason" if held.what == status.reason else held.what
    add("held back by", "nothing" if held.kind == "none" else f"{held.kind}: {what}{since}")
    add("slowest partition", status.slowest_partition or "")
    at_most = "at most " if status.changes_waiting_at_most else ""
    add("changes", f"{count(status.changes)} applied, {at_most}{count(status.changes_waiting)} waiting")
    add("DDLs", f"{count(status.ddls)} applied, {count(len(status.ddls_waiting))} waiting")
    for ddl in status.ddls_waiting:
        add("", ddl)
    for number, request in enumerate(status.requests):
        add("" if number else "requests", f"{request}: the job takes it {_TAKEN[status.running]}", style="yellow")
    add("left out", _left_out(status))
    if error is not None:
        at = f" at {datetime.fromtimestamp(error.at, UTC):%Y-%m-%d %H:%M:%SZ}" if error.at else ""
        add("last error", f"{error.code}{at}" + ("" if told else f": {error.message}"), style="red")
    return facts


def _to_read(status: JobStatus) -> str:
    """The messages still to read, the rate, and the time that takes."""
    if not status.messages_to_read:
        return ""
    rate = status.messages_per_second
    pace = "" if rate is None else f", {count(round(rate))} messages/s"
    left = "" if status.seconds_left is None else f", about {duration(status.seconds_left)} left"
    return f"{noun(status.messages_to_read, 'message')}{pace}{left}"


def _left_out(status: JobStatus) -> str:
    numbers = (
        (status.rejected, "rejected message", ""),
        (status.late, "late row", ""),
        (status.replays, "replay", ""),
        (status.zero_dates, "zero date as NULL", "zero dates as NULL"),
        (status.regressions, "repeated watermark (a few are harmless)", "repeated watermarks (a few are harmless)"),
    )
    return ", ".join(noun(number, one, many) for number, one, many in numbers if number)


def _grid(tables: tuple[TableStatus, ...]) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("table", "applied", "condition"):
        grid.add_column(title)
    for title in ("changes", "waiting"):
        grid.add_column(title, justify="right")
    for table in tables:
        name = f"{table.name} → {table.target}" if table.target else table.name
        cells = Text(name), table.applied_time, table.condition
        grid.add_row(*cells, count(table.changes), count(table.changes_waiting))
    return grid
