"""Parses the SQL of a DDL into a ``Statement``.

Reads what TiCDC sends (TiDB's re-printed text), ``SHOW CREATE TABLE``, Dumpling files and what people type.
sqlglot's MySQL dialect cannot parse 34 of the 223 different DDLs of the vectors, RENAME among them.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeVar

from ticdc_spark.ddl.alter import alteration
from ticdc_spark.ddl.columns import column_def
from ticdc_spark.ddl.indexes import constraint_name, index_def, key_parts, keys_of
from ticdc_spark.ddl.known import STATEMENTS
from ticdc_spark.ddl.lex import Backslash, Cursor, Name
from ticdc_spark.ddl.statements import (
    AddIndex,
    Alteration,
    AlterTable,
    Charset,
    ColumnDef,
    CreateTable,
    DatabaseDdl,
    DropIndex,
    DropTables,
    Key,
    MoveRows,
    NoEffect,
    OtherDdl,
    RenameTables,
    RestoreTable,
    Statement,
    TableComment,
    TruncateTable,
    Unsupported,
)
from ticdc_spark.model import Index

T = TypeVar("T")
_STATEMENTS_KEPT = 4096
"""A DDL is parsed many times on its way to the lake: for its tables, its names, and its effect on each of them."""


@lru_cache(_STATEMENTS_KEPT)
def parse(sql: str, backslash: Backslash = "literal") -> Statement:
    """Parse one statement; ``;`` may follow.

    Raises: MessageError if it begins like a statement on tables but cannot be read to its end.
    """
    return read_statement(Cursor(sql, backslash))


def read_statement(cur: Cursor) -> Statement:
    """``parse`` from a cursor, which records the places of table names."""
    if cur.accept("create"):
        return _create(cur)
    if cur.accept("drop"):
        return _drop(cur)
    if cur.accept("alter"):
        return _alter(cur)
    if cur.accept("rename", "table") or cur.accept("rename", "tables"):
        cur.accept("if", "exists")
        return RenameTables(tuple(_list(cur, lambda: (_waiting(cur), _to(cur)))))
    if cur.accept("truncate"):
        cur.accept("table")
        return TruncateTable(cur.table())
    if cur.accept("recover", "table"):
        if cur.accept("by"):
            return Unsupported("RECOVER TABLE BY JOB does not name its table")
        return RestoreTable(cur.table(), None)
    if cur.accept("flashback", "table"):
        name = cur.table()
        return RestoreTable(name, cur.table() if cur.accept("to") else None)
    if cur.accept("flashback"):
        return Unsupported("FLASHBACK of a cluster or database changes tables without naming them")
    return OtherDdl(cur.peek().text.lower())


def unknown_part(sql: str, backslash: Backslash = "literal") -> str:
    """The statement, or its part, that may change tables in an unknown way; ``""``: there is none.

    Raises: MessageError as ``parse`` does.
    """
    statement = parse(sql, backslash)
    if isinstance(statement, OtherDdl) and statement.what not in STATEMENTS:
        return statement.what
    parts = statement.parts if isinstance(statement, AlterTable) else ()
    return next((part.what for part in parts if isinstance(part, NoEffect) and not part.known), "")


def _waiting(cur: Cursor) -> Name:
    """A table's name, and the lock timeout behind it (MariaDB)."""
    name = cur.table()
    if cur.accept("wait"):
        cur.next()
    cur.accept("nowait")
    return name


def _to(cur: Cursor) -> Name:
    if not cur.accept("to"):
        raise cur.fail("TO")
    return cur.table()


def _list(cur: Cursor, read: Callable[[], T]) -> list[T]:
    items = [read()]
    while cur.op(","):
        items.append(read())
    return items


def _create(cur: Cursor) -> Statement:
    replaces = cur.accept("or", "replace")
    if cur.any_of("database", "schema"):
        if_not_exists = cur.accept("if", "not", "exists")
        return DatabaseDdl("create", cur.database(), _options(cur).charset, if_not_exists)
    if cur.accept("table"):
        return _create_table(cur)
    if cur.accept("spatial", "reference"):
        return OtherDdl("create spatial")
    cur.any_of("online", "offline")
    kind = cur.any_of("unique", "fulltext", "spatial", "columnar", "vector", "index")
    if not kind:
        return OtherDdl("create " + cur.peek().text.lower())
    cur.accept("index")
    if_not_exists = cur.accept("if", "not", "exists")
    name = cur.name()
    if cur.any_of("using", "type"):
        cur.name()
    if not cur.accept("on"):
        raise cur.fail("ON")
    table = cur.table()
    columns, prefixes = key_parts(cur)
    index = Index(name=name, unique=kind == "unique", primary=False, nullable=True, columns=columns, prefixes=prefixes)
    added = AddIndex(index, if_not_exists)
    return AlterTable(table, (DropIndex(name), added) if replaces else (added,))


def _create_table(cur: Cursor) -> Statement:
    if_not_exists = cur.accept("if", "not", "exists")
    name = cur.table()
    like = cur.accept("like")
    opened = cur.op("(")
    if like or (opened and cur.accept("like")):
        return CreateTable(name=name, like=cur.table(), if_not_exists=if_not_exists)
    if not opened:
        return Unsupported("CREATE TABLE … AS SELECT names no columns")
    columns: list[ColumnDef] = []
    keys: list[Key] = []
    while True:
        added = index_def(cur, constraint_name(cur))
        if added is None:
            columns.append(column_def(cur))
            keys += keys_of(columns[-1])
        elif added.index.columns:
            keys.append(added)
        if not cur.op(","):
            break
    cur.expect_op(")")
    options = _options(cur)
    if options.selects:
        return Unsupported("CREATE TABLE … SELECT brings rows without row messages")
    return CreateTable(
        name=name,
        columns=tuple(columns),
        keys=tuple(keys),
        charset=options.charset,
        comment=options.comment,
        if_not_exists=if_not_exists,
        partition_by="" if cur.at_end() else cur.sql[cur.peek().start :],
    )


class _Options(NamedTuple):
    """Options of a table or database."""

    charset: Charset | None = None
    comment: str | None = None
    selects: bool = False
    """Whether a SELECT follows."""


def _options(cur: Cursor) -> _Options:
    """Read options. Stops after PARTITION BY."""
    charset = collate = comment = None
    while not cur.at_end():
        if cur.accept("character", "set") or cur.accept("char", "set") or cur.accept("charset"):
            cur.op("=")
            charset = cur.charset()
        elif cur.accept("collate"):
            cur.op("=")
            collate = cur.charset()
        elif cur.at_kept_option():
            cur.next()
            cur.op("=")
            comment = cur.string()
        elif cur.any_of("select", "as", "with", "values"):
            return _Options(selects=True)
        elif cur.accept("partition", "by"):
            break
        elif cur.peek().is_word("create"):
            raise cur.fail("';' before the next statement")
        else:
            cur.next()
    return _Options(Charset(charset, collate, False) if charset or collate else None, comment)


def _drop(cur: Cursor) -> Statement:
    if cur.any_of("database", "schema"):
        cur.accept("if", "exists")
        return DatabaseDdl("drop", cur.database())
    if cur.accept("table") or cur.accept("tables"):
        cur.accept("if", "exists")
        return DropTables(tuple(_list(cur, cur.table)))
    if cur.accept("index"):
        cur.accept("if", "exists")
        name = cur.name()
        if not cur.accept("on"):
            raise cur.fail("ON")
        return AlterTable(cur.table(), (DropIndex("" if name.lower() == "primary" else name),))
    return OtherDdl("drop " + cur.peek().text.lower())


def _item(cur: Cursor) -> list[Alteration]:
    """A part of an ALTER TABLE, with what follows without a comma: options and partitioning.

    Beside a character set or a comment, ``_IDLE`` options are no parts.
    """
    parts = list(alteration(cur))
    while not cur.at_end() and not cur.op(","):
        parts += alteration(cur)
    if not any(isinstance(one, Charset | TableComment) for one in parts):
        return parts
    return [one for one in parts if not (isinstance(one, NoEffect) and _IDLE.match(one.what))]


_IDLE = re.compile(r"(engine|row_format)\b", re.IGNORECASE)
"""Options for which TiDB makes no DDL job."""


def _alter(cur: Cursor) -> Statement:
    if cur.any_of("database", "schema"):
        token = cur.peek()
        options = ("default", "character", "charset", "collate", "placement", "set")
        named = token.kind == "name" or (token.kind == "word" and token.text.lower() not in options)
        return DatabaseDdl("alter", cur.database() if named else None, _options(cur).charset)
    cur.any_of("online", "offline")
    ignores = cur.accept("ignore")
    if not cur.accept("table"):
        return OtherDdl("alter " + cur.peek().text.lower())
    cur.accept("if", "exists")
    name = _waiting(cur)
    parts: list[Alteration] = []
    while not cur.at_end():
        parts += _item(cur)
    if ignores and any(isinstance(part, AddIndex) and part.index.unique for part in parts):
        parts.append(MoveRows("ALTER IGNORE TABLE removes what a new key finds twice", lossless=False))
    return AlterTable(name, tuple(parts))
