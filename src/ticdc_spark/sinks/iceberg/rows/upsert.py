"""Net changes of a table: as a row delta if tasks can write it, else with Spark, as an append and a MERGE.

If the table is known to equal the source, a key whose first event is an insert is new: it can be appended without a
look-up. Everything else is merged. An append and a MERGE together are two commits, each with its stamp. Ordered
changes are always merged.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark import failpoints
from ticdc_spark.changes.columns import COUNT, FIRST, OP
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.values import WriterName
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.rows.direct import apply_directly
from ticdc_spark.sinks.iceberg.rows.spark_writer import SparkWriter
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn

MIN_APPEND_ROWS = 50_000
"""Number of inserts among other changes that justifies a separate commit to append them."""


class Upserts:
    """Writes net changes to the tables of a catalog."""

    def __init__(self, tables: IcebergTables, spark_writer: SparkWriter, writer: WriterName) -> None:
        """``writer``: with ``spark``, tasks write no row deltas."""
        self._tables, self._spark, self._writer = tables, spark_writer, writer

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        """Apply net changes. See ``sinks.base.Changes.upsert``."""
        with self._tables.catalog.session() as session:
            if changes.ordered_by is not None:
                self._merge(session, table, changes, stamp)
                return
            way = self._write_delta(session, table, changes, stamp)
            if way == "done":
                return
            if way != "touched" and _is_worth_appending(changes, appended):
                self._append(session, table, changes, stamp, appended)
            else:
                self._merge(session, table, changes, stamp)

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        """Add and remove whole rows. See ``sinks.base.Changes.change_counts``. Always done by Spark."""
        columns = changes.columns
        with self._tables.catalog.session() as session, changes.dataframe(session) as counts:
            only_new = counts.where(sf.col(COUNT) < 0).isEmpty()
            if not (only_new and self._append_copies(table, counts, columns, stamp)):
                self._spark.change_counts(table, counts, columns, stamp)

    def _append_copies(self, table: TableName, counts: DataFrame, columns: Sequence[LakeColumn], stamp: Stamp) -> bool:
        """Append copies of rows. ``counts`` removes none."""
        names = [quote(column.name) for column in columns]
        rows = counts.select(*names, sf.explode(sf.sequence(sf.lit(1), sf.col(COUNT).cast("int")))).select(*names)
        return self._spark.append(table, rows, columns, stamp)

    def _merge(self, session: SparkSession, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        with changes.dataframe(session) as net:
            self._spark.merge(table, net, changes.columns, stamp, by=changes.ordered_by)

    def _write_delta(
        self, session: SparkSession, table: TableName, changes: TypedChanges, stamp: Stamp
    ) -> Literal["done", "touched", "closed"]:
        """Let tasks write a row delta. ``closed``: they cannot; ``touched``: another writer changed the table
        meanwhile. In both cases nothing was done."""
        if changes.leave_out_unreadable:
            way: Literal["done", "touched"] | Closed = Closed("rows that cannot be read are skipped")
        elif self._writer == "spark" or (size := changes.size) is None:
            return "closed"  # Logged already: by the job file, or when the changes were to be read.
        else:
            way = apply_directly(self._tables, session, table, changes, size, stamp)
        if isinstance(way, Closed):
            self._tables.catalog.note_way(table, way.reason)
            return "closed"
        return way

    def _append(
        self, session: SparkSession, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None
    ) -> None:
        """Append the new keys, and merge the rest."""
        columns, only_inserts = changes.columns, not changes.others
        with changes.dataframe(session, keep_first=not only_inserts) as net:
            if only_inserts:
                if not self._spark.append(table, net, columns, stamp):
                    self._spark.merge(table, net, columns, stamp)
                failpoints.point("append")
                return
            assert appended is not None, "that is why rows are appended"
            first = msgspec.structs.replace(appended, seen=stamp.seen)
            new, rest = sf.col(FIRST) == "i", net
            if self._spark.append(table, net.where(new & (sf.col(OP) != "d")), columns, first):
                failpoints.point("append")
                rest = net.where(~new)
            self._spark.merge(table, rest, columns, stamp)


def _is_worth_appending(changes: TypedChanges, appended: Stamp | None) -> bool:
    """Whether there is enough to append: two commits and a cache cost more than a small append saves."""
    if not changes.new_keys:
        return False
    many = changes.inserts >= max(MIN_APPEND_ROWS, changes.others)
    return not changes.others or (many and appended is not None)
