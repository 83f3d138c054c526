"""Tables: create, rename, truncate, drop, and their stamps."""

from __future__ import annotations

import pytest

from tests.contract.member import JOB, Member, delete, insert, row, source
from ticdc_spark.errors import SinkFault


class TablesContract:
    def test_a_table_appears_with_its_stamp(self, member: Member) -> None:
        assert member.sink.find(member.name) is None
        stamp = member.create()
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.job, found.stamp.mark, found.stamp.applied_before) == (JOB, (10, 0), 9)
        assert found.stamp.about == stamp.about == '{"at": 10}'
        assert (found.rolled_back, found.changed_by) == (False, "")
        assert found.snapshot == member.sink.snapshot_id(member.name)
        assert member.rows() == []
        assert list(member.sink.columns(member.name).items()) == member.kinds(*member.columns)
        assert found.columns == member.sink.columns(member.name)

    def test_a_table_is_not_created_over_another(self, member: Member) -> None:
        member.fill(1)
        with pytest.raises(SinkFault):
            member.sink.create(member.name, member.columns, member.stamp(30))
        assert member.rows() == [row(1)]
        assert member.found().stamp.mark == (20, 2)  # type: ignore[union-attr]

    def test_a_stamp_without_about_leaves_that_of_the_table(self, member: Member) -> None:
        member.create()
        member.sink.stamp(member.name, member.stamp(30, 1, about="", job_applied=29))
        stamp = member.found().stamp
        assert stamp is not None
        assert (stamp.mark, stamp.about, stamp.job_applied) == ((30, 1), '{"at": 10}', 29)

    def test_words_come_back_as_they_were_written(self, member: Member) -> None:
        words = '{"a": "${env:HOME} \' \\" \\\\ \\n 日本 \\u0000 , ;", "long": "' + "x" * 20_000 + '"}'
        member.create()
        member.sink.stamp(member.name, member.stamp(30, about=words))
        assert member.found().stamp.about == words  # type: ignore[union-attr]
        member.apply([insert(member.of, 40, **source(1))], 40, stamp=member.stamp(40, about=words + " "), above=30)
        assert member.found().stamp.about == words + " "  # type: ignore[union-attr]

    def test_a_renamed_table_is_the_same_table(self, member: Member) -> None:
        stamp = member.fill(1, 2)
        new = (f"{member.schema}_b", "u`é 日")
        member.sink.rename(member.name, new)
        assert member.sink.find(member.name) is None
        assert member.found(new).stamp.mark == stamp.mark  # type: ignore[union-attr]
        assert member.rows(new) == [row(1), row(2)]
        member.sink.create(member.name, member.columns, member.stamp(30))
        assert member.rows() == []
        member.sink.drop(member.name)
        assert member.rows(new) == [row(1), row(2)], "the files of a renamed table are not those of its old name"

    def test_a_table_is_not_renamed_onto_another(self, member: Member) -> None:
        member.fill(1)
        other = (member.schema, "u")
        member.sink.create(other, member.columns, member.stamp(10))
        with pytest.raises(SinkFault):
            member.sink.rename(member.name, other)
        assert (member.rows(), member.rows(other)) == ([row(1)], [])

    def test_a_truncated_table_takes_its_keys_again(self, member: Member) -> None:
        member.fill(1, 2)
        member.apply([delete(member.of, 30, **source(1))], 30)
        member.sink.truncate(member.name, member.stamp(40, about="emptied"))
        assert member.rows() == []
        stamp = member.found().stamp
        assert stamp is not None
        assert (stamp.mark, stamp.about) == ((40, 2), "emptied")
        member.apply([insert(member.of, 50, **source(2))], 50, new_keys=True, above=40)
        assert member.rows() == [row(2)]

    def test_dropping_what_is_not_there_is_no_error(self, member: Member) -> None:
        member.create()
        member.sink.drop(member.name)
        assert member.sink.find(member.name) is None
        member.sink.drop(member.name)
        member.sink.drop(("no such namespace", "t"))

    def test_only_an_empty_namespace_goes(self, member: Member) -> None:
        member.fill(1)
        member.sink.create_database(member.schema)
        member.sink.drop_database(member.schema)
        assert member.rows() == [row(1)]
        member.sink.drop(member.name)
        member.sink.drop_database(member.schema)
        member.sink.drop_database(member.schema)
        member.create()
        assert member.rows() == []

    def test_the_tables_of_a_job_are_found_by_their_stamps(self, member: Member) -> None:
        member.create()
        mine, theirs, nobodys = ((member.schema, name) for name in ("a.b", "other", "nobody"))
        member.sink.create(mine, member.columns, member.stamp(10))
        member.sink.create(theirs, member.columns, member.stamp(10, job="another"))
        member.others.create(nobodys, member.columns, [row(1)])
        assert {name for name in member.sink.list_tables(JOB) if name[0] == member.schema} == {member.name, mine}
        assert theirs in member.sink.list_tables("another")
        assert member.found(nobodys).stamp is None

    def test_a_table_of_nobody_can_be_stamped(self, member: Member) -> None:
        member.others.create(member.name, member.columns, [row(7)])
        assert member.found().stamp is None
        member.sink.stamp(member.name, member.stamp(30))
        found = member.found()
        assert found.stamp is not None
        assert (found.stamp.mark, found.changed_by) == ((30, 2), "")
        assert member.rows() == [row(7)]
