"""``ticdc-spark inspect``: the events of a recorded topic or of Kafka, one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, get_args

import click
import msgspec
from rich.console import Console

from ticdc_spark.cli.options.source import Opened, make_source, opened, source_options
from ticdc_spark.cli.options.tables import table_rules
from ticdc_spark.cli.output.event_lines import plain
from ticdc_spark.cli.output.logging import console
from ticdc_spark.cli.output.meter import meter
from ticdc_spark.cli.output.rejects import report_rejects
from ticdc_spark.cli.output.summary import Summarizer, print_summary
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.model import TableName
from ticdc_spark.mysql import tso
from ticdc_spark.streams.event_lines import EventLine, Kind, event_line
from ticdc_spark.streams.reader import Found

Filter = Callable[[EventLine], bool]


def _ts(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    if value.isdigit():
        return int(value)
    try:
        at = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is neither a TSO nor a time like 2026-01-31T12:00:00Z") from error
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return tso(int(at.timestamp() * 1000))


@click.command("inspect")
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option(
    "--table", "tables", multiple=True, callback=table_rules, metavar="RULE", help="shop.*, !shop.tmp; repeatable."
)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(get_args(Kind)), help="May be repeated.")
@click.option("--from-ts", callback=_ts, metavar="TS", help="From this commit ts on: a TSO, or a time (UTC).")
@click.option("--to-ts", callback=_ts, metavar="TS", help="Up to this commit ts (exclusive).")
@click.option("--partition", "partitions", multiple=True, type=click.IntRange(min=0), help="May be repeated.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after this many lines.")
@click.option("--summary", is_flag=True, help="Count events instead: by table, kind, partition, time, schema.")
@click.option("--follow", is_flag=True, help="Go on with new messages, until Ctrl-C.")
def command(
    as_json: bool,
    tables: tuple[str, ...],
    kinds: tuple[Kind, ...],
    from_ts: int | None,
    to_ts: int | None,
    partitions: tuple[int, ...],
    limit: int | None,
    summary: bool,
    follow: bool,
    **source: Any,
) -> None:
    """Print the events of a recorded topic (a folder or a file) or of Kafka topics, one line each.

    A filter by table or commit ts excludes events that have none. Bad messages are printed as `rejected` and counted on
    standard error at the end. Rows of the Simple protocol are printed once their schema has arrived. --summary prints
    the number of events instead.
    """
    wanted = _filter(tables, kinds, from_ts, to_ts, partitions)
    write = _json if as_json else plain
    counts: Counter[str] = Counter()
    summed = Summarizer() if summary else None
    with (
        opened(make_source(**source), follow=follow) as source_opened,
        report_rejects(counts),
        _printed(summed, as_json=as_json),
        _stopped(quietly=follow),
    ):
        passed = 0
        for found in _events(source_opened, say_what_waits=follow):
            line = event_line(found)
            if line.kind == "rejected":
                counts[line.reason or ""] += 1
            if not wanted(line):
                continue
            if summed is None:
                click.echo(write(line))
            else:
                summed.add(line, found)
            passed += 1
            if passed == limit:
                return


@contextmanager
def _printed(summed: Summarizer | None, *, as_json: bool) -> Iterator[None]:
    """Print the counts once all is read, or Ctrl-C ends --follow."""
    yield
    if summed is None:
        return
    if as_json:
        click.echo(msgspec.json.encode(summed.summary()))
        return
    console = Console(highlight=False, soft_wrap=True, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = 1000  # not a terminal: never break a line
    print_summary(console, summed.summary())


def _events(source: Opened, *, say_what_waits: bool) -> Iterator[Found]:
    reported: set[TableName] = set()
    with meter("inspected", source.total) as show:
        for at, message in enumerate(source.messages, 1):
            yield from source.reader.read(message)
            show(at)
            if say_what_waits:
                report_waiting_once(source.reader.waiting, reported)
    yield from source.reader.finish()


def report_waiting_once(waiting: Collection[TableName], reported: set[TableName]) -> None:
    """Log each table once whose rows wait for a schema: an endless stream may never print them."""
    for name in sorted(set(waiting) - reported) if waiting else ():
        reported.add(name)
        console.print(
            f"rows of {'.'.join(name)} wait for their schema, which the table's next DDL or BOOTSTRAP brings; "
            "from Kafka, --schemas-from beginning reads it from earlier messages"
        )


def _filter(
    tables: tuple[str, ...],
    kinds: tuple[Kind, ...],
    from_ts: int | None,
    to_ts: int | None,
    partitions: tuple[int, ...],
) -> Filter:
    checks: list[Filter] = []
    if tables:
        named = table_filter(tables)
        checks.append(
            lambda line: line.schema is not None and line.table is not None and named(line.schema, line.table)
        )
    if kinds:
        checks.append(lambda line: line.kind in kinds)
    if from_ts is not None:
        checks.append(lambda line: line.commit_ts is not None and line.commit_ts >= from_ts)
    if to_ts is not None:
        checks.append(lambda line: line.commit_ts is not None and line.commit_ts < to_ts)
    if partitions:
        checks.append(lambda line: line.partition in partitions)
    return lambda line: all(check(line) for check in checks)


_ENCODER = msgspec.json.Encoder()


def _json(line: EventLine) -> str:
    return _ENCODER.encode(line).decode()


@contextmanager
def _stopped(*, quietly: bool) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if not quietly:
            raise
