"""Typed changes: what the task of a sink gets, wherever the rows come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.member import Member, Net, delete, insert, source, update
from tests.contract.newest import EXACT, TIME, changes_of
from ticdc_spark.changes.columns import FIRST, OP
from ticdc_spark.spark.tasks import ArrowTask, UnreadableRows


def sending() -> ArrowTask:
    """A task that sends everything back that it gets."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(batches)
        if found:
            whole = pa.BufferOutputStream()
            with pa.ipc.new_stream(whole, found[0].schema) as stream:
                for batch in found:
                    stream.write_batch(batch)
            yield pa.record_batch([pa.array([whole.getvalue().to_pybytes()], pa.binary())], ["sent"])

    return run


def written(net: Net, **how: Any) -> list[list[dict[str, Any]]]:
    """The rows that each task got."""
    return [pa.ipc.open_stream(part).read_all().to_pylist() for part in net.changes.write(sending(), **how)]


def by_key(parts: list[list[dict[str, Any]]]) -> list[tuple[int, str, int | None]]:
    rows = [one for part in parts for one in part]
    return sorted((one["id"], "d" if one[OP] == "d" else "row", one["v"]) for one in rows if one)


class TypedContract:
    @pytest.mark.parametrize("tasks", [1, 3])
    def test_a_task_gets_one_net_change_of_each_key(self, member: Member, tasks: int) -> None:
        of = member.of
        events = [
            insert(of, 20, **source(1)),
            update(of, 21, source(1), v="11"),
            delete(of, 22, **source(2)),
            insert(of, 22, id="2", v="22", w=None),
            update(of, 23, source(3), id="8"),
            insert(of, 24, **source(4)),
            delete(of, 25, **source(4)),
            *(insert(of, 26, **source(key)) for key in range(100, 120)),
        ]
        net = member.net(member.land(events), 30, stamp=member.stamp(30))
        parts = written(net, tasks=tasks, keep_first=True)
        changed = [(1, "row", 11), (2, "row", 22), (3, "d"), (4, "d"), (8, "row", 3)]
        assert [one[: len(two)] for one, two in zip(by_key(parts), changed, strict=False)] == changed
        assert [one[:2] for one in by_key(parts)[5:]] == [(key, "row") for key in range(100, 120)]
        first = {one["id"]: one[FIRST] for part in parts for one in part}
        assert [first[key] for key in (1, 2, 4, 100)] == ["i", "d", "i", "i"]
        keys = [{one["id"] for one in part} for part in parts]
        assert sum(map(len, keys)) == len(set().union(*keys)), "each key comes to one task"
        if net.changes.size is not None:
            assert net.changes.counts.rows == len(events)

    def test_a_task_gets_nothing_where_a_row_cannot_be_read_unless_it_is_left_out(self, member: Member) -> None:
        of = member.of
        events = [insert(of, 20, **source(1)), insert(of, 20, id="2", v="two", w=None), delete(of, 21, **source(3))]
        net = member.net(member.land(events), 30, stamp=member.stamp(30))
        with pytest.raises(UnreadableRows, match="'two' is no int"):
            written(net)
        readable = written(net.having(leave_out_unreadable=True))
        assert [one[:2] for one in by_key(readable)] == [(1, "row"), (3, "d")]

    def test_a_task_gets_nothing_of_a_stretch_without_rows(self, member: Member) -> None:
        net = member.net(member.land([insert(member.of, 50, **source(1))]), 40, stamp=member.stamp(40))
        assert by_key(written(net)) == []


class OrderedContract:
    """Where Spark runs: only it takes ordered net changes."""

    def test_a_task_gets_ordered_changes_with_their_time(self, member: Member) -> None:
        of = member.of
        events = [
            insert(of, EXACT + 5, **source(1)),
            delete(of, EXACT + 4, **source(1)),
            insert(of, EXACT, **source(2)),
        ]
        parts = written(changes_of(member, events, 1))
        times = sorted((one["id"], one[OP], one[TIME.name]) for part in parts for one in part)
        assert times == [(1, "i", EXACT + 5), (2, "i", EXACT)]
