"""After the state was lost: the tables that the DDLs read again made, and that the lake does not have. Pure.

What lies at or below ``replay_below`` was applied before, to the tables that are there and to those that are gone. A
table that is neither was missing when the state was lost: its topic was read later, or the changefeed began to send it
later, than the others, or somebody dropped it. Its older rows are not applied: it is marked.
"""

from collections.abc import Callable, Sequence

import msgspec

from ticdc_spark.ddl import statement_of
from ticdc_spark.ddl.statements import AlterTable, CreateTable, DatabaseDdl, DropTables, RenameTables, TruncateTable
from ticdc_spark.errors import MessageError
from ticdc_spark.model import SchemaChange, TableName
from ticdc_spark.replicate.plan.names import tables_before_and_after
from ticdc_spark.replicate.state.notes import PastName
from ticdc_spark.replicate.state.progress import Progress, TableState
from ticdc_spark.spark.decode.control import ControlEvent, DdlRead


def with_past(progress: Progress, controls: Sequence[ControlEvent]) -> Progress:
    """Note what the replayed DDLs of a batch say of names."""
    if not progress.replay_below:
        return progress
    found = {(one.schema, one.name): one for one in progress.past}
    for event in controls:
        if not isinstance(event, DdlRead) or event.change.commit_ts > progress.replay_below:
            continue
        ts = event.change.commit_ts
        before, after = _names(event.change)
        for name in before - after:
            old = found.get(name) or PastName(schema=name[0], name=name[1])
            found[name] = msgspec.structs.replace(old, gone=max(old.gone, ts))
        for name in after:
            old = found.get(name) or PastName(schema=name[0], name=name[1])
            found[name] = msgspec.structs.replace(old, born=max(old.born, ts))
    return msgspec.structs.replace(progress, past=tuple(found.values()))


def _names(change: SchemaChange) -> tuple[set[TableName], set[TableName]]:
    """The tables that a DDL names before it and after it; a database that is dropped has no name of a table."""
    try:
        statement = statement_of(change)
    except MessageError:
        return set(), set()
    if isinstance(statement, DatabaseDdl):
        return ({(statement.name or change.schema, "")} if statement.what == "drop" else set()), set()
    if not isinstance(statement, CreateTable | AlterTable | RenameTables | TruncateTable | DropTables):
        return set(), set()  # a view
    return tables_before_and_after(change)


def mark_missing(progress: Progress, wanted: Callable[[str, str], bool]) -> Progress:
    """Mark the tables that should be there, once every partition was read again beyond ``replay_below``."""
    if not progress.past:
        return progress
    if any(state.watermark <= progress.replay_below and not state.idle for state in progress.partitions):
        return progress
    known: dict[TableName, TableState] = {(table.schema, table.name): table for table in progress.tables}
    dropped = {one.schema: one.gone for one in progress.past if not one.name}
    missing = [
        TableState(
            schema=one.schema,
            name=one.name,
            applied=progress.replay_below,
            diverged_since=one.born,
            diverged_why=(
                "the lake did not have it when the state was lost, and it was there at the source: its changes up to "
                f"{progress.replay_below} are not applied"
            ),
        )
        for one in progress.past
        if one.name
        and one.born >= max(one.gone, dropped.get(one.schema, 0), 1)
        and not _is_known(known.get((one.schema, one.name)), one)
        and wanted(one.schema, one.name)
    ]
    if not missing:
        return progress
    tables = known | {(table.schema, table.name): table for table in missing}
    return msgspec.structs.replace(progress, tables=tuple(tables.values()))


def _is_known(state: TableState | None, one: PastName) -> bool:
    """Whether a table is the one that has the name last: one that is gone may have had it before."""
    return state is not None and not (state.dropped and not state.kept and state.ddl_ts < one.born)
