"""Arrival mode in memory: each key's newest change, where the table has no newer one.

The same rules as ``changes.windows.newest_changes`` has in Spark SQL.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tests.memory_sink.lake import LakeRow
from tests.memory_sink.reading import TypedRow

Key: TypeAlias = tuple[Any, ...]
_LOGICAL = (1 << 18) - 1
"""Bits of a TSO below its milliseconds: 0 in what is no TSO but a time."""


class Newest(NamedTuple):
    """The newest change of a key."""

    row: TypedRow
    ts: int
    """Its commit_ts; that of what it follows where a delete hides its own; 0 where nothing is known."""
    ties: bool
    """Whether it wins over a row of the same commit_ts."""
    always: bool
    """Whether it wins over any row."""


def newest(typed: Iterable[TypedRow], keys: Sequence[int]) -> dict[Key, Newest]:
    """The newest change of each key among readable rows."""
    by_key: dict[Key, list[TypedRow]] = {}
    for row in sorted(typed, key=lambda row: (row.offset, row.seq)):
        by_key.setdefault(tuple([row.cells[at] for at in keys]), []).append(row)
    return {key: _newest(rows) for key, rows in by_key.items()}


def _newest(rows: Sequence[TypedRow]) -> Newest:
    found: list[tuple[tuple[int, int, int, int], Newest]] = []
    before = 0
    for row in rows:
        before = max(before, row.ts)
        hidden = row.op == "d" and row.ts == 0
        ts = before if hidden else row.ts
        # At one exact commit_ts a delete comes before the insert that follows it. So does that of a key change.
        first = row.op == "d" and (ts & _LOGICAL != 0 or row.seq < 0) and not hidden
        order = (ts, 0 if first else 1, row.offset, row.seq)
        found.append((order, Newest(row, ts, not first, hidden and ts == 0)))
    return max(found, key=lambda item: item[0])[1]


def deletes(typed: Iterable[TypedRow], keys: Sequence[int]) -> dict[Key, int]:
    """When keys were last deleted, by their delete rows."""
    gone: dict[Key, int] = {}
    for row in typed:
        key = tuple([row.cells[at] for at in keys])
        gone[key] = max(gone.get(key, 0), row.ts)
    return gone


def merged(
    rows: Sequence[LakeRow],
    net: Mapping[Key, Newest],
    ids: Mapping[str, int],
    keys: Sequence[str],
    names: Sequence[str],
    time: str,
) -> list[LakeRow]:
    """The rows of a table with the changes that are newer than they are.

    ``names``: of the changes' cells. ``time``: the column of their commit_ts.
    """
    left = dict(net)
    found: list[LakeRow] = []
    for row in rows:
        key = tuple(row.get(ids[name]) for name in keys)
        change = net.get(key)
        left.pop(key, None)
        if change is None or not _wins(change, row.get(ids[time]) or 0):
            found.append(row)
        elif not change.row.is_gone:
            found.append({**row, **_cells(change, ids, names, time)})
    return found + [_cells(change, ids, names, time) for change in left.values() if not change.row.is_gone]


def _wins(change: Newest, ts: int) -> bool:
    return change.ts > ts or (change.ties and change.ts == ts) or change.always


def _cells(change: Newest, ids: Mapping[str, int], names: Sequence[str], time: str) -> dict[int, Any]:
    return {**{ids[name]: cell for name, cell in zip(names, change.row.cells, strict=True)}, ids[time]: change.ts}
