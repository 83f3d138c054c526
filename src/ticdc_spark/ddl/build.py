"""Builds tables from definitions: fills in charsets, names keys, and applies the parts of an ALTER TABLE."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import TypeGuard

from msgspec.structs import replace

from ticdc_spark.ddl.charsets import DEFAULT_CHARSET, default_collate, full_collate, joined, resolved
from ticdc_spark.ddl.columns import WITH_CHARSET, to_binary
from ticdc_spark.ddl.defaults import WrittenDefault
from ticdc_spark.ddl.dialect import Dialect, Replacement
from ticdc_spark.ddl.indexes import CLUSTERED, PRIMARY, keys_of
from ticdc_spark.ddl.key_names import begins_with, doubt_about, free_name, in_order, is_needed
from ticdc_spark.ddl.prefixes import measured, size_in_key, whole_size
from ticdc_spark.ddl.statements import (
    AddColumn,
    AddForeignKey,
    AddIndex,
    Alteration,
    ChangeColumn,
    Charset,
    ColumnDef,
    CreateTable,
    DropColumn,
    DropForeignKey,
    DropIndex,
    Key,
    Position,
    RenameColumn,
    RenameIndex,
    SetDefault,
)
from ticdc_spark.ddl.stored import as_text, is_number, stored_default
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Index, Table
from ticdc_spark.mysql import INTEGER_BITS

_JSON_OF_MARIADB = ColumnType(name="longtext", length=4294967295, charset="utf8mb4", collate="utf8mb4_bin")
_TEXTS_OF_MARIADB = (("char", 36), ("varchar", 39), ("varchar", 15))
"""Which texts stand for its UUID, INET6 and INET4, all in ascii_bin."""
_NOTHING = Charset(None, None, False)


def build_table(
    schema: str, name: str, statement: CreateTable, charset: Charset | None, dialect: Dialect = "tidb"
) -> Building:
    """The table of a CREATE TABLE. ``charset``: the default of its database, if that is known.

    Raises: MessageError if a key names a column that does not exist.
    """
    default = charset or DEFAULT_CHARSET
    own = resolved(statement.charset or default, default, default)
    table = with_default_charset(Table(schema=schema, name=name, columns=()), own)
    building = Building(table, dialect=dialect, is_new=True)
    for column in statement.columns:
        building.columns.append(building.complete(column))
    building.add_keys(statement.keys)
    return building


def with_default_charset(table: Table, charset: Charset) -> Table:
    """The table with another default for new text columns. Its columns stay as they are."""
    return replace(table, charset=charset.name, collate=charset.collate or default_collate(charset.name))


def charset_of(table: Table) -> Charset:
    """The charset for a new text column: the table's default.

    If that is unknown, it is the charset of all text columns if they agree, else TiDB's default.
    """
    if table.charset is not None:
        return Charset(table.charset, table.collate, False)
    found = {(c.type.charset, c.type.collate) for c in table.columns if c.type.name in WITH_CHARSET}
    if len(found) != 1:
        return DEFAULT_CHARSET
    charset, collate = found.pop()
    return Charset(charset, collate, False) if charset else DEFAULT_CHARSET


class Building:
    """A table during a change. Column and index names are compared ignoring case."""

    def __init__(
        self,
        table: Table,
        *,
        dialect: Dialect = "tidb",
        is_new: bool = False,
        database: Charset = DEFAULT_CHARSET,
        session: Charset = DEFAULT_CHARSET,
    ) -> None:
        """``is_new``: of a CREATE TABLE. Only there, TiDB orders rows by an integer primary key. ``database``: the
        default of the table's database. ``session``: that of the statement's.
        """
        self._before, self._after, self._is_new = table, table, is_new
        self._dialect: Dialect = dialect
        self._database, self._session = database, session
        self.columns = list(table.columns)
        self.indexes = list(table.indexes)
        self.foreign_keys = list(table.foreign_keys)
        self.clarified: list[Replacement] = []
        self._of_any_charset: set[str] = set()
        """Columns that name a collation of any charset. CONVERT leaves them the table's charset."""

    def table(self) -> Table:
        """The current table."""
        nullable = {column.name.lower(): column.nullable for column in self.columns}
        indexes = tuple(
            replace(index, nullable=any(nullable.get(name.lower(), True) for name in index.columns))
            for index in self.indexes
        )
        changed = replace(
            self._after, columns=tuple(self.columns), indexes=indexes, foreign_keys=tuple(self.foreign_keys)
        )
        return changed if changed == self._before else replace(changed, version=None)

    def apply(self, parts: Sequence[Alteration]) -> None:
        """Apply the parts of an ALTER TABLE. Parts that change no schema do nothing.

        As in the servers, the order of the parts does not matter. What is dropped, changed or renamed has its name from
        before the statement. What is added, or named in AFTER or in a key, has its name from after it. Text columns
        that are added or changed get the default charset from after it.
        Raises: MessageError if a part names a column or index that does not exist.
        """
        converted = self._take_defaults([part for part in parts if isinstance(part, Charset)])
        there = {index.name.lower() for index in self.indexes}
        self._drop_keys(parts)
        old = {column.name.lower() for column in self.columns}
        after = self._old_columns(parts)
        replaced = self._new_columns(parts, old, after)
        self._old_indexes(after, replaced)
        for part in parts:
            if isinstance(part, SetDefault) and not (part.name.lower() in {*after, *replaced} or self._lacks(part)):
                self._set_default(part, self._at(part.name))
        if converted is not None:
            self._convert(converted)
        keys: list[Key] = []
        for part in parts:
            if isinstance(part, AddIndex | AddForeignKey):
                keys.append(part)
            elif isinstance(part, AddColumn | ChangeColumn) and self._has(part.definition.column.name):
                # MariaDB adds the key even if IF leaves the column unchanged
                conditional = part.if_not_exists if isinstance(part, AddColumn) else part.if_exists
                keys += keys_of(part.definition, if_not_exists=conditional)
        self.add_keys(keys, there)

    def complete(self, definition: ColumnDef) -> Column:
        """A column with its charset filled in from the table, if it names none."""
        column = definition.column
        if column.type.name == "json" and self._dialect == "mariadb":
            column = replace(column, type=_JSON_OF_MARIADB)
        if column.type.name not in WITH_CHARSET:
            written = definition.written
            return column if written is None else replace(column, default=self._default(written, column.type))
        others = charset_of(self._after)
        charset = column.type.charset or others.name
        if column.type.collate is not None and column.type.charset is None:
            self._of_any_charset.add(column.name)
        else:
            self._of_any_charset.discard(column.name)
        collate = (
            full_collate(column.type.collate, charset)
            or (others.collate if charset == others.name else None)
            or default_collate(charset)
        )
        kind = to_binary(replace(column.type, charset=charset, collate=collate))
        default = column.default if definition.written is None else stored_default(definition.written, kind)[0]
        return replace(column, type=kind, default=default)

    def add_keys(self, keys: Sequence[Key], there: Collection[str] = ()) -> None:
        """Add the keys of a statement, and name those that have no name.

        ``there``: the names before the statement, in lower case. IF NOT EXISTS adds no key with one of these, or with
        the name of an earlier key of the statement.
        """
        asked = set(there)
        added: list[tuple[Index, int | None]] = []
        for key in in_order(keys, self._dialect):
            index = key.index
            name = (PRIMARY if index.primary else index.name or index.columns[0]).lower()
            is_there = self._has_foreign_key(index.name) if isinstance(key, AddForeignKey) else name in asked
            asked.add(name)
            if key.if_not_exists and is_there:
                continue
            if isinstance(key, AddIndex):
                added.append((self._spelled(index), key.unnamed_at))
                continue
            self.foreign_keys += [index.name] if index.name else []
            added += [(made, None) for made in self._made_for(self._spelled(index), [one for one, _ in added])]
        names = {index.name.lower() for index, _ in added}
        old = [index for index in self.indexes if index.of_foreign_key is not None or index.name.lower() not in names]
        self._name([*((index, None) for index in old), *added])

    def _made_for(self, foreign: Index, added: Sequence[Index]) -> list[Index]:
        """The index that a foreign key may need. TiDB's index of a foreign key without a name is not followed: its name
        is not made of a column's."""
        if self._dialect != "tidb":
            return [replace(foreign, of_foreign_key=True)]
        there = map(self._measured, (*self.indexes, *added))
        is_covered = any(begins_with(index, foreign) for index in there)
        return [] if is_covered or not foreign.name else [foreign]

    def _name(self, indexes: Sequence[tuple[Index, int | None]]) -> None:
        """Keep the needed ones of the indexes, and name them. Each has the place for its name in the SQL, if any."""
        measured = [(self._measured(index), place) for index, place in indexes]
        kept = [one for at, one in enumerate(measured) if is_needed(at, [index for index, _ in measured])]
        taken = {PRIMARY.lower(), *(index.name.lower() for index, _ in kept)}
        self.indexes = []
        for index, place in kept:
            if not index.name:
                first = index.columns[0]
                name = self._primary_name(index.columns) if index.primary else free_name(first, taken)
                index = replace(index, name=name)
                taken.add(name.lower())
            if place is not None:
                quoted = index.name.replace("`", "``")
                self.clarified.append((place, place, f" `{quoted}` "))
            self.indexes.append(index)

    def _spelled(self, index: Index) -> Index:
        """A key with its columns as the table spells them; columns of a primary key become NOT NULL."""
        names = [name if name.startswith("(") else self.columns[self._at(name)].name for name in index.columns]
        if index.primary:
            for name in names:
                at = self._at(name)
                self.columns[at] = replace(self.columns[at], nullable=False)
        return replace(index, columns=tuple(names))

    def _measured(self, index: Index) -> Index:
        return measured(index, {column.name: whole_size(column.type) for column in self.columns})

    def _primary_name(self, names: Sequence[str]) -> str:
        is_integer = self.columns[self._at(names[0])].type.name in INTEGER_BITS
        return CLUSTERED if self._is_new and len(names) == 1 and is_integer else PRIMARY

    def _has_foreign_key(self, name: str) -> bool:
        return any(one.lower() == name.lower() for one in self.foreign_keys)

    def _at(self, name: str) -> int:
        for at, column in enumerate(self.columns):
            if column.name.lower() == name.lower():
                return at
        raise self._missing(name)

    def _missing(self, name: str) -> MessageError:
        return MessageError(f"DDL: `{self._before.schema}`.`{self._before.name}` has no column `{name}`")

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

    def _new_columns(
        self, parts: Sequence[Alteration], old: Collection[str], after: Mapping[str, str]
    ) -> dict[str, str]:
        """Add columns, and move old ones. Returns: the columns that took the place of added ones, with the names that
        their parts change. All names are in lower case.
        """
        replaced: dict[str, str] = {}
        # IF NOT EXISTS sees the names of earlier parts, too, whether or not IF EXISTS leaves these out
        named = {*old}
        for part in parts:
            if isinstance(part, AddColumn) and not (
                part.if_not_exists and part.definition.column.name.lower() in named
            ):
                self._add_column(part)
            elif isinstance(part, ChangeColumn) and part.old.lower() in after:
                if part.position is not None:
                    self._place(self.columns.pop(self._at(after[part.old.lower()])), part.position)
            elif isinstance(part, ChangeColumn) and not (part.if_exists and part.old.lower() not in old):
                replaced[self._replace_added(part, {*after.values()})] = part.old.lower()
            if isinstance(part, AddColumn | ChangeColumn):
                named.add(part.definition.column.name.lower())
        return replaced

    def _replace_added(self, part: ChangeColumn, old: Collection[str]) -> str:
        """Let a column of this statement take the place of an added one with its name, as only MariaDB does. TiDB and
        MySQL refuse to change a column that was not there. Returns: the name in lower case.
        """
        new = part.definition.column.name
        at = next((at for at, column in enumerate(self.columns) if column.name.lower() == new.lower()), None)
        if at is None or self.columns[at].name in old:
            raise self._missing(part.old)
        del self.columns[at]
        self._place(self.complete(part.definition), part.position or ("last", ""))
        return new.lower()

    def _old_columns(self, parts: Sequence[Alteration]) -> dict[str, str]:
        """Drop, change and rename columns in place. Returns the names of the remaining columns, by their old names in
        lower case.
        """
        old = [column.name for column in self.columns]
        gone: set[int] = set()
        for part in parts:
            if isinstance(part, DropColumn | RenameColumn | ChangeColumn | SetDefault):
                name = part.name if isinstance(part, DropColumn | SetDefault) else part.old
                at = next((at for at, one in enumerate(old) if one.lower() == name.lower()), None)
                if at is None:
                    if not part.if_exists and not isinstance(part, SetDefault | ChangeColumn):
                        raise self._missing(name)
                elif isinstance(part, DropColumn):
                    gone.add(at)
                elif isinstance(part, RenameColumn):
                    self.columns[at] = replace(self.columns[at], name=part.new)
                elif isinstance(part, ChangeColumn):
                    self.columns[at] = self._changed(self.columns[at], part)
                else:
                    self._set_default(part, at)
        left = {name: self.columns[at].name for at, name in enumerate(old) if at not in gone}
        self.columns = [column for at, column in enumerate(self.columns) if at not in gone]
        return {name.lower(): new for name, new in left.items()}

    def _old_indexes(self, after: Mapping[str, str], replaced: Mapping[str, str]) -> None:
        """Let the remaining keys follow their columns. A column that takes the name of a dropped one replaces it in
        keys.

        A server searches the columns in their order for a key's name. It compares the old name of a changed column, and
        the own name of an added one. ``replaced``: the old names of columns that took the place of added ones.
        """
        before = {new.lower(): old for old, new in after.items()} | {**replaced}
        named: dict[str, str] = {}
        for column in self.columns:
            named.setdefault(before.get(column.name.lower(), column.name.lower()), column.name)
        old_ones = {*after.values()}
        sizes = {column.name.lower(): size_in_key(column.type) for column in self._before.columns}
        old, self.indexes = self.indexes, []
        for index in old:
            parts: list[tuple[str, int]] = []
            for one, prefix in zip(index.columns, index.prefixes or repeat(0, len(index.columns)), strict=True):
                new = one if one[0] == "(" else named.get(one.lower(), "")
                # an added column that takes the place of another one gets the other's size as a prefix
                parts += [(new, prefix or (0 if new in old_ones else sizes.get(one.lower(), 0)))] if new else []
            if parts:
                columns, prefixes = zip(*parts, strict=True)
                self.indexes.append(self._spelled(replace(index, columns=columns, prefixes=prefixes)))

    def _changed(self, old: Column, part: ChangeColumn) -> Column:
        definition = part.definition
        kind = definition.column.type
        if kind.charset is None and self._after.charset is None and old.type.name in WITH_CHARSET:
            kind = replace(kind, charset=old.type.charset, collate=kind.collate or old.type.collate)
            definition = replace(definition, column=replace(definition.column, type=kind))
        new = self.complete(definition)
        if any(index.primary and old.name in index.columns for index in self.indexes):
            new = replace(new, nullable=False)
        return new

    def _set_default(self, part: SetDefault, at: int) -> None:
        self.columns[at] = replace(self.columns[at], default=self._default(part.default, self.columns[at].type))

    def _default(self, written: WrittenDefault, kind: ColumnType) -> str | int | None:
        text = as_text(written) if self._dialect == "mariadb" and is_number(kind) else None
        if text is not None:
            quoted = text.text.replace("\\", "\\\\").replace("'", "''")
            self.clarified.append((*text.place, f"'{quoted}'"))
        return stored_default(text or written, kind)[0]

    def _lacks(self, part: SetDefault) -> bool:
        return part.if_exists and not self._has(part.name)

    def _drop_keys(self, parts: Sequence[Alteration]) -> None:
        """Drop and rename keys. A constraint that is dropped by its name is the foreign key, if there is one."""
        foreign = [part for part in parts if isinstance(part, DropForeignKey) or self._is_foreign(part)]
        drops = [part for part in parts if isinstance(part, DropIndex) and not self._is_foreign(part)]
        new = {part.old.lower(): part.new for part in parts if isinstance(part, RenameIndex)}
        for name in (*(drop.name for drop in drops), *new):
            if doubt := doubt_about(name, self.indexes):
                table = f"`{self._before.schema}`.`{self._before.name}`"
                raise MessageError(f"which key of {table} has the name `{name}` is not known: {doubt}")
        gone = {part.name.lower() for part in foreign}
        self.foreign_keys = [name for name in self.foreign_keys if name.lower() not in gone]
        self.indexes = [
            replace(index, name=new.get(index.name.lower(), index.name))
            for index in self.indexes
            if not any(_is_meant(index, drop) for drop in drops)
        ]

    def _is_foreign(self, part: Alteration) -> TypeGuard[DropIndex]:
        return isinstance(part, DropIndex) and part.unique and self._has_foreign_key(part.name)

    def _take_defaults(self, written: Sequence[Charset]) -> Charset | None:
        """Change the default charset of the table. Returns: that to which CONVERT changes the columns.

        If there is another one beside CONVERT, MariaDB changes the default to it. In TiDB and MySQL the last one
        counts. CONVERT TO CHARACTER SET DEFAULT of MySQL means the session's database.
        """
        current = charset_of(self._before)
        plain = joined(part for part in written if not part.convert)
        converted = joined(part for part in written if part.convert)
        default = resolved(plain, current, self._database) if plain != _NOTHING else None
        if converted == _NOTHING:
            self._after = self._after if default is None else with_default_charset(self._after, default)
            return None
        meant = self._session if self._dialect in ("mysql", "mysql 9") else self._database
        found = resolved(converted, current, meant)
        if default is not None and self._dialect != "mariadb" and written[-1].convert:
            if self._dialect == "tidb" and "binary" in {default.name, found.name} and default.name != found.name:
                raise MessageError("DDL: servers read a default character set beside CONVERT in different ways")
            default = found
        self._after = with_default_charset(self._after, default or found)
        return found

    def _convert(self, charset: Charset) -> None:
        """Give text columns another charset. A binary ENUM or SET stays as it is, and so does a UUID or INET of
        MariaDB. A text that may be one gets its real charset with its first row.
        """
        for at, column in enumerate(self.columns):
            kind = column.type
            if kind.name not in WITH_CHARSET or kind.charset == "binary" or column.name in self._of_any_charset:
                continue
            if self._may_be_of_mariadb(kind):
                if charset.name != "binary":
                    continue
                raise MessageError(f"DDL: whether column `{column.name}` is a UUID or INET, which stays, is not known")
            new = to_binary(replace(kind, charset=charset.name, collate=charset.collate))
            self.columns[at] = replace(column, type=new)

    def _may_be_of_mariadb(self, kind: ColumnType) -> bool:
        known = self._dialect == "mariadb" and kind.collate == "ascii_bin"
        return known and (kind.name, kind.length) in _TEXTS_OF_MARIADB


def _is_meant(index: Index, drop: DropIndex) -> bool:
    if not drop.name:
        return index.primary
    return index.name.lower() == drop.name.lower() and (index.unique or not drop.unique)
