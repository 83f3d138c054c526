"""Selections of rows in topics: by offsets of partitions, table, and commit timestamps."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from ticdc_spark.changes.opening import Group, Messages, Opened, group_rows, raw_watermarks
from ticdc_spark.ddl.known_names import KnownNames, Names
from ticdc_spark.model import Offsets, TableName, TopicPartition
from ticdc_spark.protocols.rows import Numbers, Rows
from ticdc_spark.spark.decode.raw import RawRows


class RowRange(msgspec.Struct, frozen=True):
    """Offsets [first, end) of a partition that contain rows of a table, among other messages."""

    topic: str
    partition: int
    first: int
    end: int
    sent: TableName | None = None
    """The table's name in the messages; ``None``: any name of the table."""


class RowScan(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one table with ``above < commit_ts <= upto`` in some ranges."""

    table: TableName
    ranges: tuple[RowRange, ...]
    above: int
    upto: int
    keys: tuple[str, ...] | None = None
    """Schema keys; ``None``: all."""
    ops: tuple[str, ...] | None = None
    """Operations; ``None``: all."""
    names: Names = Names()
    """The known names, for ranges without ``sent``."""
    rows: int = 0
    """Approximate number of rows."""
    bytes: int = 0
    """Approximate bytes of their messages."""
    ids: bool = False
    """Add the physical ids of rows."""
    watermarks: bool = False
    """Add the watermarks in the ranges, whatever their commit_ts."""

    def has(self, topic: str, partition: int, offset: int) -> bool:
        """Whether a place is in one of the ranges."""
        return any(
            (one.topic, one.partition) == (topic, partition) and one.first <= offset < one.end for one in self.ranges
        )


Stretch = tuple[TopicPartition, int, int]
"""Offsets [first, end) of a partition."""


def stretches(ranges: Iterable[RowRange]) -> list[Stretch]:
    """The stretches to read for ranges: each message once, in the order of partitions and offsets."""
    found: list[Stretch] = []
    for place, first, end in sorted(((one.topic, one.partition), one.first, one.end) for one in ranges):
        if found and found[-1][0] == place and first <= found[-1][2]:
            found[-1] = (place, found[-1][1], max(end, found[-1][2]))
        else:
            found.append((place, first, end))
    return found


def rounds(wanted: Sequence[Stretch]) -> list[tuple[Offsets, Offsets]]:
    """Stretches as (start, end) of reads. Each read has a partition at most once."""
    found: list[tuple[Offsets, Offsets]] = []
    at: dict[TopicPartition, int] = {}
    for place, first, end in wanted:
        number = at.get(place, 0)
        at[place] = number + 1
        if number == len(found):
            found.append(({}, {}))
        found[number][0][place], found[number][1][place] = first, end
    return found


class Picker:
    """Picks the rows of scans out of opened messages. Each task has its own."""

    def __init__(self, scans: Sequence[RowScan]) -> None:
        self._scans = scans
        self._known = [KnownNames(scan.names) for scan in scans]
        self._keys = [None if scan.keys is None else frozenset(scan.keys) for scan in scans]
        self._ranges: dict[TopicPartition, list[tuple[int, RowRange]]] = {}
        for number, scan in enumerate(scans):
            for one in scan.ranges:
                self._ranges.setdefault((one.topic, one.partition), []).append((number, one))
        self._wanted: dict[Group, dict[int, list[tuple[int, int]]]] = {}

    def pick(self, messages: Messages, opened: Opened) -> dict[int, Numbers]:
        """The numbers of the rows of each scan, in order, by the number of the scan."""
        found: dict[int, list[Numbers]] = {}
        places = np.asarray(messages.offsets, np.int64)[np.asarray(opened.origin, np.int64)]
        for group, numbers in group_rows(messages, opened).items():
            wanted = self._wanted.get(group)
            if wanted is None:
                wanted = self._wanted[group] = self._wanted_of(group)
            for scan, stretches_ in wanted.items():
                picked = _picked(self._scans[scan], stretches_, opened.rows, (numbers, places[numbers]))
                if len(picked):
                    found.setdefault(scan, []).append(picked)
        return {scan: np.sort(np.concatenate(numbers)) for scan, numbers in found.items()}

    def watermarks(self, messages: Messages, opened: Opened) -> dict[int, RawRows]:
        """The watermarks for each scan that asks for them, by the number of the scan."""
        return {
            number: raw_watermarks(messages, opened, scan.has)
            for number, scan in enumerate(self._scans)
            if scan.watermarks and opened.others
        }

    def _wanted_of(self, group: Group) -> dict[int, list[tuple[int, int]]]:
        """The scans that want rows of a group, each with its ranges of offsets."""
        topic, partition, *sent, key = group
        name = (sent[0], sent[1])
        found: dict[int, list[tuple[int, int]]] = {}
        meant: dict[int, bool] = {}  # for each scan, whether the name is that of its table
        for number, one in self._ranges.get((topic, partition), ()):
            keys = self._keys[number]
            if keys is not None and key not in keys:
                continue
            if one.sent is None and number not in meant:
                meant[number] = self._known[number].of_rows(name) == self._scans[number].table
            if name == one.sent or (one.sent is None and meant[number]):
                found.setdefault(number, []).append((one.first, one.end))
        return found


def _picked(scan: RowScan, wanted: list[tuple[int, int]], rows: Rows, at: tuple[Numbers, Numbers]) -> Numbers:
    """The numbers of the rows that a scan wants. ``wanted``: its ranges of offsets; ``at``: the rows' numbers and
    offsets."""
    numbers, offsets = at
    stamps = rows.commit_ts[numbers]
    is_meant = (stamps > scan.above) & (stamps <= scan.upto)
    if not any(begins <= offsets.min() and offsets.max() < end for begins, end in wanted):
        is_meant &= np.any([(offsets >= begins) & (offsets < end) for begins, end in wanted], axis=0)
    if scan.ops is not None:
        is_meant &= np.array([kind.op in scan.ops for kind in rows.kinds], bool)[rows.kind_of[numbers]]
    return numbers if is_meant.all() else numbers[is_meant]
