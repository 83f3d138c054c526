"""Definitions of keys."""

from __future__ import annotations

from typing import NamedTuple

from ticdc_spark.ddl.lex import Cursor
from ticdc_spark.ddl.statements import AddForeignKey, AddIndex, ColumnDef, Key
from ticdc_spark.model import Index

PRIMARY = "PRIMARY"
"""The name of a primary key, if it is an index of its own."""
CLUSTERED = "primary"
"""The name in Simple of a primary key for which TiDB has no index: the integer by which it orders the rows."""
_NO_KEY = Index(name="", unique=False, primary=False, nullable=True, columns=())


class KeyParts(NamedTuple):
    """What an index has."""

    columns: tuple[str, ...]
    """An expression is ``(expression)``."""
    prefixes: tuple[int, ...]
    """As in ``Index``."""


def key_parts(cur: Cursor) -> KeyParts:
    """Read ``(a, b(5) DESC, (expression))``."""
    cur.expect_op("(")
    columns, prefixes = [], []
    while not cur.op(")"):
        columns.append(f"({cur.brackets()})" if cur.opens() else cur.name())
        prefix = cur.brackets() if cur.opens() else ""
        prefixes.append(int(prefix) if prefix.isdecimal() else 0)
        cur.skip_item()
        if not cur.op(",") and not (cur.peek().kind == "op" and cur.peek().text == ")"):
            raise cur.fail("',' or ')'")
    return KeyParts(tuple(columns), tuple(prefixes) if any(prefixes) else ())


def constraint_name(cur: Cursor) -> str:
    """Read CONSTRAINT and its name; ``""``: it has none."""
    if not cur.accept("constraint") or cur.peek().word in ("primary", "unique", "foreign", "check"):
        return ""
    return cur.name()


def index_def(cur: Cursor, named: str = "") -> Key | None:
    """Read a key of CREATE TABLE or ADD, from PRIMARY, UNIQUE, KEY …; ``None`` if no key follows.

    ``named`` is the constraint's name. CHECK and PERIOD FOR are skipped and return an index without columns. An index
    without a name gets ``""``, as does a primary key that is not NONCLUSTERED. The table decides whether it can be
    NULL.
    """
    primary = unique = False
    if cur.accept("primary", "key"):
        primary = unique = True
    elif cur.accept("unique"):
        cur.any_of("key", "index")
        unique = True
    elif cur.accept("foreign"):
        return _foreign_key(cur, named)
    elif cur.accept("check") or cur.accept("period", "for"):
        cur.skip_item()
        return AddIndex(_NO_KEY)
    elif cur.any_of("fulltext", "spatial"):
        cur.any_of("key", "index")
    elif not (_is_columnar(cur) or cur.any_of("key", "index")):
        return None
    if_not_exists = cur.accept("if", "not", "exists")
    name, start = named, cur.peek().start
    is_named = not cur.opens() and not cur.peek().is_word("using")
    if is_named:
        name = cur.name()
    if cur.any_of("using", "type"):
        cur.name()
    parts = key_parts(cur)
    if primary:
        name = PRIMARY if "NONCLUSTERED" in cur.skip_item().upper().split() else ""
    else:
        cur.skip_item()
    index = Index(
        name=name, unique=unique, primary=primary, nullable=True, columns=parts.columns, prefixes=parts.prefixes
    )
    return AddIndex(index, if_not_exists, unnamed_at=None if primary or name else start)


def _is_columnar(cur: Cursor) -> bool:
    """Read VECTOR INDEX or COLUMNAR INDEX. These words may name a column, too."""
    return any(cur.accept(first, "index") or cur.accept(first, "key") for first in ("vector", "columnar"))


def _foreign_key(cur: Cursor, named: str) -> AddForeignKey:
    cur.accept("key")
    if_not_exists = cur.accept("if", "not", "exists")
    name = "" if cur.opens() else cur.name()
    columns = key_parts(cur).columns
    cur.skip_item()
    return AddForeignKey(_of_foreign_key(named or name, columns), if_not_exists)


def _of_foreign_key(name: str, columns: tuple[str, ...]) -> Index:
    return Index(name=name, unique=False, primary=False, nullable=True, columns=columns)


def keys_of(definition: ColumnDef, *, if_not_exists: bool = False) -> list[Key]:
    """The keys that a column's definition declares."""
    name = definition.column.name
    named = PRIMARY if definition.nonclustered else ""
    found: list[Key] = []
    if definition.primary:
        primary = Index(name=named, unique=True, primary=True, nullable=False, columns=(name,))
        found.append(AddIndex(primary, if_not_exists, of_column=True))
    if definition.unique:
        unique = Index(name="", unique=True, primary=False, nullable=True, columns=(name,))
        found.append(AddIndex(unique, if_not_exists, of_column=True, beside_primary=definition.primary))
    if definition.foreign is not None:
        index = _of_foreign_key(definition.foreign, (name,))
        found.append(AddForeignKey(index, if_not_exists, of_column=True))
    return found
