"""The tables that a statement names, and the statement with other names for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ticdc_spark.ddl.lex import Name
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import (
    Alteration,
    AlterTable,
    CreateTable,
    DatabaseDdl,
    DropTables,
    MoveRows,
    RenameTables,
    RenameTo,
    RestoreTable,
    Statement,
    TruncateTable,
)
from ticdc_spark.model import SchemaChange, TableName


class Reference(NamedTuple):
    """A name in a statement; for a database, the table is ``""``."""

    name: Name
    is_new: bool
    """The name is new: in a CREATE, or as the new name of a RENAME."""


def references(statement: Statement) -> tuple[Reference, ...]:
    """The names in a statement, in order."""
    found: list[Reference] = []

    def note(name: Name, is_new: bool) -> Name:
        found.append(Reference(name, is_new))
        return name

    _mapped(statement, note)
    return tuple(found)


def with_names(statement: Statement, names: Sequence[TableName]) -> Statement:
    """The statement with other names, one for each of its ``references``."""
    left = iter(names)
    return _mapped(statement, lambda _name, _is_new: next(left))


def statement_of(change: SchemaChange) -> Statement:
    """The statement of a DDL, with the known names of its tables.

    Raises: MessageError if the SQL cannot be read.
    """
    statement = parse(change.query)
    return with_names(statement, change.named) if change.named else statement


def _mapped(statement: Statement, put: Callable[[Name, bool], Name]) -> Statement:
    match statement:
        case DatabaseDdl(what, name):
            return replace(statement, name=put((name, ""), what == "create")[0])
        case CreateTable(name=name, like=like):
            named = replace(statement, name=put(name, True))
            return named if like is None else replace(named, like=put(like, False))
        case AlterTable(name, parts):
            named_first = put(name, False)
            return AlterTable(named_first, tuple(_mapped_part(part, put) for part in parts))
        case RenameTables(pairs):
            return RenameTables(tuple((put(old, False), put(new, True)) for old, new in pairs))
        case DropTables(names):
            return DropTables(tuple(put(name, False) for name in names))
        case TruncateTable(name):
            return TruncateTable(put(name, False))
        case RestoreTable(name, new):
            back = put(name, False)
            return RestoreTable(back, None if new is None else put(new, True))
    return statement


def _mapped_part(part: Alteration, put: Callable[[Name, bool], Name]) -> Alteration:
    if isinstance(part, RenameTo):
        return RenameTo(put(part.new, True))
    if isinstance(part, MoveRows) and part.other is not None:
        return replace(part, other=put(part.other, False))
    return part
