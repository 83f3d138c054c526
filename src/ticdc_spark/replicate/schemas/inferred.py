"""Schema changes without a DDL (Avro, Debezium's schema blocks): follow one schema of a table to the next. Pure.

A registry's schema shows the present columns, not the DDL that changed them. New columns are added, and old rows get
their defaults. A type that holds every value of the old one is followed: a wider integer, a DECIMAL with more digits
before the point, DOUBLE for FLOAT. Any other difference may come from one of several DDLs. A missing and a new column
may be a RENAME COLUMN. A new type may come with rewritten rows that no message has. So the operator must decide:
``stop``, or ``keep`` the lake's columns. TRUNCATE, DROP and RENAME TABLE leave no trace in any schema.

The caller follows a schema that it sees for the first time, unless it comes from a partition that is behind. A schema
block does if it is older than the table's. A registered schema does if a later one was followed and the table continues
it. A registry returns the old id when a table returns to an old schema. So rows of a known schema are read into the
present columns, replays or not. A schema block has no id: the commit_ts of its first row is its version.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.mysql import INTEGER_BITS, format_type, handle_key, is_bytes, is_text

Policy: TypeAlias = Literal["stop", "keep"]
_NUMBERS = frozenset((*INTEGER_BITS, "decimal", "float", "double"))


class Additions(msgspec.Struct, frozen=True):
    """New columns or wider types, or no change in rows: order, nullability, defaults, ENUM members at the end."""

    columns: tuple[Column, ...]


class Other(msgspec.Struct, frozen=True):
    """Differences that may have come from several DDLs, one sentence each."""

    reasons: tuple[str, ...]
    columns: tuple[Column, ...]
    """New columns, in addition."""
    misread: tuple[str, ...] = ()
    """The columns whose new values may read as other ones of the old type: the members of an ENUM, units of time."""


def schema_change(old: Table, new: Table) -> Additions | Other:
    """Compare two schemas of one table. The case of column names does not matter, as in MySQL."""
    before, after = ({column.name.casefold(): column for column in table.columns} for table in (old, new))
    added = tuple(column for name, column in after.items() if name not in before)
    reasons = [f"column `{column.name}` is gone" for name, column in before.items() if name not in after]
    reasons += [
        f"column `{before[name].name}` was {format_type(before[name].type)} and is {format_type(after[name].type)}"
        for name in before.keys() & after.keys()
        if not _continues(before[name].type, after[name].type)
    ]
    misread = [
        column.name
        for name, column in before.items()
        if name in after and not (_continues(column.type, after[name].type) or _is_alike(column.type, after[name].type))
    ]
    keys = [tuple(name.casefold() for name in handle_key(table) or ()) for table in (old, new)]
    if set(keys[0]) != set(keys[1]):
        reasons.append(f"the key was ({', '.join(keys[0])}) and is ({', '.join(keys[1])})")
    return Other(tuple(sorted(reasons)), added, tuple(misread)) if reasons else Additions(added)


def is_continued(old: Table, new: Table) -> bool:
    """Whether a table has all columns of an older schema of it, with the same types or wider ones, and its key."""
    return isinstance(schema_change(old, new), Additions)


def follow(old: Table, new: Table, policy: Policy) -> Table:
    """The table for rows of both schemas: the old columns in their order, then the new ones.

    With ``keep``, missing columns, changed types and the key stay as they were.

    Raises: UnsupportedDdl for other changes than additions, with ``stop``; with ``keep``, for a type whose values the
    old one would misread
    """
    change = schema_change(old, new)
    if isinstance(change, Other) and (policy == "stop" or change.misread):
        cure = (
            'schema-change = "keep" under [job] keeps the columns that the table has; a value that does not fit them '
        )
        cure += "is then rejected"
        if change.misread:
            cure = f"Values of `{'`, `'.join(change.misread)}` would be misread as the old type, so it cannot be kept. "
            cure += "Exclude the table with `tables` under [job]"
        raise UnsupportedDdl(
            f"the schema of `{old.schema}`.`{old.name}` changed without a DDL: {'; '.join(change.reasons)}. {cure}"
        )
    latest = {column.name.casefold(): column for column in new.columns}
    kept = tuple(_newest(column, latest.get(column.name.casefold(), column)) for column in old.columns)
    return msgspec.structs.replace(old, columns=kept + change.columns, version=new.version)


def _newest(old: Column, new: Column) -> Column:
    """The newer default, nullability and members, with the older name. The type stays unless the newer widens it."""
    kind = new.type if _continues(old.type, new.type) else old.type
    return msgspec.structs.replace(new, name=old.name, type=kind)


def _continues(old: ColumnType, new: ColumnType) -> bool:
    """Whether the new type has every value of the old one, unchanged."""
    if old.elements == new.elements:
        return old == new or _widens(old, new)
    return (
        bool(old.elements)
        and new.elements[: len(old.elements)] == old.elements
        and msgspec.structs.replace(old, elements=new.elements) == new
    )


def _is_alike(old: ColumnType, new: ColumnType) -> bool:
    """Whether a value of the new type is read as itself by the old one, or not at all."""
    kinds = (is_bytes, lambda kind: is_text(kind) or kind.name in _NUMBERS)
    return any(alike(old) and alike(new) for alike in kinds)


def _widens(old: ColumnType, new: ColumnType) -> bool:
    if old.name == new.name == "decimal":
        same_scale = (old.decimal or 0) == (new.decimal or 0) and old.unsigned == new.unsigned
        return same_scale and (new.length or 10) >= (old.length or 10)
    if old.name in INTEGER_BITS and new.name in INTEGER_BITS:
        more = INTEGER_BITS[new.name] - INTEGER_BITS[old.name]
        return more >= 0 if old.unsigned == new.unsigned else old.unsigned and more > 0
    return (old.name, new.name) == ("float", "double") and old.unsigned == new.unsigned
