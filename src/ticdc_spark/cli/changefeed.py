"""``ticdc-spark changefeed``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from ticdc_spark.cli.options.serve import serve_option, serve_page
from ticdc_spark.cli.output.events import lag_seconds
from ticdc_spark.cli.output.logging import console, is_json, redacted_children
from ticdc_spark.cli.output.text import count, noun
from ticdc_spark.cli.signals import stoppable
from ticdc_spark.config.durations import duration
from ticdc_spark.config.secrets import redact
from ticdc_spark.errors import UsageError
from ticdc_spark.log_events import event
from ticdc_spark.mysql import tso_time

if TYPE_CHECKING:
    from ticdc_spark.capture.base import Capture
    from ticdc_spark.capture.binlog.kept import Kept
    from ticdc_spark.capture.snapshot.present import PresentTables
    from ticdc_spark.changefeed.backlog.backlog import Backlog
    from ticdc_spark.changefeed.config.load import Identity
    from ticdc_spark.changefeed.config.settings import Changefeed
    from ticdc_spark.changefeed.progress import Stored
    from ticdc_spark.changefeed.report import Report, Show
    from ticdc_spark.changefeed.snapshot.reads import TableReads
    from ticdc_spark.config.values import Address
    from ticdc_spark.model import TableName

log = logging.getLogger(__name__)
_LINE_SECONDS = 5.0
_QUIET_SECONDS = 60.0
_TABLES_SHOWN = 8


@click.command("changefeed")
@click.argument(
    "changefeed_file", metavar="[FILE.toml]", required=False, type=click.Path(path_type=Path, dir_okay=False)
)
@click.option("--sink-uri", metavar="URI", help="kafka://host:port/topic?protocol=…; overrides the file's.")
@click.option(
    "--source",
    metavar="SOURCE",
    help="mysql://user:password@host:port, kafka://host:port/topic[?protocol=…], or the path of a recorded topic.",
)
@click.option("--state", type=click.Path(path_type=Path, file_okay=False), help="Folder for the progress.")
@click.option(
    "--snapshot",
    type=click.Choice(["never", "initial"]),
    help="initial: a new changefeed first sends the rows that its tables have.",
)
@click.option(
    "--snapshot-table",
    "read_tables",
    metavar="SCHEMA.TABLE",
    multiple=True,
    help="Only ask the changefeed to send the rows that a table has. It may be running.",
)
@click.option("--check", is_flag=True, help="Only show what would be sent where; send and create nothing.")
@click.option("--status", "show_status", is_flag=True, help="Only show its progress, also while it runs.")
@serve_option("Only serve its status page until Ctrl-C, also while it is down")
def command(
    changefeed_file: Path | None,
    sink_uri: str | None,
    source: str | None,
    state: Path | None,
    snapshot: str | None,
    read_tables: tuple[str, ...],
    check: bool,
    show_status: bool,
    serve: Address | None,
) -> None:
    """Send the changes of a database, or of another topic, to Kafka as TiCDC does.

    FILE.toml is TiCDC's changefeed file. Runs until the source ends, target-ts is reached, or SIGINT (Ctrl-C) or
    SIGTERM arrives. After a signal it still sends what it has read. A second signal, at least a second later, ends it
    at once. Either way nothing is lost: the next start resumes there, and may send the last messages again.
    """
    from ticdc_spark.changefeed.config.load import load_changefeed, load_identity

    if serve is not None and (check or show_status or read_tables):
        raise click.UsageError("--serve excludes --check, --status and --snapshot-table")
    overrides = {"source": source, "state": str(state.absolute()) if state else None, "snapshot": snapshot}
    identity = load_identity(changefeed_file, sink_uri, overrides)
    folder = identity.state or (identity.file.parent if identity.file else Path.cwd()) / f"{identity.id}.state"
    if show_status or serve is not None:
        if not (identity.file or identity.state or sink_uri):
            option = "--status" if show_status else "--serve"
            raise UsageError(f"{option}: name the changefeed by FILE.toml, --state or --sink-uri")
        if serve is None:
            _status(identity.id, folder)
        else:
            _serve(identity, folder, serve)
        return
    changefeed = load_changefeed(changefeed_file, sink_uri, overrides)
    for warning in changefeed.warnings:
        log.warning("%s", warning)
    if read_tables:
        _request(changefeed, folder, read_tables)
        return
    if changefeed.source is None:
        raise UsageError("there is no source: give --source, or source in [ticdc-spark] of the file")
    from ticdc_spark.capture.open import open_capture, source_kind
    from ticdc_spark.changefeed.filter.tables import named_tables

    capture = open_capture(changefeed.source, named_tables(changefeed))
    if check:
        from ticdc_spark.changefeed.check import lines

        with _present(changefeed) as present:
            for line in lines(changefeed, capture, present):
                click.echo(redact(line))
        return
    from ticdc_spark.changefeed.loop import Upstream, run

    stop = Event()
    kind = source_kind(changefeed.source)
    with redacted_children(), ExitStack() as stack:
        reads = stack.enter_context(_table_reads(changefeed))
        backlog = stack.enter_context(_backlog(changefeed, capture))
        show = stack.enter_context(watched(changefeed, folder))
        upstream = Upstream(capture, kind, reads, backlog)
        report = stoppable(lambda: run(changefeed, upstream, folder, stop=stop, show=show), stop)
    fields = {"changefeed": changefeed.id, "finished": report.finished, "saved_ts": report.saved}
    log.info("%s", _last_line(report), extra=event("end", **fields))


@contextmanager
def _table_reads(changefeed: Changefeed) -> Iterator[TableReads | None]:
    """Give what reads tables, if the source has tables. Spark starts only when there is a table to read."""
    from ticdc_spark.capture.open import has_tables

    assert changefeed.source is not None, "it was checked"
    if not has_tables(changefeed.source):
        if changefeed.snapshot.mode != "never":
            raise UsageError("snapshot = 'initial': only a server has tables to read (mysql://user:password@host:port)")
        yield None
        return
    from ticdc_spark.changefeed.snapshot.reads import TableReads

    reads = TableReads(changefeed, changefeed.source)
    try:
        yield reads
    finally:
        reads.close()


@contextmanager
def _backlog(changefeed: Changefeed, capture: Capture) -> Iterator[Backlog | None]:
    """Give what sends a long backlog, if the source is a stream."""
    from ticdc_spark.capture.stream import StreamCapture
    from ticdc_spark.changefeed.backlog.backlog import Backlog

    if changefeed.backlog is None or not isinstance(capture, StreamCapture):
        yield None
        return
    with closing(Backlog(changefeed, capture)) as backlog:
        yield backlog


@contextmanager
def _present(changefeed: Changefeed) -> Iterator[PresentTables | None]:
    """Give the present rows of the tables, if a new changefeed starts with them."""
    from ticdc_spark.capture.open import has_tables

    if changefeed.source is None or changefeed.snapshot.mode == "never" or not has_tables(changefeed.source):
        yield None
        return
    from ticdc_spark.capture.snapshot.present import ServerTables

    with closing(ServerTables(changefeed.source)) as present:
        yield present


@contextmanager
def watched(changefeed: Changefeed, folder: Path) -> Iterator[Show]:
    """Give reports to the terminal or the log, and to metrics and the page if the file asks for them.

    Raises: UsageError
    """
    from ticdc_spark.operate.metrics.changefeed import ChangefeedMetrics
    from ticdc_spark.operate.metrics.server import metrics_routes
    from ticdc_spark.operate.page.changes import Changes
    from ticdc_spark.operate.page.feed import FeedHistory
    from ticdc_spark.operate.page.feed_site import feed_routes
    from ticdc_spark.operate.serving import is_private, serving, url_of

    with _shown(changefeed.id) as show:
        if changefeed.metrics is None:
            yield show
            return
        metrics = ChangefeedMetrics(changefeed.id, table_series=changefeed.metrics_table_series)
        changes = Changes()
        history = FeedHistory(changefeed.id, folder, changes.tell)
        file = None if changefeed.file is None else Path(changefeed.file)
        key, token = f"{changefeed.file}: [ticdc-spark] metrics", changefeed.metrics_token
        has_page = is_private(changefeed.metrics, token)
        page = feed_routes(history.seen, file, changes, is_running=True) if has_page else {}
        with serving(changefeed.metrics, {**page, **metrics_routes(metrics)}, key, token) as place:
            log.info("metrics: %smetrics", url_of(place))
            log.info("page: %s", url_of(place) if has_page else "beyond this machine it needs metrics-token")

            def every(report: Report) -> None:
                for one in (show, metrics, history):
                    one(report)

            try:
                with _binlog_watched(changefeed, folder, metrics.note_kept):
                    yield every
            finally:
                changes.close()


def _binlog_watched(
    changefeed: Changefeed, folder: Path, tell: Callable[[Kept | None], None]
) -> AbstractContextManager[None]:
    """Watch how much binlog the server keeps, if the source is one."""
    from ticdc_spark.capture.open import has_tables

    if changefeed.source is None or not has_tables(changefeed.source):
        return nullcontext()
    from ticdc_spark.operate.metrics.binlog import watching_binlog

    return watching_binlog(changefeed.source, folder, tell)


@contextmanager
def _shown(name: str) -> Iterator[Show]:
    """Show reports while this lasts: one line that changes on a terminal, a log line now and then elsewhere."""
    if console.is_terminal and not console.is_dumb_terminal and not is_json():
        with console.status(f"{name}: starting") as status:
            yield lambda report: status.update(redact(f"{name}: {line(report, time.time())}"))
        return
    yield _LogLines(name)


class _LogLines:
    def __init__(self, changefeed: str) -> None:
        self._changefeed = changefeed
        self._at = float("-inf")
        self._rows = -1

    def __call__(self, report: Report) -> None:
        now = time.monotonic()
        if now - self._at < (_LINE_SECONDS if report.rows != self._rows or report.outage else _QUIET_SECONDS):
            return
        self._at, self._rows = now, report.rows
        fields = {
            "changefeed": self._changefeed,
            "rows": report.rows,
            "messages": report.messages,
            "rows_waiting": report.waiting,
            "saved_ts": report.saved,
            "lag_seconds": lag_seconds(report.saved),
            "reads": report.reading or None,
            "outage": report.outage or None,
        }
        log.info("%s", redact(line(report, time.time())), extra=event("sent", **fields))


def line(report: Report, now: float) -> str:
    """A report in one short line. It ends with what the changefeed waits for or reads, or with how far it is."""
    parts = [f"{noun(report.rows, 'row')} sent", f"{count(round(report.rows_per_second))} rows/s"]
    if report.waiting:
        parts.append(f"{count(report.waiting)} not acknowledged")
    if report.saved:
        parts.append(f"lag {duration(tso_time.lag(report.saved, now))}")
    if report.outage:
        parts.append(f"waits for Kafka: {report.outage}")
    elif report.reading:
        parts.append(f"reads {report.reading}")
    elif report.saved:
        parts.append(f"up to {tso_time.utc(report.saved)}")
    return ", ".join(parts)


def _last_line(report: Report) -> str:
    ended = "finished" if report.finished else "stopped"
    sent = f"{noun(report.rows, 'row')} in {noun(report.messages, 'message')} sent"
    return f"{ended}: {sent}; all is sent up to commitTs {report.saved} ({tso_time.utc(report.saved)})"


def _serve(identity: Identity, folder: Path, address: Address) -> None:
    """Serve the page of a changefeed by its state folder. Raises: UsageError"""
    from ticdc_spark.operate.page.changes import Changes
    from ticdc_spark.operate.page.feed import FeedFolder
    from ticdc_spark.operate.page.feed_site import feed_routes

    changes = Changes()
    seen = FeedFolder(identity.id, folder).seen
    serve_page(address, feed_routes(seen, identity.file, changes, is_running=False), changes, None)


def _request(changefeed: Changefeed, folder: Path, names: Sequence[str]) -> None:
    from ticdc_spark.capture.open import has_tables
    from ticdc_spark.changefeed.filter.tables import table_rules
    from ticdc_spark.changefeed.progress import read_stored
    from ticdc_spark.changefeed.snapshot.requests import request_tables

    if changefeed.source is not None and not has_tables(changefeed.source):
        raise UsageError("--snapshot-table: only a server has tables to read, and the source is none")
    if read_stored(folder) is None:
        raise UsageError(
            f"--snapshot-table: changefeed {changefeed.id} has not begun ({folder}); begin it with --snapshot initial"
        )
    rules, wanted = table_rules(changefeed), []
    for name in names:
        schema, dot, table = name.partition(".")
        if not (schema and dot and table):
            raise UsageError(f"--snapshot-table: found {name!r}; allowed: SCHEMA.TABLE")
        if why := rules.why_not_named(schema, table):
            raise UsageError(f"--snapshot-table {name}: {why}")
        wanted.append((schema, table))
    if changefeed.source is not None:
        _check_tables(changefeed.source, wanted)
    request_tables(folder, wanted)
    for name in names:
        click.echo(f"{name} will be read by the changefeed, at once if it is running")


def _check_tables(source: str, names: Sequence[TableName]) -> None:
    """Raises: UsageError for tables that the source does not have, or for a missing grant; SourceFault"""
    from ticdc_spark.capture.snapshot.present import ServerTables

    with closing(ServerTables(source)) as present:
        present.check()
        missing = [".".join(name) for name in names if present.look(name) is None]
    if missing:
        raise UsageError(f"--snapshot-table {', '.join(missing)}: the source has no such table")


def _status(name: str, folder: Path) -> None:
    from ticdc_spark.changefeed.progress import is_owned, read_owner, read_stored

    stored = read_stored(folder)
    if stored is None:
        click.echo(f"changefeed {name}: nothing stored in {folder}; it has not run")
        return
    owner = read_owner(folder)
    running = is_owned(folder)
    who = f"running, process {owner.pid} on {owner.host}" if running and owner else "not running"
    lag = duration(tso_time.lag(stored.commit_ts, time.time()))
    for what, value in (
        ("changefeed", stored.changefeed),
        ("state", who),
        ("sent up to", f"{stored.commit_ts} ({tso_time.utc(stored.commit_ts)}), lag {lag}"),
        ("stored", f"{duration(time.time() - stored.saved_at)} ago"),
        ("rows", f"{count(stored.rows)} sent, repetitions included"),
        ("topics", ", ".join(f"{topic} ({noun(n, 'partition')})" for topic, n in stored.partitions.items())),
        ("unread", _unread(stored)),
        ("position", stored.position if len(stored.position) < 300 else stored.position[:300] + "…"),
    ):
        if value:
            click.echo(redact(f"{what:<12} {value}"))


def _unread(stored: Stored) -> str:
    """Tables still to be read, and the progress of the first one."""
    names = [".".join(name) for name in stored.unread]
    there = stored.reading.table
    if there in stored.unread:
        names[stored.unread.index(there)] += f" ({noun(stored.reading.rows, 'row')} sent)"
    more = f" and {len(names) - _TABLES_SHOWN} more" if len(names) > _TABLES_SHOWN else ""
    return ", ".join(names[:_TABLES_SHOWN]) + more
