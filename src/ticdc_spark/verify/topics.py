"""Compares two topics: whether they have the same changes, in any protocol, order and partitioning.

A *change* is what a commitTs leaves of one key of a table: a row, or nothing. A change that is sent again counts once.
A topic is read at most twice: once for a digest of each change, and again for changes that only one topic has.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from ticdc_spark.model import Bootstrap, Rejected, Row, RowChange, SchemaChange, Table, Value, Watermark
from ticdc_spark.mysql import handle_key
from ticdc_spark.streams.reader import Found

Read: TypeAlias = Callable[[], Iterable[Found]]
"""Reads a topic from its beginning at each call."""
Kind: TypeAlias = Literal["missing", "extra", "changed"]
"""The second topic lacks the change, is the only one that has it, or has another row."""
DDL = "(DDL)"
"""The table of a DDL."""
_DIGEST_BYTES = 8


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A change that differs between the two topics. Values are canonical."""

    table: str
    commit_ts: int
    key: dict[str, Value]
    kind: Kind
    first: Row | None = None
    """The row after the change in the first topic; ``None``: it is deleted, or the topic lacks the change."""
    second: Row | None = None


class TableCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of changes of one table."""

    first: int = 0
    second: int = 0
    different: int = 0
    """Changes that differ between the topics."""


class TopicsReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a comparison."""

    tables: dict[str, TableCounts]
    found: tuple[Difference, ...]
    """The first differences, by commitTs."""
    unread: tuple[int, int]
    """The number of events of each topic that could not be read."""
    reasons: tuple[str, ...] = ()
    """Why the first of these could not be read."""

    @property
    def is_equal(self) -> bool:
        return not any(self.unread) and not any(one.different for one in self.tables.values())


class Change(NamedTuple):
    """What one commitTs leaves of one key."""

    table: str
    commit_ts: int
    key: tuple[tuple[str, Value], ...]
    after: Row | None

    @property
    def place(self) -> bytes:
        """A digest of the change without its row."""
        return _digest(self.table, self.commit_ts, _plain(dict(self.key)))

    @property
    def whole(self) -> bytes:
        """A digest of the whole change."""
        after = None if self.after is None else _plain(self.after)
        return _digest(self.table, self.commit_ts, _plain(dict(self.key)), after)


@dataclass(slots=True)
class _Digests:
    """The changes of one table in one topic, 64 bits each."""

    rows: array[int] = field(default_factory=lambda: array("Q"))
    """Digests of changes that leave a row."""
    places: array[int] = field(default_factory=lambda: array("Q"))
    """Digests of the same changes, without their rows."""
    gone: array[int] = field(default_factory=lambda: array("Q"))
    """Digests of changes that leave no row."""

    def add(self, change: Change) -> None:
        place = int.from_bytes(change.place, "little")
        if change.after is None:
            self.gone.append(place)
        else:
            self.places.append(place)
            self.rows.append(int.from_bytes(change.whole, "little"))

    def unique(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Each change once. A key that is deleted and inserted at one commitTs has a row after it."""
        gone = np.setdiff1d(_numbers(self.gone), _numbers(self.places))
        return np.union1d(_numbers(self.rows), gone)


def compare_topics(first: Read, second: Read, *, has_ddl: bool, limit: int) -> TopicsReport:
    """Compare two topics. ``has_ddl``: both have every DDL, so DDLs are compared, too; ``limit``: differences to show.

    Raises: the errors of ``first`` and ``second``
    """
    sides = [_digests(read, has_ddl=has_ddl) for read in (first, second)]
    counts: dict[str, tuple[int, int]] = {}
    odd: set[int] = set()
    for table in sorted({*sides[0].tables, *sides[1].tables}):
        mine, theirs = (side.tables.get(table, _Digests()).unique() for side in sides)
        odd.update(np.setxor1d(mine, theirs).tolist())
        counts[table] = len(mine), len(theirs)
    found = list(_differences(first, second, odd, has_ddl=has_ddl)) if odd else []
    different = Counter(one.table for one in found)
    return TopicsReport(
        tables={
            table: TableCounts(first=mine, second=theirs, different=different[table])
            for table, (mine, theirs) in counts.items()
        },
        found=tuple(found[:limit]),
        unread=(sides[0].unread, sides[1].unread),
        reasons=tuple(dict.fromkeys((*sides[0].reasons, *sides[1].reasons)))[:limit],
    )


@dataclass(slots=True)
class _Side:
    tables: dict[str, _Digests] = field(default_factory=dict)
    unread: int = 0
    reasons: dict[str, None] = field(default_factory=dict)


def _digests(read: Read, *, has_ddl: bool) -> _Side:
    side = _Side()
    for found in read():
        if reason := _unread(found.event):
            side.unread += 1
            side.reasons[reason] = None
            continue
        for change in changes_of(found.event, has_ddl=has_ddl):
            side.tables.setdefault(change.table, _Digests()).add(change)
    return side


def _unread(event: object) -> str:
    """Why it is not known what an event leaves; ``""``: it is known."""
    match event:
        case Rejected(reason):
            return reason
        case RowChange(partial=True, after=after) if after is not None:
            name = f"`{event.table.schema}`.`{event.table.name}`"
            return f"the message of a row of {name} has only its key (large-message-handle), and no values to compare"
    return ""


def changes_of(event: object, *, has_ddl: bool = True) -> Iterator[Change]:
    """The changes in an event."""
    match event:
        case SchemaChange() if has_ddl:
            yield Change(DDL, event.commit_ts, (("query", event.query),), {})
        case RowChange():
            name = f"{event.table.schema}.{event.table.name}"
            before, after = (_key(event.table, image) for image in (event.before, event.after))
            if after is not None:
                yield Change(name, event.commit_ts, after, event.after)
            if before is not None and before != after:
                yield Change(name, event.commit_ts, before, None)
        case SchemaChange() | Watermark() | Bootstrap() | Rejected():
            return


def _key(table: Table, image: Row | None) -> tuple[tuple[str, Value], ...] | None:
    """The handle key; without one, the whole row is the key."""
    if image is None:
        return None
    names = handle_key(table) or sorted(image)
    return tuple((name, image.get(name)) for name in names)


def _differences(first: Read, second: Read, odd: Collection[int], *, has_ddl: bool) -> Iterator[Difference]:
    sides = [_chosen(read, odd, has_ddl=has_ddl) for read in (first, second)]
    for place in sorted({*sides[0], *sides[1]}, key=lambda one: (one.commit_ts, one.table, repr(one.key))):
        kinds: dict[tuple[bool, bool], Kind] = {(True, False): "missing", (False, True): "extra"}
        there = place in sides[0], place in sides[1]
        yield Difference(
            table=place.table,
            commit_ts=place.commit_ts,
            key=dict(place.key),
            kind=kinds.get(there, "changed"),
            first=sides[0].get(place),
            second=sides[1].get(place),
        )


class _Place(NamedTuple):
    table: str
    commit_ts: int
    key: tuple[tuple[str, Value], ...]


def _chosen(read: Read, odd: Collection[int], *, has_ddl: bool) -> Mapping[_Place, Row | None]:
    found: dict[_Place, Row | None] = {}
    for one in read():
        for change in changes_of(one.event, has_ddl=has_ddl):
            place = _Place(change.table, change.commit_ts, change.key)
            digest = change.place if change.after is None else change.whole
            if int.from_bytes(digest, "little") in odd and found.get(place) is None:
                found[place] = change.after
    return found


def _plain(row: Row) -> dict[str, Any]:
    """A row in a form where equal values are equal, whether a protocol sends them as text or as bytes."""
    return {name: value.encode() if isinstance(value, str) else value for name, value in sorted(row.items())}


def _digest(*cells: object) -> bytes:
    return blake2b(msgspec.msgpack.encode(cells), digest_size=_DIGEST_BYTES).digest()


def _numbers(of: Sequence[int]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.unique(np.asarray(of, np.uint64))
