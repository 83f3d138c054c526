"""Find tables without a key before a job meets their first row."""

from collections.abc import Mapping, Sequence
from typing import Any

from ticdc_spark.capture.snapshot.open import open_reader
from ticdc_spark.config.histories import stop_if_shared
from ticdc_spark.config.job import Job, SnapshotKeys
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Bootstrap, Message, SchemaChange, Table, TableName
from ticdc_spark.mysql import handle_key, no_key
from ticdc_spark.protocols import PROTOCOLS, decoder
from ticdc_spark.protocols.wire_protocol import WireProtocol
from ticdc_spark.replicate.plan.routes import stop_at_rules
from ticdc_spark.replicate.snapshot.wanted import nothing_to_read, wanted_tables
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.store import progress_of
from ticdc_spark.streams.detect import ENOUGH, detect
from ticdc_spark.streams.sql_tables import SqlTables

_SCHEMAS = 1000
"""Most tables of ``[snapshot]`` whose keys are checked."""
_NAMED = 5


def tables_to_read(job: Job, keys: SnapshotKeys, found: set[TableName]) -> str:
    """Check that the tables of ``[snapshot]`` exist and have keys. ``found`` gets their names.

    Raises: DecisionNeeded, UsageError
    """
    reader = open_reader(keys)
    try:
        wants = wanted_tables(keys, job)
        names = [name for name in reader.tables() if wants(*name)]
        found |= set(names)
        stop_if_shared(job, names)
        without, counts = [], job.no_key == "apply" and reader.exact
        for name in names[:_SCHEMAS]:
            table = reader.schema(name, None)
            if table is not None:
                compiled(job.routes).stop_if_wrong(table)
            if table is not None and not (handle_key(table) or counts):
                without.append(f"`{name[0]}`.`{name[1]}`")
    finally:
        reader.close()
    if without and job.no_key == "stop":
        raise no_key(_some(without), "[snapshot] or [job]")
    if not names:
        raise UsageError(nothing_to_read(keys))
    some = f", the first {_SCHEMAS:,} of them checked" if len(names) > _SCHEMAS else ""
    left_out = f"; without a key, and not read: {_some(without)}" if without else ""
    return f"{len(names) - len(without):,} tables to read{some}{left_out}"


def known_tables(job: Job, messages: Sequence[Message]) -> dict[TableName, Table]:
    """The tables that the state or the first messages describe. Raises: UsageError"""
    before = progress_of(job)
    known = {each.full_name: each.table for each in (before.tables if before else ()) if each.table}
    named = job.source.protocol or (before.protocol if before else "")
    protocol = PROTOCOLS[named or detect([(message.key, message.value) for message in messages[:ENOUGH]])]
    if not protocol.traits.registry:
        known |= _described(protocol, messages)
    wanted = table_filter(job.tables)
    return {name: table for name, table in known.items() if wanted(*name)}


def check_keys(job: Job, tables: Mapping[TableName, Table]) -> str:
    """Check that each known table has a key, and its own name in the target. Raises: DecisionNeeded, UsageError"""
    for table in tables.values():
        compiled(job.routes).stop_if_wrong(table)
    stop_at_rules(job, progress_of(job) or Progress(job=job.name), more=list(tables))
    without = [f"`{schema}`.`{name}`" for (schema, name), table in sorted(tables.items()) if not handle_key(table)]
    if without and job.no_key == "stop":
        raise no_key(_some(without), "[job]")
    if without and job.no_key == "apply":
        return f"{len(tables):,} known so far; without a key, so their rows are counted: {_some(without)}"
    if without:
        return f"{len(tables):,} known so far; no-key skips the rows of {_some(without)}"
    return f"{len(tables):,} known so far, each with a key" if tables else "the first messages describe none"


def _described(protocol: WireProtocol[Any], messages: Sequence[Message]) -> dict[TableName, Table]:
    """The tables that DDLs and BOOTSTRAPs among the messages describe."""
    of, found, by_sql = decoder(protocol.name), {}, SqlTables()
    for message in messages:
        for event in of.open_message(message.key, message.value):
            if isinstance(event, Bootstrap):
                found[event.table.schema, event.table.name] = event.table
            elif isinstance(event, SchemaChange):
                if event.pre_table is not None:
                    found.pop(event.pre_table.full_name, None)
                if event.table is not None:
                    found[event.table.schema, event.table.name] = event.table
                elif not protocol.traits.versioned_tables:
                    by_sql.follow(event)
    return found | by_sql.tables


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
