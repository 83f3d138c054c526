"""Apply a stretch of a table's rows as a row delta: one task reads and writes them, one commit brings them in.

The first way where Spark and the warehouse are local; ``False`` from here means that nothing was done, and the MERGE of
``apply_rows`` does it.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from ticdc_spark import failpoints
from ticdc_spark.replicate.apply.batch import Batch
from ticdc_spark.replicate.plan.timeline import ROWS_MERGED
from ticdc_spark.sinks.base import TableName
from ticdc_spark.sinks.iceberg.data_files import WRITTEN_DDL, Written, write_rows
from ticdc_spark.sinks.iceberg.row_delta import commit, positions, target
from ticdc_spark.sinks.iceberg.sink import IcebergSink
from ticdc_spark.sinks.iceberg.sink import faults as sink_faults
from ticdc_spark.spark.decode.log_files import LogRows
from ticdc_spark.spark.tasks import ArrowTask, chain
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
MOST_ROWS = 500_000
"""Changes of one stretch up to which one task does them; beyond, Spark spreads them over its tasks."""


def apply_directly(
    batch: Batch,
    session: SparkSession,
    name: TableName,
    wanted: LogRows,
    read: ArrowTask,
    columns: Sequence[LakeColumn],
    *,
    may_append: bool,
) -> bool:
    """Write the net changes of ``wanted``, read by ``read``, with the mark; ``False``: this way is not open.

    Raises: SinkFault
    """
    if not isinstance(batch.sink, IcebergSink) or not batch.log.can_map_in_one(wanted):
        return False
    to = target(batch.sink, name, columns)
    if to is None:
        return False
    with TemporaryDirectory(prefix="ticdc-spark-") as folder:
        task = chain(read, write_rows(columns, to.files, folder, may_append=may_append))
        with sink_faults(f"rows of {name} cannot be written"):
            told = batch.log.map_rows(session, wanted, task, WRITTEN_DDL, most_tasks=1).collect()
        written = Written(**told[0].asDict())
        if written.unread:
            return False
        failpoints.point("write")
        old = positions(batch.sink, session, to, columns, written.keys_path)
        stamp = batch.stamp((wanted.upto, ROWS_MERGED), wanted.above)
        if not commit(batch.sink, to, written, old, stamp):
            if written.rows_path:
                Path(written.rows_path).unlink(missing_ok=True)
            return False
    failpoints.point("merge")
    batch.done(name, (wanted.upto, ROWS_MERGED), wanted.above)
    return True
