"""Late rows: rows below what their table has applied that are not replays. ``late-rows`` under [job] handles them.

A row is a replay if its partition had a higher watermark before it, or if the same row was read before.
"""

from collections.abc import Iterator, Sequence

import msgspec

from ticdc_spark.changes.ranges import RowRange, RowScan
from ticdc_spark.changes.topic import RowIdentity, TopicRows
from ticdc_spark.config.job import Job
from ticdc_spark.ddl.known_names import Names
from ticdc_spark.errors import LateRow
from ticdc_spark.model import TableName
from ticdc_spark.replicate.modes.base import Advanced, ScannedBatch
from ticdc_spark.replicate.plan.offsets import known_offsets
from ticdc_spark.replicate.plan.waiting_names import topics_of
from ticdc_spark.replicate.state.progress import Counters, PendingRows, Progress
from ticdc_spark.spark.decode.control import RowsRead, WatermarkRead


def add_late_rows(job: Job, rows: TopicRows, scanned: ScannedBatch, before: Progress, advanced: Advanced) -> Advanced:
    """Find the rows of a batch that are late and not replays. ``before``: the progress before the batch.

    Raises: LateRow with ``late-rows = "fail"``; SourceFault
    """
    found = list(_late_rows(rows, scanned, before, advanced.progress))
    count = sum(late.rows for late in found)
    progress = msgspec.structs.replace(
        advanced.progress,
        counters=advanced.progress.counters + Counters(replays=advanced.late - count, late=count),
        pending=(*advanced.progress.pending, *found),
    )
    if found and job.late_rows == "fail":
        first = min(found, key=lambda late: (late.min_ts, late.topic, late.partition, late.first))
        total = sum(late.rows for late in found if late.full_name == first.full_name)
        message = (
            f"`{first.schema}`.`{first.name}`: {total} rows came after the table had passed them. The first has "
            f"commitTs {first.min_ts} (topic {first.topic}, partition {first.partition}, offset {first.first}) and "
            "is no replay. Was the changefeed's filter widened, or another changefeed started on this topic? "
            'late-rows = "apply-if-newest" applies them; `ticdc-spark rebuild` reads the table again'
        )
        raise LateRow(message)
    return msgspec.structs.replace(advanced, progress=progress)


def _late_rows(rows: TopicRows, scanned: ScannedBatch, before: Progress, after: Progress) -> Iterator[PendingRows]:
    watermarks = [event for event in scanned.controls if isinstance(event, WatermarkRead)]
    by_table: dict[TableName, list[RowsRead]] = {}
    for event in scanned.controls:
        if isinstance(event, RowsRead) and event.summary.late:
            by_table.setdefault((event.schema, event.table), []).append(event)
    read, waiting = known_offsets(before), topics_of(after)
    for name, events in by_table.items():
        topics = {topic for table in before.tables if table.full_name == name for topic in table.topics}
        # A topic that was excluded is read again from its start: its table already has these rows, as replays.
        events = [event for event in events if event.topic not in topics & scanned.new_topics]
        found = [
            (event, row) for event in events for row in rows.identities(_scan_of(event)) if not _passed(row, watermarks)
        ]
        if not found:
            continue
        lowest, highest = (pick(row.commit_ts for _, row in found) for pick in (min, max))
        topics |= {event.topic for event in events} | waiting.get(name, set())
        known = _known(rows, name, rows.ranges_since(lowest, read, topics), lowest, highest, scanned.names)
        yield from _grouped(name, [(event, row) for event, row in found if (row.commit_ts, row.content) not in known])


def _scan_of(event: RowsRead) -> RowScan:
    """The scan of the rows of a summary that may be late."""
    counts = event.summary
    return RowScan(
        table=(event.schema, event.table),
        ranges=(RowRange(event.topic, event.partition, counts.late_first, counts.late_end, event.sent),),
        above=counts.late_ts - 1,
        upto=counts.late_upto,
        keys=(event.schema_key,),
        rows=counts.late,
    )


def _known(
    rows: TopicRows, name: TableName, ranges: tuple[RowRange, ...], lowest: int, highest: int, names: Names
) -> set[tuple[int, bytes]]:
    scan = RowScan(table=name, ranges=ranges, above=lowest - 1, upto=highest, names=names)
    return {(row.commit_ts, row.content) for row in rows.identities(scan)}


def _passed(row: RowIdentity, watermarks: Sequence[WatermarkRead]) -> bool:
    return any(
        (row.topic, row.partition) == (mark.topic, mark.partition)
        and mark.offset < row.offset
        and mark.commit_ts > row.commit_ts
        for mark in watermarks
    )


def _grouped(name: TableName, found: Sequence[tuple[RowsRead, RowIdentity]]) -> Iterator[PendingRows]:
    groups: dict[tuple[str, int, str, TableName], list[RowIdentity]] = {}
    for event, row in found:
        groups.setdefault((row.topic, row.partition, row.schema_key, event.sent), []).append(row)
    for (topic, partition, key, sent), rows in groups.items():
        yield PendingRows(
            schema=name[0],
            name=name[1],
            schema_key=key,
            rows=len(rows),
            min_ts=min(row.commit_ts for row in rows),
            max_ts=max(row.commit_ts for row in rows),
            late=True,
            topic=topic,
            partition=partition,
            first=min(row.offset for row in rows),
            end=max(row.offset for row in rows) + 1,
            sent=sent,
        )
