"""Topics that the job no longer reads, and what happens to their tables. Pure."""

from collections.abc import Collection

import msgspec

from ticdc_spark.config.routes import compiled
from ticdc_spark.config.shards import is_merged
from ticdc_spark.model import TableName
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.plan.ddl_actions import DropDatabase, action
from ticdc_spark.replicate.plan.merging import by_source
from ticdc_spark.replicate.plan.names import source_tables
from ticdc_spark.replicate.plan.order import in_order
from ticdc_spark.replicate.state.notes import CatchUp
from ticdc_spark.replicate.state.progress import Progress


def without_tables(progress: Progress, topics: Collection[str]) -> set[str]:
    """The topics among ``topics`` that had tables, all of them dropped by applied or waiting DDLs.

    A topic with unread messages is excluded: these may create a table."""
    if not topics:
        return set()
    of_tables = {topic for table in progress.tables for topic in table.topics} | {ddl.topic for ddl in progress.ddls}
    unread = {one.topic for one in progress.partitions if one.offset < one.end}
    return {topic for topic in topics if topic in of_tables - unread and not _live_tables(progress, topic)}


def without_topics(progress: Progress, topics: Collection[str]) -> Progress:
    """The progress without topics that are no longer read.

    Their tables stay where they are, and continue from there once such a topic is read again.
    """
    if not topics:
        return progress
    left, catching_up = set(topics), {one.full_name: one for one in progress.catching_up}
    stay = {
        name: tuple((one.topic, one.partition, one.watermark) for one in progress.partitions if one.topic in of)
        for name, of in _topics_of_live(progress).items()
        if of & left
    }
    for rows in progress.pending:
        # Also under a name that a waiting DDL removes: the table lacks these rows until they are read again.
        if rows.topic in left:
            parts = (one for one in progress.partitions if one.topic == rows.topic)
            needs = tuple((one.topic, one.partition, one.watermark) for one in parts)
            stay.setdefault(rows.full_name, needs)
    lacking = _lacking(progress, left)
    held = set() if is_resolving(progress.mode) else {rows.topic for rows in progress.pending} & {*left}
    for name, needs in stay.items():
        if is_resolving(progress.mode):
            one = catching_up.setdefault(name, CatchUp(schema=name[0], name=name[1], needs=needs))
            lacks = min(filter(None, (one.lacks, lacking.get(name))), default=0)
            catching_up[name] = msgspec.structs.replace(one, lacks=lacks)
    return msgspec.structs.replace(
        progress,
        partitions=tuple(state for state in progress.partitions if state.topic not in left),
        # If their topic is read again, it is read from its start.
        pending=tuple(rows for rows in progress.pending if rows.topic not in left),
        # So is a DDL that rows before it wait for: without them, these would count as replays.
        ddls=tuple(ddl for ddl in progress.ddls if ddl.topic not in left or not (ddl.waits or ddl.topic in held)),
        catching_up=tuple(
            one for name, one in catching_up.items() if name in stay or not {need[0] for need in one.needs} & left
        ),
    )


def _lacking(progress: Progress, left: Collection[str]) -> dict[TableName, int]:
    """The tables that lack rows of these topics, each with the commit_ts of the first one. A table that catches up may
    lack any row, as not all of its messages were read."""
    applied, found = {table.full_name: table.applied for table in progress.tables}, dict[TableName, int]()
    for one in progress.catching_up:
        if any(topic in left for topic, _, _ in one.needs):
            found[one.full_name] = applied.get(one.full_name, 0) + 1
    for rows in progress.pending:
        if rows.topic in left:
            found[rows.full_name] = min(rows.min_ts, found.get(rows.full_name, rows.min_ts))
    return found


def _topics_of_live(progress: Progress) -> dict[TableName, set[str]]:
    """The topics of each table that the source has, according to applied and waiting rows and DDLs."""
    known = [table for table in progress.tables if not is_merged(table.full_name)]
    topics = {table.full_name: {*table.topics} for table in known}
    live = {table.full_name for table in known if not table.is_gone}
    for name, shard in by_source(progress.shards).items():
        topics[name] = {*shard.topics}
        live.add(name)
    for rows in progress.pending:
        topics.setdefault(rows.full_name, set()).add(rows.topic)
        live.add(rows.full_name)
    for ddl in in_order(progress.ddls):
        act = action(ddl.change)
        before, after = source_tables(ddl.change)
        live -= {name for name in live if name[0] == act.name} if isinstance(act, DropDatabase) else before
        live |= after
        for name in after:
            topics.setdefault(name, set()).add(ddl.topic)
    routes, found = compiled(progress.routes), dict[TableName, set[str]]()
    for name in live:
        found.setdefault(routes.known_as(name), set()).update(topics.get(name, set()))
    return found


def _live_tables(progress: Progress, topic: str) -> bool:
    return any(topic in topics for topics in _topics_of_live(progress).values())
