"""Net changes of rows: one a key, all of them or none."""

from __future__ import annotations

import msgspec
import pytest

from tests.contract.member import Member, delete, insert, row, source, update
from ticdc_spark.errors import SinkFault, SourceChanged
from ticdc_spark.model import Column, ColumnType
from ticdc_spark.spark.decode.control import RowsRead
from ticdc_spark.spark.tasks import UnreadableRows

MANY = {"inserts": 60_000, "others": 1}
"""Said of a batch, Spark appends the new keys by a commit of their own, if it writes the rows."""


class ChangesContract:
    @pytest.mark.parametrize("new_keys", [True, False])
    @pytest.mark.parametrize("message", [{}, MANY], ids=["few", "many"])
    def test_each_key_has_its_last_image(self, member: Member, new_keys: bool, message: dict[str, int]) -> None:
        member.fill(1, 2, 3, 4)
        of = member.of
        changes = [
            update(of, 30, source(1), v="11"),
            update(of, 31, source(1) | {"v": "11"}, v="12"),
            delete(of, 31, **source(2)),
            insert(of, 32, id="2", v="22", w=None),
            update(of, 33, source(3), id="8"),
            delete(of, 34, **source(4)),
            insert(of, 35, **source(5)),
            insert(of, 36, **source(6)),
            update(of, 37, source(6), w="six"),
            insert(of, 38, **source(7)),
            delete(of, 39, **source(7)),
        ]
        stamp = member.stamp(40)
        appended = msgspec.structs.replace(stamp, mark=(40, 1))
        member.apply(changes, 40, stamp=stamp, appended=appended, new_keys=new_keys, above=20, **message)
        assert member.rows() == [
            row(1, v=12),
            {"id": 2, "v": 22, "w": None},
            row(5),
            row(6, w="six"),
            {"id": 8, "v": 3, "w": "3"},
        ]
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.stamp.applied_before, found.changed_by) == ((40, 2), 39, "")

    @pytest.mark.parametrize("message", [{}, MANY], ids=["few", "many"])
    def test_a_row_is_there_while_it_is_kept(self, member: Member, message: dict[str, int]) -> None:
        member.fill(1, 2)
        of = member.of
        changes = [
            update(of, 30, source(1), v="100"),
            insert(of, 31, **source(3)),
            update(of, 32, source(3), v="100"),
            insert(of, 33, id="4", v="100", w="4"),
            update(of, 34, {"id": "4", "v": "100", "w": "4"}, v="4"),
            insert(of, 35, id="5", v="100", w="5"),
            delete(of, 36, **source(6)),
            insert(of, 37, **source(7)),
        ]
        stamp = member.stamp(40)
        more = {"appended": msgspec.structs.replace(stamp, mark=(40, 1)), "new_keys": True, "above": 20} | message
        member.upsert(member.net(member.land(changes), 40, stamp=stamp, **more).keeping("v < 100"))
        assert member.rows() == [row(2), row(4), row(7)]
        back = [update(of, 50, source(1) | {"v": "100"}, v="9")]
        member.upsert(member.net(member.land(back), 50, above=40, stamp=member.stamp(50)).keeping("v < 100"))
        assert member.rows() == [row(1, v=9, w="1"), row(2), row(4), row(7)]

    def test_only_what_the_scan_means_is_applied(self, member: Member) -> None:
        member.create()
        other = msgspec.structs.replace(member.of, name="u")
        changes = [insert(member.of, ts, **source(ts)) for ts in (15, 20, 25, 30)]
        controls = member.land([*changes, insert(other, 20, **source(99))])
        mine = [one for one in controls if not isinstance(one, RowsRead) or one.table == "t"]
        member.land([insert(member.of, 22, **source(22))])
        member.upsert(member.net(mine, 25, above=15, stamp=member.stamp(25), new_keys=True))
        assert member.rows() == [row(20), row(25)]

    def test_the_same_rows_again_change_nothing(self, member: Member) -> None:
        member.fill(1, 2)
        for ts in (30, 31):
            member.apply([insert(member.of, 20, **source(1)), delete(member.of, 29, **source(2))], ts)
            assert member.rows() == [row(1)]

    def test_a_batch_of_nothing_but_deletes(self, member: Member) -> None:
        member.fill(1, 2)
        member.apply([delete(member.of, 30, **source(key)) for key in (1, 2, 3)], 30)
        assert member.rows() == []
        assert member.found().stamp.mark == (30, 2)  # type: ignore[union-attr]
        member.apply([insert(member.of, 40, **source(1))], 40, new_keys=True, above=30)
        assert member.rows() == [row(1)]

    def test_a_stretch_without_rows_carries_its_stamp(self, member: Member) -> None:
        member.fill(1)
        controls = member.land([insert(member.of, 50, **source(5))])
        member.upsert(member.net(controls, 40, above=20, stamp=member.stamp(40), new_keys=True))
        assert member.rows() == [row(1)]
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.changed_by) == ((40, 2), "")

    @pytest.mark.parametrize("message", [{}, MANY], ids=["few", "many"])
    def test_one_unreadable_row_keeps_all_out(self, member: Member, message: dict[str, int]) -> None:
        member.fill(1)
        before = member.found()
        bad = insert(member.of, 31, id="77", v="seventy", w=None)
        controls = member.land([insert(member.of, 30, **source(2)), bad, update(member.of, 32, source(1), v="9")])
        stamp = member.stamp(40, about="after")
        appended = msgspec.structs.replace(stamp, mark=(40, 1))
        net = member.net(controls, 40, above=20, stamp=stamp, appended=appended, new_keys=True, **message)
        with pytest.raises(UnreadableRows):
            member.upsert(net)
        found = member.found()
        assert found.stamp is not None
        assert before.stamp is not None
        assert (found.stamp, found.snapshot, member.rows()) == (before.stamp, before.snapshot, [row(1)])
        (reject,) = net.changes.unreadable(10)
        assert (reject.offset, reject.commit_ts) == (2, 31)
        assert "'seventy' is no int" in reject.reason
        member.upsert(net.having(leave_out_unreadable=True, new_keys=False))
        assert member.rows() == [row(1, v=9), row(2)]
        assert member.found().stamp.mark == (40, 2)  # type: ignore[union-attr]

    @pytest.mark.parametrize("message", [{}, MANY], ids=["few", "many"])
    def test_fewer_rows_than_the_scan_counted_change_nothing(self, member: Member, message: dict[str, int]) -> None:
        member.fill(1)
        before = member.found()
        controls = member.land([insert(member.of, 30, **source(2)), update(member.of, 32, source(1), v="9")])
        stamp = member.stamp(40)
        appended = msgspec.structs.replace(stamp, mark=(40, 1))
        net = member.net(controls, 40, above=20, stamp=stamp, appended=appended, new_keys=True, **message)
        with pytest.raises(SourceChanged, match="2 rows were read, and the topic had 3"):
            member.upsert(net.having(scanned=3))
        assert (member.found(), member.rows()) == (before, [row(1)])
        member.upsert(net.having(scanned=2))
        assert member.rows() == [row(1, v=9), row(2)]

    def test_a_row_that_cannot_be_read_is_reported_once(self, member: Member) -> None:
        member.fill(1, 2)
        moved = update(member.of, 30, source(1), id="9", v="nine")
        both = update(member.of, 31, source(2), id="8", v="eight")
        net = member.net(member.land([moved, both]), 40, stamp=member.stamp(40))
        assert {reject.offset for reject in net.changes.unreadable(10)} == {2, 3}
        assert len(net.changes.unreadable(10)) == 2
        assert len(net.changes.unreadable(1)) == 1

    def test_zero_dates_are_counted_once(self, member: Member) -> None:
        date = Column(name="w", type=ColumnType(name="date", charset="binary", collate="binary"))
        member.of = msgspec.structs.replace(member.of, columns=(*member.of.columns[:2], date))
        member.create()
        changes = [insert(member.of, 20, id="1", v="1", w="0000-00-00"), insert(member.of, 20, id="2", v="2", w=None)]
        net = member.net(member.land(changes), 20, stamp=member.stamp(20), new_keys=True)
        member.upsert(net)
        assert net.changes.counts.zero_dates == 1
        assert [one["w"] for one in member.rows()] == [None, None]

    def test_a_table_that_lacks_a_column_is_not_written(self, member: Member) -> None:
        of = member.of
        member.of = msgspec.structs.replace(of, columns=of.columns[:2])
        member.create()
        member.of = of
        net = member.net(member.land([insert(of, 20, **source(1))]), 20, stamp=member.stamp(20))
        with pytest.raises(SinkFault):
            member.upsert(net)
        assert member.rows() == []
        assert member.found().stamp.mark == (10, 0)  # type: ignore[union-attr]

    def test_columns_of_others_stay(self, member: Member) -> None:
        extra = Column(name="extra", type=member.of.columns[1].type)
        whole = msgspec.structs.replace(member.of, columns=(*member.of.columns, extra))
        mine, member.of = member.of, whole
        columns = member.columns
        member.of = mine
        member.others.create(member.name, columns, [row(1) | {"extra": 7}])
        member.sink.stamp(member.name, member.stamp(10))
        member.apply([update(mine, 20, source(1), v="9"), insert(mine, 20, **source(2))], 20)
        found = member.rows()
        assert [one | {"extra": None} for one in found] == [row(1, v=9) | {"extra": None}, row(2) | {"extra": None}]
        assert found[1]["extra"] is None
