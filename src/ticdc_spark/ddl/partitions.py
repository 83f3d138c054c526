"""The partitions of a table: from PARTITION BY, and through each later DDL. Pure.

If something cannot be read, the result is ``None``: unknown. Nothing here guesses, because rows are deleted by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ticdc_spark.ddl.lex import Cursor
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.partition_by import (
    SessionCursor,
    checked,
    constant,
    definition,
    in_brackets,
    listed,
    partitioning,
)
from ticdc_spark.ddl.statements import Alteration, ChangeColumn, CreateTable, MoveRows, NoEffect, RenameColumn
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Partition, Partitioning
from ticdc_spark.mysql import TEXT_TYPES


def created_partitions(statement: CreateTable, *, from_sql: bool, zone: str | None = None) -> Partitioning | None:
    """The partitions of a new table; ``None``: it has none, or they are unknown. ``from_sql``: its columns are also
    only known from the statement, which need not name the collation that compares text."""
    found = parse_partitioning(statement.partition_by, zone) if statement.partition_by else None
    if found is None or not from_sql:
        return found
    names = {name.casefold() for name in found.columns}
    kinds = [one.column.type for one in statement.columns if one.column.name.casefold() in names]
    default = None if statement.charset is None else statement.charset.collate
    told = all(kind.collate or (default and not kind.charset) for kind in kinds if kind.name in TEXT_TYPES)
    return found if told else None


def partitions_of_sql(sql: str) -> Partitioning | None:
    """The partitions of a table that ``SHOW CREATE TABLE`` prints; ``None``: none, or they are unknown."""
    statement = parse(sql, "escape")
    return created_partitions(statement, from_sql=True) if isinstance(statement, CreateTable) else None


def parse_partitioning(text: str, zone: str | None = None) -> Partitioning | None:
    """Parse the text after PARTITION BY; ``None``: it is not understood. ``zone``: the session's time zone, for
    UNIX_TIMESTAMP of a constant; ``None``: unknown."""
    try:
        return partitioning(SessionCursor(text, zone))
    except (MessageError, ValueError):
        return None


def change_partitions(
    before: Partitioning | None, parts: Sequence[Alteration], zone: str | None = None
) -> Partitioning | None:
    """The partitions of a table after an ALTER TABLE; ``None``: it has none, or they are unknown."""
    after = before
    for part in parts:
        try:
            after = _changed(after, part, zone)
        except (MessageError, ValueError):
            after = None
    return after


def partitions_named(part: MoveRows, known: Partitioning) -> tuple[str, ...] | None:
    """The partitions that DROP, TRUNCATE or FIRST PARTITION empties, or the one that EXCHANGE gives away, in their
    known spelling.

    Returns: ``None`` if one of them is unknown, or the part is of another kind
    """
    try:
        return _named(Cursor(part.what), known)
    except (MessageError, ValueError, KeyError):
        return None


def is_validated(part: MoveRows) -> bool:
    """Whether an EXCHANGE PARTITION only adds rows that belong to the partition."""
    return "WITHOUT" not in part.what.upper().split()[3:]


def is_truncate_of_all(part: MoveRows) -> bool:
    """Whether a part is TRUNCATE PARTITION ALL."""
    cur = Cursor(part.what)
    return cur.accept("truncate", "partition", "all") and cur.at_end()


def _named(cur: Cursor, known: Partitioning) -> tuple[str, ...]:
    if cur.accept("first", "partition", "less", "than"):
        return tuple(one.name for one in _below(cur, known))
    have = {one.name.casefold(): one.name for one in known.partitions}
    if cur.accept("exchange", "partition"):
        return (have[cur.name().casefold()],)
    verb = cur.any_of("drop", "truncate")
    if not verb or not cur.accept("partition") or (verb == "drop" and known.kind not in ("range", "list")):
        raise cur.fail("DROP PARTITION or TRUNCATE PARTITION")
    if_exists = cur.accept("if", "exists")
    if verb == "truncate" and cur.accept("all"):
        names = list(have.values())
    else:
        given = [name.casefold() for name in listed(cur, cur.name)]
        if not (if_exists or have.keys() >= set(given)):
            raise cur.fail("partitions that are known")
        names = [have[name] for name in given if name in have]
    if not cur.at_end():
        raise cur.fail("the end")
    return tuple(names)


def _below(cur: Cursor, known: Partitioning) -> tuple[Partition, ...]:
    """The partitions that FIRST PARTITION LESS THAN drops: those before the partition with this bound."""
    bound = (in_brackets(cur, lambda: listed(cur, lambda: constant(cur)))[0],)
    bounds = [one.values for one in known.partitions]
    if known.kind != "range" or not cur.at_end():
        raise cur.fail("a RANGE")
    return known.partitions[: bounds.index((bound,))]


def _changed(before: Partitioning | None, part: Alteration, zone: str | None) -> Partitioning | None:
    match part:
        case RenameColumn(old, new):
            return _with_column(before, old, new)
        case ChangeColumn(old=old, definition=definition):
            return _with_column(before, old, definition.column.name)
        case MoveRows(what=what):
            return _moved(before, part, SessionCursor(what, zone))
        case NoEffect(what=what):
            cur = SessionCursor(what, zone)
            return _added(before, cur) if before is not None and cur.accept("add", "partition") else before
    return before


def _with_column(before: Partitioning | None, old: str, new: str) -> Partitioning | None:
    if before is None:
        return None
    columns = tuple(new if name.casefold() == old.casefold() else name for name in before.columns)
    return replace(before, columns=columns)


def _moved(before: Partitioning | None, part: MoveRows, cur: Cursor) -> Partitioning | None:
    if cur.accept("partition", "by"):
        return partitioning(cur)
    if cur.accept("exchange", "partition"):
        # Without validation, rows may be in partitions to which they do not belong.
        return before if is_validated(part) else None
    if before is None or cur.accept("remove", "partitioning"):
        return None
    if cur.accept("truncate", "partition"):
        return before
    if cur.accept("reorganize", "partition"):
        return _reorganized(before, cur)
    if cur.accept("add", "partition"):
        return _added(before, cur)
    if cur.accept("coalesce", "partition"):
        left = len(before.partitions) - int(cur.next().text)
        return checked(replace(before, partitions=before.partitions[: max(left, 0)]))
    gone = _named(cur, before)
    return checked(replace(before, partitions=tuple(one for one in before.partitions if one.name not in gone)))


def _added(before: Partitioning, cur: Cursor) -> Partitioning:
    _unlogged(cur)
    cur.accept("if", "not", "exists")
    if cur.accept("partitions"):
        if before.kind not in ("hash", "key"):
            raise cur.fail("partitions with their values")
        have = len(before.partitions)
        more = tuple(Partition(f"p{at}") for at in range(have, have + int(cur.next().text)))
    else:
        more = tuple(in_brackets(cur, lambda: listed(cur, lambda: definition(cur, before.kind))))
    return checked(replace(before, partitions=before.partitions + more))


def _reorganized(before: Partitioning, cur: Cursor) -> Partitioning:
    _unlogged(cur)
    if cur.at_end():
        return before
    at = [one.name.casefold() for one in before.partitions]
    old = sorted(at.index(name.casefold()) for name in listed(cur, cur.name))
    if old != list(range(old[0], old[0] + len(old))) and before.kind == "range":
        raise cur.fail("partitions that follow each other")
    if not cur.accept("into"):
        raise cur.fail("INTO")
    new = tuple(in_brackets(cur, lambda: listed(cur, lambda: definition(cur, before.kind))))
    kept = [one for index, one in enumerate(before.partitions) if index not in old]
    return checked(replace(before, partitions=(*kept[: old[0]], *new, *kept[old[0] :])))


def _unlogged(cur: Cursor) -> None:
    cur.any_of("no_write_to_binlog", "local")
