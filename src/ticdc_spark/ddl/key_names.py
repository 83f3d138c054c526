"""The keys that a statement makes, and their names, where it does not say so: by the rules of each server."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from ticdc_spark.ddl.dialect import Dialect
from ticdc_spark.ddl.statements import AddForeignKey, AddIndex, Key
from ticdc_spark.model import Index, Table


def in_order(keys: Sequence[Key], dialect: Dialect) -> list[Key]:
    """The keys that a server makes, in the order in which it names them.

    TiDB: a table's own keys before its columns' keys, and foreign keys last. MySQL and MariaDB: as written. TiDB, and
    MySQL before 9.0, ignore the foreign keys of columns. MariaDB ignores a unique key that a column declares beside a
    primary key.
    """
    if dialect == "mariadb":
        return [key for key in keys if not (isinstance(key, AddIndex) and key.beside_primary)]
    if dialect == "mysql 9":
        return [*keys]
    kept = [key for key in keys if not (isinstance(key, AddForeignKey) and key.of_column)]
    if dialect == "mysql":
        return kept
    return sorted(kept, key=lambda key: (isinstance(key, AddForeignKey), key.of_column))


def begins_with(index: Index, other: Index) -> bool:
    """Whether an index begins with the columns of another, and has them whole."""
    size = len(other.columns)
    columns = [name.lower() for name in index.columns[:size]]
    return columns == [name.lower() for name in other.columns] and not any(index.prefixes[:size])


def is_needed(at: int, indexes: Sequence[Index]) -> bool:
    """Whether MySQL and MariaDB keep an index. They drop one for a foreign key if another begins with its columns."""
    index = indexes[at]
    return not index.of_foreign_key or not any(
        begins_with(other, index)
        and (place > at or not other.of_foreign_key or len(other.columns) > len(index.columns))
        for place, other in enumerate(indexes)
        if place != at
    )


def free_name(first: str, taken: Collection[str]) -> str:
    """The name of a key whose first column is ``first``. ``taken``: names in lower case."""
    base = "expression_index" if first.startswith("(") else first
    name, number = base, 2
    while name.lower() in taken:
        name, number = f"{base}_{number}", number + 1
    return name


def as_shown(table: Table, keys: Iterable[Key]) -> Table:
    """The table of a SHOW CREATE TABLE of MySQL or MariaDB, which shows every index, but not which of them was made
    for a foreign key. Such an index is marked, unless another begins with its columns: then it was not.
    """
    foreign = {key.index.columns for key in keys if isinstance(key, AddForeignKey)}
    shown = [index for index in table.indexes if not index.of_foreign_key]
    indexes = tuple(
        replace(index, of_foreign_key=None)
        if index.columns in foreign and not (index.unique or index.prefixes) and not _is_covered(index, shown)
        else index
        for index in shown
    )
    return replace(table, indexes=indexes)


def _is_covered(index: Index, indexes: Iterable[Index]) -> bool:
    return any(other is not index and begins_with(other, index) for other in indexes)


def doubt_about(name: str, indexes: Sequence[Index]) -> str:
    """Why another key may have this name; ``""``: there is no doubt.

    An index that may belong to a foreign key is gone since, or still there, if another begins with its columns. Keys
    that were named after that are named after their first column, with a number if the name was taken.
    """
    for index in indexes:
        is_unsure = index.of_foreign_key is None and _is_covered(index, indexes)
        if is_unsure and re.fullmatch(rf"{re.escape(index.name)}(_\d+)?", name, re.IGNORECASE):
            return f"the server may have made the index `{index.name}` for a foreign key, and dropped it since"
    return ""
