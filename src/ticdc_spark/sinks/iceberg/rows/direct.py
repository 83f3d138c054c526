"""Net changes of a table as a row delta: one task reads and writes them, one commit brings them in.

The first way where Spark and the warehouse are local; Spark does what cannot be done so.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from pyspark.sql import SparkSession

from ticdc_spark import failpoints
from ticdc_spark.sinks.base import NetChanges
from ticdc_spark.sinks.iceberg.changelog import IcebergChangeLog
from ticdc_spark.sinks.iceberg.faults import faults, task_faults
from ticdc_spark.sinks.iceberg.files.data_files import Written, write_rows
from ticdc_spark.sinks.iceberg.rows.row_delta import commit, positions, target
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.spark.tasks import ArrowTask, chain

MAX_SINGLE_TASK_ROWS = 500_000
"""Changes of one scan up to which one task does them; beyond, Spark spreads them over its tasks."""


def apply_directly(
    tables: IcebergTables, log: IcebergChangeLog, session: SparkSession, changes: NetChanges, read: ArrowTask
) -> Literal["done", "closed", "touched"]:
    """Write the net changes, read by ``read``, with their stamp, unless this way is closed, or another writer changed
    the table meanwhile: then nothing was done.

    Raises: SinkFault
    """
    columns = changes.plan.columns
    if not log.can_map_in_one(changes.scan):
        return "closed"
    to = target(tables, changes.table, columns, changes.stamp.seen)
    if to is None:
        return "closed"
    may_append = changes.new_keys and not to.is_touched
    # Also for the folder itself: /tmp may be full.
    with faults(f"rows of {changes.table} cannot be written"), TemporaryDirectory(prefix="ticdc-spark-") as folder:
        task = chain(read, write_rows(columns, to.files, folder, may_append=may_append))
        with task_faults(f"rows of {changes.table} cannot be written"):
            (written_by,) = log.run_in_one(changes.scan, task)
        written = Written(**written_by)
        if written.unread:
            return "closed"
        failpoints.point("write")
        old = positions(tables, session, to, columns, written.keys_path)
        if not commit(tables, to, written, old, changes.stamp):
            if written.rows_path:
                Path(written.rows_path).unlink(missing_ok=True)
            return "touched"
    return "done"
