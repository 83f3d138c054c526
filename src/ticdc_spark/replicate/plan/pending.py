"""Rows that wait in the topics: where they are, and how their list stays short. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from ticdc_spark.changes.ranges import RowRange
from ticdc_spark.replicate.state.progress import PendingRows

MOST_STRETCHES = 64
"""Most ranges of one table in one partition. With more, neighbours become one range, which is read as a whole."""


def range_of(rows: PendingRows) -> RowRange:
    """Where waiting rows are."""
    return RowRange(rows.topic, rows.partition, rows.first, rows.end, rows.sent or rows.full_name)


def bounded(pending: Sequence[PendingRows]) -> tuple[PendingRows, ...]:
    """Waiting rows, with neighbouring ranges of a table joined if it has very many."""
    groups: dict[tuple[str, int, str, str, str, tuple[str, str] | None, bool], list[PendingRows]] = {}
    for rows in pending:
        key = (rows.topic, rows.partition, rows.schema, rows.name, rows.schema_key, rows.sent, rows.late)
        groups.setdefault(key, []).append(rows)
    if all(len(group) <= MOST_STRETCHES for group in groups.values()):
        return tuple(pending)
    return tuple(rows for group in groups.values() for rows in _halved(group))


def _halved(group: Sequence[PendingRows]) -> Iterable[PendingRows]:
    found = sorted(group, key=lambda rows: rows.first)
    while len(found) > MOST_STRETCHES:
        pairs = [found[at : at + 2] for at in range(0, len(found), 2)]
        found = [_merged(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return found


def _merged(one: PendingRows, other: PendingRows) -> PendingRows:
    return msgspec.structs.replace(
        one,
        rows=one.rows + other.rows,
        inserts=one.inserts + other.inserts,
        applied=one.applied + other.applied,
        min_ts=min(one.min_ts, other.min_ts),
        max_ts=max(one.max_ts, other.max_ts),
        first=min(one.first, other.first),
        end=max(one.end, other.end),
        bytes=one.bytes + other.bytes,
        uncounted=one.uncounted or other.uncounted,
        cut=one.cut or other.cut,
    )
