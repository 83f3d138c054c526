"""Appends rows to a history table, with their stamp, in one commit. No row is looked up or replaced.

If Python can open the warehouse, tasks write data files and the driver appends them. Otherwise Spark appends the rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.changes.events import H_OP, H_TIME, H_TS, commit_times, marker
from ticdc_spark.config.routes import shown
from ticdc_spark.config.values import WriterName
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended, Events, Marker, RowsOf, columns_of, history_columns, same_change
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.data_files import DataFiles, WrittenFile, write_files
from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.java import to_dict
from ticdc_spark.sinks.iceberg.loads import BRANCH
from ticdc_spark.sinks.iceberg.rows.content_files import data_file
from ticdc_spark.sinks.iceberg.rows.direct import tasks_for
from ticdc_spark.sinks.iceberg.rows.spark_writer import SparkWriter
from ticdc_spark.sinks.iceberg.rows.target import layout
from ticdc_spark.sinks.iceberg.stamps import append_stamp, summary
from ticdc_spark.sinks.iceberg.tables import IcebergTables, NewRows
from ticdc_spark.sinks.spark_rows import where_sql
from ticdc_spark.sinks.spark_types import SparkTypes
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.tasks import ArrowTask
from ticdc_spark.spark.types import LakeColumn

_TRIES = 4
"""Attempts of an append by Spark that lost a race against another writer."""


class IcebergAppends:
    """Appends to history tables."""

    def __init__(self, tables: IcebergTables, spark_writer: SparkWriter, writer: WriterName) -> None:
        """``writer``: with ``spark``, tasks write no files."""
        self._tables, self._catalog = tables, tables.catalog
        self._spark, self._writer, self._types = spark_writer, writer, SparkTypes()

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        """See ``sinks.base.Histories.append``."""
        at = NewRows(table, stamp, beside=beside)
        with self._catalog.session() as session:
            match what:
                case None:
                    self._tables.stamp(table, stamp)
                case Marker(op, commit_ts):
                    self._append_rows(session, at, marker(op, commit_ts))
                case RowsOf():
                    self._append_rows_of(session, table, what, stamp)
                case Events():
                    self._append_events(session, at, what)

    def _append_events(self, session: SparkSession, at: NewRows, what: Events) -> None:
        table, stamp = at.table, at.stamp
        changes, columns = what.changes, columns_of(what.changes, self._types)
        files, size = self._files(table, columns), changes.size
        cores = session.sparkContext.defaultParallelism
        number = Closed("only Spark reads the topic") if size is None else tasks_for(changes, size, cores)
        if what.unless_there or isinstance(files, Closed) or isinstance(number, Closed):
            with changes.events(session, what.above) as rows:
                new = self._new(session, table, rows, what) if what.unless_there else rows
                self._append_by_spark(table, new, columns, stamp)
            return
        self._commit(at, files, changes.write_events(_write(columns, files), what.above, tasks=number))

    def _new(self, session: SparkSession, table: TableName, rows: DataFrame, what: Events) -> DataFrame:
        """The changes that the history does not have yet."""
        names = [column.name for column in what.changes.columns if column.key]
        with faults(f"table {shown(table)} cannot be read"):
            self._tables.together.end(table)
            there = session.table(self._catalog.sql_name(table)).where(sf.col(H_TS) > what.above).alias("t")
            same = same_change("t.", "s.", list(map(quote, names)))
            return rows.alias("s").join(there, sf.expr(same), "left_anti")

    def _append_rows(self, session: SparkSession, at: NewRows, rows: pa.RecordBatch) -> None:
        columns = history_columns(self._types)
        files = self._files(at.table, columns)
        if isinstance(files, Closed):
            made = session.createDataFrame(pa.Table.from_batches([rows]))
            self._append_by_spark(at.table, made, columns, at.stamp)
        else:
            written = _write(columns, files)([rows])
            self._commit(at, files, (bytes(part.column(0)[0].as_py()) for part in written))

    def _append_rows_of(self, session: SparkSession, table: TableName, what: RowsOf, stamp: Stamp) -> None:
        time = commit_times(pa.array([what.commit_ts], pa.int64()))[0].as_py()
        with faults(f"rows of {shown(what.source)} cannot be read"):
            self._tables.together.end(what.source)
            rows = (session.read.option("branch", BRANCH) if what.gathered else session.read).table(
                self._catalog.sql_name(what.source)
            )
            if what.where is not None:
                rows = rows.where(where_sql(what.where))
            head = (sf.lit(what.op).alias(H_OP), sf.lit(what.commit_ts).alias(H_TS), sf.lit(time).alias(H_TIME))
            rows = rows.select(*head, *map(quote, what.columns))
            if what.marker:
                one = pa.Table.from_batches([marker(what.marker, what.commit_ts)])
                rows = rows.unionByName(session.createDataFrame(one), allowMissingColumns=True)
        self._append_by_spark(table, rows, history_columns(self._types), stamp)

    def _append_by_spark(self, table: TableName, rows: DataFrame, columns: Sequence[LakeColumn], stamp: Stamp) -> None:
        for _ in range(_TRIES):
            if self._spark.append(table, rows, columns, stamp, rows.columns):
                return
            # Changes of other writers do not matter to an append.
            stamp = msgspec.structs.replace(stamp, seen=self._tables.snapshot_id(table))
        raise SinkFault(f"rows cannot be appended to {shown(table)}: other writers committed first {_TRIES} times")

    def _files(self, table: TableName, columns: Sequence[LakeColumn]) -> DataFiles | Closed:
        """How tasks write the files of a table; ``Closed``: Spark must write them."""
        if self._writer != "python":
            return Closed("[job] writer")
        with faults(f"table {shown(table)} cannot be read"):
            loaded = self._catalog.load_table(table)
            properties = to_dict(self._catalog.iceberg, loaded.properties())
            fields = self._tables.allow_null(table, loaded, columns)
            return layout(self._catalog, loaded, properties, fields)

    def _commit(self, at: NewRows, files: DataFiles, parts: Iterable[bytes]) -> None:
        table, stamp = at.table, at.stamp
        written = [msgspec.msgpack.decode(part, type=WrittenFile) for part in parts]
        with faults(f"rows cannot be appended to {shown(table)}"):
            loaded = self._catalog.load_table(table)
            data = [data_file(self._catalog, loaded, files, file) for file in written]

            def put(_: Any, transaction: Any) -> None:
                if not data:
                    append_stamp(transaction, stamp)
                    return
                append = transaction.newFastAppend()
                for file in data:
                    append.appendFile(file)
                for key, value in summary(stamp).items():
                    append.set(key, value)
                append.commit()

            locations = tuple(f"{files.location}/{file.name}" for file in written)
            self._tables.bring_in(at._replace(files=locations), put)


def _write(columns: Sequence[LakeColumn], files: DataFiles) -> ArrowTask:
    """Return a function over the rows of one task. It writes one file per partition, and none without rows."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [batch for batch in batches if len(batch)]
        if rows:
            whole = pa.Table.from_batches(rows).select([column.name for column in columns])
            for file in write_files(whole, columns, files):
                yield pa.RecordBatch.from_pylist([{"written": msgspec.msgpack.encode(file)}])

    return run
