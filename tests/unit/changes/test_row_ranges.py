"""What must be read of a topic for rows that wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.changes.held import Held, HeldMessages
from ticdc_spark.changes.opening import Messages
from ticdc_spark.changes.ranges import RowRange, rounds, stretches
from ticdc_spark.replicate.plan.pending import MOST_STRETCHES, bounded
from ticdc_spark.replicate.state.progress import PendingRows

RANGES = st.lists(
    st.builds(
        lambda topic, partition, first, size: RowRange(topic, partition, first, first + size),
        st.sampled_from(["a", "b"]),
        st.integers(0, 2),
        st.integers(0, 40),
        st.integers(1, 10),
    ),
    max_size=12,
)


@given(RANGES)
def test_each_message_of_a_range_is_read_once(ranges: list[RowRange]) -> None:
    wanted = {(one.topic, one.partition, at) for one in ranges for at in range(one.first, one.end)}
    read = [
        (*place, at)
        for start, end in rounds(stretches(ranges))
        for place in end
        for at in range(start[place], end[place])
    ]
    assert len(read) == len(set(read)) and set(read) == wanted


@given(RANGES, RANGES)
def test_what_is_held_is_not_read_again(held: list[RowRange], wanted: list[RowRange]) -> None:
    memory = HeldMessages()
    for one in held:
        place = (one.topic, one.partition)
        memory.add(Held({place: one.first}, {place: one.end}, Messages([], [], [], [], [])))
    there = {
        (*place, at) for one in memory._held for place, end in one.end.items() for at in range(one.start[place], end)
    }
    needed = {(one.topic, one.partition, at) for one in wanted for at in range(one.first, one.end)}
    missing = {(*place, at) for place, first, end in memory.missing(stretches(wanted)) for at in range(first, end)}
    assert missing == needed - there


def waiting(at: int, **more: object) -> PendingRows:
    about: dict[str, object] = {"topic": "t", "partition": 0, "first": at * 10, "end": at * 10 + 5, "min_ts": at}
    about |= {"schema": "s", "name": "t", "schema_key": "1", "rows": 2, "max_ts": at + 3} | more
    return PendingRows(**about)  # type: ignore[arg-type]


def test_very_many_stretches_of_a_table_become_fewer_that_hold_the_same_rows() -> None:
    few = [waiting(at) for at in range(MOST_STRETCHES)]
    assert bounded(few) == tuple(few)
    many = [waiting(at) for at in range(MOST_STRETCHES * 5)]
    other = [waiting(at, name="u") for at in range(3)]
    found = bounded([*other, *many])
    mine = [rows for rows in found if rows.name == "t"]
    assert len(mine) <= MOST_STRETCHES and [rows for rows in found if rows.name == "u"] == other
    assert sum(rows.rows for rows in mine) == sum(rows.rows for rows in many)
    for rows in many:
        assert any(
            one.first <= rows.first and rows.end <= one.end and one.min_ts <= rows.min_ts and rows.max_ts <= one.max_ts
            for one in mine
        )
