"""Shows what a changefeed would send where, for the tables of its source. Sends and creates nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ticdc_spark.capture.base import Capture, CaptureState, follow
from ticdc_spark.capture.snapshot.present import PresentTables
from ticdc_spark.capture.stream import StreamCapture
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.partitions import dispatch_columns
from ticdc_spark.changefeed.dispatch.router import Route, Router
from ticdc_spark.changefeed.encoders import ask_registry
from ticdc_spark.changefeed.notices import notices
from ticdc_spark.changefeed.snapshot.plan import why_never
from ticdc_spark.changefeed.topics import Topics
from ticdc_spark.model import Table


def lines(changefeed: Changefeed, capture: Capture, present: PresentTables | None = None) -> Iterator[str]:
    """One line for each table, then one for each topic.

    ``present``: the tables' present rows, if a new changefeed begins with them.

    Raises: the errors of the source and of Kafka.
    """
    kafka = changefeed.kafka
    topics = Topics(kafka, create=False)
    router = Router(changefeed)
    yield f"changefeed {changefeed.id}: {changefeed.protocol} to {','.join(kafka.servers)}"
    used = {kafka.topic: None}
    tables = sorted(_tables(capture), key=lambda table: table.full_name)
    for route in router.check(tables):
        name = f"{route.table.schema}.{route.table.name}"
        if route.left_out:
            yield f"  {name}: excluded: {route.left_out}"
            continue
        used[route.topic] = None
        new = router.targets.target(route.table.full_name)
        name += "" if new == route.table.full_name else f" as {'.'.join(new)}"
        yield f"  {name}: topic {route.topic}, partition by {_rule(route)}, columns {', '.join(route.columns)}"
    if present is not None:
        yield from _reads(changefeed, router, tables, present)
    all_known = not isinstance(capture, StreamCapture) or capture.is_bounded
    for notice in notices(changefeed, tables, all_known=all_known):
        yield f"  {notice}"
    if not tables:
        yield "  no tables: the source has none yet, or shows them only with their changes"
    for topic in used:
        facts = topics.facts(topic)
        made = "would be created with " if topic in topics.missing else ""
        of = f" of {facts.real_partitions}" if facts.partitions < facts.real_partitions else ""
        limit = facts.max_message_bytes
        yield f"  topic {topic}: {made}{facts.partitions}{of} partitions, messages up to {limit} bytes"
    if (registry := ask_registry(changefeed)) is not None:
        yield f"  schema registry {registry}: it answers"
    yield "watermarks: " + ("each second, to every partition" if changefeed.watermarks else "none")


def _reads(changefeed: Changefeed, router: Router, tables: list[Table], present: PresentTables) -> Iterator[str]:
    """The tables with which a new changefeed would begin."""
    present.check()
    snapshot, total, all_ranges, count = changefeed.snapshot, 0, 0, 0
    for table in tables:
        if router.route(table).left_out:
            continue
        name = f"{table.schema}.{table.name}"
        if why := why_never(table, router.tables.why_left_out):
            yield f"  read first, {name}: no: {why}"
            continue
        rows = present.estimate(table.full_name)
        ranges = rows // snapshot.chunk_rows + 1
        total, all_ranges, count = total + rows, all_ranges + ranges, count + 1
        yield f"  read first, {name}: about {rows:,} rows in {ranges:,} {'ranges' if ranges > 1 else 'range'}"
    yield (
        f"  read first, tables: {count}, about {total:,} rows in {all_ranges:,} ranges, "
        f"{snapshot.parallelism} in parallel"
    )


def _rule(route: Route) -> str:
    by = dispatch_columns(route.rule, route.table)
    names = f" ({', '.join(column.name for column in by)})" if by else ""
    return f"{route.rule.partition}{names}"


def _tables(capture: Capture) -> tuple[Table, ...]:
    state: CaptureState = capture.begin()
    if isinstance(capture, StreamCapture) and capture.is_bounded:
        for captured in capture.read(state):
            state = follow(state, captured)
    return state.tables
