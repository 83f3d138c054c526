"""Full reads into Delta tables: rows are gathered in a separate table and replace the table's rows in one commit.

The text of each commit of gathered rows has a note of the read's progress. The commit that replaces the rows names
the read, so that it is known after a crash that the read is complete.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.changes.columns import OP
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.delta.history import Text
from ticdc_spark.sinks.delta.tables import Commit, DeltaTables
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.spark_rows import where_sql
from ticdc_spark.spark.faults import spark_faults
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.tasks import ReadParts
from ticdc_spark.spark.types import LakeColumn


class DeltaLoads:
    """See ``sinks.base.Loads``."""

    def __init__(self, tables: DeltaTables) -> None:
        self._tables, self._lake = tables, tables.lake

    def load_note(self, table: TableName) -> LoadNote | None:
        with spark_faults(f"the progress of a full read of {shown(table)} cannot be read"):
            path = self._tables.gathered(table)
            note = self._note(path)
            if note is None or not self._lake.is_table(self._lake.path(table)):
                return None
            return None if self._tables.history(self._lake.path(table)).loaded() == note.token else note

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        with spark_faults(f"a full read of {shown(table)} cannot begin"), self._lake.session() as session:
            metadata = self._lake.metadata(self._lake.snapshot(self._tables.living(table)))
            self._tables.begin(session, self._tables.gathered(table), metadata, _text(note))

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        with spark_faults(f"rows of {shown(table)} cannot be gathered"), self._lake.session() as session:
            zeros = session.sparkContext.accumulator(0)
            ddl = ", ".join(f"{quote(column.name)} {column.type.spark}" for column in columns)
            rows = session.range(0, parts, 1, parts).mapInArrow(read(zeros), ddl).persist(StorageLevel.MEMORY_AND_DISK)
            try:
                return self._gather(session, table, rows, note(rows.count(), zeros.value))
            finally:
                rows.unpersist()

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        names = [quote(column.name) for column in changes.columns]
        what = f"rows of {shown(table)} cannot be gathered"
        with spark_faults(what), self._lake.session() as session, changes.dataframe(session) as net:
            rows = net.where(sf.col(OP) != "d").select(*names)
            return self._gather(session, table, rows, note(rows.count(), changes.counts.zero_dates))

    def load_rows(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        source: TableName,
        where: Sequence[Sequence[Condition]],
        note: LoadNote,
    ) -> None:
        with (
            spark_faults(f"rows of {shown(source)} cannot be gathered for {shown(table)}"),
            self._lake.session() as session,
        ):
            rows = session.read.format("delta").load(self._tables.living(source)).where(where_sql(where))
            self._gather(session, table, rows.select(*(quote(column.name) for column in columns)), note)

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        with spark_faults(f"a full read of {shown(table)} cannot be finished"), self._lake.session() as session:
            path = self._tables.gathered(table)
            note = self._note(path)
            if note is None:
                raise SinkFault(f"the rows that a full read of {shown(table)} gathered are gone from {path}")

            def gathered(log: Any, transaction: Any) -> Any:
                rows = session.read.format("delta").load(path)
                return self._lake.rows_of(transaction, log, rows, overwrite=True)

            commit = Commit(stamp=stamp, rows=gathered, replaces_all=True, load=note.token)
            self._tables.change(session, table, commit)
            self._lake.clear(path)

    def _note(self, path: str) -> LoadNote | None:
        if not self._lake.is_table(path):
            return None
        history = self._tables.history(path)
        entry = history.entry(history.version)
        held = None if entry is None else entry.text
        return None if held is None or not held.note else msgspec.json.decode(held.note.encode(), type=LoadNote)

    def _gather(self, session: SparkSession, table: TableName, rows: DataFrame, note: LoadNote) -> LoadNote:
        path = self._tables.gathered(table)
        log = self._lake.log(path)
        transaction = log.startTransaction()
        transaction.readWholeTable()
        actions = self._lake.rows_of(transaction, log, rows, overwrite=False)
        self._lake.fence()
        self._lake.commit(session, transaction, actions, _text(note).json)
        return note


def _text(note: LoadNote) -> Text:
    return Text(note=msgspec.json.encode(note).decode())
