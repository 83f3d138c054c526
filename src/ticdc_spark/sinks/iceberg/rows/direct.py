"""Net changes of a table as a row delta: tasks read and write them, one commit brings them in.

The first way wherever Python can open the warehouse; Spark does what cannot be done so.
"""

import logging
from typing import Any, Literal

from pyspark.sql import SparkSession

from ticdc_spark import failpoints
from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.base import NetChanges
from ticdc_spark.sinks.iceberg.changelog import IcebergChangeLog
from ticdc_spark.sinks.iceberg.faults import faults, task_faults
from ticdc_spark.sinks.iceberg.files.data_files import read_keys, read_written, write_rows, written_by
from ticdc_spark.sinks.iceberg.files.storage import Closed, remove
from ticdc_spark.sinks.iceberg.rows.row_delta import commit, positions
from ticdc_spark.sinks.iceberg.rows.target import Target, target
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.spark.decode.combine import combine
from ticdc_spark.spark.decode.spread import can_spread
from ticdc_spark.spark.tasks import ArrowTask, chain
from ticdc_spark.spark.types import arrow_type

log = logging.getLogger(__name__)
TASK_ROWS = 500_000
"""Changes that one task may do, which holds them in memory."""
TASK_BYTES = 128 << 20
"""The same, in bytes of the log's files, compressed."""
WORTH_A_TASK = 50_000
"""Changes from which on a task more is worth its while."""
MOST_TASKS = 32
"""For one table at once. The driver looks up the keys of all."""


def apply_directly(
    tables: IcebergTables, log: IcebergChangeLog, session: SparkSession, changes: NetChanges, read: ArrowTask
) -> Literal["done", "touched"] | Closed:
    """Write the net changes, read by ``read``, with their stamp, unless this way is closed, or another writer changed
    the table meanwhile: then nothing was done.

    Raises: SinkFault
    """
    columns = changes.plan.columns
    files = log.files_of(changes.scan)
    if isinstance(files, Closed):
        return files
    number = tasks_for(changes, sum(file.bytes for file in files), session.sparkContext.defaultParallelism)
    if isinstance(number, Closed):
        return number
    to = target(tables, changes.table, columns, changes.stamp.seen)
    if isinstance(to, Closed):
        return to
    may_append = changes.new_keys and not to.is_touched
    write = write_rows(columns, to.files, may_append=may_append)
    what = f"rows of {changes.table} cannot be written"
    rows: list[dict[str, Any]] = []
    try:
        with faults(what), task_faults(what):
            if number == 1:
                rows = log.run_in_one(files, changes.scan, chain(read, write))
            else:
                names = [column.name for column in columns if column.key]
                first = chain(read, combine(names, keep_first=may_append))
                rows = log.run_spread(files, changes.scan, first, names, write, number)
    finally:
        if not rows:
            _tidy(tables, to)
    written = read_written(rows)
    if written.unread:
        _tidy(tables, to)
        return Closed("rows of it cannot be read")
    failpoints.point("write")
    old = positions(tables, session, to, columns, read_keys(written.keys))
    return "done" if commit(tables, to, written, old, changes.stamp) else "touched"


def _tidy(tables: IcebergTables, to: Target) -> None:
    """Remove what tasks have written before one of them failed, as well as it goes."""
    try:
        left = written_by(to.files)
        if left:
            with faults(f"files of {to.table} that belong to no commit cannot be removed"):
                remove(tables.load_table(to.table).io(), left)
    except (OSError, SinkFault) as error:
        log.warning("files of %s.%s that belong to no commit stay: %s", *to.table, error)


def tasks_for(changes: NetChanges, size: int, parallelism: int) -> int | Closed:
    """How many tasks write the changes of a table. ``size``: bytes of the files that they are read from."""
    rows = changes.inserts + changes.others
    needed = max(-(-rows // TASK_ROWS), -(-size // TASK_BYTES))
    if needed > MOST_TASKS:
        return Closed(f"it has more changes at once than {MOST_TASKS} tasks should write")
    keys = [arrow_type(column.type) for column in changes.plan.columns if column.key]
    if not can_spread(keys):
        return 1 if needed <= 1 else Closed("it has more changes at once than a task can write, and floats in its key")
    # As many of the cores as its share of the batch: the other tables want theirs.
    return max(needed, min(round(changes.share * parallelism), rows // WORTH_A_TASK), 1)
