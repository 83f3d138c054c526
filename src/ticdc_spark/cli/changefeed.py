"""``ticdc-spark changefeed``."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from ticdc_spark.cli.output.logging import console, redacted_children
from ticdc_spark.cli.output.text import count, duration, noun
from ticdc_spark.cli.replicate import stoppable
from ticdc_spark.config.secrets import redact
from ticdc_spark.errors import UsageError
from ticdc_spark.mysql import tso_time

if TYPE_CHECKING:
    from ticdc_spark.changefeed.config.settings import Changefeed
    from ticdc_spark.changefeed.loop import Report, Show

log = logging.getLogger(__name__)
_LINE_SECONDS = 5.0
_QUIET_SECONDS = 60.0


@click.command("changefeed")
@click.argument(
    "changefeed_file", metavar="[FILE.toml]", required=False, type=click.Path(path_type=Path, dir_okay=False)
)
@click.option("--sink-uri", metavar="URI", help="kafka://host:port/topic?protocol=…; goes over the file's.")
@click.option(
    "--source",
    metavar="SOURCE",
    help="mysql://user:password@host:port, kafka://host:port/topic[?protocol=…], or the path of a recorded topic.",
)
@click.option("--state", type=click.Path(path_type=Path, file_okay=False), help="Folder of the progress.")
@click.option("--check", is_flag=True, help="Only say what would be sent where; send and create nothing.")
@click.option("--status", "show_status", is_flag=True, help="Only say how far it is, also while it runs.")
def command(
    changefeed_file: Path | None,
    sink_uri: str | None,
    source: str | None,
    state: Path | None,
    check: bool,
    show_status: bool,
) -> None:
    """Send the changes of a database, or of another topic, to Kafka as TiCDC does.

    FILE.toml is TiCDC's changefeed file. Goes on until the source ends or target-ts is reached, or until SIGINT
    (Ctrl-C) or SIGTERM, after which what was taken is still sent; a second one ends it at once. Either way nothing is
    lost: started again, it goes on where it was, and may repeat what was not stored as sent.
    """
    from ticdc_spark.changefeed.config.load import load_changefeed

    overrides = {"source": source, "state": str(state.absolute()) if state else None}
    changefeed = load_changefeed(changefeed_file, sink_uri, overrides)
    for warning in changefeed.warnings:
        log.warning("%s", warning)
    folder = changefeed.state or _default_state(changefeed)
    if show_status:
        _status(changefeed, folder)
        return
    if changefeed.source is None:
        raise UsageError("there is no source: give --source, or source in [ticdc-spark] of the file")
    from ticdc_spark.capture.open import open_capture, source_kind

    capture = open_capture(changefeed.source)
    if check:
        from ticdc_spark.changefeed.check import lines

        for line in lines(changefeed, capture):
            click.echo(redact(line))
        return
    from ticdc_spark.changefeed.loop import run

    stop = Event()
    kind = source_kind(changefeed.source)
    with redacted_children(), _shown(changefeed.id) as show:
        report = stoppable(lambda: run(changefeed, capture, folder, source=kind, stop=stop, show=show), stop)
    log.info("%s", _last_line(report))


def _default_state(changefeed: Changefeed) -> Path:
    """Beside the changefeed's file, or in the working directory."""
    folder = Path(changefeed.file).parent if changefeed.file else Path.cwd()
    return folder / f"{changefeed.id}.state"


@contextmanager
def _shown(name: str) -> Iterator[Show]:
    """Show reports while this lasts: one line that changes on a terminal, a log line now and then elsewhere."""
    if console.is_terminal and not console.is_dumb_terminal:
        with console.status(f"{name}: starting") as status:
            yield lambda report: status.update(redact(f"{name}: {_line(report)}"))
        return
    yield _LogLines()


class _LogLines:
    def __init__(self) -> None:
        self._at = float("-inf")
        self._rows = -1

    def __call__(self, report: Report) -> None:
        now = time.monotonic()
        if now - self._at < (_LINE_SECONDS if report.rows != self._rows or report.outage else _QUIET_SECONDS):
            return
        self._at, self._rows = now, report.rows
        log.info("%s", redact(_line(report)))


def _line(report: Report) -> str:
    parts = [f"{noun(report.rows, 'row')} sent", f"{count(round(report.rows_per_second))} rows/s"]
    if report.waiting:
        parts.append(f"{count(report.waiting)} not acknowledged")
    parts.append(f"up to {tso_time.utc(report.saved)}")
    if report.saved:
        parts.append(f"lag {duration(tso_time.lag(report.saved, time.time()))}")
    if report.outage:
        parts.append(f"waits for Kafka: {report.outage}")
    return ", ".join(parts)


def _last_line(report: Report) -> str:
    ended = "finished" if report.finished else "stopped"
    sent = f"{noun(report.rows, 'row')} in {noun(report.messages, 'message')} sent"
    return f"{ended}: {sent}; all is sent up to commitTs {report.saved} ({tso_time.utc(report.saved)})"


def _status(changefeed: Changefeed, folder: Path) -> None:
    from ticdc_spark.changefeed.progress import is_owned, read_owner, read_stored

    stored = read_stored(folder)
    if stored is None:
        click.echo(f"changefeed {changefeed.id}: nothing stored in {folder}; it has not run")
        return
    owner = read_owner(folder)
    running = is_owned(folder)
    who = f"running, process {owner.pid} on {owner.host}" if running and owner else "not running"
    lag = duration(tso_time.lag(stored.commit_ts, time.time()))
    for name, value in (
        ("changefeed", stored.changefeed),
        ("state", who),
        ("sent up to", f"{stored.commit_ts} ({tso_time.utc(stored.commit_ts)}), lag {lag}"),
        ("stored", f"{duration(time.time() - stored.saved_at)} ago"),
        ("rows", f"{count(stored.rows)} sent, repetitions included"),
        ("topics", ", ".join(f"{topic} ({noun(n, 'partition')})" for topic, n in stored.partitions.items())),
        ("position", stored.position if len(stored.position) < 300 else stored.position[:300] + "…"),
    ):
        click.echo(redact(f"{name:<12} {value}"))


__all__ = ["command"]
