"""Give each name in a batch the one spelling that the job uses for it, so that later code can compare names exactly.

Rows get their names during the scan, from ``scan_names``. Pure.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from ticdc_spark.config.routes import Routes, compiled
from ticdc_spark.config.shards import is_merged
from ticdc_spark.ddl import change_tables
from ticdc_spark.ddl.known_names import KnownNames, Names, is_same_name
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.references import Reference, references
from ticdc_spark.ddl.statements import (
    CreateTable,
    DatabaseDdl,
    DropTables,
    RenameTables,
    Statement,
)
from ticdc_spark.errors import MessageError
from ticdc_spark.model import SchemaChange, Table, TableName
from ticdc_spark.replicate.plan.shard_actions import OF_SEVERAL
from ticdc_spark.replicate.plan.timeline import DdlIdentity, identity
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl
from ticdc_spark.spark.decode.control import (
    BootstrapRead,
    ControlEvent,
    DdlRead,
    MessageSkipped,
    RowsRead,
    SchemaBlockRead,
)

_NAMING = (DdlRead, BootstrapRead, SchemaBlockRead, MessageSkipped)
"""Control events whose names are still those of the messages. Rows got theirs during the scan."""


class _HasName(Protocol):
    @property
    def schema(self) -> str: ...

    @property
    def name(self) -> str: ...


class Spelled(NamedTuple):
    """The events of a batch, with the names that the job uses for its tables."""

    progress: Progress
    controls: list[ControlEvent]
    scan_names: Names
    """The names to scan its rows with. They include all names in the batch."""


def scan_names(progress: Progress, *, exact: bool = False) -> Names:
    """The names known before a batch: all names in the progress, existing tables first."""
    live = [_name(one) for one in progress.tables if not one.is_gone]
    # A state of an older version may have two tables whose names differ only by case: they stay two tables.
    known = KnownNames(Names(tables=tuple(name for name in live if not is_merged(name)), exact=exact))
    for database in progress.databases:
        known.add_database(database)
    named: list[_HasName] = [*_with_schemas(progress), *progress.tables, *progress.pending]
    for one in (*named, *progress.missed, *progress.last_ddls):
        if is_merged(_name(one)):
            continue
        if one.name:
            known.add(_name(one))
        else:
            known.add_database(one.schema)
    for ddl in (*progress.dropped_databases, *progress.ddls):
        _learn(known, _Named(ddl.change, is_raw=False))
    for wanted in progress.wanted:  # last: these are the source's names now, and the DDLs still to come are older
        known.add(_name(wanted))
    return known.names()


def _with_schemas(progress: Progress) -> list[_HasName]:
    """Entries that have the name of a table with a known schema."""
    found: list[_HasName] = [*progress.schemas, *progress.catching_up]
    if progress.shards or compiled(progress.routes).merges:
        # Rows have the name of the merged table, DDLs have the names of the shards.
        found += [one.table for one in progress.schemas if is_merged(one.full_name)]
        found += [one.table for one in progress.shards]
    return found


def spell(progress: Progress, controls: Sequence[ControlEvent], scanned_by: Names) -> Spelled:
    """Resolve the names of a batch. ``scanned_by``: the names that its rows were scanned with."""
    met = [event for event in controls if isinstance(event, RowsRead) and not is_merged((event.schema, event.table))]
    unknown = {(event.schema, event.table) for event in met} - set(scanned_by.tables)
    if not unknown and not any(isinstance(event, _NAMING) for event in controls):
        return Spelled(progress, list(controls), scanned_by)
    read = [event.change for event in controls if isinstance(event, DdlRead)]
    known, routes = KnownNames(scanned_by), compiled(progress.routes)
    for event in controls:
        if isinstance(event, BootstrapRead):
            known.add(_name(event.table))
    for one in _in_order([_Named(change, is_raw=True) for change in read], met):
        if isinstance(one, RowsRead):
            known.add((one.schema, one.table))
        else:
            _learn(known, one)
    changes = _spelled_ddls(progress, read, known)
    queue = tuple(_queued(ddl, changes[identity(ddl.change)]) for ddl in progress.ddls)
    found: list[ControlEvent] = []
    for event in controls:
        match event:
            case DdlRead():
                found.append(_with(event, change=changes[identity(event.change)]))
            case BootstrapRead():
                found.append(_with(event, table=_with_name(event.table, known.of_rows(_name(event.table)))))
            case SchemaBlockRead():
                name = known.of_rows((event.schema, event.table))
                found.append(_with(event, schema=name[0], table=name[1], held=_with_name(event.held, name)))
            case MessageSkipped():
                names = (routes.known_as(known.of_rows(name)) for name in event.tables)
                found.append(_with(event, tables=tuple(dict.fromkeys(names))))
            case _:
                found.append(event)
    return Spelled(msgspec.structs.replace(progress, ddls=queue), found, known.names())


def as_merged(routes: Routes, change: SchemaChange) -> SchemaChange:
    """Turn the DDL of a shard into one of its merged table. Raises: UsageError"""
    named = _Named(change, is_raw=False)
    names = [name for name in named.full if name[1]]
    if isinstance(named.statement, CreateTable):
        names = names[:1]  # not the table in LIKE
    elif named.statement is None and change.name:
        names = [change.full_name]
    tables = {routes.known_as(name) for name in names}
    found = min(filter(is_merged, tables), default=None)
    if found is None:
        return change
    others = tuple(sorted(tables - {found}))
    kind = OF_SEVERAL if isinstance(named.statement, DropTables) and others else change.kind
    return msgspec.structs.replace(change, merged=found, others=others, kind=kind)


def keeps_names(controls: Iterable[ControlEvent], names: Names) -> bool:
    """Whether scanned rows would get the same names from ``names``."""
    known = KnownNames(names)
    rows = {(event.schema, event.table) for event in controls if isinstance(event, RowsRead)}
    return all(is_merged(name) or known.of_rows(name) == name for name in rows)


def by_source(progress: Progress, there: Collection[TableName]) -> dict[TableName, TableName]:
    """The job's name for each table of a source. Tables whose names differ only by case get one name."""
    known = KnownNames(scan_names(progress))
    for name in there:
        known.add(name)
    return {name: known.table(name) for name in there}


def _with(event: ControlEvent, **fields: object) -> ControlEvent:
    return event if all(getattr(event, name) == new for name, new in fields.items()) else _replaced(event, fields)


def _replaced(event: ControlEvent, fields: dict[str, object]) -> ControlEvent:
    replaced: ControlEvent = msgspec.structs.replace(event, **fields)
    return replaced


def _queued(ddl: QueuedDdl, change: SchemaChange) -> QueuedDdl:
    return ddl if change == ddl.change else msgspec.structs.replace(ddl, change=change)


def _name(one: _HasName) -> TableName:
    return one.schema, one.name


def _with_name(table: Table, name: TableName) -> Table:
    if _name(table) == name:
        return table
    return msgspec.structs.replace(table, schema=name[0], name=name[1])


def _in_order(ddls: Iterable["_Named"], rows: Iterable[RowsRead]) -> list["_Named | RowsRead"]:
    """Sort by time, so that a table's name is spelled as in its CREATE."""
    found: list[tuple[tuple[object, ...], _Named | RowsRead]] = []
    found += [((one.change.commit_ts, 0, one.change.query), one) for one in ddls]
    found += [((one.summary.min_ts, 1, one.schema, one.table), one) for one in rows]
    return [one for _, one in sorted(found, key=lambda item: item[0])]


def _learn(known: KnownNames, named: "_Named") -> None:
    """Add the names in a DDL to ``known``."""
    for full, one in zip(named.full, named.references, strict=True):
        if not full[1]:
            known.add_database(full[0])
        elif one.is_new:
            known.add(full)
        else:
            known.meet(full)


def _spelled_ddls(
    progress: Progress, read: Sequence[SchemaChange], known: KnownNames
) -> dict[DdlIdentity, SchemaChange]:
    """The DDLs of the queue and of a batch, with the job's names for their tables."""
    found = {identity(ddl.change): ddl.change for ddl in progress.ddls}
    queued, routes = set(found), compiled(progress.routes)
    for change in read:
        found.setdefault(identity(change), change)
    there = _tables(progress)
    for key in sorted(found, key=lambda key: found[key].commit_ts):
        commit_ts = found[key].commit_ts
        named = _Named(found[key], is_raw=key not in queued)
        meant = [_meant(named, at, there if commit_ts > progress.applied else {}) for at in range(len(named.full))]
        named.full = [known.table(name) if name[1] else (known.database(name[0]), "") for name, _ in meant]
        found[key] = named.spelled(known, tuple(one for _, candidates in meant for one in candidates))
        if routes.merges:
            found[key] = as_merged(routes, found[key])
        if key in queued or commit_ts > progress.applied:
            _follow(there, found[key])
    return found


_There: TypeAlias = dict[TableName, bool]
"""Tables, each with whether it exists."""


def _tables(progress: Progress) -> _There:
    found = dict.fromkeys(map(_name, _with_schemas(progress)), True)
    found |= {_name(one): not one.is_gone for one in progress.tables}
    return {name: is_there for name, is_there in found.items() if not is_merged(name)}


def _meant(named: "_Named", at: int, there: _There) -> tuple[TableName, tuple[TableName, ...]]:
    """The table that a name in a DDL means, and other tables that it may mean.

    The message of a RENAME into another database may have only the new one: `RENAME TABLE a TO other.b` comes under
    `other`.
    """
    name, (one, *more) = named.full[at], named.references[at:]
    if not isinstance(named.statement, RenameTables) or one.is_new or one.name[0] or not more[0].name[0]:
        return name, ()
    name, before = named.written[at], named.change.pre_table
    if before is not None and before.name.lower() == name[1].lower():
        return _name(before), ()
    live = [known for known, is_there in there.items() if is_there and known[1].lower() == name[1].lower()]
    own = [known for known in live if is_same_name(known, name)]
    candidates = tuple(known for known in live if known not in own)
    if own:
        return own[0], candidates
    return (candidates[0], ()) if len(candidates) == 1 else (name, candidates)


def _follow(there: _There, change: SchemaChange) -> None:
    """Update which tables exist after a DDL."""
    named = _Named(change, is_raw=False)
    if isinstance(named.statement, DatabaseDdl):
        if named.statement.what == "drop":
            there.update({name: False for name in there if name[0] == named.full[0][0]})
        return
    try:
        before, after = change_tables(change)
    except MessageError:
        return
    there.update(dict.fromkeys(before, False) | dict.fromkeys(after, True))


class _Named:
    """A DDL with the names in it."""

    def __init__(self, change: SchemaChange, *, is_raw: bool) -> None:
        """``is_raw``: the DDL is as its message has it; otherwise its names were resolved."""
        self.change, self.is_raw = change, is_raw
        try:
            self.statement: Statement | None = parse(change.query)
        except MessageError:
            self.statement = None
        self.references: tuple[Reference, ...] = () if self.statement is None else references(self.statement)
        self.written = [(one.name[0] or change.schema, one.name[1]) for one in self.references]
        named = list(change.named) or self.written
        self.full: list[TableName] = list(map(self._as_sent, named)) if is_raw else list(named)
        """Resolved if the DDL is."""

    def _as_sent(self, name: TableName) -> TableName:
        """A name as the message spells it beside its SQL, which is how rows spell it."""
        change = self.change
        tables = [one.full_name for one in (change.table, change.pre_table) if one is not None]
        sent = [*tables, (change.schema, change.name if name[1] else "")]
        return name if name in sent else next((one for one in sent if is_same_name(one, name)), name)

    def spelled(self, known: KnownNames, candidates: tuple[TableName, ...]) -> SchemaChange:
        """The DDL with its resolved names. ``candidates``: as in ``SchemaChange``."""
        change = self.change
        own = known.table(_name(change)) if change.name else (known.database(change.schema), "")
        plain = [(one.name[0] or own[0], one.name[1]) for one in self.references]
        return msgspec.structs.replace(
            change,
            schema=own[0],
            name=own[1],
            table=self._table(known, change.table),
            pre_table=self._table(known, change.pre_table),
            named=() if plain == self.full else tuple(self.full),
            candidates=candidates,
        )

    def _table(self, known: KnownNames, table: Table | None) -> Table | None:
        return None if table is None else _with_name(table, known.table(_name(table)))


def databases_after(databases: Sequence[str], applied: Sequence[QueuedDdl]) -> tuple[str, ...]:
    """The databases that CREATE DATABASE has made, after a batch that applied DDLs."""
    found = dict.fromkeys(databases)
    for ddl in applied:
        named = _Named(ddl.change, is_raw=False)
        if isinstance(named.statement, DatabaseDdl) and named.statement.what == "drop":
            found.pop(named.full[0][0], None)
        elif isinstance(named.statement, DatabaseDdl) and named.statement.what == "create":
            found[named.full[0][0]] = None
    return tuple(found)
