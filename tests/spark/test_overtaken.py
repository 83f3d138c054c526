"""An owner whose lease is taken between its look at the fence and its commit: the commit is refused."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.contract.loads import BEGUN, gather
from tests.contract.member import Guard, Member, insert, source
from tests.contract.others import mark
from tests.spark.test_sink_contract import OnIceberg
from ticdc_spark.errors import LeaseHeld, SinkFault
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.sink import IcebergSink

WRITERS = pytest.mark.parametrize("writer", ["python", "spark"])


def owner(member: Member, writer: Literal["python", "spark"]) -> Member:
    """Another process of the job, which writes to the same tables."""
    sink, guard = member.sink, Guard()
    assert isinstance(sink, IcebergSink)
    properties = {"format-version": "2"}
    lake = sink.catalog
    session = lake.spark.newSession()
    other = IcebergSink(IcebergCatalog(session, "lake", lake.warehouse, properties, lake.options, guard), writer)
    return Member(
        sink=other,
        rows_of=member.rows_of,
        letters=member.letters,
        kept=member.kept,
        guard=guard,
        others=member.others,
        read=member.read,
        schema=member.schema,
        source=member.source,
    )


class TestOvertaken(OnIceberg):
    @WRITERS
    def test_rows_that_the_successor_has_appended_do_not_come_twice(
        self, member: Member, writer: Literal["python", "spark"]
    ) -> None:
        member.fill(1, 2, 3)
        first, second = owner(member, writer), owner(member, writer)
        changes = first.land([insert(member.of, 30, **source(5))])
        net = first.net(changes, 40, above=20, stamp=first.stamp(40, 5), new_keys=True)
        first.guard.open()

        def taken() -> None:
            second.upsert(net)
            first.guard.closes_at = first.guard.calls + 1

        first.guard.happens = taken
        with pytest.raises((LeaseHeld, SinkFault)):
            first.upsert(net)
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
