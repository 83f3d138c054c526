"""Spark's writes to rows of Delta tables.

An append is one transaction with its stamp. A MERGE, UPDATE or DELETE is a commit of Spark SQL whose text has the
stamp. A second commit has the complete stamp, including the changes of other writers. A crash between the two loses
nothing, because the text of the first one identifies it.
"""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark import failpoints
from ticdc_spark.changes.columns import OP
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Fill, Stamp, unconverted
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.delta.history import text_of
from ticdc_spark.sinks.delta.lake import USER_METADATA, is_conflict, sql_name
from ticdc_spark.sinks.delta.tables import Commit, DeltaTables
from ticdc_spark.sinks.spark_rows import DATA_ERROR, counts_sql, literal, merge_sql, where_sql
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.faults import spark_faults
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn


class DeltaRows:
    """Writes to tables with Spark."""

    def __init__(self, tables: DeltaTables) -> None:
        self._tables, self._lake = tables, tables.lake

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        """See ``sinks.base.Changes``. If all keys are new, they are appended without a look-up."""
        columns = changes.columns
        may_append = changes.new_keys and not changes.others and changes.ordered_by is None
        with self._lake.session() as session, changes.dataframe(session) as net:
            rows = net.where(sf.col(OP) != "d").select(*(quote(column.name) for column in columns))
            if not (may_append and self._append(table, rows, stamp)):
                self._merge(table, net, columns, stamp, changes.ordered_by)

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        """See ``sinks.base.Changes``."""
        columns, view = changes.columns, f"counts_{uuid4().hex}"
        have = list(self._tables.columns(table))  # uses its own session
        with (
            self._lake.session() as session,
            changes.dataframe(session) as counts,
            spark_faults(f"copies of rows cannot be added to or removed from {shown(table)}"),
        ):
            counts.createOrReplaceTempView(view)
            try:
                name = sql_name(self._tables.living(table))
                self._run(session, table, counts_sql(name, view, columns, have), stamp)
            finally:
                session.catalog.dropTempView(view)

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        """See ``sinks.base.Rewrites``."""
        with (
            spark_faults(f"rows of {shown(source)} cannot be added to {shown(table)}"),
            self._lake.session() as session,
        ):
            rows = session.read.format("delta").load(self._tables.living(source))
            rows = rows.select(*(quote(column.name) for column in columns))
            if not (new_keys and self._append(table, rows, stamp)):
                self._merge(table, rows.withColumn(OP, sf.lit("i")), columns, stamp, None)

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        """See ``sinks.base.Rewrites``."""
        self._set(table, column, literal(column, fill), stamp)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        """See ``sinks.base.Rewrites``."""
        try:
            self._set(table, column, conversion.expression.format(old=quote(old)), stamp)
        except SinkFault as fault:
            if DATA_ERROR.search(str(fault)) is None:
                raise
            raise DecisionNeeded(unconverted(column, str(fault)[:500])) from fault

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        """See ``sinks.base.Rewrites``."""
        text = where_sql(where)
        with spark_faults(f"rows of {shown(table)} cannot be deleted"), self._lake.session() as session:
            self._run(session, table, f"DELETE FROM {sql_name(self._tables.living(table))} WHERE {text}", stamp)

    def _set(self, table: TableName, column: LakeColumn, expression: str, stamp: Stamp) -> None:
        with (
            spark_faults(f"column {quote(column.name)} of {shown(table)} cannot be filled"),
            self._lake.session() as session,
        ):
            name = sql_name(self._tables.living(table))
            self._run(session, table, f"UPDATE {name} SET {quote(column.name)} = {expression}", stamp)

    def _append(self, table: TableName, rows: DataFrame, stamp: Stamp) -> bool:
        """Append rows. ``False``: another writer changed the table since ``stamp.seen``, so nothing was done."""

        def add(log: Any, transaction: Any) -> Any:
            return self._lake.rows_of(transaction, log, rows, overwrite=False)

        with spark_faults(f"rows cannot be appended to {shown(table)}"):
            try:
                commit = Commit(stamp=stamp, rows=add, only_alone=True)
                done = self._tables.try_change(rows.sparkSession, table, commit)
            except Py4JJavaError as error:
                if not is_conflict(error):
                    raise
                self._lake.conflicts.add(table)
                return False
        failpoints.point("append")
        return done

    def _merge(
        self,
        table: TableName,
        changes: DataFrame,
        columns: Sequence[LakeColumn],
        stamp: Stamp,
        by: LakeColumn | None,
    ) -> None:
        session, view = changes.sparkSession, f"changes_{uuid4().hex}"
        with spark_faults(f"changes cannot be merged into {shown(table)}"):
            changes.createOrReplaceTempView(view)
            try:
                name = sql_name(self._tables.living(table))
                self._run(session, table, merge_sql(name, view, columns, by), stamp)
            finally:
                session.catalog.dropTempView(view)

    def _run(self, session: SparkSession, table: TableName, statement: str, stamp: Stamp) -> None:
        """Change rows with Spark, then commit the complete stamp."""
        self._lake.fence()
        session.conf.set(USER_METADATA, text_of(stamp).json)
        session.sql(statement)
        failpoints.point("merge")
        self._tables.stamp_in(session, table, stamp)
