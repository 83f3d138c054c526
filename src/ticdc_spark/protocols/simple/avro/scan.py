"""Finds the values of many images of Simple in Avro, for all images at once.

TiCDC writes an image's columns in random order, so an image must be walked value by value. Here all images of a table
take each step together, in numpy: which column comes next, which branch of the union, where it ends. An image that is
unusual (long names, several blocks) or wrong must be read by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ticdc_spark.protocols.simple.avro.types import (
    BYTES,
    DOUBLES,
    FLOATS,
    IMAGE,
    LONG,
    NULL,
    STRING,
    TIMESTAMP,
    UNSIGNED,
)

Places: TypeAlias = NDArray[np.int64]
_Words: TypeAlias = NDArray[np.uint64]
PADDING = bytes(96)
"""Follows the images, so that reading ahead never passes the end: a short name and two words."""
_LONGEST_NAME = 63
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_NO_COLUMN = -1


class Bytes:
    """Concatenated images, as bytes and as the words that begin at each byte."""

    def __init__(self, images: Sequence[bytes]) -> None:
        self.data = b"".join((*images, PADDING))
        self.bytes = np.frombuffer(self.data, np.uint8)
        self._words: _Words = np.ndarray((len(self.data) - 7,), np.dtype("<u8"), self.data, strides=(1,))
        self.ends: Places = np.cumsum(np.fromiter(map(len, images), np.int64, len(images)))
        self.starts: Places = np.concatenate((np.zeros(1, np.int64), self.ends[:-1]))

    def words(self, at: Places) -> _Words:
        """The eight bytes at each place."""
        return self._words[at]

    def numbers(self, at: Places) -> tuple[NDArray[np.int64], Places]:
        """Avro's longs and how many bytes each has. More than ten bytes mean more than 64 bits."""
        words = self.words(at)
        stop = ~words & np.uint64(0x8080808080808080)
        below = (stop & (~stop + np.uint64(1))) - np.uint64(1)  # all bits before the last byte's highest
        sizes = (np.bitwise_count(below).astype(np.int64) + 1) >> 3
        parts = words & below & np.uint64(0x7F7F7F7F7F7F7F7F)
        for keep, shift in ((0x007F007F007F007F, 1), (0x00003FFF00003FFF, 2), (0x000000000FFFFFFF, 4)):
            low = np.uint64(keep)
            parts = (parts & low) | ((parts & (low << np.uint64(8 * shift))) >> np.uint64(shift))
        (long,) = np.nonzero(stop == 0)
        if len(long):
            ninth, tenth = (self.bytes[at[long] + place].astype(np.uint64) for place in (8, 9))
            more = ninth > 0x7F
            parts[long] |= (ninth & np.uint64(0x7F)) << np.uint64(56) | np.where(more, tenth, 0) << np.uint64(63)
            sizes[long] = np.where(more, np.where(tenth > 1, 11, 10), 9)
        signs = np.uint64(0) - (parts & np.uint64(1))
        return ((parts >> np.uint64(1)) ^ signs).view(np.int64), sizes

    def lengths(self, at: Places) -> tuple[Places, Places]:
        """Where texts or bytes begin and end. An end before the beginning means none."""
        lengths, sizes = self.numbers(at)
        begins = at + sizes
        whole = (lengths >= 0) & (lengths <= len(self.data)) & (sizes <= 10)
        return begins, np.where(whole, begins + lengths, -1)


class Scan(NamedTuple):
    """The result: for each column and image the place after the value's branch, or -1, its end, its branch."""

    at: Places
    ends: Places
    branches: NDArray[np.uint8]
    good: NDArray[np.bool_]
    """Images that were walked to their ends. Nothing is known about others."""


def _fixed(size: int) -> Callable[[Bytes, Places], Places]:
    return lambda _, at: at + size


def _number_end(found: Bytes, at: Places) -> Places:
    _, sizes = found.numbers(at)
    return np.where(sizes <= 10, at + sizes, -1)


def _text_end(found: Bytes, at: Places) -> Places:
    return found.lengths(at)[1]


def _timestamp_end(found: Bytes, at: Places) -> Places:
    zone = _text_end(found, at)
    known = (zone >= 0) & (zone < len(found.data) - len(PADDING))
    return np.where(known, _text_end(found, np.where(known, zone, 0)), -1)


_ENDS: Mapping[int, Callable[[Bytes, Places], Places]] = {
    NULL: _fixed(0),
    LONG: _number_end,
    FLOATS: _fixed(4),
    DOUBLES: _fixed(8),
    STRING: _text_end,
    BYTES: _text_end,
    TIMESTAMP: _timestamp_end,
    UNSIGNED: _number_end,
}


class Names:
    """A table's columns by the words of their names."""

    def __init__(self, names: Sequence[bytes]) -> None:
        """``names``: at most 63 bytes each. Longer ones are never found."""
        known = [(name, at) for at, name in enumerate(names) if len(name) <= _LONGEST_NAME]
        self._count = max((len(name) + 7) // 8 for name, _ in known) if known else 0
        words = [name.ljust(8 * self._count, b"\0") for name, _ in known]
        self._words = np.frombuffer(b"".join(words), "<u8").reshape(len(known), self._count).T
        self._lengths = np.array([len(name) for name, _ in known], np.int64)
        hashes = self._hash([*self._words], self._lengths)
        order = np.argsort(hashes)
        self._hashes, self._order = hashes[order], order
        self._columns = np.array([at for _, at in known], np.int64)

    def find(self, found: Bytes, at: Places, lengths: Places) -> Places:
        """The column whose name is at each place; -1: none."""
        if not len(self._hashes):
            return np.full(len(at), _NO_COLUMN)
        words = [found.words(at + 8 * word) & _MASKS[np.clip(lengths - 8 * word, 0, 8)] for word in range(self._count)]
        places = np.searchsorted(self._hashes, self._hash(words, lengths))
        rows = self._order[np.minimum(places, len(self._order) - 1)]
        same = self._lengths[rows] == lengths
        for mine, theirs in zip(self._words, words, strict=True):
            same &= mine[rows] == theirs
        return np.where(same, self._columns[rows], _NO_COLUMN)

    @staticmethod
    def _hash(words: Sequence[_Words], lengths: Places) -> _Words:
        mixed = lengths.astype(np.uint64)
        for word in words:
            mixed = (mixed ^ word) * _SPREAD
        return mixed


_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
"""Masks for the first bytes of a word, by the number of bytes."""


def scan(found: Bytes, names: Names, columns: int, *, strict: bool) -> Scan:
    """Walk all images. ``strict``: an image with a column that ``names`` does not have is not good."""
    images = len(found.ends)
    at = np.full((columns, images), -1, np.int64)
    ends = np.full((columns, images), -1, np.int64)
    branches = np.zeros((columns, images), np.uint8)
    counts = found.bytes[found.starts + 1]
    good = (found.bytes[found.starts] == IMAGE[0]) & (counts & 0x81 == 0)
    counts >>= 1
    place = found.starts + 2
    for step in range(int(counts[good].max(initial=0))):
        (live,) = np.nonzero(good & (counts > step))
        names_at = place[live] + 1
        sizes = found.bytes[names_at - 1]
        short = sizes & 0x81 == 0
        lengths = np.where(short, sizes >> 1, 0).astype(np.int64)
        column = names.find(found, names_at, lengths)
        values_at = names_at + lengths + 1
        branch = found.bytes[values_at - 1]
        values_end = np.full(len(live), -1, np.int64)
        for code in np.flatnonzero(np.bincount(branch)):
            end = _ENDS.get(int(code))
            if end is not None:
                (chosen,) = np.nonzero(branch == code)
                values_end[chosen] = end(found, values_at[chosen])
        known = column != _NO_COLUMN
        right = short & (values_end >= values_at) & (values_end < found.ends[live])
        right &= np.where(known, at[column, live] < 0, not strict)
        good[live[~right]] = False
        place[live[right]] = values_end[right]
        (matched,) = np.nonzero(right & known)
        where = column[matched], live[matched]
        at[where], ends[where], branches[where] = values_at[matched], values_end[matched], branch[matched]
    closed = np.where(counts > 0, (found.bytes[place] == 0) & (place + 1 == found.ends), place == found.ends)
    return Scan(at, ends, branches, good & closed)
