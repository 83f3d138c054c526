"""The partitions of a table: from PARTITION BY, and through each DDL after it. Pure.

What cannot be read gives ``None``: not known. Nothing here guesses, as rows are deleted by what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import TypeVar

from msgspec.structs import replace

from ticdc_spark.ddl.lex import Cursor, unescape
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import Alteration, ChangeColumn, CreateTable, MoveRows, NoEffect, RenameColumn
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Partition, Partitioning
from ticdc_spark.mysql import TEXT_TYPES, canonical_datetime, utc_timestamp

T = TypeVar("T")
_DAY = len("2024-01-31")
_FUNCTIONS = frozenset(("year", "to_days", "unix_timestamp"))
_DAYS_BEFORE = 365
"""TO_DAYS of the day before 0001-01-01, which Python's calendar begins with."""


class _Cursor(Cursor):
    """A position in a statement of a session."""

    def __init__(self, sql: str, zone: str | None) -> None:
        super().__init__(sql)
        self.zone = zone


def to_days(day: date) -> int:
    """MySQL's TO_DAYS."""
    return day.toordinal() + _DAYS_BEFORE


def created_partitions(statement: CreateTable, *, from_sql: bool, zone: str | None = None) -> Partitioning | None:
    """The partitions of a new table; ``None``: it has none, or they are not known. ``from_sql``: its columns, too, are
    known by the statement alone, which need not name the collation by which text compares."""
    found = parse_partitioning(statement.partition_by, zone) if statement.partition_by else None
    if found is None or not from_sql:
        return found
    names = {name.casefold() for name in found.columns}
    kinds = [one.column.type for one in statement.columns if one.column.name.casefold() in names]
    default = None if statement.charset is None else statement.charset.collate
    told = all(kind.collate or (default and not kind.charset) for kind in kinds if kind.name in TEXT_TYPES)
    return found if told else None


def partitions_of_sql(sql: str) -> Partitioning | None:
    """The partitions of the table that ``SHOW CREATE TABLE`` prints; ``None``: none, or they are not known."""
    statement = parse(sql, "escape")
    return created_partitions(statement, from_sql=True) if isinstance(statement, CreateTable) else None


def parse_partitioning(text: str, zone: str | None = None) -> Partitioning | None:
    """What stands behind PARTITION BY; ``None``: it is not understood. ``zone``: the time zone of the session, in which
    UNIX_TIMESTAMP of a constant is; ``None``: it is not known."""
    try:
        return _partitioning(_Cursor(text, zone))
    except (MessageError, ValueError):
        return None


def change_partitions(
    before: Partitioning | None, parts: Sequence[Alteration], zone: str | None = None
) -> Partitioning | None:
    """The partitions of a table after an ALTER TABLE; ``None``: it has none, or they are not known."""
    after = before
    for part in parts:
        try:
            after = _changed(after, part, zone)
        except (MessageError, ValueError):
            after = None
    return after


def partitions_named(part: MoveRows, known: Partitioning) -> tuple[str, ...] | None:
    """The partitions that DROP, TRUNCATE or FIRST PARTITION empties, by the names that they have.

    Returns: ``None`` where one of them is not known, or the part is another
    """
    try:
        return _named(Cursor(part.what), known)
    except (MessageError, ValueError):
        return None


def is_truncate_of_all(part: MoveRows) -> bool:
    """Whether a part is TRUNCATE PARTITION ALL."""
    cur = Cursor(part.what)
    return cur.accept("truncate", "partition", "all") and cur.at_end()


def _named(cur: Cursor, known: Partitioning) -> tuple[str, ...]:
    if cur.accept("first", "partition", "less", "than"):
        return tuple(one.name for one in _below(cur, known))
    verb = cur.any_of("drop", "truncate")
    if not verb or not cur.accept("partition") or (verb == "drop" and known.kind not in ("range", "list")):
        raise cur.fail("DROP PARTITION or TRUNCATE PARTITION")
    if_exists = cur.accept("if", "exists")
    have = {one.name.casefold(): one.name for one in known.partitions}
    if verb == "truncate" and cur.accept("all"):
        names = list(have.values())
    else:
        given = [name.casefold() for name in _list(cur, cur.name)]
        if not (if_exists or have.keys() >= set(given)):
            raise cur.fail("partitions that are known")
        names = [have[name] for name in given if name in have]
    if not cur.at_end():
        raise cur.fail("the end")
    return tuple(names)


def _below(cur: Cursor, known: Partitioning) -> tuple[Partition, ...]:
    """The partitions that FIRST PARTITION LESS THAN drops: those before the one with this bound."""
    bound = (_brackets(cur, lambda: _list(cur, lambda: _value(cur)))[0],)
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
            return _moved(before, part, _Cursor(what, zone))
        case NoEffect(what=what):
            cur = _Cursor(what, zone)
            return _added(before, cur) if before is not None and cur.accept("add", "partition") else before
    return before


def _with_column(before: Partitioning | None, old: str, new: str) -> Partitioning | None:
    if before is None:
        return None
    columns = tuple(new if name.casefold() == old.casefold() else name for name in before.columns)
    return replace(before, columns=columns)


def _moved(before: Partitioning | None, part: MoveRows, cur: Cursor) -> Partitioning | None:
    if cur.accept("partition", "by"):
        return _partitioning(cur)
    if cur.accept("exchange", "partition"):
        # Without validation, rows lie in partitions to which they do not belong.
        return None if "WITHOUT" in part.what.upper().split()[3:] else before
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
        return _checked(replace(before, partitions=before.partitions[: max(left, 0)]))
    gone = _named(cur, before)
    return _checked(replace(before, partitions=tuple(one for one in before.partitions if one.name not in gone)))


def _added(before: Partitioning, cur: Cursor) -> Partitioning:
    _unlogged(cur)
    cur.accept("if", "not", "exists")
    if cur.accept("partitions"):
        if before.kind not in ("hash", "key"):
            raise cur.fail("partitions with their values")
        have = len(before.partitions)
        more = tuple(Partition(f"p{at}") for at in range(have, have + int(cur.next().text)))
    else:
        more = tuple(_brackets(cur, lambda: _list(cur, lambda: _definition(cur, before.kind))))
    return _checked(replace(before, partitions=before.partitions + more))


def _reorganized(before: Partitioning, cur: Cursor) -> Partitioning:
    _unlogged(cur)
    if cur.at_end():
        return before
    at = [one.name.casefold() for one in before.partitions]
    old = sorted(at.index(name.casefold()) for name in _list(cur, cur.name))
    if old != list(range(old[0], old[0] + len(old))) and before.kind == "range":
        raise cur.fail("partitions that follow each other")
    if not cur.accept("into"):
        raise cur.fail("INTO")
    new = tuple(_brackets(cur, lambda: _list(cur, lambda: _definition(cur, before.kind))))
    kept = [one for index, one in enumerate(before.partitions) if index not in old]
    return _checked(replace(before, partitions=(*kept[: old[0]], *new, *kept[old[0] :])))


def _unlogged(cur: Cursor) -> None:
    cur.any_of("no_write_to_binlog", "local")


def _partitioning(cur: Cursor) -> Partitioning:
    if cur.accept("linear"):
        raise cur.fail("RANGE, LIST, HASH or KEY")
    kind = cur.any_of("range", "list", "hash", "key")
    match kind:
        case "range" | "list" if cur.any_of("columns"):
            found = Partitioning(kind=kind, columns=tuple(_brackets(cur, lambda: _list(cur, cur.name))))
        case "range" | "list" | "hash":
            columns, function = _expression(cur.brackets())
            found = Partitioning(kind=kind, columns=columns, function=function)
        case "key":
            found = Partitioning(kind="key")
            if cur.accept("algorithm"):
                cur.op("=")
                cur.next()
            cur.brackets()
        case _:
            raise cur.fail("RANGE, LIST, HASH or KEY")
    count = int(cur.next().text) if cur.accept("partitions") else 0
    if cur.accept("subpartition", "by"):
        _skip_subpartitions(cur)
    if cur.opens():
        partitions = tuple(_brackets(cur, lambda: _list(cur, lambda: _definition(cur, found.kind))))
    elif found.kind in ("hash", "key"):
        partitions = tuple(Partition(f"p{at}") for at in range(count or 1))
    else:
        raise cur.fail("'('")
    return _checked(replace(found, partitions=partitions))


def _skip_subpartitions(cur: Cursor) -> None:
    cur.accept("linear")
    cur.any_of("hash", "key")
    cur.brackets()
    if cur.accept("subpartitions"):
        cur.next()


def _expression(text: str) -> tuple[tuple[str, ...], str]:
    """The column and the function of a partition expression; none of both if it is another one."""
    cur = Cursor(text)
    function = cur.peek().word if cur.peek().word in _FUNCTIONS else ""
    try:
        if function:
            cur.next()
            column = _brackets(cur, lambda: _column(cur)) if cur.opens() else function
            function = function if column != function else ""
        else:
            column = _column(cur)
    except MessageError:
        return (), ""
    return ((column,), function) if cur.at_end() else ((), "")


def _column(cur: Cursor) -> str:
    name = cur.name()
    while cur.op("."):
        name = cur.name()
    return name


def _definition(cur: Cursor, kind: str) -> Partition:
    if not cur.accept("partition"):
        raise cur.fail("PARTITION")
    name, default = cur.name(), False
    values: list[tuple[int | str | None, ...]] = []
    if cur.accept("default"):
        default = True
    elif cur.accept("values", "less", "than"):
        if cur.accept("maxvalue"):
            values = [(None,)]
        else:
            values = [tuple(_brackets(cur, lambda: _list(cur, lambda: _value(cur, of_range=True))))]
    elif cur.accept("values", "in"):
        listed = _brackets(cur, lambda: _list(cur, lambda: _tuple(cur)))
        values = [one for one in listed if one is not None]
        default = len(values) < len(listed)
    if (kind == "range" and (len(values) != 1 or default)) or (kind == "list" and not (values or default)):
        raise cur.fail("VALUES")
    cur.skip_item()
    return Partition(name, tuple(values), default)


def _tuple(cur: Cursor) -> tuple[int | str | None, ...] | None:
    """One value of a LIST, or several in brackets; ``None``: DEFAULT."""
    if cur.accept("default"):
        return None
    if cur.opens():
        return tuple(_brackets(cur, lambda: _list(cur, lambda: _value(cur))))
    return (_value(cur),)


def _value(cur: Cursor, *, of_range: bool = False) -> int | str | None:
    """A constant. Raises: MessageError, ValueError for one that is not understood"""
    if cur.accept("maxvalue" if of_range else "null"):
        return None
    if cur.op("-"):
        return -_integer(cur)
    cur.op("+")
    token = cur.peek()
    if token.kind == "number":
        return _integer(cur)
    if token.word in ("date", "timestamp") or (token.word.startswith("_") and token.word[1:] in _PLAIN):
        cur.next()
        return cur.string()
    if token.word in ("to_days", "year"):
        cur.next()
        day = date.fromisoformat(_brackets(cur, cur.string))
        return to_days(day) if token.word == "to_days" else day.year
    if token.word == "unix_timestamp" and isinstance(cur, _Cursor) and cur.zone is not None:
        cur.next()
        text = _brackets(cur, cur.string)
        moment = f"{text} 00:00:00" if len(text) == _DAY else canonical_datetime(text, 0)
        # A time that happens twice is refused, as nothing tells which of both is meant.
        utc = datetime.fromisoformat(utc_timestamp(moment, cur.zone, 0, "reject")).replace(tzinfo=UTC)
        return int(utc.timestamp())
    if token.kind != "string" or token.text[0] in "nN":
        raise cur.fail("a constant")
    return unescape(cur.next().text)


_PLAIN = frozenset(("utf8", "utf8mb3", "utf8mb4", "ascii"))
"""Character sets of which a string is what stands there."""


def _integer(cur: Cursor) -> int:
    if cur.peek().kind != "number" or not cur.peek().text.isdigit():
        raise cur.fail("an integer")
    return int(cur.next().text)


def _checked(found: Partitioning) -> Partitioning:
    """Raises: ValueError where the partitions are not ones that a table can have"""
    names = [one.name.casefold() for one in found.partitions]
    if not names or len(set(names)) < len(names):
        raise ValueError("a partition is there twice, or none is left")
    width = max(len(found.columns), 1)
    if any(len(values) != width for one in found.partitions for values in one.values):
        raise ValueError("a partition has more or fewer values than there are columns")
    if sum(one.default for one in found.partitions) > 1:
        raise ValueError("two partitions are DEFAULT")
    return found


def _brackets(cur: Cursor, read: Callable[[], T]) -> T:
    cur.expect_op("(")
    found = read()
    cur.expect_op(")")
    return found


def _list(cur: Cursor, read: Callable[[], T]) -> list[T]:
    items = [read()]
    while cur.op(","):
        items.append(read())
    return items
