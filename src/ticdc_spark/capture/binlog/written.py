"""Finds the tables that a statement writes, if it was logged instead of its rows: INSERT, UPDATE, LOAD DATA …"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ticdc_spark.ddl.lex import Cursor, Name
from ticdc_spark.errors import MessageError
from ticdc_spark.model import TableName

_MODIFIERS = {
    "insert": ("low_priority", "high_priority", "delayed", "ignore"),
    "replace": ("low_priority", "delayed"),
    "update": ("low_priority", "ignore"),
    "delete": ("low_priority", "quick", "ignore"),
    "load": ("low_priority", "concurrent", "local"),
}
_ENDS = ("where", "order", "limit", "returning")
"""Words that end the table references, or the assignments, of a statement."""
_STOPS = (("op", ")"), ("op", ";"), ("end", ""))
_JOINS = ("join", "straight_join")
_QUERIES = frozenset(("select", "with", "values", "table"))
_NO_ALIAS = frozenset(
    (
        *("cross", "for", "force", "full", "ignore", "inner", "join", "left", "limit", "natural", "on", "order"),
        *("partition", "returning", "right", "set", "straight_join", "use", "using", "where", "window"),
    )
)
"""Words after a table that are not its alias."""
_NO_TABLE = frozenset(("dual", "force", "ignore", "lateral", "on", "select", "set", "use", "using", "where"))
Named: TypeAlias = TableName | None


class Written(NamedTuple):
    """The effects of a statement that its text shows."""

    tables: frozenset[TableName]
    """The tables that it writes itself. Writes of their triggers are not known."""
    calls: frozenset[str]
    """Names before a bracket, in lower case: functions, and other words."""


def written_by(sql: str, schema: str) -> Written:
    """What a statement writes with the default database ``schema``. Its text is for an empty sql_mode.

    Raises: MessageError for a statement that is not understood
    """
    statement = _Statement(sql, schema)
    return Written(frozenset(statement.tables()), frozenset(_calls(sql)))


def _calls(sql: str) -> Iterable[str]:
    cur, last = Cursor(sql, "escape"), ""
    while (token := cur.next()).kind != "end":
        if token.kind == "op" and token.text == "(" and last:
            yield last.lower()
        last = token.text if token.kind in ("name", "word") else ""


class _Statement:
    def __init__(self, sql: str, schema: str) -> None:
        self._cur = Cursor(sql, "escape")
        self._schema = schema
        self._ctes: set[str] = set()

    def tables(self) -> list[TableName]:
        cur = self._cur
        if cur.accept("with"):
            self._with()
        verb = cur.any_of(*_MODIFIERS)
        if verb == "load" and not cur.any_of("data", "xml"):
            raise cur.fail("DATA")
        while verb and cur.any_of(*_MODIFIERS[verb]):
            pass
        if verb == "load":
            return self._load()
        if verb in ("insert", "replace"):
            cur.accept("into")
            return [self._full(cur.table())]
        if verb == "update":
            return self._update()
        if verb == "delete":
            return self._delete()
        raise cur.fail("INSERT, REPLACE, UPDATE, DELETE or LOAD DATA")

    def _with(self) -> None:
        cur = self._cur
        cur.accept("recursive")
        while True:
            self._ctes.add(cur.name().lower())
            if cur.opens():
                cur.brackets()
            if not cur.accept("as"):
                raise cur.fail("AS")
            cur.brackets()
            if not cur.op(","):
                return

    def _load(self) -> list[TableName]:
        cur = self._cur
        if not cur.accept("infile"):
            raise cur.fail("INFILE")
        cur.string()
        cur.any_of("replace", "ignore")
        if not cur.accept("into", "table"):
            raise cur.fail("INTO TABLE")
        return [self._full(cur.table())]

    def _update(self) -> list[TableName]:
        refs = self._refs()
        if not self._cur.accept("set"):
            raise self._cur.fail("SET")
        written: list[TableName] = []
        while True:
            written += self._assigned(refs)
            if not self._skip_value():
                return written

    def _assigned(self, refs: Mapping[TableName, Named]) -> list[TableName]:
        """The tables that assignments may write. A column without a table may be of any named table."""
        cur = self._cur
        parts = [cur.name()]
        while cur.op("."):
            parts.append(cur.name())
        if not cur.op("="):
            cur.expect_op(":")
            cur.expect_op("=")
        if len(parts) == 1:
            return [name for name in refs.values() if name is not None]
        return self._named((None if len(parts) == 2 else parts[-3], parts[-2]), refs)

    def _skip_value(self) -> bool:
        """Skip an assigned value. Returns: whether another assignment follows."""
        cur = self._cur
        while True:
            if cur.op(","):
                return True
            if cur.opens():
                cur.brackets()
            elif cur.op("."):
                cur.next()
            elif cur.peek().kind == "end" or cur.peek().word in _ENDS:
                return False
            else:
                cur.next()

    def _delete(self) -> list[TableName]:
        cur = self._cur
        if not cur.accept("from"):
            targets = self._targets()
            if not cur.accept("from"):
                raise cur.fail("FROM")
            refs = self._refs()
            return [name for one in targets for name in self._named(one, refs)]
        targets = self._targets()
        if cur.accept("using"):
            refs = self._refs()
            return [name for one in targets for name in self._named(one, refs)]
        if len(targets) > 1:
            raise cur.fail("USING")
        return [self._full(targets[0])]

    def _targets(self) -> list[Name]:
        """Names, each maybe with ``.*`` after it."""
        cur, found = self._cur, list[Name]()
        while True:
            parts = [cur.name()]
            while cur.op("."):
                if cur.op("*"):
                    break
                parts.append(cur.name())
            if len(parts) > 2:
                raise cur.fail("a table")
            found.append((None, parts[0]) if len(parts) == 1 else (parts[0], parts[1]))
            if not cur.op(","):
                return found

    def _refs(self) -> dict[TableName, Named]:
        """Table references: the table for each name that the statement uses.

        A name without a database has an empty one. ``None``: it is the result of a query.
        """
        found: dict[TableName, Named] = {}
        self._references(found)
        return found

    def _references(self, into: dict[TableName, Named]) -> None:
        cur = self._cur
        self._reference(into)
        while True:
            token = cur.peek()
            if cur.op(",") or cur.any_of(*_JOINS):
                self._reference(into)
            elif cur.opens():
                cur.brackets()
            elif cur.op("."):
                cur.next()  # of a column, whose name may be any word
            elif token.word in ("set", *_ENDS) or token[:2] in _STOPS:
                return
            else:
                cur.next()

    def _reference(self, into: dict[TableName, Named]) -> None:
        cur = self._cur
        if cur.opens():
            if self._is_query():
                cur.brackets()
                self._alias(into, None)
                return
            cur.expect_op("(")
            self._references(into)
            cur.expect_op(")")
            return
        if cur.peek().word in _NO_TABLE:
            raise cur.fail("a table")
        name = cur.table()
        if cur.opens():
            raise MessageError(f"`{name[1]}` is not a table that is understood")
        table = None if name[0] is None and name[1].lower() in self._ctes else self._full(name)
        if cur.accept("partition"):
            cur.brackets()
        if not self._alias(into, table):
            into[name[0] or "", name[1]] = table

    def _alias(self, into: dict[TableName, Named], table: Named) -> bool:
        cur = self._cur
        token = cur.peek()
        if cur.accept("as") or token.kind == "name" or (token.kind == "word" and token.word not in _NO_ALIAS):
            into["", cur.name()] = table
            return True
        return False

    def _is_query(self) -> bool:
        inside = Cursor(self._cur.sql, "escape")
        inside.pos = self._cur.peek().end
        while inside.op("("):
            pass
        return inside.peek().word in _QUERIES

    def _named(self, name: Name, refs: Mapping[TableName, Named]) -> list[TableName]:
        """The tables that a name or alias of the statement may mean."""
        schema, table = name
        found = [
            meant
            for (one, other), meant in refs.items()
            if meant is not None
            and other.lower() == table.lower()
            and (schema is None or (one or self._schema).lower() == schema.lower())
        ]
        if not found:
            raise MessageError(f"DML: `{table}` is none of the tables that the statement names")
        return found

    def _full(self, name: Name) -> TableName:
        schema = name[0] or self._schema
        if not schema:
            raise MessageError(f"DML: `{name[1]}` is written without a database, and there is no default one")
        return schema, name[1]
