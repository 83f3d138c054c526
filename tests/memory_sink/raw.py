"""Raw changes in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.changes.given import Collected, Counted
from ticdc_spark.changes.spread import gather, spread
from ticdc_spark.model import Op
from ticdc_spark.spark.decode.raw import RAW_SCHEMA, RawRows, RawTask, of_arrow
from ticdc_spark.spark.faults import task_faults
from ticdc_spark.spark.tasks import ArrowTask, first_cells


class RawRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row change with raw images. The fields are columns of ``RAW_SCHEMA``."""

    topic: str
    partition: int
    offset: int
    seq: int
    op: Op | str
    schema_key: str
    commit_ts: int
    partial: bool
    before: bytes | None
    after: bytes | None
    checksum: int | None
    corrupted: bool | None
    table_id: int | None = None


class RawInMemory:
    """Raw changes in this process. See ``changes.raw.RawChanges``."""

    size = 0
    is_here = True

    def __init__(self, rows: Callable[[], list[RawRow]]) -> None:
        self.rows = rows

    def count(self) -> Counted:
        return Counted()

    def places(self) -> Collected:
        return Collected()

    def _batches(self) -> Iterator[RawRows]:
        rows = self.rows()
        if rows:
            yield of_arrow(pa.RecordBatch.from_pylist([msgspec.structs.asdict(row) for row in rows], schema=RAW_SCHEMA))

    def run(self, task: RawTask) -> list[bytes]:
        with task_faults("rows cannot be written"):
            return list(first_cells(task(self._batches())))

    def run_spread(self, first: RawTask, keys: Sequence[str], then: ArrowTask, number: int) -> list[bytes]:
        with task_faults("rows cannot be written"):
            parts = list(spread(first(self._batches()), keys, number))
            mine = [[part for part in parts if part[0] == task] for task in range(number)]
            return [found for one in mine for found in first_cells(gather(one, then))]

    def collect(self, task: RawTask) -> list[bytes]:
        return self.run(task)

    def map(self, task: RawTask, ddl: str, session: SparkSession | None = None) -> DataFrame:
        raise AssertionError("no Spark runs here")
