"""The tables that a file of SQL makes: by hand, of mysqldump, of Dumpling or of the mysql client.

Such files have much else: rows, routines, settings, and text of programs. Quotes in it may not match. So every
statement ends at the first ``;`` that ends a line, at the latest. CREATE, ALTER and RENAME TABLE are followed, and the
last CREATE of a name counts. DROP TABLE is not followed: a schema that no row needs does no harm, and it may be part of
a routine.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from ticdc_spark.ddl.dialect import Server
from ticdc_spark.ddl.effect import apply_ddl, fold, parse_create
from ticdc_spark.ddl.lex import Cursor, Name, Token
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import AlterTable, CreateTable, DatabaseDdl, RenameTables, Statement, Unsupported
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table, TableName
from ticdc_spark.names import folded

_TOOLS = Server(backslash="escape")
"""Dumps escape as MySQL does."""
_FOLLOWED = frozenset({"create", "alter", "rename", "drop"})
_LINE = re.compile(r"[^\r\n]*")
_ENDS_A_LINE = re.compile(r";[ \t]*(?:\r?\n|\Z)")
_TO_SEMICOLON = re.compile(
    r"""(?>[^;'"`]+|'(?>[^'\\]+|\\.|'')*+'|"(?>[^"\\]+|\\.|"")*+"|`[^`]*+`|['"`])*+""", re.DOTALL
)
_USED = re.compile(r"`(?P<quoted>(?:[^`]|``)*)`|(?P<bare>[^\s;]+)")
_ANOTHER = re.compile(r"\n\s*CREATE\s+TABLE\b", re.IGNORECASE)
_INDEX = re.compile(r"(?:CREATE|DROP)\s+(?:\w+\s+)?INDEX\b", re.IGNORECASE)


def tables_of_script(
    text: str, schema: str = "", known: Mapping[TableName, Table] | None = None
) -> dict[TableName, Table]:
    """The tables after a script that runs where ``known`` are. ``schema``: the database before the first ``USE`` or
    ``CREATE DATABASE``.

    Raises: MessageError with the statement that cannot be followed
    """
    script = _Script(schema, known or {})
    for statement in _statements(text):
        try:
            script.run(statement)
        except MessageError as error:
            raise MessageError(f"{error}: {statement[:80]}") from error
    return script.tables


class _Script:
    """The tables and the database at one place of a script."""

    def __init__(self, schema: str, known: Mapping[TableName, Table]) -> None:
        self.schema, self.tables = schema, dict(known)
        self._names = {folded(name): name for name in known}

    def run(self, statement: str) -> None:
        cur = Cursor(statement)
        if cur.accept("use"):
            self.schema = _used(statement, cur.peek())
            return
        try:
            found = parse(statement, "escape")
        except MessageError:
            if _INDEX.match(statement):
                return  # Only an index that makes a key matters.
            raise
        if isinstance(found, CreateTable | AlterTable | RenameTables | DatabaseDdl) and _ANOTHER.search(statement):
            raise MessageError("expected ';' before the next CREATE TABLE")
        self._follow(found, statement)

    def _follow(self, found: Statement, statement: str) -> None:
        match found:
            case DatabaseDdl(what="create"):
                self.schema = found.name or ""
            case CreateTable(like=None):
                self._put(parse_create(statement, self.schema, "escape"))
            case CreateTable():
                name, model = self._full(found.name), self._known(found.like) if found.like else None
                if model is None:
                    raise MessageError("its model is not known")
                self._put(replace(self.tables[model], schema=name[0], name=name[1]))
            case AlterTable():
                if (old := self._known(found.name)) is not None:
                    self._alter(old, statement)
            case RenameTables():
                for one, new in found.pairs:
                    if (old := self._known(one)) is not None:
                        full = self._full(new)
                        self._put(replace(self._pop(old), schema=full[0], name=full[1]))
            case Unsupported(reason) if statement[:6].lower() == "create":
                raise MessageError(reason)

    def _alter(self, old: TableName, statement: str) -> None:
        effect = apply_ddl({old: self.tables[old]}, self.schema, statement, _TOOLS)
        if effect.unsupported:
            raise MessageError(effect.unsupported)
        before = {old: self._pop(old)}
        for table in fold(before, effect).values():
            self._put(table)

    def _full(self, name: Name) -> TableName:
        return name[0] or self.schema, name[1]

    def _known(self, name: Name) -> TableName | None:
        return self._names.get(folded(self._full(name)))

    def _pop(self, name: TableName) -> Table:
        del self._names[folded(name)]
        return self.tables.pop(name)

    def _put(self, table: Table) -> None:
        name = table.full_name
        if not name[0]:
            raise MessageError("no database; write `db`.`table`, or USE db before it")
        twin = self._names.setdefault(folded(name), name)
        if twin != name:
            raise MessageError(
                f"`{name[0]}`.`{name[1]}` and `{twin[0]}`.`{twin[1]}` differ only in upper and lower case, so they are "
                "one table. Remove one of them"
            )
        self.tables[name] = table


def _used(statement: str, token: Token) -> str:
    """The database of ``USE``. Without quotes, the mysql client takes all up to a blank."""
    found = _USED.match(statement, token.start)
    if found is None:
        return ""
    return found["quoted"].replace("``", "`") if found["bare"] is None else found["bare"].strip("'\"")


def _statements(text: str) -> Iterator[str]:
    """The statements that may matter, without what ends them and without comments before them."""
    cur = Cursor(text.removeprefix("\ufeff"), "escape")
    sql, delimiter, pos, bound = cur.sql, ";", 0, -1
    while (token := cur.peek_at(pos)).kind != "end":
        start = token.start
        if token.word in ("delimiter", "use"):  # commands of the mysql client, which end with their line
            line = _LINE.match(sql, start)
            assert line is not None, "it matches the empty text"
            pos = line.end()
            if token.word == "delimiter":
                words = line[0].split()
                delimiter = words[1].strip("'\"") if len(words) > 1 else ";"
                continue
            name = _USED.match(sql, cur.peek_at(token.end).start, pos)
            end = pos if name is None else name.end()
            after = sql.find(delimiter, end, pos)
            pos = pos if after < 0 else after + len(delimiter)
        elif delimiter != ";":  # a routine has `;` inside
            end = sql.find(delimiter, start)
            end = len(sql) if end < 0 else end
            pos = end + len(delimiter)
        else:
            if bound < start:
                line = _ENDS_A_LINE.search(sql, start)
                bound = line.start() if line else len(sql)
            end = _end_of_followed(cur, start, bound) if token.word in _FOLLOWED else _end_of_other(sql, start, bound)
            pos = end + 1
        if end > start and (token.word in _FOLLOWED or token.word == "use"):
            yield sql[start:end]


def _end_of_followed(cur: Cursor, start: int, bound: int) -> int:
    token = cur.peek_at(start)
    while token.kind != "end" and (token.kind, token.text) != ("op", ";") and token.start < bound:
        token = cur.peek_at(token.end)
    return min(token.start, bound)


def _end_of_other(sql: str, start: int, bound: int) -> int:
    found = _TO_SEMICOLON.match(sql, start, bound)
    assert found is not None, "it matches the empty text"
    return found.end()
