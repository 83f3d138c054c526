"""Iceberg passes the contract of sinks, whoever writes the rows: the tasks themselves, or Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.contract.appends import AppendsContract
from tests.contract.capabilities import CapabilitiesContract, DeletesContract, ReadsContract, TypesContract
from tests.contract.changes import ChangesContract
from tests.contract.columns import ColumnsContract
from tests.contract.counts import CountsContract
from tests.contract.fences import FenceContract
from tests.contract.loads import LoadsContract
from tests.contract.member import OPENING, Guard, Member, Rows
from tests.contract.moves import MovesContract
from tests.contract.newest import NewestContract
from tests.contract.others import OthersContract, check_a_conflict_is_counted
from tests.contract.plain_topic import PlainTopic
from tests.contract.tables import TablesContract
from tests.contract.topics import TopicContract
from tests.contract.typed import OrderedContract, TypedContract
from tests.spark.lake import lake
from ticdc_spark.changes.spark_topic import SparkTopicRows
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.model import TableName
from ticdc_spark.names import escape
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.capabilities import FilesGone
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog, catalog_options
from ticdc_spark.sinks.iceberg.dead_letters import IcebergDeadLetters
from ticdc_spark.sinks.iceberg.sink import IcebergSink
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn

NUMBERS = count(1)
EVERYTHING = "map('rewrite-all', 'true')"


class SparkOthers:
    """See ``member.Others``: another session, independent of jobs."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def _name(self, table: TableName) -> str:
        return f"lake.{quote(escape(table[0]))}.{quote(escape(table[1]))}"

    def _call(self, procedure: str, table: TableName, more: str = "") -> None:
        name = self._name(table).removeprefix("lake.")
        self.session.sql(f"CALL lake.system.{procedure}(table => '{name}'{more})").collect()

    def insert(self, table: TableName, row: dict[str, Any]) -> None:
        whole = {name: row.get(name) for name in self.session.table(self._name(table)).columns}
        names = ", ".join(quote(name) for name in whole)
        values = ", ".join("NULL" if value is None else repr(value) for value in whole.values())
        self.session.sql(f"INSERT INTO {self._name(table)} ({names}) VALUES ({values})").collect()

    def delete(self, table: TableName, key: int) -> None:
        self.session.sql(f"DELETE FROM {self._name(table)} WHERE id = {key}").collect()

    def update(self, table: TableName, key: int, column: str, value: Any) -> None:
        self.session.sql(f"UPDATE {self._name(table)} SET {column} = {value!r} WHERE id = {key}").collect()

    def compact(self, table: TableName) -> None:
        self._call("rewrite_data_files", table, f", options => {EVERYTHING}")

    def rewrite_manifests(self, table: TableName) -> None:
        self._call("rewrite_manifests", table, ", use_caching => false")

    def rewrite_deletes(self, table: TableName) -> None:
        self._call("rewrite_position_delete_files", table, f", options => {EVERYTHING}")

    def expire(self, table: TableName) -> None:
        self._call("expire_snapshots", table, ", older_than => TIMESTAMP '9999-01-01', retain_last => 1")

    def roll_back(self, table: TableName, snapshot: int) -> None:
        self._call("rollback_to_snapshot", table, f", snapshot_id => {snapshot}")

    def set_current(self, table: TableName, snapshot: int) -> None:
        self._call("set_current_snapshot", table, f", snapshot_id => {snapshot}")

    def comments(self, table: TableName) -> dict[str, str]:
        fields = self.session.table(self._name(table)).schema.fields
        return {one.name: one.metadata["comment"] for one in fields if one.metadata.get("comment")}

    def comment(self, table: TableName) -> str:
        described = self.session.sql(f"DESCRIBE TABLE EXTENDED {self._name(table)}").collect()
        return next((row["data_type"] for row in described if row["col_name"] == "Comment"), "")

    def create(self, table: TableName, columns: Sequence[LakeColumn], rows: Rows) -> None:
        self.session.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{quote(escape(table[0]))}")
        named = ", ".join(f"{quote(one.name)} {one.type.spark}" for one in columns)
        self.session.sql(f"CREATE TABLE {self._name(table)} ({named}) USING iceberg")
        for row in rows:
            self.insert(table, row)


class PartitionedSink(IcebergSink):
    """Each table that it makes is partitioned at once."""

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        super().create(table, columns, stamp, layout)
        key = next((column.name for column in columns if column.key), columns[0].name)
        with self.catalog.session() as session:
            name = self.catalog.sql_name(table)
            session.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(3, {quote(key)})").collect()


def rows_of(session: SparkSession, topic: PlainTopic) -> SparkTopicRows:
    """Rows of a topic, read by the driver or by tasks."""
    return SparkTopicRows(session, topic, OPENING)  # type: ignore[arg-type]


class OnIceberg:
    """``IcebergSink``, with a lake for all tests of one writer."""

    few = True
    """Whether the driver reads the topic; else tasks do."""

    @pytest.fixture(
        scope="class",
        params=[
            ("python", "2"),
            pytest.param(("python", "3"), marks=pytest.mark.slow),
            pytest.param(("python", "2 partitioned"), marks=pytest.mark.slow),
            pytest.param(("spark", "2"), marks=pytest.mark.slow),
        ],
        ids=" v".join,
    )
    @classmethod
    def opened(
        cls, request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[tuple[IcebergSink, Guard, SparkSession]]:
        folder, guard = tmp_path_factory.mktemp("contract"), Guard()
        warehouse = folder / "lake"
        warehouse.mkdir()
        options = catalog_options("lake", str(warehouse), {})
        writer, version = request.param
        properties = {"format-version": version[0]}
        made = PartitionedSink if "partitioned" in version else IcebergSink
        catalog = IcebergCatalog(spark.newSession(), "lake", str(warehouse), properties, options, guard)
        sink = made(catalog, writer)
        yield sink, guard, lake(spark, folder)
        shutil.rmtree(warehouse)

    @pytest.fixture
    def member(self, opened: tuple[IcebergSink, Guard, SparkSession]) -> Member:
        sink, guard, session = opened
        number = next(NUMBERS)
        guard.open()

        letters = IcebergDeadLetters(sink.catalog.spark, sink.catalog.name, f"contract{number}", guard)

        def kept() -> list[tuple[int, str, int, str]]:
            if not session.catalog.tableExists(letters.where):
                return []
            held = session.table(letters.where).select("batch", "stage", "offset", "reason")
            return sorted(tuple(row) for row in held.collect())

        def read(table: TableName) -> Rows:
            name = f"lake.{quote(escape(table[0]))}.{quote(escape(table[1]))}"
            return list(session.table(name).toArrow().to_pylist())

        return Member(
            sink=sink,
            rows_of=lambda topic: rows_of(session, topic),
            letters=letters,
            kept=kept,
            guard=guard,
            others=SparkOthers(session),
            read=read,
            schema=f"s{number}",
            source=PlainTopic(few=self.few),
        )


class TestIcebergSink(
    OnIceberg,
    TablesContract,
    ChangesContract,
    CountsContract,
    AppendsContract,
    LoadsContract,
    MovesContract,
    NewestContract,
    FenceContract,
    TopicContract,
    TypedContract,
    OrderedContract,
    CapabilitiesContract,
    ReadsContract,
    TypesContract,
    DeletesContract,
):
    """What a job does to tables."""

    def test_a_commit_that_is_done_again_is_counted(self, member: Member) -> None:
        check_a_conflict_is_counted(member)

    def test_a_table_whose_files_are_gone_can_be_dropped(self, member: Member) -> None:
        member.create()
        (metadata,) = Path(member.sink.catalog.warehouse).glob(f"{member.schema}/*/metadata")  # type: ignore[attr-defined]
        shutil.rmtree(metadata)
        with pytest.raises(FilesGone, match=r"which does not exist"):
            member.sink.find(member.name)
        member.sink.drop(member.name)
        assert member.sink.find(member.name) is None


@pytest.mark.slow
class TestIcebergSinkOfManyRows(
    OnIceberg, ChangesContract, CountsContract, AppendsContract, TypedContract, OrderedContract, TopicContract
):
    """The same with rows that tasks read."""

    few = False
    test_messages_are_found_by_their_places = None
    test_what_is_appended_stays_as_it_is = test_nothing_to_append_carries_the_stamp = None
    test_a_row_says_something_of_all_rows = test_rows_of_the_table_are_appended_as_they_are = None
    test_late_changes_are_appended_unless_they_are_there = None


@pytest.mark.slow
class TestIcebergSinkAmongOthers(OnIceberg, ColumnsContract, OthersContract):
    """What becomes of columns, and what of others' work is seen."""
