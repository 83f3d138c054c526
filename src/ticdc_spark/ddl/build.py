"""Tables from definitions: charsets filled in, keys named, and the parts of an ALTER TABLE applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from ticdc_spark.ddl.columns import WITH_CHARSET, to_binary
from ticdc_spark.ddl.statements import (
    AddColumn,
    AddIndex,
    Alteration,
    ChangeColumn,
    Charset,
    ColumnDef,
    DropColumn,
    DropIndex,
    Position,
    RenameColumn,
    RenameIndex,
    SetDefault,
)
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Index, Table

# TiDB's default collations; the rest of them are <charset>_bin.
_COLLATES = {"binary": "binary", "gbk": "gbk_chinese_ci", "gb18030": "gb18030_chinese_ci"}
DEFAULT_CHARSET = Charset("utf8mb4", "utf8mb4_bin", False)


def build_table(
    schema: str, name: str, columns: Sequence[ColumnDef], indexes: Sequence[Index], charset: Charset | None
) -> Table:
    """A table of a CREATE TABLE.

    Raises: MessageError if a key names a column that is not there.
    """
    building = Building(Table(schema=schema, name=name, columns=()), charset or DEFAULT_CHARSET)
    for column in columns:
        building.columns.append(building.complete(column))
    for index in indexes:  # a table's own keys come before those of its columns
        building.add_index(index)
    for column in columns:
        building.add_keys(column)
    return building.table()


def charset_of(table: Table) -> Charset:
    """The charset that a new text column gets: the one that all text columns have, else TiDB's default.

    A ``Table`` does not keep its own default charset.
    """
    found = {(c.type.charset, c.type.collate) for c in table.columns if c.type.name in WITH_CHARSET}
    if len(found) != 1:
        return DEFAULT_CHARSET
    charset, collate = found.pop()
    return Charset(charset, collate, False) if charset else DEFAULT_CHARSET


class Building:
    """A table while it is changed. Column and index names compare without case."""

    def __init__(self, table: Table, charset: Charset | None = None) -> None:
        self._before = table
        self._charset = charset or charset_of(table)
        self.columns = list(table.columns)
        self.indexes = list(table.indexes)

    def table(self) -> Table:
        """The table as it is now."""
        nullable = {column.name.lower(): column.nullable for column in self.columns}
        indexes = tuple(
            replace(index, nullable=any(nullable.get(name.lower(), True) for name in index.columns))
            for index in self.indexes
        )
        changed = replace(self._before, columns=tuple(self.columns), indexes=indexes)
        return changed if changed == self._before else replace(changed, version=None)

    def apply(self, part: Alteration) -> None:
        """Apply one part of an ALTER TABLE; parts that change no schema do nothing.

        Raises: MessageError if it names a column or index that is not there.
        """
        change = _CHANGES.get(type(part))
        if change is not None:
            change(self, part)

    def complete(self, definition: ColumnDef) -> Column:
        """A column with the charset of its table where it names none."""
        column = definition.column
        if column.type.name not in WITH_CHARSET:
            return column
        charset = column.type.charset or self._charset.charset or _charset_of_collate(self._charset)
        own = column.type.charset is not None and column.type.charset != self._charset.charset
        collate = column.type.collate or (None if own else self._charset.collate) or _collate(charset)
        return replace(column, type=to_binary(replace(column.type, charset=charset, collate=collate)))

    def add_keys(self, definition: ColumnDef) -> None:
        """The keys that a column declares for itself."""
        name = (definition.column.name,)
        if definition.primary:
            self.add_index(Index(name="PRIMARY", unique=True, primary=True, nullable=False, columns=name))
        if definition.unique:
            self.add_index(Index(name="", unique=True, primary=False, nullable=True, columns=name))

    def add_index(self, index: Index) -> None:
        """Add a key, named after its first column if it has no name; columns of a primary key become NOT NULL."""
        names = [name if name.startswith("(") else self.columns[self._at(name)].name for name in index.columns]
        if index.primary:
            for name in names:
                at = self._at(name)
                self.columns[at] = replace(self.columns[at], nullable=False)
        self.indexes.append(replace(index, name=index.name or self._free_name(names[0]), columns=tuple(names)))

    def _free_name(self, first: str) -> str:
        base = "expression_index" if first.startswith("(") else first
        taken = {index.name.lower() for index in self.indexes} | {"primary"}
        name, number = base, 2
        while name.lower() in taken:
            name, number = f"{base}_{number}", number + 1
        return name

    def _at(self, name: str) -> int:
        for at, column in enumerate(self.columns):
            if column.name.lower() == name.lower():
                return at
        raise MessageError(f"DDL: `{self._before.schema}`.`{self._before.name}` has no column `{name}`")

    def _has(self, name: str) -> bool:
        return any(column.name.lower() == name.lower() for column in self.columns)

    def _place(self, column: Column, position: Position) -> None:
        where, after = position
        at = {"first": 0, "last": len(self.columns)}.get(where)
        self.columns.insert(self._at(after) + 1 if at is None else at, column)

    def _add_column(self, part: AddColumn) -> None:
        if self._has(part.definition.column.name):
            if part.if_not_exists:
                return
            raise MessageError(f"DDL: column `{part.definition.column.name}` is there already")
        self._place(self.complete(part.definition), part.position)
        self.add_keys(part.definition)

    def _drop_column(self, part: DropColumn) -> None:
        if part.if_exists and not self._has(part.name):
            return
        name = self.columns.pop(self._at(part.name)).name
        left = [replace(i, columns=tuple(c for c in i.columns if c != name)) for i in self.indexes]
        self.indexes = [index for index in left if index.columns]

    def _change_column(self, part: ChangeColumn) -> None:
        if part.if_exists and not self._has(part.old):
            return
        at = self._at(part.old)
        old = self.columns[at]
        definition = part.definition
        kind = definition.column.type
        if kind.charset is None and old.type.name in WITH_CHARSET:
            kind = replace(kind, charset=old.type.charset, collate=old.type.collate)
            definition = replace(definition, column=replace(definition.column, type=kind))
        new = self.complete(definition)
        if any(index.primary and old.name in index.columns for index in self.indexes):
            new = replace(new, nullable=False)
        self.columns[at] = new
        self._rename_in_indexes(old.name, new.name)
        if part.position is not None:
            self._place(self.columns.pop(at), part.position)
        self.add_keys(definition)

    def _rename_column(self, part: RenameColumn) -> None:
        if part.if_exists and not self._has(part.old):
            return
        at = self._at(part.old)
        self._rename_in_indexes(self.columns[at].name, part.new)
        self.columns[at] = replace(self.columns[at], name=part.new)

    def _rename_in_indexes(self, old: str, new: str) -> None:
        self.indexes = [
            replace(index, columns=tuple(new if name == old else name for name in index.columns))
            for index in self.indexes
        ]

    def _set_default(self, part: SetDefault) -> None:
        if part.if_exists and not self._has(part.name):
            return
        at = self._at(part.name)
        default = part.default
        if self.columns[at].type.name == "bit" and isinstance(default, str) and default.isdigit():
            default = int(default)
        self.columns[at] = replace(self.columns[at], default=default)

    def _add_index(self, part: AddIndex) -> None:
        name = part.index.name.lower()
        if part.if_not_exists and name and any(index.name.lower() == name for index in self.indexes):
            return
        self.add_index(part.index)

    def _drop_index(self, part: DropIndex) -> None:
        if part.name:
            gone = [i for i in self.indexes if i.name.lower() == part.name.lower() and (i.unique or not part.unique)]
            self.indexes = [index for index in self.indexes if index not in gone]
        else:
            self.indexes = [index for index in self.indexes if not index.primary]

    def _rename_index(self, part: RenameIndex) -> None:
        self.indexes = [
            replace(index, name=part.new) if index.name.lower() == part.old.lower() else index for index in self.indexes
        ]

    def _convert(self, part: Charset) -> None:
        if not part.convert:
            return  # the table's default, which is not kept
        charset = part.charset or _charset_of_collate(part)
        collate = part.collate or _collate(charset)
        for at, column in enumerate(self.columns):
            if column.type.name in WITH_CHARSET:
                kind = to_binary(replace(column.type, charset=charset, collate=collate))
                self.columns[at] = replace(column, type=kind)


_CHANGES: dict[type, Callable[[Building, Any], None]] = {
    AddColumn: Building._add_column,
    DropColumn: Building._drop_column,
    ChangeColumn: Building._change_column,
    RenameColumn: Building._rename_column,
    SetDefault: Building._set_default,
    AddIndex: Building._add_index,
    DropIndex: Building._drop_index,
    RenameIndex: Building._rename_index,
    Charset: Building._convert,
}


def _charset_of_collate(charset: Charset) -> str:
    return charset.collate.partition("_")[0] if charset.collate else "utf8mb4"


def _collate(charset: str) -> str:
    return _COLLATES.get(charset, f"{charset}_bin")
