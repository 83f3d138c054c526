"""The rows of a topic, and the dead letters."""

from __future__ import annotations

from tests.contract.member import Member, insert, letter, row, source
from ticdc_spark.changes.ranges import RowScan
from ticdc_spark.changes.scan import partition_key, table_id_key
from ticdc_spark.model import Message
from ticdc_spark.spark.decode.control import MessageRejected, RowsRead


class TopicContract:
    def test_a_scan_says_where_rows_are_and_they_are_read_from_there(self, member: Member) -> None:
        member.create()
        controls = member.land([insert(member.of, 20, **source(key)) for key in (1, 2, 3)])
        reported = [one for one in controls if isinstance(one, RowsRead)]
        found = [one.summary for one in reported]
        assert (sum(one.rows for one in found), sum(one.inserts for one in found)) == (3, 3)
        assert (min(one.first for one in found), max(one.end for one in found)) == (0, 3)
        assert {(one.schema, one.table) for one in reported} == {member.name}
        assert {(one.min_ts, one.max_ts) for one in found} == {(20, 20)}
        net = member.net(controls, 20, above=10, stamp=member.stamp(20), new_keys=True)
        member.upsert(net)
        assert member.rows() == [row(1), row(2), row(3)]

    def test_rows_that_were_scanned_by_one_process_are_read_by_another(self, member: Member) -> None:
        member.create()
        controls = member.land([insert(member.of, 20, **source(1))])
        member.open_topic()
        member.upsert(member.net(controls, 20, above=10, stamp=member.stamp(20), new_keys=True))
        assert member.rows() == [row(1)]

    def test_whether_there_are_rows_is_known_by_their_commit_ts(self, member: Member) -> None:
        rows = [insert(member.of, ts, **source(key)) for key, ts in ((1, 30), (2, 20), (3, 25))]
        member.land(rows)
        for above, upto, there in ((0, 20, True), (19, 20, True), (20, 24, False), (30, 99, False), (24, 30, True)):
            wanted = RowScan(table=member.name, ranges=member.everything(), above=above, upto=upto)
            assert member.topic.has_rows(wanted) == there
            assert bool(member.topic.identities(wanted)) == there

    def test_equal_rows_have_equal_identities(self, member: Member) -> None:
        same, other = insert(member.of, 20, **source(1)), insert(member.of, 20, **source(2))
        member.land([same, other, same])
        found = member.topic.identities(RowScan(table=member.name, ranges=member.everything(), above=0, upto=99))
        by_offset = {one.offset: one.content for one in found}
        assert by_offset[0] == by_offset[2] != by_offset[1]

    def test_rows_below_what_their_table_has_are_replays_or_may_be_late(self, member: Member) -> None:
        of = member.of
        member.land([insert(of, 45, **source(1)), insert(of, 60, **source(2))])
        rows = [
            insert(of, 45, **source(1)),
            insert(of, 35, **source(3)),  # certainly a replay: below the partition's watermark
            insert(of, 46, **source(4)),
            insert(of, 44, **source(5)),
            insert(of, 70, **source(6)),
        ]
        replay_below, watermarks = {table_id_key(member.schema, "t"): 50}, {partition_key("topic", 0): 40}
        controls = member.land(rows, table_replay_below=replay_below, watermarks=watermarks)
        found = [one.summary for one in controls if isinstance(one, RowsRead)]
        assert [sum(getattr(one, name) for one in found) for name in ("rows", "replays", "late")] == [1, 1, 3]
        late = [one for one in found if one.late]
        assert (min(one.late_first for one in late), max(one.late_end for one in late)) == (2, 6)
        assert (min(one.late_ts for one in late), max(one.late_upto for one in late)) == (44, 46)

    def test_messages_are_found_by_their_places(self, member: Member) -> None:
        member.land([insert(member.of, 20, **source(key)) for key in (1, 2, 3)])
        found = member.topic.messages([("topic", 0, 2), ("topic", 0, 0), ("topic", 0, 2)])
        assert [one.offset for one in found] == [0, 2]
        assert found[0].value != found[1].value

    def test_an_unreadable_message_is_reported_with_its_place(self, member: Member) -> None:
        bad = [Message(topic="topic", partition=0, offset=at, key=None, value=b"no message") for at in (0, 1)]
        found = [one for one in member.send(bad) if isinstance(one, MessageRejected)]
        assert [(one.topic, one.partition, one.offset) for one in found] == [("topic", 0, 0), ("topic", 0, 1)]

    def test_letters_replace_those_of_the_same_rows_of_their_batch_and_stage(self, member: Member) -> None:
        member.letters.keep(1, "decode", [letter(at, "no message") for at in (0, 1, 2)], 1_700_000_000.0)
        assert [(batch, stage, offset) for batch, stage, offset, _ in member.kept()] == [
            (1, "decode", 0),
            (1, "decode", 1),
            (1, "decode", 2),
        ]
        member.letters.keep(1, "s.t", [letter(1, "of a row")], 1_700_000_000.0)
        member.letters.keep(1, "decode", [letter(2, "again")], 1_700_000_000.0)
        assert member.kept() == [
            (1, "decode", 0, "no message"),
            (1, "decode", 1, "no message"),
            (1, "decode", 2, "again"),
            (1, "s.t", 1, "of a row"),
        ]
