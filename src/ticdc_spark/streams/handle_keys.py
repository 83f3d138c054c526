"""Large messages that have only keys (handle-key-only): looks up their rows in the upstream database.

A row must be read as of its commit ts. TiDB can do that until the garbage collection, so the changefeed must not lag
behind by more than tidb_gc_life_time. Source: the large-message-handle options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Rejected, Row, RowChange, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.base import Columns

Lookup: TypeAlias = Callable[[Table, Sequence[Row], int], Sequence[Row | None]]
"""(table, keys, commit ts) → the rows as of then, in the order of the keys; ``None`` for a missing row. MessageError
rejects the rows; EnvironmentFault is raised. ``clients.upstream.Upstream.lookup`` is one."""


class _Query(NamedTuple):
    """A row to look up, for the change at a place."""

    place: int
    key: Row
    commit_ts: int


def complete(changes: Sequence[RowChange], lookup: Lookup) -> list[RowChange | Rejected]:
    """The changes, with whole rows for partial ones. There is one lookup for each table and commit ts.

    An insert or update gets its new row. Its old row, and a delete's, keep only their keys; such a delete stays
    ``partial``. ``Rejected``: a row is missing, or its image lacks the key. A row existed at its commit ts, so a
    missing one means that the upstream has only the present.
    """
    done: list[RowChange | Rejected] = [
        _without_key(change) or change if change.partial else change for change in changes
    ]
    _fill(done, lookup)
    return [_whole(change) if was.partial else change for was, change in zip(changes, done, strict=True)]


def _without_key(change: RowChange) -> Rejected | None:
    names = {*handle_key(change.table)}
    if not names:
        return Rejected(f"{_name(change.table)} has no handle key to look its row up by")
    if change.after is not None and not names <= change.after.keys():
        return Rejected(f"a partial row of {_name(change.table)} lacks columns of its key, {', '.join(sorted(names))}")
    return None


def _fill(changes: list[RowChange | Rejected], lookup: Lookup) -> None:
    """Replace the new images of the partial changes, in place."""
    queries: dict[int, tuple[Table, list[_Query]]] = {}
    for at, change in enumerate(changes):
        if isinstance(change, RowChange) and change.partial and change.after is not None:
            query = _Query(at, {name: change.after[name] for name in handle_key(change.table)}, change.commit_ts)
            queries.setdefault(id(change.table), (change.table, []))[1].append(query)
    for table, wanted in queries.values():
        for at, row in _looked_up(table, wanted, lookup):
            change = changes[at]
            assert isinstance(change, RowChange)
            changes[at] = row if isinstance(row, Rejected) else replace(change, after=row)


def complete_columns(table: Table, columns: Columns, partial: Mapping[int, int], lookup: Lookup) -> dict[int, str]:
    """``complete`` for new images in columns, in place. Rows of ``partial`` (row → commit ts) get whole rows.

    Their columns are then no longer ``absent``. Bad rows stay bad.

    Returns: by row, why it could not be looked up. Such rows keep their keys.
    """
    places = {column.name: at for at, column in enumerate(table.columns)}
    names = handle_key(table)
    if not names:
        return dict.fromkeys(partial, f"{_name(table)} has no handle key to look its row up by")
    queries = [
        _Query(at, {name: columns.values[places[name]][at] for name in names}, ts)
        for at, ts in partial.items()
        if at not in columns.bad
    ]
    bad = {one.place: f"key of {_name(table)} is null or missing" for one in queries if None in one.key.values()}
    got: set[int] = set()
    columns.values[:] = [[*cells] for cells in columns.values]  # a reader may use one list for several columns
    for at, row in _looked_up(table, [one for one in queries if one.place not in bad], lookup):
        if isinstance(row, Rejected):
            bad[at] = row.reason
            continue
        got.add(at)
        for name, place in places.items():
            columns.values[place][at] = row.get(name)
    for name, rows in columns.absent.items():
        columns.absent[name] = [at for at in rows if at not in got]
    return bad


def _looked_up(table: Table, queries: Sequence[_Query], lookup: Lookup) -> Iterator[tuple[int, Row | Rejected]]:
    """One lookup for each commit ts: the place of each row looked up, and the row."""
    moments: dict[int, list[_Query]] = {}
    for one in queries:
        moments.setdefault(one.commit_ts, []).append(one)
    for ts, wanted in moments.items():
        try:
            rows = lookup(table, [one.key for one in wanted], ts)
        except MessageError as error:
            yield from ((one.place, Rejected(str(error))) for one in wanted)
            continue
        for one, row in zip(wanted, rows, strict=True):
            if row is None:
                shown = ", ".join(f"{name}={value!r}" for name, value in one.key.items())
                yield one.place, Rejected(f"the upstream has no row {shown} in {_name(table)} as of {ts}")
            else:
                yield one.place, row


def _whole(change: RowChange | Rejected) -> RowChange | Rejected:
    if isinstance(change, Rejected):
        return change
    keys = len(handle_key(change.table))
    only_keys = change.after is None and len(change.before or ()) <= keys < len(change.table.columns)
    return replace(change, partial=only_keys, claim_check=None)


def _name(table: Table) -> str:
    return f"`{table.schema}`.`{table.name}`"
