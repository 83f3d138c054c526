"""Spark's writes of rows and values: append, MERGE, UPDATE.

Each is one commit of Spark, with the stamp in its summary. A second commit writes the properties.
"""

import logging
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.changes.columns import OP
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Fill, Stamp, unconverted
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.history import Note
from ticdc_spark.sinks.iceberg.faults import faults, is_conflict
from ticdc_spark.sinks.iceberg.stamps import ABOUT, place_of, read_note, summary, unseen
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.sinks.spark_rows import DATA_ERROR, counts_sql, literal, merge_sql, where_sql
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
SUMMARY = "spark.sql.iceberg.snapshot-property."
"""Prefix of session settings that Iceberg writes into the summaries of commits."""


class SparkWriter:
    """Writes to tables with Spark."""

    def __init__(self, tables: IcebergTables) -> None:
        self._tables, self._catalog = tables, tables.catalog

    def fill_column(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        self._set(table, column.name, literal(column, fill), stamp)

    def convert_column(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        try:
            self._set(table, column.name, conversion.expression.format(old=quote(old)), stamp)
        except SinkFault as fault:
            if DATA_ERROR.search(str(fault)) is None:
                raise
            raise DecisionNeeded(unconverted(column, str(fault)[:500])) from fault

    def _set(self, table: TableName, column: str, expression: str, stamp: Stamp) -> None:
        with faults(f"column {column} of {shown(table)} cannot be filled"), self._catalog.session() as session:
            self._begin(session, table, stamp)
            session.sql(f"UPDATE {self._catalog.sql_name(table)} SET {quote(column)} = {expression}")
            self._write_note(table, stamp)

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        """See ``sinks.base.Rewrites``."""
        text = where_sql(where)
        with faults(f"rows of {shown(table)} cannot be deleted"), self._catalog.session() as session:
            self._begin(session, table, stamp)
            session.sql(f"DELETE FROM {self._catalog.sql_name(table)} WHERE {text}")
            self._write_note(table, stamp)

    def take_rows(
        self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp, *, new_keys: bool
    ) -> None:
        """See ``sinks.base.Rewrites``."""
        with (
            faults(f"rows of {shown(source)} cannot be added to {shown(table)}"),
            self._catalog.session() as session,
        ):
            self._tables.together.end(source)
            names = [quote(column.name) for column in columns]
            rows = session.table(self._catalog.sql_name(source)).select(*names)
            if not (new_keys and self.append(table, rows, columns, stamp)):
                self.merge(table, rows.withColumn(OP, sf.lit("i")), columns, stamp)

    def append(
        self,
        table: TableName,
        rows: DataFrame,
        columns: Sequence[LakeColumn],
        stamp: Stamp,
        names: Sequence[str] | None = None,
    ) -> bool:
        """Append rows without looking up old rows of their keys. ``names``: of their columns, by default ``columns``.

        Returns: ``False`` if another writer changed the table since ``stamp.seen`` or during the write; then nothing
        was done. Iceberg does not validate appends, so this is an overwrite that removes nothing.
        """
        with faults(f"rows cannot be appended to {shown(table)}"):
            loaded, note = self._begin(rows.sparkSession, table, stamp, columns)
            place = place_of(loaded)
            if unseen(self._catalog.iceberg, loaded, place, note, stamp.seen):
                return False
            mine = [column.name for column in columns] if names is None else names
            # Columns that other writers added become NULL; Spark does not accept rows without them.
            others = {name: kind for name, kind in self._catalog.columns_of(loaded).items() if name not in mine}
            nulls = (sf.lit(None).cast(kind).alias(name) for name, kind in others.items())
            try:
                append_after(rows.select(*map(quote, mine), *nulls), self._catalog.sql_name(table), place and place[0])
            except Py4JJavaError as error:
                if not is_conflict(error):
                    raise
                self._catalog.conflicts.add(table)
                log.warning("%s.%s was changed by another writer meanwhile: %s", *table, error.java_exception)
                return False
            self._write_note(table, stamp)
            return True

    def merge(
        self,
        table: TableName,
        changes: DataFrame,
        columns: Sequence[LakeColumn],
        stamp: Stamp,
        by: LakeColumn | None = None,
    ) -> None:
        """Merge net changes: the last image of each key, with its op. ``by``: the column that orders the changes; only
        rows that are not newer are changed."""
        view = f"changes_{uuid4().hex}"
        with faults(f"changes cannot be merged into {shown(table)}"):
            self._begin(changes.sparkSession, table, stamp, columns)
            changes.createOrReplaceTempView(view)
            try:
                changes.sparkSession.sql(merge_sql(self._catalog.sql_name(table), view, columns, by))
            finally:
                changes.sparkSession.catalog.dropTempView(view)
            self._write_note(table, stamp)

    def change_counts(self, table: TableName, counts: DataFrame, columns: Sequence[LakeColumn], stamp: Stamp) -> None:
        """Add and remove whole rows. ``counts``: has the column ``COUNT``."""
        view = f"counts_{uuid4().hex}"
        with faults(f"copies of rows cannot be added to or removed from {shown(table)}"):
            loaded, _ = self._begin(counts.sparkSession, table, stamp, columns)
            have = list(self._catalog.columns_of(loaded))
            counts.createOrReplaceTempView(view)
            try:
                counts.sparkSession.sql(counts_sql(self._catalog.sql_name(table), view, columns, have))
            finally:
                counts.sparkSession.catalog.dropTempView(view)
            self._write_note(table, stamp)

    def _begin(
        self, session: SparkSession, table: TableName, stamp: Stamp, columns: Sequence[LakeColumn] | None = None
    ) -> tuple[Any, Note | None]:
        """Make the next commit of a session carry the stamp. ``columns``: of the rows to write; ``None``: no rows.

        Returns: the table before the commit, and its note. It is loaded before the fence, so that every later commit is
        a conflict, also one of another owner.
        """
        self._tables.together.make_way(table)
        loaded = self._catalog.load_table(table)
        if columns is not None:
            self._tables.together.note_alone(table)
            self._tables.allow_null(table, loaded, columns)
        self._catalog.fence()
        note = read_note(self._catalog.iceberg, loaded)
        # ``about`` is only included if the properties differ, because it may be long.
        more = stamp.about if note is None or note.stamp.about != stamp.about else ""
        for key, value in summary(stamp, more).items():
            session.conf.set(f"{SUMMARY}{key}", value)
        if not more:
            session.conf.unset(f"{SUMMARY}{ABOUT}")
        return loaded, note

    def _write_note(self, table: TableName, stamp: Stamp) -> None:
        """Write the stamp of Spark's last commit to the properties, where no expiry removes it."""
        self._tables.change(table, stamp, lambda _, __: None)


def append_after(rows: DataFrame, name: str, snapshot_id: int | None) -> None:
    """Append rows to a table with Spark, unless another writer changed it since a snapshot (``None``: it had none).

    Raises: Py4JJavaError; ``is_conflict`` is true for it if another writer changed the table
    """
    after(rows.writeTo(name), snapshot_id).overwrite(sf.lit(False))


def after(writer: DataFrameWriterV2, snapshot_id: int | None) -> DataFrameWriterV2:
    """Make an overwrite by Spark fail if another writer changed its rows since a snapshot."""
    writer = writer.option("isolation-level", "serializable")
    return writer if snapshot_id is None else writer.option("validate-from-snapshot-id", str(snapshot_id))
