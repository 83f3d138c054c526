"""Which rows of a topic are meant: offsets of partitions, a table, and commit timestamps."""

from collections.abc import Iterable, Sequence

import msgspec

from ticdc_spark.ddl.known_names import KnownNames, Names
from ticdc_spark.model import Offsets, TableName, TopicPartition


class RowRange(msgspec.Struct, frozen=True):
    """Offsets [first, end) of a partition in which rows of a table lie, among others."""

    topic: str
    partition: int
    first: int
    end: int
    sent: TableName | None = None
    """The table's name in the messages; ``None``: whatever name means the table."""


class RowScan(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one table with ``above < commit_ts <= upto`` in some ranges."""

    table: TableName
    ranges: tuple[RowRange, ...]
    above: int
    upto: int
    keys: tuple[str, ...] | None = None
    """Schema keys; ``None``: all."""
    names: Names = Names()
    """By which rows are known whose range does not say what they are sent as."""
    rows: int = 0
    """About how many rows there are."""
    bytes: int = 0
    """About how many bytes their messages have."""


Stretch = tuple[TopicPartition, int, int]
"""Offsets [first, end) of a partition."""


def stretches(ranges: Iterable[RowRange]) -> list[Stretch]:
    """What must be read for ranges: each message once, in the order of partitions and offsets."""
    found: list[Stretch] = []
    for place, first, end in sorted(((one.topic, one.partition), one.first, one.end) for one in ranges):
        if found and found[-1][0] == place and first <= found[-1][2]:
            found[-1] = (place, found[-1][1], max(end, found[-1][2]))
        else:
            found.append((place, first, end))
    return found


def rounds(wanted: Sequence[Stretch]) -> list[tuple[Offsets, Offsets]]:
    """Stretches as (start, end) of reads, each of which has a partition once."""
    found: list[tuple[Offsets, Offsets]] = []
    at: dict[TopicPartition, int] = {}
    for place, first, end in wanted:
        number = at.get(place, 0)
        at[place] = number + 1
        if number == len(found):
            found.append(({}, {}))
        found[number][0][place], found[number][1][place] = first, end
    return found


class RowFilter:
    """Decides which rows belong to a scan; one a task."""

    def __init__(self, scan: RowScan) -> None:
        self._scan = scan
        self._known = KnownNames(scan.names)
        self._keys = None if scan.keys is None else frozenset(scan.keys)
        self._ranges: dict[TopicPartition, list[RowRange]] = {}
        for one in scan.ranges:
            self._ranges.setdefault((one.topic, one.partition), []).append(one)
        self._is_of: dict[TableName, bool] = {}

    def takes(self, place: TopicPartition, offset: int, name: TableName, key: str, commit_ts: int) -> bool:
        """Whether a row belongs to the scan. ``name``: the table's as it was sent."""
        if not self._scan.above < commit_ts <= self._scan.upto or (self._keys is not None and key not in self._keys):
            return False
        return any(
            one.first <= offset < one.end and (self._means(name) if one.sent is None else one.sent == name)
            for one in self._ranges.get(place, ())
        )

    def _means(self, name: TableName) -> bool:
        found = self._is_of.get(name)
        if found is None:
            found = self._is_of[name] = self._known.of_rows(name) == self._scan.table
        return found
