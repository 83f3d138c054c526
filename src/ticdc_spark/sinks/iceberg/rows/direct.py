"""Net changes of a table as a row delta: tasks read and write them, and one commit adds them.

This is the first choice if Python can open the warehouse. Spark writes the rest.
"""

import logging
from typing import Literal

from pyspark.sql import SparkSession

from ticdc_spark import failpoints
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.data_files import read_keys, read_written, write_rows, written_by
from ticdc_spark.sinks.iceberg.files.storage import Closed, remove
from ticdc_spark.sinks.iceberg.rows.row_delta import commit, positions
from ticdc_spark.sinks.iceberg.rows.target import Target, target
from ticdc_spark.sinks.iceberg.tables import IcebergTables

log = logging.getLogger(__name__)
TASK_ROWS = 500_000
"""Changes for one task, which holds them in memory."""
TASK_BYTES = 512 << 20
"""The same in bytes of the files with the changes, compressed."""
WORTH_A_TASK = 50_000
"""Changes that justify one more task."""
MOST_TASKS = 32
"""For one table at a time. The driver looks up the keys of all tasks."""


def apply_directly(
    tables: IcebergTables, session: SparkSession, table: TableName, changes: TypedChanges, size: int, stamp: Stamp
) -> Literal["done", "touched"] | Closed:
    """Write net changes with their stamp. ``size``: bytes that the tasks read.

    Does nothing if tasks cannot write them (``Closed``), or another writer changed the table meanwhile (``touched``).
    Raises: SinkFault, UnreadableRows
    """
    columns = changes.columns
    number = tasks_for(changes, size, session.sparkContext.defaultParallelism)
    if isinstance(number, Closed):
        return number
    to = target(tables, table, columns, stamp.seen)
    if isinstance(to, Closed):
        return to
    may_append = changes.new_keys and not to.is_touched
    parts: list[bytes] = []
    try:
        write = write_rows(columns, to.files, may_append=may_append)
        parts = changes.write(write, tasks=number, keep_first=may_append)
    finally:
        if not parts:
            _tidy(to)
    failpoints.point("write")
    written = read_written(parts)
    old = positions(tables, session, to, columns, read_keys(written.keys))
    return "done" if commit(tables, to, written, old, stamp) else "touched"


def _tidy(to: Target) -> None:
    """Remove the files that tasks wrote before one of them failed, if possible."""
    try:
        left = written_by(to.files)
        if left:
            with faults(f"files of {shown(to.table)} that belong to no commit cannot be removed"):
                remove(to.loaded.io(), left)
    except (OSError, SinkFault) as error:
        log.warning("files of %s.%s that belong to no commit were not removed: %s", *to.table, error)


def tasks_for(changes: TypedChanges, size: int, parallelism: int) -> int | Closed:
    """How many tasks write the changes of a table. ``size``: bytes of the files with the changes."""
    rows = changes.inserts + changes.others
    needed = max(-(-rows // TASK_ROWS), -(-size // TASK_BYTES))
    if needed > MOST_TASKS:
        return Closed(f"it has more changes at once than {MOST_TASKS} tasks should write")
    if not changes.can_spread:
        return 1 if needed <= 1 else Closed("it has more changes than one task can write, and floats in its key")
    # As many cores as its share of the batch: other tables need the rest.
    return max(needed, min(round(changes.share * parallelism), rows // WORTH_A_TASK), 1)
