"""Delta passes the contract of sinks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.contract import SinkContract
from tests.contract.columns import ColumnsContract
from tests.contract.loads import LoadsContract
from tests.contract.member import Member
from tests.contract.others import check_a_conflict_is_counted
from tests.contract.tables import TablesContract
from tests.contract.typed import OrderedContract
from tests.spark.delta import delta_member
from ticdc_spark.errors import DecisionNeeded, LeaseHeld
from ticdc_spark.sinks.delta.lake import GONE


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("delta")
    yield folder
    shutil.rmtree(folder)


class OnDelta:
    @pytest.fixture
    def member(self, spark: SparkSession, warehouse: Path) -> Member:
        return delta_member(spark, warehouse)


class TestDeltaSinkInShort(OnDelta):
    """One test of each kind: Delta's commits take seconds."""

    test_columns = ColumnsContract.test_every_change_in_one_commit
    test_comments = ColumnsContract.test_comments_come_with_columns_and_stay_until_they_are_changed
    test_rename = TablesContract.test_a_renamed_table_is_the_same_table
    test_load = LoadsContract.test_what_is_gathered_replaces_the_table_at_the_end

    def test_a_commit_that_is_done_again_is_counted(self, member: Member) -> None:
        check_a_conflict_is_counted(member)

    def test_a_folder_with_other_files_stays_as_it_is(self, member: Member, warehouse: Path) -> None:
        folder = warehouse / member.schema / "t"
        folder.mkdir(parents=True)
        (folder / "mine.csv").write_text("1")
        assert member.sink.find(member.name) is None
        with pytest.raises(DecisionNeeded, match="but has other files"):
            member.create()
        member.sink.drop(member.name)
        assert (folder / "mine.csv").read_text() == "1"

    def test_a_log_without_a_commit_is_no_table_and_makes_room(self, member: Member, warehouse: Path) -> None:
        (warehouse / member.schema / "t" / "_delta_log").mkdir(parents=True)
        assert member.sink.find(member.name) is None
        member.create()
        assert member.found().stamp is not None

    def test_what_a_death_has_left_of_a_drop_is_no_table_and_goes(self, member: Member, warehouse: Path) -> None:
        member.create()
        folder = warehouse / member.schema / "t"
        (folder / GONE).touch()
        assert member.sink.find(member.name) is None
        member.sink.drop(member.name)
        assert not folder.exists()

    def test_a_copy_is_no_table_while_the_old_one_is_there(self, member: Member) -> None:
        """A RENAME that dies between its two commits is done again."""
        stamp, new = member.create(), (member.schema, "u")
        member.guard.closes_at = member.guard.calls + 3
        with pytest.raises(LeaseHeld):
            member.sink.rename(member.name, new)
        assert len(member.read(new)) == 0, "the copy is there"
        member.guard.open()
        assert (member.sink.find(new), member.found().stamp) == (None, msgspec.structs.replace(stamp, seen=None))
        member.sink.rename(member.name, new)
        assert member.sink.find(member.name) is None
        assert member.found(new).stamp == msgspec.structs.replace(stamp, seen=None)


@pytest.mark.slow
class TestDeltaSink(OnDelta, SinkContract, OrderedContract):
    """Everything that a sink promises, but for histories."""

    test_every_change_is_appended_once = None
    test_late_changes_are_appended_unless_they_are_there = None
    test_what_is_appended_stays_as_it_is = None
    test_nothing_to_append_carries_the_stamp = None
    test_rows_that_cannot_be_read_append_nothing = None
    test_a_row_says_something_of_all_rows = None
    test_rows_of_the_table_are_appended_as_they_are = None
