"""An owner whose lease is taken between its look at the fence and its commit: the commit is refused."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from tests.contract.loads import BEGUN, gather
from tests.contract.member import Guard, Member, insert, source
from tests.contract.others import mark
from tests.spark.test_sink_contract import OnIceberg
from ticdc_spark.errors import LeaseHeld, SinkFault
from ticdc_spark.sinks.iceberg.sink import IcebergSink

WRITERS = pytest.mark.parametrize("writer", ["python", "spark"])


def owner(member: Member, writer: Literal["python", "spark"]) -> Member:
    """Another process of the job, which writes to the same tables."""
    sink, guard = member.sink, Guard()
    assert isinstance(sink, IcebergSink)
    properties = {"format-version": "2"}
    other = IcebergSink(sink.spark.newSession(), "lake", sink.warehouse, properties, sink.options, writer, guard)
    return Member(
        sink=other,
        log=other.changelog("contract"),
        guard=guard,
        others=member.others,
        read=member.read,
        letters=member.letters,
        messages=member.messages,
        schema=member.schema,
        generation=member.generation,
    )


class TestOvertaken(OnIceberg):
    @WRITERS
    def test_rows_that_the_successor_has_appended_do_not_come_twice(
        self, member: Member, writer: Literal["python", "spark"]
    ) -> None:
        member.fill(1, 2, 3)
        first, second = owner(member, writer), owner(member, writer)
        changes = first.land([insert(member.of, 30, **source(5))], 2)
        net = first.net(changes, 40, 2, above=20, stamp=first.stamp(40, 5), new_keys=True)
        first.guard.open()

        def taken() -> None:
            second.sink.apply_net_changes(net)
            first.guard.closes_at = first.guard.calls + 1

        first.guard.happens = taken
        with pytest.raises((LeaseHeld, SinkFault)):
            first.sink.apply_net_changes(net)
        assert [one["id"] for one in member.rows()] == [1, 2, 3, 5]
        assert mark(member) == (40, 5)

    @WRITERS
    def test_rows_of_a_full_read_that_the_successor_has_gathered_do_not_come_twice(
        self, member: Member, writer: Literal["python", "spark"]
    ) -> None:
        member.fill(1)
        first, second = owner(member, writer), owner(member, writer)
        member.sink.begin_load(member.name, BEGUN)

        def taken() -> None:
            gather(second, [[6], [7]])
            first.guard.closes_at = first.guard.calls + 1

        first.guard.happens = taken
        with pytest.raises((LeaseHeld, SinkFault)):
            gather(first, [[6], [7]])
        note = member.sink.load_note(member.name)
        assert note is not None and note.rows == 2
        second.sink.finish_load(member.name, second.stamp(30))
        assert [one["id"] for one in member.rows()] == [6, 7]

    @WRITERS
    def test_a_batch_that_the_successor_has_landed_stays_as_it_is(
        self, member: Member, writer: Literal["python", "spark"]
    ) -> None:
        """It may have read further, as the batch was not decided yet; its files are not removed, either."""
        member.create()
        first, second = owner(member, writer), owner(member, writer)
        landed = []

        def taken() -> None:
            landed.extend(second.land([insert(member.of, 20, **source(key)) for key in (1, 2, 3)]))

        first.guard.happens = taken
        with pytest.raises(SinkFault, match="ValidationException"):
            first.land([insert(member.of, 20, **source(1))])
        net = second.net(landed, 20, above=10, stamp=second.stamp(20), new_keys=True)
        second.sink.apply_net_changes(msgspec.structs.replace(net, new_keys=False))
        assert [one["id"] for one in member.rows()] == [1, 2, 3]
