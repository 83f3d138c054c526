"""Statements of the binlog: which end or divide a transaction, and what a DDL does to the tables that are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from ticdc_spark.capture.binlog.schemas import SYSTEM_SCHEMAS, presented, presented_all
from ticdc_spark.capture.binlog.wire.events import ANSI_QUOTES, NO_BACKSLASH_ESCAPES, Query
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.ddl import Charset, DdlEffect, apply_ddl, ddl_tables, fold
from ticdc_spark.errors import MessageError
from ticdc_spark.model import SchemaChange, Table, TableName

Tables = Mapping[TableName, Table]

_SKIPPED = re.compile(r"(?:\s+|/\*(?!!|M!).*?\*/|--\s[^\n]*\n|#[^\n]*\n)*", re.DOTALL)
_OR_REPLACE = re.compile(r"(?is)\A(\s*create\s+)or\s+replace\s+(?=(?:temporary\s+)?table\b)")
_DML = re.compile(r"(?i)(insert|update|delete|replace|load|with)\b")


def words(sql: str) -> str:
    """A statement without comments before it, in lower case, its first words only."""
    start = _SKIPPED.match(sql)
    return " ".join(sql[start.end() if start else 0 :][:80].lower().split())


def is_dml(sql: str) -> bool:
    """Whether it changes rows itself: it was logged as a statement."""
    return _DML.match(words(sql)) is not None


_CONTROL = re.compile(r"(begin|commit|rollback|savepoint|xa)\b")


def is_control(sql: str) -> bool:
    """Whether it begins, divides or ends a transaction."""
    return _CONTROL.match(words(sql)) is not None


class Step(NamedTuple):
    """A part of what a statement does, with a commit_ts of its own."""

    changes: tuple[SchemaChange, ...]
    """With commit_ts 0. Empty: nothing that is captured."""
    tables: Tables
    """After it."""


class Unfollowed(Exception):
    """What a DDL does is not known; the text has why."""


STEPS = 2
"""Of every statement: what CREATE OR REPLACE drops, and the rest. Always as many, as positions count them."""


def follow_ddl(step: int, tables: Tables, found: Query, sql: str, *, charset: Charset | None, mariadb: bool) -> Step:
    """What a step of a DDL does. Names in double quotes, under ANSI_QUOTES, are understood; so is NO_BACKSLASH_ESCAPES.
    ``charset``: of the default database.

    Raises: Unfollowed.
    """
    schema, sql_mode = found.schema, found.sql_mode
    text = plain_sql(sql, sql_mode)
    replaces = _OR_REPLACE.match(text)
    if step == 0 and not replaces:
        return Step((), tables)
    if replaces:
        text = replaces[1] + text[replaces.end() :]
    effect = apply_ddl(tables, schema, text, charset=charset, backslash="escape")
    if effect.unsupported:
        raise Unfollowed(effect.unsupported)
    _check_renamed(effect, text, schema)
    if step == 0:
        gone = tuple(name for table in effect.created if (name := (table.schema, table.name)) in tables)
        effect, query = (
            DdlEffect(kind="drop table", dropped=gone),
            "".join(f"DROP TABLE {_full(name)}" for name in gone),
        )
    else:
        query = text if replaces or sql_mode & (ANSI_QUOTES | NO_BACKSLASH_ESCAPES) else sql
    changes = _changes(effect, tables, schema, query, text, mariadb)
    after = {name: presented(table, mariadb=mariadb) for name, table in fold(tables, effect).items()}
    return Step(changes, after)


def _check_renamed(effect: DdlEffect, sql: str, schema: str) -> None:
    """Raises: Unfollowed for a RENAME of a view or the like, where a table of another database has its name."""
    if effect.renamed:
        named = {(one.lower(), two.lower()) for one, two in ddl_tables(sql, schema)[0]}
        for one, _ in effect.renamed:
            if (one[0].lower(), one[1].lower()) not in named:
                raise Unfollowed(f"`{schema}`.`{one[1]}` is not known")


_NAME = r"(`(?:[^`]|``)+`|[\w$]+)"
_ONE_TABLE = re.compile(
    r"(?is)\A\s*(?:create(?:\s+or\s+replace)?|alter(?:\s+online)?(?:\s+ignore)?)\s+table\s+"
    rf"(?:if\s+(?:not\s+)?exists\s+)?{_NAME}(?:\s*\.\s*{_NAME})?"
)


def without_unwanted(
    tables: Tables, found: Query, sql: str, wanted: Callable[[str, str], bool]
) -> dict[TableName, Table] | None:
    """The tables after a DDL that cannot be followed, where it names only tables that are not ``wanted``: without them.

    ``None``: it concerns others, or that cannot be seen.
    """
    text = plain_sql(sql, found.sql_mode)
    try:
        before, after = ddl_tables(text, found.schema)
    except MessageError:
        before, after = _one_table(text, found.schema), ()
    named = {*before, *after}
    if not named or any(wanted(*name) for name in named):
        return None
    gone = {(schema.lower(), table.lower()) for schema, table in named}
    return {name: table for name, table in tables.items() if (name[0].lower(), name[1].lower()) not in gone}


def _one_table(sql: str, schema: str) -> tuple[TableName, ...]:
    """The table of a CREATE or ALTER that cannot be read, unless it may get another name."""
    one = _ONE_TABLE.match(sql)
    if one is None or re.search(r"(?i)\b(rename|exchange)\b", sql):
        return ()
    names = [name[1:-1].replace("``", "`") if name[0] == "`" else name for name in one.groups() if name]
    return ((schema, names[0]) if len(names) == 1 else (names[0], names[1]),)


def _changes(
    effect: DdlEffect, tables: Tables, schema: str, sql: str, readable: str, mariadb: bool
) -> tuple[SchemaChange, ...]:
    """One change a table. SQL that names several is written anew for each; ``readable`` is it in backquotes."""
    kind = effect.kind
    if effect.database:
        if effect.database.lower() in SYSTEM_SCHEMAS:
            return ()
        return (SchemaChange(commit_ts=0, query=sql, kind=kind, schema=effect.database),)
    found: list[tuple[str, Table | None, Table | None]] = []
    found += [(sql, None, table) for table in presented_all(effect.created, mariadb=mariadb)]
    alone = len(effect.dropped) == 1
    dropped = [name for name in effect.dropped if name in tables]
    found += [(sql if alone else f"DROP TABLE {_full(name)}", tables[name], None) for name in dropped]
    found += [(sql, tables[name], tables[name]) for name in effect.truncated if name in tables]
    renamed = dict(effect.renamed)
    alone = len(renamed) == 1
    for altered in effect.altered:
        new = renamed.pop((altered.before.schema, altered.before.name), None)
        after = presented(altered.after, mariadb=mariadb)
        found.append((sql, altered.before, after if new is None else replace(after, schema=new[0], name=new[1])))
    for old, new in renamed.items():
        text = sql if alone else f"RENAME TABLE {_full(old)} TO {_full(new)}"
        found.append((text, tables[old], replace(tables[old], schema=new[0], name=new[1])))
    if not found:
        found = [(sql, table, table) for table in _named(effect, tables, schema, readable)]
    return tuple(
        SchemaChange(
            commit_ts=0,
            query=text,
            kind=kind,
            schema=schema or _either(before, after).schema,
            name=_either(after, before).name,
            table=after,
            pre_table=before,
        )
        for text, before, after in found
        if _either(after, before).schema.lower() not in SYSTEM_SCHEMAS
    )


def _either(one: Table | None, other: Table | None) -> Table:
    found = one or other
    assert found is not None
    return found


def _named(effect: DdlEffect, tables: Tables, schema: str, sql: str) -> list[Table]:
    """The tables of an ALTER TABLE that leaves their schemas as they were: a comment, a partition."""
    if effect.kind != "alter table":
        return []
    known = {(one.lower(), two.lower()): table for (one, two), table in tables.items()}
    names, _ = ddl_tables(sql, schema)
    return [known[name] for one, two in names if (name := (one.lower(), two.lower())) in known]


def _full(name: TableName) -> str:
    return f"{quoted(name[0])}.{quoted(name[1])}"


_QUOTED = {
    mode: re.compile(
        rf"""'(?P<string>{body}*)'|"(?P<double>{body.replace("'", '"')}*)"|`(?:[^`]|``)*`"""
        r"""|/\*(?![!M]).*?\*/|--(?=\s)[^\n]*|\#[^\n]*|(?P<versioning>\bWITH\s+SYSTEM\s+VERSIONING\b)""",
        re.DOTALL | re.IGNORECASE,
    )
    for mode, body in ((0, r"(?:[^'\\]|\\.|'')"), (NO_BACKSLASH_ESCAPES, r"(?:[^']|'')"))
}


def plain_sql(sql: str, sql_mode: int) -> str:
    """A statement as it is written under an empty sql_mode: names in backquotes, strings in single quotes.

    WITH SYSTEM VERSIONING is left out: rows of such tables are refused when they come.
    """
    literal = sql_mode & NO_BACKSLASH_ESCAPES

    def string(text: str) -> str:
        return "'" + (text.replace("\\", "\\\\") if literal else text) + "'"

    def plain(found: re.Match[str]) -> str:
        if found["versioning"]:
            return ""
        if found["string"] is not None:
            return string(found["string"])
        double = found["double"]
        if double is None:
            return found[0]
        if sql_mode & ANSI_QUOTES:
            return quoted(double.replace('""', '"'))
        return string(double.replace('""', '"').replace("'", "''"))

    return _QUOTED[literal].sub(plain, sql)
