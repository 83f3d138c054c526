"""Net changes of a table as a row delta: tasks read and write them, one commit brings them in.

The first way wherever Python can open the warehouse; Spark does what cannot be done so.
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
"""Changes that one task may do, which holds them in memory."""
TASK_BYTES = 512 << 20
"""The same, in bytes of the files that they are read from, compressed."""
WORTH_A_TASK = 50_000
"""Changes from which on a task more is worth its while."""
MOST_TASKS = 32
"""For one table at once. The driver looks up the keys of all."""


def apply_directly(
    tables: IcebergTables, session: SparkSession, table: TableName, changes: TypedChanges, size: int, stamp: Stamp
) -> Literal["done", "touched"] | Closed:
    """Write net changes with their stamp, unless this way is closed, or another writer changed the table meanwhile:
    then nothing was done. ``size``: bytes that the tasks read.

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
            _tidy(tables, to)
    failpoints.point("write")
    written = read_written(parts)
    old = positions(tables, session, to, columns, read_keys(written.keys))
    return "done" if commit(tables, to, written, old, stamp) else "touched"


def _tidy(tables: IcebergTables, to: Target) -> None:
    """Remove what tasks have written before one of them failed, as well as it goes."""
    try:
        left = written_by(to.files)
        if left:
            with faults(f"files of {shown(to.table)} that belong to no commit cannot be removed"):
                remove(tables.catalog.load_table(to.table).io(), left)
    except (OSError, SinkFault) as error:
        log.warning("files of %s.%s that belong to no commit stay: %s", *to.table, error)


def tasks_for(changes: TypedChanges, size: int, parallelism: int) -> int | Closed:
    """How many tasks write the changes of a table. ``size``: bytes of the files that they are read from."""
    rows = changes.inserts + changes.others
    needed = max(-(-rows // TASK_ROWS), -(-size // TASK_BYTES))
    if needed > MOST_TASKS:
        return Closed(f"it has more changes at once than {MOST_TASKS} tasks should write")
    if not changes.can_spread:
        return 1 if needed <= 1 else Closed("it has more changes at once than a task can write, and floats in its key")
    # As many of the cores as its share of the batch: the other tables want theirs.
    return max(needed, min(round(changes.share * parallelism), rows // WORTH_A_TASK), 1)
