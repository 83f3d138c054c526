"""The tables and topics of waiting rows and DDLs, which are read but not applied. Pure."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ticdc_spark.model import TableName
from ticdc_spark.replicate.plan.names import tables_of
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.spark.decode.control import BootstrapRead, ControlEvent, DdlRead, RowsRead


def topics_of(progress: Progress) -> dict[TableName, set[str]]:
    """The topics of waiting rows and DDLs, by table."""
    found: dict[TableName, set[str]] = {}
    for rows in progress.pending:
        found.setdefault(rows.full_name, set()).add(rows.topic)
    for ddl in progress.ddls:
        for name in tables_of(ddl.change):
            found.setdefault(name, set()).add(ddl.topic)
    return found


def names_in(progress: Progress, topics: Collection[str]) -> tuple[dict[TableName, int], bool]:
    """The tables with waiting rows or DDLs in these topics, each with the commit_ts of the last one.

    Also returns whether a topic belongs to no known table. Its messages may then be of any table, so all are returned.
    """
    waiting = topics_of(progress)
    strange = bool(set(topics) - _topics_of_tables(progress))
    until = last_of(progress)
    return {name: ts for name, ts in until.items() if strange or waiting[name] & set(topics)}, strange


def of_databases(progress: Progress) -> frozenset[str]:
    """Topics that have had watermarks but no message of a table. If each table has its own topic, the default topic is
    one: it gets the DDL of databases. A message of it that cannot be read may be the DROP of any database."""
    seen = {state.topic for state in progress.partitions if state.watermark}
    of_tables = {state.topic for state in progress.partitions if state.of_tables}
    return frozenset(seen - of_tables - _topics_of_tables(progress))


def with_topics_of_tables(progress: Progress, controls: Sequence[ControlEvent]) -> Progress:
    """Record the topics that have had a message of a table."""
    found = {
        event.topic
        for event in controls
        if isinstance(event, RowsRead | BootstrapRead) or (isinstance(event, DdlRead) and tables_of(event.change))
    }
    new = found - {state.topic for state in progress.partitions if state.of_tables}
    if not new:
        return progress
    partitions = tuple(
        msgspec.structs.replace(state, of_tables=True) if state.topic in new else state for state in progress.partitions
    )
    return msgspec.structs.replace(progress, partitions=partitions)


def _topics_of_tables(progress: Progress) -> set[str]:
    of_tables = {topic for table in progress.tables for topic in table.topics}
    return of_tables.union(*topics_of(progress).values())


def last_of(progress: Progress) -> dict[TableName, int]:
    """The tables with waiting rows or DDLs, each with the commit_ts of the last one."""
    until: dict[TableName, int] = {}
    for rows in progress.pending:
        name = rows.full_name
        until[name] = max(until.get(name, 0), rows.max_ts)
    for ddl in progress.ddls:
        for name in tables_of(ddl.change):
            until[name] = max(until.get(name, 0), ddl.change.commit_ts)
    return until


def with_topics(states: Mapping[TableName, TableState], progress: Progress) -> dict[TableName, TableState]:
    """Add the topics of waiting rows and DDLs to their tables. A new table could not record them before."""
    waited = topics_of(progress)
    return {
        name: msgspec.structs.replace(state, topics=tuple(sorted({*state.topics, *waited[name]})))
        if name in waited and not waited[name] <= set(state.topics)
        else state
        for name, state in states.items()
    }
