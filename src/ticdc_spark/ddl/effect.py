"""What a DDL does to the known tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from ticdc_spark.ddl.build import Building, build_table
from ticdc_spark.ddl.charsets import DEFAULT_CHARSET, resolved
from ticdc_spark.ddl.dialect import TIDB, Dialect, Replacement, Server
from ticdc_spark.ddl.key_names import as_shown
from ticdc_spark.ddl.lex import Backslash, Cursor, Name
from ticdc_spark.ddl.names import column_renames
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.references import statement_of
from ticdc_spark.ddl.statements import (
    DEFAULT,
    AlterTable,
    Charset,
    CreateTable,
    DatabaseDdl,
    DropTables,
    MoveRows,
    OtherDdl,
    RenameTables,
    RenameTo,
    RestoreTable,
    Statement,
    TruncateTable,
    Unsupported,
)
from ticdc_spark.errors import MessageError
from ticdc_spark.model import SchemaChange, Table, TableName
from ticdc_spark.names import folded

Tables: TypeAlias = Mapping[TableName, Table]
Kind: TypeAlias = Literal[
    "create table",
    "alter table",
    "rename table",
    "truncate table",
    "drop table",
    "restore table",
    "create database",
    "alter database",
    "drop database",
    "none",
]
"""``restore table`` is RECOVER and FLASHBACK TABLE; ``none`` is any statement that changes no table."""
Charsets: TypeAlias = Mapping[str, Charset]
"""The default character sets of databases, where they are known. ``""``: the server's, for new databases."""


class Altered(msgspec.Struct, frozen=True):
    """A table whose schema changed. Its name may have changed too."""

    before: Table
    after: Table
    renames: Mapping[str, str]
    """Columns: name before to name after, as in the two tables."""


class MovedRows(msgspec.Struct, frozen=True):
    """Rows of a table changed without row messages."""

    table: TableName
    what: str
    lossless: bool
    """Only their partition changed: the table as a whole has the same rows."""


class DdlEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What a DDL does. If everything is empty, it does nothing that is stored here."""

    kind: Kind
    created: tuple[Table, ...] = ()
    """Also the table that RECOVER or FLASHBACK TABLE restores, which is in ``moved`` too."""
    dropped: tuple[TableName, ...] = ()
    truncated: tuple[TableName, ...] = ()
    renamed: tuple[tuple[TableName, TableName], ...] = ()
    altered: tuple[Altered, ...] = ()
    moved: tuple[MovedRows, ...] = ()
    clarified: tuple[Replacement, ...] = ()
    """Replacements after which TiDB reads the SQL as its server does."""
    database: str = ""
    """The database of CREATE, ALTER and DROP DATABASE; the tables that DROP removes are in ``dropped``."""
    unsupported: str = ""
    """Why the effect is not known; then everything else is empty."""


def classify(sql: str) -> Kind:
    """The kind of a DDL, from its first words only; ALTER TABLE … RENAME is ``alter table``."""
    cur = Cursor(sql)
    verb = cur.any_of("create", "alter", "drop", "rename", "truncate", "recover", "flashback")
    if verb == "create":
        cur.accept("or", "replace")
    if verb == "truncate":
        return "truncate table"
    if verb in ("recover", "flashback"):
        return "restore table" if cur.accept("table") else "none"
    if verb in ("create", "drop", "alter"):
        if cur.any_of("database", "schema"):
            return f"{verb} database"  # type: ignore[return-value]
        cur.any_of("online", "offline")
        cur.any_of("unique", "fulltext", "spatial", "ignore")
        if cur.any_of("index", "columnar", "vector"):
            return "alter table"
    if verb and cur.any_of("table", "tables"):
        return f"{verb} table"  # type: ignore[return-value]
    return "none"


def parse_create(sql: str, schema: str, backslash: Backslash = "literal", dialect: Dialect = "tidb") -> Table:
    """The table of a CREATE TABLE, from ``SHOW CREATE TABLE``, a Dumpling file or a user.

    ``schema`` is used if the statement names none. ``backslash``: see ``lex.Backslash``; MySQL's own output needs
    ``escape``. ``dialect``: see ``apply_ddl``. Output of MySQL and MariaDB does not show which index was made for a
    foreign key.
    Raises: MessageError if it is not a CREATE TABLE with columns.
    """
    statement = parse(sql, backslash)
    if not isinstance(statement, CreateTable) or not statement.columns:
        raise MessageError(f"not a CREATE TABLE with columns: {sql[:60]!r}")
    table = build_table(*_full(statement.name, schema), statement, None, dialect).table()
    return table if dialect == "tidb" else as_shown(table, statement.keys)


def apply_ddl(
    tables: Tables,
    schema: str,
    sql: str,
    server: Server = TIDB,
    *,
    dropped: Tables | None = None,
    charsets: Charsets = MappingProxyType({}),
) -> DdlEffect:
    """What a DDL does to ``tables`` when it runs under ``schema``. Changes nothing; see ``fold``.

    ``dropped``: tables as they were when dropped, for RECOVER and FLASHBACK. ``charsets``: a database that is not in it
    has utf8mb4. ``server``: its rules count where servers differ. For SQL that cannot be read, or that names an
    unknown table or column, the effect has ``unsupported``.
    """
    known = _Known(tables, schema, dropped or {}, charsets, server)
    return _effect(sql, lambda: known.effect(parse(sql, server.backslash), sql))


def apply_change(tables: Tables, change: SchemaChange, charsets: Charsets = MappingProxyType({})) -> DdlEffect:
    """The same for a DDL whose tables have the job's names: these are compared exactly."""
    known = _Known(tables, change.schema, {}, charsets, TIDB._replace(case="exact"))
    return _effect(change.query, lambda: known.effect(statement_of(change), change.query))


def charsets_after(charsets: Charsets, changes: Iterable[SchemaChange]) -> dict[str, Charset]:
    """The default character sets of databases after DDLs. Other statements are ignored."""
    after = dict(charsets)
    for change in changes:
        try:
            statement = statement_of(change)
        except MessageError:
            continue
        if isinstance(statement, DatabaseDdl):
            name = statement.name or change.schema
            if statement.if_not_exists and name in after:
                continue
            found = _database_charset(statement, after.get(name), after.get(""))
            after.pop(name, None)
            if found is not None:
                after[name] = found
    return after


def _database_charset(statement: DatabaseDdl, before: Charset | None, server: Charset | None) -> Charset | None:
    """The default of a database after a DDL, if it is known."""
    written, current = statement.charset, before if statement.what == "alter" else server
    if statement.what == "drop":
        return None
    if written is None or (written.charset == DEFAULT and server is None):
        return current if written is None else None
    return resolved(written, current or DEFAULT_CHARSET, server or DEFAULT_CHARSET)


def _effect(sql: str, look: Callable[[], DdlEffect]) -> DdlEffect:
    kind = classify(sql)
    try:
        effect = look()
    except MessageError as error:
        return DdlEffect(kind=kind, unsupported=str(error))
    return replace(effect, kind=kind)


def fold(tables: Tables, effect: DdlEffect) -> dict[TableName, Table]:
    """The tables after a DDL."""
    after = dict(tables)
    for gone in effect.dropped:
        after.pop(gone, None)
    for altered in effect.altered:
        after.pop(altered.before.full_name, None)
        after[altered.after.schema, altered.after.name] = altered.after
    moving = [(new, after.pop(old)) for old, new in effect.renamed if old in after]
    for (schema, name), table in moving:
        after[schema, name] = replace(table, schema=schema, name=name)
    for table in effect.created:
        after[table.full_name] = table
    return after


def _full(name: Name, schema: str) -> TableName:
    return name[0] or schema, name[1]


class _Known:
    """The known tables, for one statement."""

    def __init__(self, tables: Tables, schema: str, dropped: Tables, charsets: Charsets, server: Server) -> None:
        self._server = server
        self._tables = tables
        self._schema = schema
        self._dropped = dropped
        self._charsets = charsets

    def effect(self, statement: Statement, sql: str) -> DdlEffect:
        match statement:
            case CreateTable():
                return self._create(statement)
            case AlterTable():
                return self._alter(statement, sql)
            case DropTables():
                # the same statement may drop tables that were never replicated
                return DdlEffect(kind="none", dropped=tuple(map(self._name, statement.names)))
            case TruncateTable():
                return DdlEffect(kind="none", truncated=(self._name(statement.name),))
            case RenameTables():
                return self._rename(statement)
            case RestoreTable():
                return self._restore(statement)
            case DatabaseDdl():
                return self._database(statement)
            case Unsupported(reason):
                return DdlEffect(kind="none", unsupported=reason)
            case OtherDdl():
                return DdlEffect(kind="none")

    def _name(self, name: Name) -> TableName:
        """The known spelling of a name, or the name as written."""
        full = self._full(name)
        return self._find(self._tables, full) or full

    def _full(self, name: Name) -> TableName:
        schema, table = _full(name, self._schema)
        return (schema.lower(), table.lower()) if self._server.case == "lower" else (schema, table)

    def _find(self, tables: Tables, name: TableName) -> TableName | None:
        return _find(tables, name) if self._server.case == "folded" else name if name in tables else None

    def _table(self, name: Name) -> Table:
        full = self._name(name)
        if full not in self._tables:
            raise MessageError(f"table `{full[0]}`.`{full[1]}` is not known")
        return self._tables[full]

    def _create(self, statement: CreateTable) -> DdlEffect:
        name = self._name(statement.name)
        if statement.if_not_exists and name in self._tables:
            return DdlEffect(kind="none")
        if statement.like:
            model = self._table(statement.like)
            schema, table = name
            copy = replace(model, schema=schema, name=table, table_id=None, version=None, foreign_keys=())
            return DdlEffect(kind="none", created=(copy,))
        building = build_table(*name, statement, self._charsets.get(name[0]), self._server.dialect)
        return DdlEffect(kind="none", created=(building.table(),), clarified=tuple(building.clarified))

    def _rename(self, statement: RenameTables) -> DdlEffect:
        pairs = [(self._renamed(old), self._full(new)) for old, new in statement.pairs]
        renamed = _chained(pairs)
        for old, _ in renamed:
            if old not in self._tables:
                raise MessageError(f"table `{old[0]}`.`{old[1]}` is not known")
        return DdlEffect(kind="none", renamed=renamed)

    def _renamed(self, name: Name) -> TableName:
        """The table to rename. For a rename into another database, Open's message only has the new database:
        `RENAME TABLE a TO other.b` comes under `other`. Then `a` is searched in all databases, and must be in only one.
        """
        full = self._name(name)
        if self._server.case == "folded" and name[0] is None and full not in self._tables:
            found = [known for known in self._tables if known[1].lower() == name[1].lower()]
            if len(found) == 1:
                return found[0]
        return full

    def _alter(self, statement: AlterTable, sql: str) -> DdlEffect:
        before = self._table(statement.name)
        name = before.full_name
        database, session = (self._charsets.get(one, DEFAULT_CHARSET) for one in (name[0], self._schema))
        building = Building(before, dialect=self._server.dialect, database=database, session=session)
        renamed: TableName | None = None
        moved = []
        building.apply(statement.parts)
        for part in statement.parts:
            if isinstance(part, RenameTo):
                renamed = self._full(part.new)
            elif isinstance(part, MoveRows):
                moved.append(MovedRows(name, part.what, part.lossless))
                if part.other:
                    moved.append(MovedRows(self._name(part.other), part.what, part.lossless))
        after = building.table()
        altered = () if after == before else (Altered(before, after, _renames(sql, before)),)
        return DdlEffect(
            kind="none",
            altered=altered,
            moved=tuple(moved),
            renamed=((name, renamed),) if renamed else (),
            clarified=tuple(building.clarified),
        )

    def _restore(self, statement: RestoreTable) -> DdlEffect:
        old, new = self._full(statement.name), self._full(statement.new or statement.name)
        found = self._find(self._dropped, old)
        if found is None:
            raise MessageError(f"`{old[0]}`.`{old[1]}` comes back, but its schema is not known")
        table = replace(self._dropped[found], schema=new[0], name=new[1])
        return DdlEffect(
            kind="none", created=(table,), moved=(MovedRows(new, "RECOVER or FLASHBACK TABLE", lossless=False),)
        )

    def _database(self, statement: DatabaseDdl) -> DdlEffect:
        database, _ = self._full((statement.name, ""))
        gone: tuple[TableName, ...] = ()
        if statement.what == "drop" and self._server.case == "folded":
            gone = tuple(name for name in self._tables if name[0].lower() == database.lower())
        elif statement.what == "drop":
            gone = tuple(name for name in self._tables if name[0] == database)
        return DdlEffect(kind="none", dropped=gone, database=database)


def _find(tables: Tables, name: TableName) -> TableName | None:
    if name in tables:
        return name
    return next((known for known in tables if folded(known) == folded(name)), None)


def _chained(pairs: list[tuple[TableName, TableName]]) -> tuple[tuple[TableName, TableName], ...]:
    """First names to last names. RENAME works from left to right, so a table may be renamed twice."""
    origin = {old: old for old, _ in pairs}
    for old, new in pairs:
        origin[new] = origin.pop(old, old)
    return tuple((old, new) for new, old in origin.items())


def _renames(sql: str, before: Table) -> dict[str, str]:
    known = {column.name.lower(): column.name for column in before.columns}
    return {known.get(old.lower(), old): new for old, new in column_renames(sql).items()}
