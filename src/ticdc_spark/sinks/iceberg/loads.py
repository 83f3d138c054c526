"""Full reads into Iceberg tables: rows are gathered on a branch of the table, which then replaces the table's rows.

The newest commit of the branch carries a note of the read's progress. If Python can open the warehouse, each task
writes its part to data files, and the driver adds the files of a wave in one commit. Otherwise Spark writes the rows;
it reads and caches them first, since the note must be known before the commit.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.changes.columns import OP
from ticdc_spark.changes.net import rows_left
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.routes import shown
from ticdc_spark.config.values import WriterName
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.iceberg.commits import commit, is_refused
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.data_files import DataFiles, WrittenFile, write_files
from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.java import to_dict, to_snapshot
from ticdc_spark.sinks.iceberg.rows.content_files import data_file
from ticdc_spark.sinks.iceberg.rows.direct import tasks_for
from ticdc_spark.sinks.iceberg.rows.spark_writer import SUMMARY, append_after
from ticdc_spark.sinks.iceberg.rows.target import layout
from ticdc_spark.sinks.iceberg.stamps import append_stamp
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.spark_rows import where_sql
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.tasks import ArrowTask, ReadParts, chain
from ticdc_spark.spark.types import LakeColumn

BRANCH = "ticdc_snapshot"
NOTE = "ticdc.load"
_FILE_DDL = "written binary"
_TRIES = 4
"""Attempts of a commit that lost a race against another writer of the table."""


class IcebergLoads:
    """Full reads: rows are gathered on a branch and replace the table's rows in one commit."""

    def __init__(self, tables: IcebergTables, writer: WriterName) -> None:
        """``writer``: what writes files."""
        self._tables, self._catalog, self._writer = tables, tables.catalog, writer

    def load_note(self, table: TableName) -> LoadNote | None:
        with faults(f"the branch {BRANCH} of {shown(table)} cannot be read"):
            head = self._catalog.load_table(table).snapshot(BRANCH)
            note = None if head is None else head.summary().get(NOTE)
        return None if note is None else msgspec.json.decode(str(note), type=LoadNote)

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        with faults(f"a full read of {shown(table)} cannot begin"):
            self._tables.together.end(table)
            loaded = self._catalog.load_table(table)
            transaction = loaded.newTransaction()
            current = loaded.currentSnapshot()
            if loaded.refs().containsKey(BRANCH):
                transaction.manageSnapshots().removeBranch(BRANCH).commit()
            if current is None:
                transaction.manageSnapshots().createBranch(BRANCH).commit()
            else:
                transaction.manageSnapshots().createBranch(BRANCH, current.snapshotId()).commit()
            everything = self._catalog.iceberg.expressions.Expressions.alwaysTrue()
            emptied = transaction.newDelete().deleteFromRowFilter(everything).toBranch(BRANCH)
            _noted(emptied, note).commit()
            self._catalog.fence()
            commit(self._catalog, table, transaction)

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        with faults(f"rows of {shown(table)} cannot be gathered"), self._catalog.session() as session:
            loaded, files = self._opened(table, columns)
            zeros = session.sparkContext.accumulator(0)
            numbers = session.range(0, parts, 1, parts)
            if isinstance(files, Closed):
                rows = numbers.mapInArrow(read(zeros), _ddl(columns)).persist(StorageLevel.MEMORY_AND_DISK)
                try:
                    known = note(rows.count(), zeros.value)
                    return self._append(session, loaded, table, rows, columns, known)
                finally:
                    rows.unpersist()
            task = chain(read(zeros), _write(columns, files))
            written = numbers.mapInArrow(task, _FILE_DDL).collect()
            data, count = self._data(loaded, files, (bytes(row["written"]) for row in written))
            return self._commit(table, loaded, data, note(count, zeros.value))

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        columns, size = changes.columns, changes.size
        with faults(f"rows of {shown(table)} cannot be gathered"), self._catalog.session() as session:
            loaded, files = self._opened(table, columns)
            cores = session.sparkContext.defaultParallelism
            number = Closed("Spark's source") if size is None else tasks_for(changes, size, cores)
            if isinstance(files, Closed) or isinstance(number, Closed):
                with changes.dataframe(session) as net:
                    rows = net.where(sf.col(OP) != "d").select(*(quote(column.name) for column in columns))
                    known = note(rows.count(), changes.counts.zero_dates)
                    return self._append(session, loaded, table, rows, columns, known)
            task = chain(rows_left([column.name for column in columns]), _write(columns, files))
            data, count = self._data(loaded, files, changes.write(task, tasks=number))
            return self._commit(table, loaded, data, note(count, changes.counts.zero_dates))

    def load_rows(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        source: TableName,
        where: Sequence[Sequence[Condition]],
        note: LoadNote,
    ) -> None:
        with (
            faults(f"rows of {shown(source)} cannot be gathered for {shown(table)}"),
            self._catalog.session() as session,
        ):
            self._tables.together.end(source)
            loaded = self._catalog.load_table(table)
            self._tables.allow_null(table, loaded, columns)
            rows = session.table(self._catalog.sql_name(source)).where(where_sql(where))
            self._append(session, loaded, table, rows.select(*(quote(one.name) for one in columns)), columns, note)

    def _opened(self, table: TableName, columns: Sequence[LakeColumn]) -> tuple[Any, DataFiles | Closed]:
        """The loaded table, after its columns were made optional, and how its files are written."""
        loaded = self._catalog.load_table(table)
        properties = to_dict(self._catalog.iceberg, loaded.properties())
        fields = self._tables.allow_null(table, loaded, columns)
        if self._writer != "python":
            return loaded, Closed("[job] writer")
        return loaded, layout(self._catalog, loaded, properties, fields)

    def _data(self, loaded: Any, files: DataFiles, parts: Iterable[bytes]) -> tuple[list[Any], int]:
        """The files that tasks of ``_write`` wrote, and the number of their rows."""
        written = [msgspec.msgpack.decode(part, type=WrittenFile) for part in parts]
        return [data_file(self._catalog, loaded, files, file) for file in written], sum(file.rows for file in written)

    def _commit(self, table: TableName, loaded: Any, data: Sequence[Any], note: LoadNote) -> LoadNote:
        """Append files to the branch. Refused if another owner has written to it since the table was loaded."""
        head = loaded.snapshot(BRANCH).snapshotId()
        for left in reversed(range(_TRIES)):
            transaction = loaded.newTransaction()
            append = transaction.newOverwrite().validateNoConflictingData().toBranch(BRANCH)
            append = append.validateFromSnapshot(head)
            for file in data:
                append.addFile(file)
            _noted(append, note).commit()
            self._catalog.fence()
            try:
                commit(self._catalog, table, transaction)
                break
            except Py4JJavaError as error:
                if not left or not is_refused(error):
                    raise
        return note

    def _append(
        self,
        session: SparkSession,
        loaded: Any,
        table: TableName,
        rows: DataFrame,
        columns: Sequence[LakeColumn],
        note: LoadNote,
    ) -> LoadNote:
        """Append rows and their note to the branch with Spark."""
        mine = {column.name for column in columns}
        # Columns that other writers added become NULL; Spark does not accept rows without them.
        others = {name: kind for name, kind in self._catalog.columns_of(loaded).items() if name not in mine}
        nulls = (sf.lit(None).cast(kind).alias(name) for name, kind in others.items())
        head = int(loaded.snapshot(BRANCH).snapshotId())
        session.conf.set(f"{SUMMARY}{NOTE}", msgspec.json.encode(note).decode())
        self._catalog.fence()
        try:
            append_after(rows.select("*", *nulls), f"{self._catalog.sql_name(table)}.branch_{BRANCH}", head)
        finally:
            session.conf.unset(f"{SUMMARY}{NOTE}")
        written = self._catalog.load_table(table)
        new = to_snapshot(self._catalog.iceberg, written.snapshot(BRANCH))
        if new is None or new.parent_snapshot_id != head:
            raise SinkFault(f"another owner of the job writes to the branch {BRANCH} of {shown(table)}")
        return note

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        def put(_: Any, transaction: Any) -> None:
            transaction.manageSnapshots().replaceBranch("main", BRANCH).removeBranch(BRANCH).commit()
            append_stamp(transaction, stamp)

        with faults(f"the rows of a full read cannot be added to {shown(table)}"):
            self._tables.change(table, stamp, put, replaces_all=True)


def _ddl(columns: Sequence[LakeColumn]) -> str:
    return ", ".join(f"{quote(column.name)} {column.type.spark}" for column in columns)


def _noted(update: Any, note: LoadNote) -> Any:
    update.set(NOTE, msgspec.json.encode(note).decode())
    return update


def _write(columns: Sequence[LakeColumn], files: DataFiles) -> ArrowTask:
    """Return a function over the rows of one part. It writes one file per partition, and none without rows."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [batch for batch in batches if len(batch)]
        if rows:
            for file in write_files(pa.Table.from_batches(rows), columns, files):
                yield pa.RecordBatch.from_pylist([{"written": msgspec.msgpack.encode(file)}])

    return run
