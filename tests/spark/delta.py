"""A Delta sink under test, in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.contract.member import OPENING, Guard, Member, Rows
from tests.contract.plain_topic import PlainTopic
from ticdc_spark.changes.spark_topic import SparkTopicRows
from ticdc_spark.config.job import DeltaConfig
from ticdc_spark.model import TableName
from ticdc_spark.sinks.delta.dead_letters import DeltaDeadLetters
from ticdc_spark.sinks.delta.history import read_entry
from ticdc_spark.sinks.delta.lake import CATALOG, sql_name
from ticdc_spark.sinks.delta.names import folder_of
from ticdc_spark.sinks.delta.sink import DeltaSink
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn

NUMBERS = count(1)


def delta_session(spark: SparkSession) -> SparkSession:
    """A session of somebody else."""
    session = spark.newSession()
    for key, value in CATALOG.items():
        session.conf.set(key, value)
    session.conf.set("spark.databricks.delta.snapshotPartitions", "2")
    return session


class DeltaOthers:
    """See ``member.Others``."""

    def __init__(self, session: SparkSession, warehouse: Path) -> None:
        self.session, self.warehouse = session, warehouse

    def path(self, table: TableName) -> str:
        return f"{self.warehouse}/{folder_of(table[0])}/{folder_of(table[1])}"

    def name(self, table: TableName) -> str:
        return sql_name(self.path(table))

    def insert(self, table: TableName, row: dict[str, Any]) -> None:
        names = ", ".join(map(quote, row))
        values = ", ".join("NULL" if value is None else repr(value) for value in row.values())
        self.session.sql(f"INSERT INTO {self.name(table)} ({names}) VALUES ({values})").collect()

    def delete(self, table: TableName, key: int) -> None:
        self.session.sql(f"DELETE FROM {self.name(table)} WHERE id = {key}").collect()

    def update(self, table: TableName, key: int, column: str, value: Any) -> None:
        self.session.sql(f"UPDATE {self.name(table)} SET {column} = {value!r} WHERE id = {key}").collect()

    def compact(self, table: TableName) -> None:
        self.session.sql(f"OPTIMIZE {self.name(table)}").collect()

    def rewrite_manifests(self, table: TableName) -> None:
        self.session.sql(f"ALTER TABLE {self.name(table)} SET TBLPROPERTIES ('a.b' = 'c')")

    def rewrite_deletes(self, table: TableName) -> None:
        self.session.sql(f"REORG TABLE {self.name(table)} APPLY (PURGE)").collect()

    def expire(self, table: TableName) -> None:
        """What Delta does after thirty days with what is older than the last commit of a job: a checkpoint has it."""
        jvm: Any = self.session._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self.session._jsparkSession, self.path(table))
        log.checkpoint()
        files = sorted(Path(self.path(table), "_delta_log").glob("*.json"))
        texts = [read_entry(at, file.read_text()).text for at, file in enumerate(files)]
        stamped = [at for at, text in enumerate(texts) if text is not None and text.whole]
        for file in files[: stamped[-1]]:
            file.unlink()

    def roll_back(self, table: TableName, snapshot: int) -> None:
        self.session.sql(f"RESTORE TABLE {self.name(table)} TO VERSION AS OF {snapshot}").collect()

    set_current = roll_back

    def comments(self, table: TableName) -> dict[str, str]:
        fields = self.session.table(self.name(table)).schema.fields
        return {one.name: one.metadata["comment"] for one in fields if one.metadata.get("comment")}

    def comment(self, table: TableName) -> str:
        described = self.session.sql(f"DESCRIBE TABLE EXTENDED {self.name(table)}").collect()
        return next((row["data_type"] for row in described if row["col_name"] == "Comment"), "")

    def create(self, table: TableName, columns: Sequence[LakeColumn], rows: Rows) -> None:
        named = ", ".join(f"{quote(one.name)} {one.type.spark}" for one in columns)
        self.session.sql(f"CREATE TABLE {self.name(table)} ({named}) USING delta")
        for row in rows:
            self.insert(table, row)


def delta_member(spark: SparkSession, warehouse: Path) -> Member:
    """A sink with a database of its own."""
    number, guard = next(NUMBERS), Guard()
    sink = DeltaSink(spark.newSession(), DeltaConfig(warehouse=str(warehouse)), guard)
    letters = DeltaDeadLetters(str(warehouse), f"contract{number}", {}, guard)
    session = delta_session(spark)
    others = DeltaOthers(session, warehouse)
    return Member(
        sink=sink,
        rows_of=lambda topic: SparkTopicRows(session, topic, OPENING),  # type: ignore[arg-type]
        letters=letters,
        kept=lambda: sorted((one["batch"], one["stage"], one["offset"], one["reason"]) for one in letters.read()),
        guard=guard,
        others=others,
        read=lambda table: list(session.read.format("delta").load(others.path(table)).toArrow().to_pylist()),
        schema=f"s{number}",
        source=PlainTopic(few=True),
    )
