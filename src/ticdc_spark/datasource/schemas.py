"""The schemas with which rows are read, as the messages before and beside them show.

A row may name the version of its table. Otherwise it is read with the schema that was valid at its commitTs, whichever
partition had the DDL.
"""

from __future__ import annotations

import base64
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ticdc_spark.ddl import ddl_tables
from ticdc_spark.ddl.script import tables_of_script
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Bootstrap, Envelope, SchemaChange, Table, TableName
from ticdc_spark.streams.sql_tables import SqlTables

_KEPT = 16
"""Versions of a table in a checkpoint. Rows of older ones only come if an old DDL comes again, too."""


class Version(msgspec.Struct, frozen=True):
    """A table for rows above a commitTs."""

    since: int
    """Valid for rows with a higher commit_ts; -1: for all rows."""
    table: Table | None
    """``None``: it was dropped."""


class Known(msgspec.Struct, frozen=True):
    """What is known of tables after reading some messages."""

    versions: dict[str, tuple[Version, ...]] = {}
    """By ``schema NUL table``, ascending. If rows name their version: in the order of arrival."""
    followed: dict[str, int] = {}
    """The commitTs of the last DDL, by the same key; ``schema NUL``: of the database."""

    def newest(self, name: TableName) -> Table | None:
        """The newest known version of a table, even if it was dropped since."""
        there = self.tables(name)
        return there[-1] if there else None

    def tables(self, name: TableName) -> list[Table]:
        """The versions of a table, the newest last."""
        return [one.table for one in self.versions.get(_key(name), ()) if one.table is not None]

    @property
    def names(self) -> list[TableName]:
        """The known tables, as (schema, table)."""
        found = (key.partition("\0") for key in self.versions)
        return sorted((schema, name) for schema, _, name in found)

    def only(self, wanted: Iterable[TableName]) -> Known:
        """A copy with some of the tables."""
        keys = {_key(name) for name in wanted}
        return Known({key: one for key, one in self.versions.items() if key in keys})

    def pack(self) -> str:
        """The newest versions of each table as text. Equal content gives equal text."""
        kept = Known({key: versions[-_KEPT:] for key, versions in self.versions.items()}, self.followed)
        return base64.b64encode(zlib.compress(msgspec.json.encode(kept, order="sorted"), 9)).decode()


def unpack(text: str) -> Known:
    """The inverse of ``Known.pack``. Raises: UsageError"""
    try:
        return msgspec.json.decode(zlib.decompress(base64.b64decode(text)), type=Known)
    except (ValueError, zlib.error) as error:
        raise UsageError(f"the checkpoint is not of this version of the source: {error}; use a new one") from error


def from_ddl(text: str | None, table: TableName | None) -> Known:
    """The tables of CREATE statements, which are valid at any time.

    ``table``: the table that is read; statements without a schema get its schema. Raises: UsageError
    """
    try:
        found = tables_of_script(text or "", table[0] if table else "")
    except MessageError as error:
        raise UsageError(f"option ddl: {error}; allowed: CREATE TABLE statements, each ended by `;`") from error
    if text and not found:
        raise UsageError(f"option ddl: no CREATE TABLE in {text[:60]!r}")
    return Known({_key(name): (Version(-1, one),) for name, one in found.items()})


class Learning:
    """Learns schemas from events, whose partitions may come in any order."""

    def __init__(self, known: Known, *, versioned: bool) -> None:
        self._known = known
        self._versioned = versioned
        self._ddl: dict[tuple[int, str, str], tuple[SchemaChange, tuple[Table, ...]]] = {}
        self._tables: dict[Table, None] = {}

    def add(self, event: SchemaChange | Bootstrap, described: Sequence[Table] = ()) -> None:
        """Add a DDL or the schema of a table. ``described``: tables after a DDL that only its message has."""
        if isinstance(event, Bootstrap):
            self._tables[event.table] = None
        elif self._versioned:
            self._tables |= dict.fromkeys(one for one in (event.pre_table, event.table) if one is not None)
        else:
            self._ddl.setdefault((event.commit_ts, event.schema, event.query), (event, tuple(described)))

    def finish(self) -> Known:
        """What is known now."""
        versions, followed = dict(self._known.versions), dict(self._known.followed)
        for table in self._tables:
            key = _key(table.full_name)
            there = versions.get(key, ())
            if all(one.table is None or one.table.version != table.version for one in there):
                added = sorted([*there, Version(table.version or 0, table)], key=lambda one: one.since)
                versions[key] = tuple(added)
        self._follow(versions, followed)
        return Known(versions, followed)

    def _follow(self, versions: dict[str, tuple[Version, ...]], followed: dict[str, int]) -> None:
        """Follow the DDLs by commitTs, unless their tables have passed them: a DDL is in several partitions, and is
        sent again after a restart of TiCDC."""
        sql, before = SqlTables(), dict(followed)
        sql.tables = {one.table.full_name: one.table for (*_, one) in versions.values() if one.table is not None}
        for _, (change, described) in sorted(self._ddl.items(), key=lambda one: one[0][0]):
            names = _named(change)
            if all(before.get(key, -1) >= change.commit_ts for key in names):
                continue
            were = dict(sql.tables)
            sql.follow(change, described)
            followed |= dict.fromkeys(names, change.commit_ts)
            for name in {**were, **sql.tables}:
                if were.get(name) != sql.tables.get(name):
                    there = [one for one in versions.get(_key(name), ()) if one.since < change.commit_ts]
                    versions[_key(name)] = (*there, Version(change.commit_ts, sql.tables.get(name)))


class Schemas:
    """Finds the schema of a row. Each task has its own."""

    def __init__(self, known: Known, *, versioned: bool) -> None:
        self._known = known
        self._versioned = versioned
        self._by_version: Mapping[tuple[str, str], Table] = {
            (key, str(one.table.version)): one.table
            for key, versions in known.versions.items()
            for one in versions
            if one.table is not None
        }

    def of(self, row: Envelope) -> Table | None:
        """The table of a row; ``None``: its schema is unknown."""
        key = _key((row.schema, row.table))
        versions = self._known.versions.get(key, ())
        given = versions[0].table if versions and versions[0].since < 0 else None
        if self._versioned:
            return self._by_version.get((key, row.schema_key), given)
        # a commitTs that the protocol hides is 0
        at = bisect_left(versions, row.commit_ts, key=lambda one: one.since) if row.commit_ts else len(versions)
        return (versions[at - 1].table if at else None) or given


def _key(name: TableName) -> str:
    return f"{name[0]}\0{name[1]}"


def _named(change: SchemaChange) -> tuple[str, ...]:
    try:
        before, after = ddl_tables(change.query, change.schema)
    except MessageError:
        before, after = (change.full_name,), ()
    return tuple(map(_key, {**dict.fromkeys(before), **dict.fromkeys(after)})) or (_key((change.schema, "")),)
