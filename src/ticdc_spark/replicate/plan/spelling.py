"""The names in what a batch read become those by which the job knows its tables; behind this, names are equal or not.

DDL is taken in the order of commit_ts, so that a later one sees what an earlier one made or renamed. Rows get their
names when they are scanned, by ``scan_names``. Pure.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ticdc_spark.config.routes import Routes, compiled
from ticdc_spark.config.shards import is_merged
from ticdc_spark.ddl import change_tables
from ticdc_spark.ddl.known_names import KnownNames, Names, is_same_name
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.references import Reference, references
from ticdc_spark.ddl.statements import (
    AlterTable,
    CreateTable,
    DatabaseDdl,
    DropTables,
    RenameTables,
    RenameTo,
    Statement,
)
from ticdc_spark.errors import MessageError
from ticdc_spark.model import SchemaChange, Table, TableName
from ticdc_spark.replicate.plan.shard_actions import OF_SEVERAL
from ticdc_spark.replicate.plan.timeline import identity
from ticdc_spark.replicate.state.progress import Progress, QueuedDdl
from ticdc_spark.spark.decode.control import (
    BootstrapRead,
    ControlEvent,
    DdlRead,
    MessageSkipped,
    RowsRead,
    SchemaBlockRead,
)

_Identity = tuple[int, str, str, str]
_NAMING = (DdlRead, BootstrapRead, SchemaBlockRead, MessageSkipped)
"""Control events whose names are those of the messages: rows were scanned by theirs."""


class _HasName(Protocol):
    @property
    def schema(self) -> str: ...

    @property
    def name(self) -> str: ...


class Spelled(NamedTuple):
    """What a batch read, under the names by which the job knows its tables."""

    progress: Progress
    controls: list[ControlEvent]
    scan_names: Names
    """The names by which its rows have to be scanned: those that its DDL brings are among them."""


def scan_names(progress: Progress, *, exact: bool = False) -> Names:
    """The names that are known before a batch."""
    live = {(one.schema, one.name): None for one in progress.tables if not one.is_gone}
    gone = {(one.schema, one.name): None for one in progress.tables if one.is_gone}
    named: list[_HasName] = [*progress.schemas, *progress.catching_up]
    if progress.shards or compiled(progress.routes).merges:
        # Rows have the name of the merged table, and DDL those of the shards.
        versions = [one.table for one in progress.schemas if is_merged((one.schema, one.name))]
        named += [*versions, *(one.table for one in progress.shards)]
    live |= {name: None for one in named if (name := (one.schema, one.name)) not in gone}
    noted: list[_HasName] = [*progress.missed, *progress.last_ddls]
    noted += progress.wanted  # by names that the source has now, and the DDLs to come are older
    gone |= {name: None for one in noted if one.name and (name := (one.schema, one.name)) not in live}
    # A schema may be of a later time than the CREATE DATABASE that is read behind it, so it does not count here.
    databases = [*progress.databases, *(one.schema for one in progress.tables if not one.is_gone)]
    names = Names(
        live=tuple(name for name in live if not is_merged(name)),
        gone=tuple(name for name in gone if not is_merged(name)),
        databases=tuple(one for one in dict.fromkeys(databases) if not is_merged((one, ""))),
        seen=tuple(one for one in dict.fromkeys(rows.schema for rows in progress.pending) if not is_merged((one, ""))),
        exact=exact,
    )
    if not progress.ddls:
        return names
    known = KnownNames(names)
    for ddl in progress.ddls:
        _bring(known, ddl.change)
    return known.names()


def spell(progress: Progress, controls: Sequence[ControlEvent], scanned_by: Names) -> Spelled:
    """Resolve the names of a batch. ``scanned_by``: the names by which its rows were scanned."""
    met = [event for event in controls if isinstance(event, RowsRead) and not is_merged((event.schema, event.table))]
    unknown = {(event.schema, event.table) for event in met} - set(scanned_by.live)
    if not unknown and not any(isinstance(event, _NAMING) for event in controls):
        return Spelled(progress, list(controls), scanned_by)
    read = [event.change for event in controls if isinstance(event, DdlRead)]
    # Not by ``scanned_by``: after the first scan it has what the DDL of the batch brings.
    before = scan_names(msgspec.structs.replace(progress, ddls=()), exact=scanned_by.exact)
    changes = _spelled_ddls(progress, read, before, _names_by_rows(progress, met, before))
    queue = tuple(_queued(ddl, changes[identity(ddl.change)]) for ddl in progress.ddls)
    rows, routes = KnownNames(scanned_by), compiled(progress.routes)
    for change in changes.values():
        if change.commit_ts > progress.applied:
            _bring(rows, change)
        else:
            _note(rows, change)
    for one in sorted(met, key=lambda one: (one.summary.min_ts, one.schema, one.table)):
        rows.see((one.schema, one.table))
    found: list[ControlEvent] = []
    for event in controls:
        match event:
            case DdlRead():
                found.append(_with(event, change=changes[identity(event.change)]))
            case BootstrapRead():
                table = _named(event.table, rows.of_rows((event.table.schema, event.table.name)))
                rows.add((table.schema, table.name))
                found.append(_with(event, table=table))
            case SchemaBlockRead():
                name = rows.of_rows((event.schema, event.table))
                found.append(_with(event, schema=name[0], table=name[1], held=_named(event.held, name)))
            case MessageSkipped():
                names = (routes.known_as(rows.of_rows(name)) for name in event.tables)
                found.append(_with(event, tables=tuple(dict.fromkeys(names))))
            case _:
                found.append(event)
    return Spelled(msgspec.structs.replace(progress, ddls=queue), found, rows.names())


def as_merged(routes: Routes, change: SchemaChange) -> SchemaChange:
    """A DDL on a shard as one on its merged table. Raises: UsageError"""
    named = _Named(change, is_raw=False)
    names = [name for name in named.full if name[1]]
    if isinstance(named.statement, CreateTable):
        names = names[:1]  # and not the table that it is made like
    elif named.statement is None and change.name:
        names = [(change.schema, change.name)]
    tables = {routes.merged(name) for name in names}
    found = min((one for one in tables if one is not None), default=None)
    if found is None:
        return change
    is_drop = isinstance(named.statement, DropTables)
    kind = OF_SEVERAL if is_drop and len(tables) > 1 else change.kind
    return msgspec.structs.replace(change, merged=found, kind=kind)


def keeps_names(controls: Iterable[ControlEvent], before: Names, after: Names) -> bool:
    """Whether rows that were scanned by the names ``before`` get the same names by ``after``."""
    old, known = KnownNames(before), KnownNames(after)
    rows = {(event.schema, event.table) for event in controls if isinstance(event, RowsRead)}
    # Rows of a table that is new may have been taken for those of another one.
    new = set(after.live) - set(before.live)
    return all(known.of_rows(name) == name for name in rows) and all(old.of_rows(name) == name for name in new)


def by_source(progress: Progress, there: Collection[TableName]) -> dict[TableName, TableName]:
    """The names by which a job knows the tables that a source has."""
    known, every = KnownNames(scan_names(progress)), set(there)
    databases = {schema for schema, _ in there}
    found: dict[TableName, TableName] = {}
    for name in there:
        one = known.find(name)
        if one is None and (database := known.database(name[0])) not in databases:
            one = database, name[1]  # The table's CREATE is read later, and has the database as it is known.
        found[name] = name if one is None or one in every else one
    return found


def _with(event: ControlEvent, **fields: object) -> ControlEvent:
    return event if all(getattr(event, name) == new for name, new in fields.items()) else _replaced(event, fields)


def _replaced(event: ControlEvent, fields: dict[str, object]) -> ControlEvent:
    replaced: ControlEvent = msgspec.structs.replace(event, **fields)
    return replaced


def _queued(ddl: QueuedDdl, change: SchemaChange) -> QueuedDdl:
    return ddl if change == ddl.change else msgspec.structs.replace(ddl, change=change)


def _named(table: Table, name: TableName) -> Table:
    if (table.schema, table.name) == name:
        return table
    return msgspec.structs.replace(table, schema=name[0], name=name[1])


def _bring(known: KnownNames, change: SchemaChange) -> None:
    """Know the names that a DDL brings. Of a table whose CREATE is not read yet, its database is known from here on."""
    named = _Named(change, is_raw=False)
    for full, one in zip(named.full, named.references, strict=True):
        if one.is_new and full[1]:
            known.add(full)
        elif one.is_new:
            known.add_database(full[0])
        elif full[1] and isinstance(named.statement, AlterTable):
            known.meet(full)
        elif full[1]:
            known.see(full)


def _note(known: KnownNames, change: SchemaChange) -> None:
    """Know the names in a DDL of a time that the job has passed."""
    for full in _Named(change, is_raw=False).full:
        if full[1] and known.find(full) is None:
            known.note(full)


def _names_by_rows(progress: Progress, met: Sequence[RowsRead], before: Names) -> dict[TableName, int]:
    """The names by which nothing but rows is known, each with the commit_ts of its first row."""
    first: dict[TableName, int] = {}
    live = set(before.live)
    waiting = [(name, rows.min_ts) for rows in progress.pending if not is_merged(name := (rows.schema, rows.name))]
    for name, ts in (*waiting, *(((one.schema, one.table), one.summary.min_ts) for one in met)):
        if name not in live:
            first[name] = min(ts, first.get(name, ts))
    return first


def _spelled_ddls(
    progress: Progress, read: Sequence[SchemaChange], before: Names, names_by_rows: Mapping[TableName, int]
) -> dict[_Identity, SchemaChange]:
    """The DDLs of the queue and of a batch. ``before``: the names that are known without them."""
    found = {identity(ddl.change): ddl.change for ddl in progress.ddls}
    if not read and not names_by_rows:
        return found
    queued, routes = set(found), compiled(progress.routes)
    for change in read:
        found.setdefault(identity(change), change)
    # What waits keeps the database that it was read with, also where the CREATE DATABASE is read behind it.
    waits = (ddl.change.schema for ddl in progress.ddls if ddl.change.schema)
    known = KnownNames(msgspec.structs.replace(before, seen=(*before.seen, *waits)))
    groups: dict[int, list[_Identity]] = {}
    for key in found:
        groups.setdefault(key[0], []).append(key)
    for ts in sorted(groups):
        moment = [_Named(found[key], is_raw=key not in queued) for key in groups[ts]]
        past = ts <= progress.applied
        _spell_moment(known, moment, [name for name, first in names_by_rows.items() if first <= ts], past=past)
        for key, named in zip(groups[ts], moment, strict=True):
            found[key] = as_merged(routes, named.spelled(known)) if routes.merges else named.spelled(known)
        for key in groups[ts]:
            if past and key not in queued:
                _note(known, found[key])
            else:
                _follow(known, found[key])
    return found


class _Named:
    """A DDL whose names are looked up."""

    def __init__(self, change: SchemaChange, *, is_raw: bool) -> None:
        """``is_raw``: it is as its message has it; else its names were resolved."""
        self.change, self.is_raw = change, is_raw
        try:
            self.statement: Statement | None = parse(change.query)
        except MessageError:
            self.statement = None
        self.references: tuple[Reference, ...] = () if self.statement is None else references(self.statement)
        self.written = [(one.name[0] or change.schema, one.name[1]) for one in self.references]
        named = list(change.named) or self.written
        self.full: list[TableName] = list(map(self._as_sent, named)) if is_raw else list(named)
        """As far as they are resolved."""

    def _as_sent(self, name: TableName) -> TableName:
        """A name as the message has it beside its SQL, where it is that name: as rows have it."""
        change = self.change
        tables = [(one.schema, one.name) for one in (change.table, change.pre_table) if one is not None]
        sent = [*tables, (change.schema, change.name if name[1] else "")]
        return name if name in sent else next((one for one in sent if is_same_name(one, name)), name)

    @property
    def frees(self) -> bool:
        """Whether its tables give up their names."""
        match self.statement:
            case RenameTables() | DropTables():
                return True
            case AlterTable(_, parts):
                return any(isinstance(part, RenameTo) for part in parts)
        return False

    def spelled(self, known: KnownNames) -> SchemaChange:
        """The DDL under its resolved names."""
        change = self.change
        own = self._own(known)
        plain = [(one.name[0] or own[0], one.name[1]) for one in self.references]
        return msgspec.structs.replace(
            change,
            schema=own[0],
            name=own[1],
            table=self._table(known, change.table, is_new=True),
            pre_table=self._table(known, change.pre_table, is_new=False),
            named=() if plain == self.full else tuple(self.full),
        )

    def _own(self, known: KnownNames) -> TableName:
        change = self.change
        if change.name:
            return self._resolved(known, (change.schema, change.name), is_new=True)
        if isinstance(self.statement, DatabaseDdl) and change.schema:
            return self.full[0]
        return known.database(change.schema) if change.schema else "", ""

    def _table(self, known: KnownNames, table: Table | None, *, is_new: bool) -> Table | None:
        if table is None:
            return None
        return _named(table, self._resolved(known, (table.schema, table.name), is_new=is_new))

    def _resolved(self, known: KnownNames, name: TableName, *, is_new: bool) -> TableName:
        """A name of the message: that of the SQL which it is, rather the new or the old one, else what is known."""
        here = [
            (one.is_new != is_new, at)
            for at, (one, written) in enumerate(zip(self.references, self.written, strict=True))
            if is_same_name(written, name) and is_same_name(self.full[at], name)
        ]
        return self.full[min(here)[1]] if here else known.table(name)


def _spell_moment(known: KnownNames, moment: Sequence[_Named], rows: Sequence[TableName], *, past: bool) -> None:
    """Resolve the names of DDLs of one commit_ts, each in ``full``: first of what is there, then of what comes, so that
    one of them may take a name that another one gives up. ``rows``: names of tables that are known by their rows alone.
    ``past``: the job has passed it, so that what a DDL brings may be there already."""
    unknown: list[tuple[_Named, int]] = []
    coming: list[tuple[_Named, int]] = []
    freed: set[TableName] = set()
    for named in moment:
        for at, one in enumerate(named.references):
            if one.is_new and not (past and named.is_raw):
                coming.append((named, at))
            elif (found := _there(known, named, at)) is not None:
                named.full[at] = found
                freed |= {found} if named.frees else set()
            else:
                unknown.append((named, at))
                freed |= {named.full[at]} & {*rows} if named.frees else set()
    for named, at in unknown:
        known.see(named.full[at])  # so that what comes is in the same database, whatever its letters
    for named, at in coming:
        if named.is_raw:  # else rows may have been scanned by it
            named.full[at] = _coming(known, named, at, freed)
    new = [named.full[at] for named, at in coming]
    for named, at in unknown:
        full = named.full[at]
        same = [one for one in (*new, *rows) if is_same_name(one, full)]
        named.full[at] = full if full in same else next(iter(same), known.table(full))


def _coming(known: KnownNames, named: _Named, at: int, freed: set[TableName]) -> TableName:
    full = named.full[at]
    return known.new(full, freed, is_taken_over=named.frees) if full[1] else (known.new_database(full[0]), "")


def _there(known: KnownNames, named: _Named, at: int) -> TableName | None:
    """What a name means that is of something that is there; ``None``: it is not known."""
    schema, table = named.full[at]
    if not table:
        return known.database(schema), ""
    found = known.find((schema, table))
    if found is None and isinstance(named.statement, RenameTables) and named.references[at].name[0] is None:
        # Into another database, Open's message has only that one: `RENAME TABLE a TO other.b` comes under `other`.
        found = known.find_anywhere(table)
    return found


def _follow(known: KnownNames, change: SchemaChange) -> None:
    """Know what a DDL does to names."""
    named = _Named(change, is_raw=False)
    if isinstance(named.statement, DatabaseDdl):
        database = named.full[0][0]
        if named.statement.what == "drop":
            known.remove_database(database)
        elif named.statement.what == "create":
            known.add_database(database)
        return
    try:
        before, after = map(set, change_tables(change))
    except MessageError:
        return
    for name in before & after:
        known.meet(name)
    for name in before - after:
        known.remove(name)
    for name in after - before:
        known.add(name)


def databases_after(databases: Sequence[str], applied: Sequence[QueuedDdl]) -> tuple[str, ...]:
    """The databases that CREATE DATABASE has made, after a batch that applied some DDLs."""
    known = KnownNames(Names(databases=tuple(databases)))
    for ddl in applied:
        if isinstance(_Named(ddl.change, is_raw=False).statement, DatabaseDdl):
            _follow(known, ddl.change)
    return known.names().databases
