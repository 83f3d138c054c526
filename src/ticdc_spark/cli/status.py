"""``ticdc-spark status``."""

from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ticdc_spark.cli.text import count, duration, noun
from ticdc_spark.config.load import load_identity
from ticdc_spark.operate.status import JobStatus, job_status

_COLOURS = {"normal": "green", "finished": "green", "warning": "yellow", "pending": "yellow", "failed": "red"}


@click.command("status")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def command(job_file: Path, as_json: bool) -> None:
    """Tell how a job stands, also while it does not run.

    Reads only the job file and what the job has written; starts no Spark and needs no secret. Exits 0 whatever the
    state is.
    """
    status = job_status(load_identity(job_file))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(status), indent=2))
        return
    console = Console(highlight=False, soft_wrap=True, emoji=False, markup=False)
    for name, value, style in _facts(status):
        console.print(Text.assemble(f"{name:<19}", (value, style)))
    if status.tables:
        if not console.is_terminal:
            console.width = 1000  # where nobody looks at it, no line is broken
        console.print(_tables(status))


def _facts(status: JobStatus) -> list[tuple[str, str, str]]:
    facts: list[tuple[str, str, str]] = []
    colour = _COLOURS.get(status.state, "")

    def add(name: str, value: str, style: str = "") -> None:
        if value:
            facts.append((name, value, style))

    add("job", status.job)
    add("state", status.state, style=colour)
    add("reason", status.reason)
    add("next", status.next)
    if status.heartbeat_age is not None:
        what = "running" if status.running else "not running"
        add("process", f"{what}, pid {status.pid}, last heartbeat {duration(status.heartbeat_age)} ago")
    add("phase", status.phase)
    if status.mode == "arrival":
        add("mode", "arrival: no watermarks, tables follow the messages", style="yellow")
    name = "newest commitTs" if status.mode == "arrival" else "resolved ts"
    add(name, f"{status.resolved_ts} ({status.resolved_time})" if status.resolved_ts else "none yet")
    if status.lag is not None:
        split = f" (upstream {duration(status.upstream_lag)}, this job {duration(status.own_lag)})"
        add("lag", duration(status.lag) + (split if status.upstream_lag is not None else ""))
    held = status.held_back_by
    since = f" (for {duration(held.seconds)})" if held.seconds is not None else ""
    add("held back by", "nothing" if held.kind == "none" else f"{held.kind}: {held.what}{since}")
    add("slowest partition", status.slowest_partition or "")
    add("rows", f"{count(status.rows)} applied, {count(status.rows_waiting)} waiting")
    add("DDLs", f"{count(status.ddls)} applied, {count(len(status.ddls_waiting))} waiting")
    for ddl in status.ddls_waiting:
        add("", ddl)
    add("left out", _left_out(status))
    error = status.last_error
    if error is not None:
        at = f" at {datetime.fromtimestamp(error.at, UTC):%Y-%m-%d %H:%M:%SZ}" if error.at else ""
        add("last error", f"{error.code}{at}: {error.message}", style="red")
    return facts


def _left_out(status: JobStatus) -> str:
    numbers = (
        (status.rejected, "rejected message", ""),
        (status.late, "late row", ""),
        (status.replays, "replay", ""),
        (status.zero_dates, "zero date as NULL", "zero dates as NULL"),
        (status.regressions, "watermark that went back", "watermarks that went back"),
    )
    return ", ".join(noun(number, one, many) for number, one, many in numbers if number)


def _tables(status: JobStatus) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("table", "applied", "condition"):
        grid.add_column(title)
    for title in ("rows", "waiting"):
        grid.add_column(title, justify="right")
    for table in status.tables:
        condition = f"{table.condition}: {table.detail}" if table.detail else table.condition
        grid.add_row(
            Text(table.name), table.applied_time, Text(condition), count(table.rows), count(table.rows_waiting)
        )
    return grid
