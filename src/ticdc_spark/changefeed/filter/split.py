"""The changes of a transaction to send: the net change of each row, with updates of keys as a delete and an insert.

The handle key identifies a row through the transaction. Deletes come first, then updates, then inserts. So a key that
one row gives up is free before another row takes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from ticdc_spark.model import Op, Row, RowChange, Table, Value
from ticdc_spark.mysql import handle_key

Key: TypeAlias = tuple[Value, ...]
_IMAGES = {"insert": (False, True), "update": (True, True), "delete": (True, False)}
"""Whether a change has the row before and the row after, which it must to be followed."""
_ORDER = {"delete": 0, "update": 1, "insert": 2, "upsert": 2}


def key_columns(table: Table) -> tuple[str, ...]:
    """Columns of the primary key and of all unique indexes, also nullable ones.

    An update that changes one of them is sent as a delete and an insert. Source: vector ``keys`` of tiflow, seq 180.
    """
    names = {name for index in table.indexes if index.primary or index.unique for name in index.columns}
    return tuple(column.name for column in table.columns if column.name in names and not column.virtual)


def net_changes(changes: Sequence[RowChange]) -> list[RowChange]:
    """Each row of a transaction once, from its first state to its last. A row that ends as it began is skipped.

    Rows of a table without a handle key, partial images and upserts cannot be followed. They do not change, and come
    last, in their order.
    """
    if len(changes) == 1:
        change = changes[0]
        return [] if change.op == "update" and change.before == change.after and not change.partial else [change]
    by_table: dict[tuple[str, str, int | None], list[RowChange]] = {}
    for change in changes:
        by_table.setdefault((change.table.schema, change.table.name, change.table.version), []).append(change)
    netted: list[RowChange] = []
    unfollowed: list[RowChange] = []
    for group in by_table.values():
        key = handle_key(group[-1].table)
        if key and all(_can_follow(change, key) for change in group):
            netted += _follow(group, key)
        else:
            unfollowed += [change for change in group if change.partial or not _is_empty(change)]
    return sorted(netted, key=_order) + unfollowed


def split_update(change: RowChange, keys: Iterable[str]) -> tuple[RowChange, RowChange] | None:
    """The delete and the insert of an update that changes one of ``keys``; ``None`` for every other change."""
    before, after = change.before, change.after
    if change.op != "update" or change.partial or before is None or after is None:
        return None
    if all(before.get(name) == after.get(name) for name in keys):
        return None
    return replace(change, op="delete", after=None), replace(change, op="insert", before=None)


class _State:
    """A row in the transaction: its state before, and its state now."""

    __slots__ = ("after", "before", "change")

    def __init__(self, change: RowChange) -> None:
        self.before, self.after, self.change = change.before, change.after, change


def _follow(changes: Sequence[RowChange], key: Sequence[str]) -> list[RowChange]:
    states: list[_State] = []
    now: dict[Key, _State] = {}
    """Rows by the key that they have now."""
    gone: dict[Key, _State] = {}
    """Deleted rows, by the key that they had before the transaction."""
    for change in changes:
        state = None
        if change.before is not None:
            state = now.pop(_key(change.before, key), None)
        elif change.after is not None:
            state = gone.pop(_key(change.after, key), None)
        if state is None:
            state = _State(change)
            states.append(state)
        state.after, state.change = change.after, change
        if change.after is not None:
            now[_key(change.after, key)] = state
        elif state.before is not None:
            gone[_key(state.before, key)] = state
    return [net for state in states if (net := _net(state)) is not None]


def _net(state: _State) -> RowChange | None:
    before, after = state.before, state.after
    if before == after:  # also if the row did not exist before and does not now
        return None
    if state.change.before is before and state.change.after is after:
        return state.change
    op: Op = "insert" if before is None else "delete" if after is None else "update"
    return replace(state.change, op=op, before=before, after=after)


def _key(row: Row, key: Sequence[str]) -> Key:
    return tuple([row[name] for name in key])


def _can_follow(change: RowChange, key: Sequence[str]) -> bool:
    images = _IMAGES.get(change.op)
    if change.partial or images != (change.before is not None, change.after is not None):
        return False
    return all(name in row for row in (change.before, change.after) if row is not None for name in key)


def _is_empty(change: RowChange) -> bool:
    return change.op == "update" and change.before == change.after


def _order(change: RowChange) -> int:
    return _ORDER[change.op]
