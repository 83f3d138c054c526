"""One event a key: what is left out never changes the net change, however the rows are cut."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.changes import net as combine_module
from ticdc_spark.changes.columns import FIRST
from ticdc_spark.changes.net import combine, net, net_of_keys
from ticdc_spark.spark.decode.rows import BAD, OP, ORDER, SEQ, TS

SCHEMA = pa.schema(
    [
        (OP, pa.string()),
        (TS, pa.int64()),
        (ORDER, pa.int64()),
        (SEQ, pa.int32()),
        (BAD, pa.string()),
        ("id", pa.int32()),
        ("name", pa.string()),
        ("v", pa.int64()),
    ]
)
KEYS = ("id", "name")


class Event(NamedTuple):
    """A typed row, its fields as in ``SCHEMA``."""

    op: str
    ts: int
    offset: int
    seq: int
    bad: str | None
    id: int | None
    name: str | None
    v: int

    @property
    def order(self) -> tuple[int, bool, int, int]:
        return self.ts, self.op != "d", self.offset, self.seq


events = st.builds(
    Event,
    op=st.sampled_from("diuIU"),
    ts=st.sampled_from([1, 2, 2**63 - 1]),
    offset=st.integers(0, 3),
    seq=st.integers(0, 1),
    bad=st.none(),
    id=st.integers(1, 2),
    name=st.sampled_from(["", "a", "A", "a ", "é"]),
    v=st.integers(0, 2**40),
)
bad_events = events.map(lambda event: event._replace(bad="no", id=None))
histories = st.lists(events, max_size=30, unique_by=lambda event: (event.order, event.id, event.name))
"""No two events of one key stand at one place: a message's place is its own."""
cuts = st.lists(st.integers(0, 30), max_size=4)


def table(rows: Sequence[Event]) -> pa.Table:
    return pa.Table.from_batches(batches(rows), schema=SCHEMA)


def parts_of(rows: Sequence[Event], at: Sequence[int]) -> list[Sequence[Event]]:
    edges = [0, *sorted(min(edge, len(rows)) for edge in at), len(rows)]
    return [rows[a:b] for a, b in pairwise(edges)]


def batches(rows: Sequence[Event], at: Sequence[int] = ()) -> list[pa.RecordBatch]:
    """The rows in their order, cut into batches, some of them empty."""
    names = SCHEMA.names
    return [
        pa.RecordBatch.from_pylist([dict(zip(names, event, strict=True)) for event in part], schema=SCHEMA)
        for part in parts_of(rows, at)
    ]


def events_of(parts: Sequence[pa.RecordBatch]) -> list[Event]:
    return [Event(*row.values()) for part in parts for row in part.to_pylist()]


def histories_of(rows: Sequence[Event]) -> dict[Any, list[Event]]:
    """What happened to each key, in its order."""
    found: dict[Any, list[Event]] = {}
    for event in sorted((event for event in rows if event.bad is None), key=lambda event: event.order):
        found.setdefault((event.id, event.name), []).append(event)
    return found


@given(histories, st.lists(bad_events, max_size=3), cuts, st.booleans(), st.randoms(use_true_random=False))
def test_the_last_event_of_each_key_stays_and_the_first_if_set(
    good: list[Event], bad: list[Event], at: list[int], keep_first: bool, chance: Any
) -> None:
    rows = [*good, *bad]
    chance.shuffle(rows)
    found = events_of(list(combine(KEYS, keep_first=keep_first)(batches(rows, at))))
    wanted = [
        event
        for events in histories_of(rows).values()
        for event in (dict.fromkeys([events[0], events[-1]]) if keep_first else events[-1:])
    ]
    assert sorted(found, key=repr) == sorted([*wanted, *bad], key=repr)


@given(histories, cuts)
def test_the_net_change_is_each_keys_last_event_beside_its_first_op(rows: list[Event], at: list[int]) -> None:
    wanted = {key: (events[-1], events[0].op) for key, events in histories_of(rows).items()}
    # At once; and after tasks have left out what they may, each of its own part.
    one_a_key = combine(KEYS, keep_first=True)
    left = [event for part in parts_of(rows, at) for event in events_of(list(one_a_key(batches(part))))]
    for given_rows in (rows, left):
        last, first_ops = net(table(given_rows), KEYS)
        found = zip(events_of(last.to_batches()), first_ops.to_pylist(), strict=True)
        assert {(event.id, event.name): (event, op) for event, op in found} == wanted
        assert len(last) == len(wanted)


@given(histories)
def test_a_key_whose_row_is_not_kept_is_deleted(rows: list[Event]) -> None:
    net_rows = [
        row for part in net_of_keys(KEYS, SCHEMA.names[5:], keep_first=True)(batches(rows)) for row in part.to_pylist()
    ]
    found = {(row["id"], row["name"]): (row[OP], row[FIRST]) for row in net_rows}
    every = {key: (events[-1].op, events[0].op) for key, events in histories_of(rows).items()}
    assert found == {key: ("d" if last in "dIU" else last, first.lower()) for key, (last, first) in every.items()}


def test_output_is_cut_into_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combine_module, "_BATCH", 10)
    rows = [Event("i", 1, at, 0, None, at, "", 0) for at in range(25)]
    found = list(combine(KEYS, keep_first=False)(batches(rows)))
    assert [len(part) for part in found] == [10, 10, 5]
    assert sorted(events_of(found)) == rows
    assert not list(combine(KEYS, keep_first=False)([]))
