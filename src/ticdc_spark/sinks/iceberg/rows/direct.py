"""Net changes of a table as a row delta: one task reads and writes them, one commit brings them in.

The first way wherever Python can open the warehouse; Spark does what cannot be done so.
"""

from typing import Literal

from pyspark.sql import SparkSession

from ticdc_spark import failpoints
from ticdc_spark.sinks.base import NetChanges
from ticdc_spark.sinks.iceberg.changelog import IcebergChangeLog
from ticdc_spark.sinks.iceberg.faults import faults, task_faults
from ticdc_spark.sinks.iceberg.files.data_files import read_keys, read_written, write_rows
from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.rows.row_delta import commit, positions
from ticdc_spark.sinks.iceberg.rows.target import target
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.spark.tasks import ArrowTask, chain

MAX_SINGLE_TASK_ROWS = 500_000
"""Changes of one scan up to which one task does them; beyond, Spark spreads them over its tasks."""


def apply_directly(
    tables: IcebergTables, log: IcebergChangeLog, session: SparkSession, changes: NetChanges, read: ArrowTask
) -> Literal["done", "touched"] | Closed:
    """Write the net changes, read by ``read``, with their stamp, unless this way is closed, or another writer changed
    the table meanwhile: then nothing was done.

    Raises: SinkFault
    """
    columns = changes.plan.columns
    files = log.files_for_one(changes.scan)
    if isinstance(files, Closed):
        return files
    to = target(tables, changes.table, columns, changes.stamp.seen)
    if isinstance(to, Closed):
        return to
    may_append = changes.new_keys and not to.is_touched
    task = chain(read, write_rows(columns, to.files, may_append=may_append))
    what = f"rows of {changes.table} cannot be written"
    with faults(what), task_faults(what):
        written = read_written(log.run_in_one(files, changes.scan, task))
    if written.unread:
        return Closed("rows of it cannot be read")
    failpoints.point("write")
    keys = read_keys(written.keys) if written.keys else None
    old = positions(tables, session, to, columns, keys)
    return "done" if commit(tables, to, written, old, changes.stamp) else "touched"
