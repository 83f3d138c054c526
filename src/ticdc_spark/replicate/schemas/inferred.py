"""Schema changes without a DDL (Avro, Debezium's schema blocks): from one schema of a table to the next. Pure.

A registry's schema has the columns that there are now, not what was done. Columns that are new are added, and old rows
take their defaults. A type that holds every value of the old one is followed: a wider integer, a DECIMAL with more
digits before the point, DOUBLE for FLOAT. Whatever else two schemas differ by may have been one of several DDLs: a
column that is gone and one that is new may be a RENAME COLUMN, another type may come with rewritten rows for which
there is no row message. So the operator has to decide: ``stop``, or ``keep`` what the lake has. TRUNCATE, DROP and
RENAME TABLE leave no trace in any schema.

The caller follows a schema that it sees for the first time, unless its id is below that of the table's newest: that
is an older one, from a partition that is behind. A registry gives an old id again when a table returns to an old
schema, so rows of a schema seen before are read into the columns that are there now, replays or not. A schema block has
no id: the commit_ts of its first row stands for its version.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.mysql import INTEGER_BITS, format_type, handle_key

Policy: TypeAlias = Literal["stop", "keep"]


class Additions(msgspec.Struct, frozen=True):
    """New columns, wider types, or nothing that rows show: order, nullability, defaults, ENUM members at the end."""

    columns: tuple[Column, ...]


class Other(msgspec.Struct, frozen=True):
    """Differences that may have come from several DDLs, one sentence each."""

    reasons: tuple[str, ...]
    columns: tuple[Column, ...]
    """What is new beside them."""


def schema_change(old: Table, new: Table) -> Additions | Other:
    """Compare two schemas of one table. Names of columns are equal whatever their case, as in MySQL."""
    before, after = ({column.name.casefold(): column for column in table.columns} for table in (old, new))
    added = tuple(column for name, column in after.items() if name not in before)
    reasons = [f"column `{column.name}` is gone" for name, column in before.items() if name not in after]
    reasons += [
        f"column `{before[name].name}` was {format_type(before[name].type)} and is {format_type(after[name].type)}"
        for name in before.keys() & after.keys()
        if not _continues(before[name].type, after[name].type)
    ]
    keys = [tuple(name.casefold() for name in handle_key(table) or ()) for table in (old, new)]
    if set(keys[0]) != set(keys[1]):
        reasons.append(f"the key was ({', '.join(keys[0])}) and is ({', '.join(keys[1])})")
    return Other(tuple(sorted(reasons)), added) if reasons else Additions(added)


def follow(old: Table, new: Table, policy: Policy) -> Table:
    """The table that holds the rows of both schemas: the old columns in their order, then the new ones.

    With ``keep`` a column that is gone stays, its type stays, and so does the key.

    Raises: UnsupportedDdl if there is more than additions, with ``stop``.
    """
    change = schema_change(old, new)
    if isinstance(change, Other) and policy == "stop":
        raise UnsupportedDdl(
            f"the schema of `{old.schema}`.`{old.name}` changed without a DDL: "
            f'{"; ".join(change.reasons)}. schema-change = "keep" under [job] goes on with the columns that the table '
            "has; a value that does not fit them is then a reject"
        )
    latest = {column.name.casefold(): column for column in new.columns}
    kept = tuple(_newest(column, latest.get(column.name.casefold(), column)) for column in old.columns)
    return msgspec.structs.replace(old, columns=kept + change.columns, version=new.version)


def _newest(old: Column, new: Column) -> Column:
    """The newer default, nullability and members; the older name, and type where it is another."""
    kind = new.type if _continues(old.type, new.type) else old.type
    return msgspec.structs.replace(new, name=old.name, type=kind)


def _continues(old: ColumnType, new: ColumnType) -> bool:
    """Whether values of the old type are values of the new one, unchanged."""
    if old.elements == new.elements:
        return old == new or _widens(old, new)
    return (
        bool(old.elements)
        and new.elements[: len(old.elements)] == old.elements
        and msgspec.structs.replace(old, elements=new.elements) == new
    )


def _widens(old: ColumnType, new: ColumnType) -> bool:
    if old.name == new.name == "decimal":
        same_scale = (old.decimal or 0) == (new.decimal or 0) and old.unsigned == new.unsigned
        return same_scale and (new.length or 10) >= (old.length or 10)
    if old.name in INTEGER_BITS and new.name in INTEGER_BITS:
        more = INTEGER_BITS[new.name] - INTEGER_BITS[old.name]
        return more >= 0 if old.unsigned == new.unsigned else old.unsigned and more > 0
    return (old.name, new.name) == ("float", "double") and old.unsigned == new.unsigned
