"""The tables that a file of SQL makes: by hand, of mysqldump, of Dumpling or of the mysql client.

Such files have much else: rows, routines, settings, and text of programs. So a statement on tables ends at its ``;``
as the lexer finds it. Any other one ends at the first ``;`` that ends a line, too, since quotes in it may not match.
"""

import re
from collections.abc import Iterator, Mapping

from ticdc_spark.ddl.effect import apply_ddl, fold
from ticdc_spark.ddl.lex import Cursor
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import (
    AlterTable,
    CreateTable,
    DatabaseDdl,
    DropTables,
    RenameTables,
    TruncateTable,
    Unsupported,
)
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table, TableName
from ticdc_spark.names import folded

_ON_TABLES = frozenset({"create", "alter", "rename", "drop"})
_LINE = re.compile(r"[^\r\n]*")
_ENDS_A_LINE = re.compile(r";[ \t]*(?:\r?\n|\Z)")
_TO_SEMICOLON = re.compile(
    r"""(?>[^;'"`]+|'(?>[^'\\]+|\\.|'')*+'|"(?>[^"\\]+|\\.|"")*+"|`[^`]*+`|['"`])*+""", re.DOTALL
)


def tables_of_script(
    text: str, schema: str = "", known: Mapping[TableName, Table] | None = None
) -> dict[TableName, Table]:
    """The tables after a script that runs where ``known`` are. ``schema``: the database before the first ``USE`` or
    ``CREATE DATABASE``.

    Raises: MessageError with the statement that cannot be followed
    """
    tables = dict(known or {})
    for statement in _statements(text):
        try:
            schema, tables = _after(statement, schema, tables)
        except MessageError as error:
            raise MessageError(f"{error}: {statement[:80]}") from error
    return tables


def _after(statement: str, schema: str, tables: dict[TableName, Table]) -> tuple[str, dict[TableName, Table]]:
    used = _used(statement)
    if used:
        return used, tables
    found = parse(statement, "escape")
    match found:
        case DatabaseDdl(what="create"):
            return found.name or "", tables
        case CreateTable():
            name = (found.name[0] or schema, found.name[1])
            _stop_at_no_name(name, tables)
        case AlterTable() | TruncateTable():
            names = [found.name]
        case RenameTables():
            names = [old for old, _ in found.pairs]
        case DropTables():
            names = list(found.names)
        case Unsupported(reason):
            raise MessageError(reason)
        case _:
            return schema, tables
    if not isinstance(found, CreateTable):
        there = {folded(one) for one in tables}
        if not any(folded((one[0] or schema, one[1])) in there for one in names):
            return schema, tables  # of a table that the script does not make
    effect = apply_ddl(tables, schema, statement, backslash="escape")
    if effect.unsupported:
        raise MessageError(effect.unsupported)
    return schema, fold(tables, effect)


def _stop_at_no_name(name: TableName, tables: Mapping[TableName, Table]) -> None:
    if not name[0]:
        raise MessageError("no database; write `db`.`table`, or USE db before it")
    twin = next((one for one in tables if one != name and folded(one) == folded(name)), None)
    if twin is not None:
        raise MessageError(
            f"`{name[0]}`.`{name[1]}` and `{twin[0]}`.`{twin[1]}` differ only in upper and lower case, so they are one "
            "table. Remove one of them"
        )


def _used(statement: str) -> str:
    """The database of ``USE``; ``""``: another statement. Without quotes, the mysql client takes all up to a blank."""
    cur = Cursor(statement)
    if not cur.accept("use"):
        return ""
    token = cur.peek()
    if token.kind == "name":
        return token.text
    return "".join(statement[token.start :].split()[:1]).strip("'\"")


def _statements(text: str) -> Iterator[str]:
    """Each statement, without what ends it and without comments before it."""
    delimiter, pos, cur = ";", 0, Cursor(text.removeprefix("\ufeff"), "escape")
    while (token := cur.peek_at(pos)).kind != "end":
        line = _LINE.match(cur.sql, token.start)
        assert line is not None, "it matches the empty text"
        if token.word == "delimiter":  # a command of the mysql client: a routine has `;` inside
            delimiter, pos = line[0][len("delimiter") :].strip() or ";", line.end()
            continue
        if token.word == "use":
            head, semicolon, _ = line[0].partition(delimiter)
            end = token.start + len(head)
            pos = end + len(semicolon) if semicolon else line.end()
        elif delimiter != ";":
            end = cur.sql.find(delimiter, token.start)
            end = len(cur.sql) if end < 0 else end
            pos = end + len(delimiter)
        else:
            end = _end(cur, token.start) if token.word in _ON_TABLES else _end_of_other(cur.sql, token.start)
            pos = end + 1
        if end > token.start:
            yield cur.sql[token.start : end]


def _end(cur: Cursor, start: int) -> int:
    pos = start
    while (token := cur.peek_at(pos)).kind != "end" and (token.kind, token.text) != ("op", ";"):
        pos = token.end
    return token.start


def _end_of_other(sql: str, start: int) -> int:
    line = _ENDS_A_LINE.search(sql, start)
    found = _TO_SEMICOLON.match(sql, start, line.start() if line else len(sql))
    assert found is not None, "it matches the empty text"
    return found.end()
