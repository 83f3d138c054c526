"""Staging of rows for a table of a database: tasks write them to a table beside it, and the driver moves them."""

from pyspark.sql import SparkSession

from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.errors import MessageError
from ticdc_spark.sinks.staged import Staged
from ticdc_spark.spark.faults import spark_faults
from ticdc_spark.spark.tasks import (
    MOVED,
    ArrowTask,
    ReadParts,
    SourceMoved,
    UnreadableRows,
    chain,
    first_cells,
    numbered,
)

_TASK_BYTES = 32 << 20
"""Bytes of messages that justify another task."""
_MOST_TASKS = 16


def tasks_for(changes: TypedChanges) -> int:
    """How many tasks stage the changes."""
    if changes.size is None or changes.raw.is_here or not changes.can_spread:
        return 1
    return max(1, min(_MOST_TASKS, changes.size // _TASK_BYTES))


def stage_parts(
    spark: SparkSession | None, read: ReadParts, parts: int, task: ArrowTask, place: str
) -> tuple[Staged, int]:
    """Stage the rows of all parts of a full read; also returns how many dates became NULL.

    ``spark``: runs the tasks; ``None``: this process does. ``task``: stages rows at ``place``.

    Raises: SourceMoved, UnreadableRows, SinkFault
    """
    if spark is None:
        counted = _Counted()
        try:
            done = [bytes(one) for one in first_cells(chain(read(counted), task)([numbered(range(parts))]))]
        except MessageError as error:
            if str(error).startswith(MOVED):
                raise SourceMoved(str(error).removeprefix(f"{MOVED}: ")) from error
            raise UnreadableRows(str(error)) from error
        return Staged(place).with_answers(done), counted.value
    with spark_faults(f"rows cannot be gathered in {place}"):
        zeros = spark.sparkContext.accumulator(0)
        numbers = spark.range(0, parts, 1, parts)
        rows = numbers.mapInArrow(chain(read(zeros), task), "rows binary").collect()
        return Staged(place).with_answers(bytes(row[0]) for row in rows), zeros.value


class _Counted:
    def __init__(self) -> None:
        self.value = 0

    def add(self, number: int, /) -> None:
        self.value += number
