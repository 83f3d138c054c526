"""PARTITION BY: how a table is partitioned, and its partitions with their bounds. Pure.

Each function reads from a cursor's position, and raises MessageError or ValueError for what it does not understand.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import TypeVar

from msgspec.structs import replace

from ticdc_spark.ddl.lex import Cursor, Token, unescape
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Partition, Partitioning
from ticdc_spark.mysql import canonical_datetime, utc_timestamp

T = TypeVar("T")
_DAY = len("2024-01-31")
_FUNCTIONS = frozenset(("year", "to_days", "unix_timestamp"))
_DAYS_BEFORE = 365
"""TO_DAYS of the day before 0001-01-01, the first day of Python's calendar."""


class SessionCursor(Cursor):
    """A position in a statement of a session with a time zone."""

    def __init__(self, sql: str, zone: str | None) -> None:
        super().__init__(sql)
        self.zone = zone


def to_days(day: date) -> int:
    """MySQL's TO_DAYS."""
    return day.toordinal() + _DAYS_BEFORE


def partitioning(cur: Cursor) -> Partitioning:
    """The text after PARTITION BY."""
    if cur.accept("linear"):
        raise cur.fail("RANGE, LIST, HASH or KEY")
    kind = cur.any_of("range", "list", "hash", "key")
    match kind:
        case "range" | "list" if cur.any_of("columns"):
            found = Partitioning(kind=kind, columns=tuple(in_brackets(cur, lambda: listed(cur, cur.name))))
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
        partitions = tuple(in_brackets(cur, lambda: listed(cur, lambda: definition(cur, found.kind))))
    elif found.kind in ("hash", "key"):
        partitions = tuple(Partition(f"p{at}") for at in range(count or 1))
    else:
        raise cur.fail("'('")
    return checked(replace(found, partitions=partitions))


def _skip_subpartitions(cur: Cursor) -> None:
    cur.accept("linear")
    cur.any_of("hash", "key")
    cur.brackets()
    if cur.accept("subpartitions"):
        cur.next()


def _expression(text: str) -> tuple[tuple[str, ...], str]:
    """The column and the function of a partition expression; both empty if it is of another kind."""
    cur = Cursor(text)
    function = cur.peek().word if cur.peek().word in _FUNCTIONS else ""
    try:
        if function:
            cur.next()
            column = in_brackets(cur, lambda: _column(cur)) if cur.opens() else function
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


def definition(cur: Cursor, kind: str) -> Partition:
    """One partition. ``kind``: of its table."""
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
            values = [tuple(in_brackets(cur, lambda: listed(cur, lambda: constant(cur, of_range=True))))]
    elif cur.accept("values", "in"):
        found = in_brackets(cur, lambda: listed(cur, lambda: _tuple(cur)))
        values = [one for one in found if one is not None]
        default = len(values) < len(found)
    if (kind == "range" and (len(values) != 1 or default)) or (kind == "list" and not (values or default)):
        raise cur.fail("VALUES")
    cur.skip_item()
    return Partition(name, tuple(values), default)


def _tuple(cur: Cursor) -> tuple[int | str | None, ...] | None:
    """One value of a LIST, or several in brackets; ``None``: DEFAULT."""
    if cur.accept("default"):
        return None
    if cur.opens():
        return tuple(in_brackets(cur, lambda: listed(cur, lambda: constant(cur))))
    return (constant(cur),)


def constant(cur: Cursor, *, of_range: bool = False) -> int | str | None:
    """A constant. Raises: MessageError, ValueError if it is not understood"""
    if cur.accept("maxvalue" if of_range else "null"):
        return None
    if cur.op("-"):
        return -_integer(cur)
    cur.op("+")
    token = cur.peek()
    if token.kind == "number":
        return _integer(cur)
    if token.word in ("date", "timestamp"):
        cur.next()
        return cur.string()
    if _is_introducer(token):
        return _string(cur)
    if token.word in ("to_days", "year"):
        cur.next()
        day = date.fromisoformat(in_brackets(cur, lambda: _string(cur)))
        return to_days(day) if token.word == "to_days" else day.year
    if token.word == "unix_timestamp" and isinstance(cur, SessionCursor) and cur.zone is not None:
        cur.next()
        text = in_brackets(cur, lambda: _string(cur))
        moment = f"{text} 00:00:00" if len(text) == _DAY else canonical_datetime(text, 0)
        # A time that happens twice is refused, because it is ambiguous.
        utc = datetime.fromisoformat(utc_timestamp(moment, cur.zone, 0, "reject")).replace(tzinfo=UTC)
        return int(utc.timestamp())
    if token.kind != "string" or token.text[0] in "nN":
        raise cur.fail("a constant")
    return unescape(cur.next().text)


_PLAIN = frozenset(("utf8", "utf8mb3", "utf8mb4", "ascii"))
"""Character sets in which a string means what is written."""


def _is_introducer(token: Token) -> bool:
    return token.word.startswith("_") and token.word[1:] in _PLAIN


def _string(cur: Cursor) -> str:
    """A string, which may have the character set that TiCDC prints before it."""
    if _is_introducer(cur.peek()):
        cur.next()
    return cur.string()


def _integer(cur: Cursor) -> int:
    if cur.peek().kind != "number" or not cur.peek().text.isdigit():
        raise cur.fail("an integer")
    return int(cur.next().text)


def checked(found: Partitioning) -> Partitioning:
    """Raises: ValueError if a table cannot have these partitions"""
    names = [one.name.casefold() for one in found.partitions]
    if not names or len(set(names)) < len(names):
        raise ValueError("a partition is there twice, or none is left")
    width = max(len(found.columns), 1)
    if any(len(values) != width for one in found.partitions for values in one.values):
        raise ValueError("a partition has more or fewer values than there are columns")
    if sum(one.default for one in found.partitions) > 1:
        raise ValueError("two partitions are DEFAULT")
    return found


def in_brackets(cur: Cursor, read: Callable[[], T]) -> T:
    """Read between brackets."""
    cur.expect_op("(")
    found = read()
    cur.expect_op(")")
    return found


def listed(cur: Cursor, read: Callable[[], T]) -> list[T]:
    """Read once, and again after each comma."""
    items = [read()]
    while cur.op(","):
        items.append(read())
    return items
