"""The net change of each row of a transaction, and updates of keys in two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.changefeed_tables import change, split_changes, table
from ticdc_spark.changefeed.filter.split import key_columns, net_changes, split_update
from ticdc_spark.model import Row, RowChange, Table

T = table("t (a int primary key, b int)")
WITH_UNIQUE = table("t (a int primary key, u int not null, n int, x int, unique key u (u), unique key n (n))")


def row(a: int, b: int = 0) -> Row:
    return {"a": str(a), "b": str(b)}


def shown(changes: list[RowChange]) -> list[tuple[str, Row | None, Row | None]]:
    return [(one.op, one.before, one.after) for one in changes]


def ins(a: int, b: int = 0) -> RowChange:
    return change(T, after=row(a, b))


def upd(before: tuple[int, int], after: tuple[int, int]) -> RowChange:
    return change(T, row(*before), row(*after))


def dele(a: int, b: int = 0) -> RowChange:
    return change(T, row(a, b))


CASES = {
    "an insert and its updates are an insert": ([ins(1), upd((1, 0), (1, 1)), upd((1, 1), (1, 2))], [ins(1, 2)]),
    "two updates are one": ([upd((1, 0), (1, 1)), upd((1, 1), (1, 2))], [upd((1, 0), (1, 2))]),
    "there and back is nothing": ([upd((1, 0), (1, 1)), upd((1, 1), (1, 0))], []),
    "a row that was only within is nothing": ([ins(1), upd((1, 0), (2, 0)), dele(2)], []),
    "a delete after an update has the first state": ([upd((1, 0), (1, 1)), dele(1, 1)], [dele(1)]),
    "a delete and an insert of a key are an update": ([dele(1), ins(1, 5)], [upd((1, 0), (1, 5))]),
    "the same row deleted and inserted is nothing": ([dele(1, 5), ins(1, 5)], []),
    "deletes come first": ([ins(5), upd((1, 0), (1, 1)), dele(2)], [dele(2), upd((1, 0), (1, 1)), ins(5)]),
    "an update without a change is nothing": ([upd((1, 0), (1, 0))], []),
    "a key given up is free": ([dele(2), upd((1, 0), (2, 0))], [dele(2), upd((1, 0), (2, 0))]),
    "a key taken and left, and the row that had it comes back": (
        [dele(2, 9), upd((1, 0), (2, 0)), dele(2), ins(2, 8)],
        [dele(1), upd((2, 9), (2, 8))],
    ),
    "keys swapped through a third": (
        [upd((1, 7), (3, 7)), upd((2, 8), (1, 8)), upd((3, 7), (2, 7))],
        [upd((1, 7), (2, 7)), upd((2, 8), (1, 8))],
    ),
}


@pytest.mark.parametrize(("changes", "net"), CASES.values(), ids=CASES.keys())
def test_net(changes: list[RowChange], net: list[RowChange]) -> None:
    assert shown(net_changes(changes)) == shown(net)


def test_what_cannot_be_followed_keeps_its_order() -> None:
    keyless = table("k (a int)")
    rows = [change(keyless, after={"a": "1"}), change(keyless, before={"a": "1"}), change(keyless, after={"a": "1"})]
    assert net_changes(rows) == rows
    partial = [replace(ins(1), partial=True), dele(1)]
    assert net_changes(partial) == partial
    upserts = [replace(ins(1), op="upsert"), dele(1), replace(ins(1), op="upsert")]
    assert net_changes(upserts) == upserts
    # other tables of the transaction are followed all the same
    other = table("o (a int primary key, b int)")
    assert shown(net_changes([*rows, change(other, after=row(1)), change(other, row(1), row(1, 2))]))[0] == (
        "insert",
        None,
        row(1, 2),
    )
    # an update that lacks its old row: Open without output-old-value
    headless = [replace(upd((1, 0), (1, 1)), before=None), dele(1, 1)]
    assert net_changes(headless) == headless


@pytest.mark.parametrize(
    ("changed", "splits"),
    [
        ({"a": "2"}, True),
        ({"u": "2"}, True),
        ({"n": "2"}, True),
        ({"n": None}, True),
        ({"x": "2"}, False),
        ({"a": "2", "x": "1"}, True),
    ],
)
def test_an_update_of_a_key_is_a_delete_and_an_insert(changed: dict[str, str | None], splits: bool) -> None:
    before: Row = {"a": "1", "u": "1", "n": "1", "x": "1"}
    update = change(WITH_UNIQUE, before, {**before, **changed})
    parts = split_update(update, key_columns(WITH_UNIQUE))
    if not splits:
        assert parts is None
        return
    assert parts is not None
    assert shown([*parts]) == [("delete", before, None), ("insert", None, {**before, **changed})]
    assert {part.commit_ts for part in parts} == {update.commit_ts}


def test_key_columns() -> None:
    assert key_columns(WITH_UNIQUE) == ("a", "u", "n")
    assert key_columns(table("t (a int, b int)")) == ()
    assert key_columns(table("t (a int, b int not null, c int, unique key (b, c))")) == ("b", "c")
    assert split_update(change(T, row(1), row(2)), ()) is None
    assert split_update(replace(change(T, row(1), row(2)), partial=True), ("a",)) is None


STEPS = st.lists(
    st.tuples(st.sampled_from(["insert", "update", "delete"]), st.integers(0, 3), st.integers(0, 3)), max_size=25
)


@given(st.sets(st.integers(0, 3)), STEPS)
def test_the_net_changes_lead_to_the_same_rows(start: set[int], steps: list[tuple[str, int, int]]) -> None:
    """A table played through a random transaction, and through what is sent of it."""
    rows = {a: a + 100 for a in start}
    sent_to = dict(rows)
    changes: list[RowChange] = []
    for number, (op, a, to) in enumerate(steps):
        if op == "insert" and a not in rows:
            changes.append(ins(a, number))
            rows[a] = number
        elif op == "delete" and a in rows:
            changes.append(dele(a, rows.pop(a)))
        elif op == "update" and a in rows and (to == a or to not in rows):
            changes.append(upd((a, rows.pop(a)), (to, number)))
            rows[to] = number
    net = net_changes(changes)
    for image in ("before", "after"):  # each row once: a key may be given up by one row and taken by another
        keys = [one["a"] for change_of in net if (one := getattr(change_of, image)) is not None]
        assert len(keys) == len(set(keys))
    for one in split_changes(net):
        # an update or delete must find its row as the source had it, an insert must find no row
        if one.before is not None:
            assert sent_to.pop(int(str(one.before["a"]))) == int(str(one.before["b"]))
        if one.after is not None:
            key = int(str(one.after["a"]))
            assert key not in sent_to
            sent_to[key] = int(str(one.after["b"]))
    assert sent_to == rows


def test_tables_are_not_mixed_up() -> None:
    other: Table = replace(T, name="o")
    changes = [ins(1), change(other, before=row(1))]
    assert shown(net_changes(changes)) == shown([change(other, before=row(1)), ins(1)])
