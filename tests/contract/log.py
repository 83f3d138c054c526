"""The change log and the dead letters."""

from __future__ import annotations

import msgspec

from tests.contract.member import Member, insert, landing, row, source
from ticdc_spark.model import Message
from ticdc_spark.spark.decode.control import MessageRejected, Reject, RowsRead, reject_of
from ticdc_spark.spark.decode.envelopes import partition_key, table_id_key


def reject(offset: int, reason: str, partition: int = 0) -> Reject:
    return Reject(topic="topic", partition=partition, offset=offset, seq=0, reason=reason)


class LogContract:
    def test_a_batch_that_lands_twice_is_there_once(self, member: Member) -> None:
        member.create()
        first = [insert(member.of, 20, **source(key)) for key in (1, 2, 3)]
        member.land(first)
        member.offset = 0
        controls = member.land(first[:1])
        (reported,) = (one for one in controls if isinstance(one, RowsRead))
        assert (reported.summary.rows, reported.summary.inserts) == (1, 1)
        assert (reported.schema, reported.table, reported.summary.min_ts, reported.summary.max_ts) == (
            member.schema,
            "t",
            20,
            20,
        )
        changes = member.net(controls, 20, above=10, stamp=member.stamp(20), new_keys=True)
        member.sink.apply_net_changes(changes)
        assert member.rows() == [row(1)]

    def test_what_lands_is_read_by_another_process(self, member: Member) -> None:
        member.create()
        controls = member.land([insert(member.of, 20, **source(1))])
        member.log = member.sink.changelog("contract")
        member.sink.apply_net_changes(member.net(controls, 20, above=10, stamp=member.stamp(20), new_keys=True))
        assert member.rows() == [row(1)]

    def test_the_row_with_the_lowest_commit_ts_is_found_with_its_place(self, member: Member) -> None:
        member.create()
        rows = [insert(member.of, ts, **source(key)) for key, ts in ((1, 30), (2, 20), (3, 25))]
        scan = member.net(member.land(rows), 30, above=10, stamp=member.stamp(30), new_keys=True).scan
        first = member.log.first_row(scan)
        assert first is not None
        assert (first.commit_ts, first.topic, first.partition, first.offset) == (20, "topic", 0, 1)
        assert member.log.first_row(msgspec.structs.replace(scan, above=30)) is None

    def test_batches_and_generations(self, member: Member) -> None:
        generation = member.generation
        assert member.log.batches(generation) == frozenset()
        for batch in (3, 1, 2):
            member.land([insert(member.of, 20, **source(batch))], batch)
        assert member.log.batches(generation) == {1, 2, 3}
        assert member.log.newest_generation() == generation
        assert member.log.land(member.messages([]), landing(generation + 1, 1)) == []
        assert member.log.newest_generation() == generation, "an empty batch leaves nothing"
        assert member.sink.changelog(f"a new job of {member.schema}").newest_generation() == 0

    def test_batches_that_are_forgotten(self, member: Member) -> None:
        generation = member.generation
        for batch in (1, 2, 3):
            member.land([insert(member.of, 20, **source(batch))], batch)
        member.log.forget(generation, 3)
        assert member.log.batches(generation) == {3}
        member.land([insert(member.of, 20, **source(9))], 1)
        member.log.forget(generation + 1, 1)
        assert member.log.batches(generation) == frozenset()

    def test_late_rows_are_no_replays(self, member: Member) -> None:
        of = member.of
        member.land([insert(of, 45, **source(1)), insert(of, 60, **source(2))], 1)
        late = [
            insert(of, 45, **source(1)),  # lies in an earlier batch
            insert(of, 35, **source(3)),  # certainly a replay: below the partition's watermark
            insert(of, 46, **source(4)),
            insert(of, 44, **source(5)),
            insert(of, 70, **source(6)),
        ]
        replay_below, watermarks = {table_id_key(member.schema, "t"): 50}, {partition_key("topic", 0): 40}
        controls = member.land(late, 2, table_replay_below=replay_below, watermarks=watermarks)
        reported = [one for one in controls if isinstance(one, RowsRead)]
        counts = [(one.summary.rows, one.summary.replays, one.summary.late) for one in reported]
        assert [sum(count) for count in zip(*counts, strict=True)] == [1, 1, 3]
        (found,) = member.log.late_rows(member.generation, 2)
        assert (found.schema, found.table, found.schema_key) == (member.schema, "t", reported[0].schema_key)
        assert (found.rows, found.commit_ts, found.topic, found.partition, found.offset) == (2, 44, "topic", 0, 5)

    def test_rejects_replace_those_of_their_batch_and_stage(self, member: Member) -> None:
        generation, log = member.generation, member.log
        bad = [Message(topic="topic", partition=0, offset=at, key=None, value=b"no message") for at in (0, 1, 2)]
        controls = log.land(member.messages(bad), landing(generation, 1))
        rejects = [reject_of(one) for one in controls if isinstance(one, MessageRejected)]
        assert [one.offset for one in sorted(rejects, key=lambda one: one.offset)] == [0, 1, 2]
        log.keep_rejects(generation, 1, "decode", rejects, 1_700_000_000.0)
        assert [(batch, stage, offset) for batch, stage, offset, _ in member.letters(generation)] == [
            (1, "decode", 0),
            (1, "decode", 1),
            (1, "decode", 2),
        ]
        log.keep_rejects(generation, 1, "s.t", [reject(1, "of a row")], 1_700_000_000.0)
        log.keep_rejects(generation, 1, "decode", [reject(2, "again")], 1_700_000_000.0)
        assert member.letters(generation) == [(1, "decode", 2, "again"), (1, "s.t", 1, "of a row")]
        log.forget(generation + 1, 1)
        assert len(member.letters(generation)) == 2, "dead letters outlive the batch"
