"""Large messages that carry keys only (handle-key-only): their rows, looked up in the upstream database.

A row must be read as of its commit ts, and TiDB can do that for as long as its garbage collection lets it (so the
changefeed must not lag behind by more than tidb_gc_life_time). Source: the large-message-handle options.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Rejected, Row, RowChange, Table
from ticdc_spark.mysql import handle_key

Lookup: TypeAlias = Callable[[Table, Sequence[Row], int], Sequence[Row | None]]
"""(table, keys, commit ts) to the rows as of then, in the order of the keys; ``None`` where there is none. MessageError
rejects the rows; EnvironmentFault goes through. ``wire.upstream.Upstream.lookup`` is one."""


class _Wanted(NamedTuple):
    table: Table
    commit_ts: int
    keys: list[Row]
    places: list[int]


def complete(changes: Sequence[RowChange], lookup: Lookup, *, old_values: bool = False) -> list[RowChange | Rejected]:
    """Give partial changes their whole rows, and the others as they are; one lookup for each table and commit ts.

    An insert or update gets its new row. Its old row, and a delete's, keep only their keys, unless ``old_values`` asks
    for them as of the moment before; such a delete stays ``partial``. ``Rejected``: a row is not there, or its image
    lacks the key. A row was there at its commit ts: if it is not, the upstream could only say what it has now.
    """
    done: list[RowChange | Rejected] = [
        _without_key(change, old_values) or change if change.partial else change for change in changes
    ]
    _fill(done, "after", lookup)
    if old_values:
        _fill(done, "before", lookup)
    return [_whole(change) if was.partial else change for was, change in zip(changes, done, strict=True)]


def _without_key(change: RowChange, old_values: bool) -> Rejected | None:
    names = {*handle_key(change.table)}
    if not names:
        return Rejected(f"{_name(change.table)} has no handle key to look its row up by")
    images = [change.after, change.before if old_values else None]
    if any(image is not None and not names <= image.keys() for image in images):
        return Rejected(f"a partial row of {_name(change.table)} lacks columns of its key, {', '.join(sorted(names))}")
    return None


def _fill(changes: list[RowChange | Rejected], which: str, lookup: Lookup) -> None:
    """Replace one image of the partial changes, in place."""
    wanted: dict[tuple[int, int], _Wanted] = {}
    for at, change in enumerate(changes):
        if not isinstance(change, RowChange) or not change.partial:
            continue
        image = change.after if which == "after" else change.before
        if image is not None:
            # the moment before a commit has its old rows
            ts = change.commit_ts - (which == "before")
            group = wanted.setdefault((id(change.table), ts), _Wanted(change.table, ts, [], []))
            group.keys.append({name: image[name] for name in handle_key(change.table)})
            group.places.append(at)
    for table, ts, keys, places in wanted.values():
        try:
            rows = lookup(table, keys, ts)
        except MessageError as error:
            for at in places:
                changes[at] = Rejected(str(error))
            continue
        for at, key, row in zip(places, keys, rows, strict=True):
            change = changes[at]
            assert isinstance(change, RowChange)
            if row is None:
                shown = ", ".join(f"{name}={value!r}" for name, value in key.items())
                changes[at] = Rejected(f"the upstream has no row {shown} in {_name(table)} as of {ts}")
            else:
                changes[at] = replace(change, **{which: row})


def _whole(change: RowChange | Rejected) -> RowChange | Rejected:
    if isinstance(change, Rejected):
        return change
    keys = len(handle_key(change.table))
    only_keys = change.after is None and len(change.before or ()) <= keys < len(change.table.columns)
    return replace(change, partial=only_keys, claim_check=None)


def _name(table: Table) -> str:
    return f"`{table.schema}`.`{table.name}`"


__all__ = ["Lookup", "complete"]
