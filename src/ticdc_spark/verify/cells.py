"""Parts of a table: ranges of keys, or buckets of their hashes. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Key: TypeAlias = tuple[Any, ...]
"""Values of the key's columns, as Python objects from Arrow."""
Places: TypeAlias = npt.NDArray[np.int64]
"""For each row the position of its part in a selection; -1: it is in no part."""


class Range(msgspec.Struct, frozen=True):
    """Keys above ``above``, up to and including ``upto``; ``None``: from the first key, or to the last."""

    above: Key | None
    upto: Key | None


class Ranges(msgspec.Struct, frozen=True):
    """Ranges of a table, in the order of keys. They do not overlap."""

    of: tuple[Range, ...]


class Buckets(msgspec.Struct, frozen=True):
    """Buckets of keys: the hash of a key's text, modulo ``count``."""

    count: int
    of: tuple[int, ...]


class Keys(msgspec.Struct, frozen=True):
    """Single rows, as one part."""

    of: frozenset[Key]


Parts: TypeAlias = Ranges | Buckets
Selection: TypeAlias = Parts | Keys


def ranges_of(bounds: Sequence[Key]) -> Ranges:
    """All ranges of a table. ``bounds``: the upper bounds of all but the last one."""
    ends: list[Key | None] = [None, *bounds, None]
    return Ranges(tuple(Range(above, upto) for above, upto in pairwise(ends)))


def size(selection: Selection) -> int:
    """The number of parts."""
    return 1 if isinstance(selection, Keys) else len(selection.of)


def chosen(parts: Parts, places: Sequence[int]) -> Parts:
    """Some of the parts."""
    match parts:
        case Ranges(of=ranges):
            return Ranges(tuple(ranges[at] for at in places))
        case Buckets(count=count, of=numbers):
            return Buckets(count, tuple(numbers[at] for at in places))


def places(selection: Selection, columns: Sequence[pa.Array], hashes: npt.NDArray[np.uint64] | None) -> Places:
    """The part of each row. ``columns``: of the key. ``hashes``: of the key's text, needed for buckets."""
    if not size(selection):
        return np.full(len(columns[0]), -1, np.int64)
    match selection:
        case Buckets(count=count, of=numbers):
            assert hashes is not None, "buckets are of hashes"
            return _bucket_places(hashes, count, numbers)
        case Keys(of=wanted):
            if len(columns) == 1 and pa.types.is_integer(columns[0].type) and not columns[0].null_count:
                found = np.isin(columns[0].to_numpy(zero_copy_only=False), _integers(wanted))
                return np.where(found, 0, -1)
            return np.array([0 if key in wanted else -1 for key in keys_of(columns)], np.int64)
        case Ranges(of=ranges):
            if len(columns) == 1 and pa.types.is_integer(columns[0].type) and not columns[0].null_count:
                return _integer_places(columns[0], ranges)
            return _range_places(keys_of(columns), ranges)
    raise AssertionError(selection)


@lru_cache(4)
def _integers(keys: frozenset[Key]) -> npt.NDArray[np.int64]:
    return np.array([key[0] for key in keys if key[0] is not None], np.int64)


def keys_of(columns: Sequence[pa.Array]) -> list[Key]:
    """The keys of rows."""
    return list(zip(*map(plain, columns), strict=True))


def plain(column: pa.Array) -> list[Any]:
    """Values without a time zone, so that both sides can be compared."""
    zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
    values: list[Any] = (column.cast(pa.timestamp("us")) if zoned else column).to_pylist()
    return values


def _bucket_places(hashes: npt.NDArray[np.uint64], count: int, numbers: tuple[int, ...]) -> Places:
    place = np.full(count, -1, np.int64)
    place[list(numbers)] = np.arange(len(numbers))
    found: Places = place[(bucket_part(hashes) % np.uint64(count)).astype(np.int64)]
    return found


def bucket_part(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The part of a hash that determines the bucket: its first 32 bits."""
    return hashes >> np.uint64(32)


def _integer_places(column: pa.Array, ranges: tuple[Range, ...]) -> Places:
    keys = column.to_numpy(zero_copy_only=False).astype(np.int64)
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    upto = np.array([most if one.upto is None else one.upto[0] for one in ranges], np.int64)
    above = np.array([least if one.above is None else one.above[0] for one in ranges], np.int64)
    is_open = np.array([one.above is None for one in ranges])
    found = np.searchsorted(upto, keys, side="left").astype(np.int64)
    beyond = found == len(ranges)
    found[beyond] = 0
    found[beyond | ~((keys > above[found]) | is_open[found])] = -1
    placed: Places = found
    return placed


def _range_places(keys: Sequence[Key], ranges: tuple[Range, ...]) -> Places:
    """The range of each key. NULL, which only a wrong row has in its key, sorts first."""
    upto = [one.upto for one in ranges if one.upto is not None]

    def place(key: Key) -> int:
        if None in key:
            return 0 if ranges[0].above is None else -1
        at = bisect_left(upto, key)
        if at == len(ranges):
            return -1
        above = ranges[at].above
        return at if above is None or key > above else -1

    return np.array([place(key) for key in keys], np.int64)
