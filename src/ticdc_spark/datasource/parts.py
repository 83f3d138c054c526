"""What one task reads."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ticdc_spark.datasource.access import access
from ticdc_spark.datasource.generic import generic_rows
from ticdc_spark.datasource.planning import Range, Reading
from ticdc_spark.datasource.typed import planned_columns, typed_rows


class Part(InputPartition):
    """A range of offsets, with what a task must know to read it."""

    def __init__(self, one: Range, packed: bytes, columns: dict[str, str]) -> None:
        """``packed``: the ``Reading``. ``columns``: the columns of the query's plan, with their types."""
        super().__init__(None)
        self.range = one
        self.packed = packed
        self.columns = columns

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows. Raises: RejectedMessage, SourceFault"""
        one = self.range
        reading: Reading = pickle.loads(zlib.decompress(self.packed))
        place = (one.topic, one.partition)
        with closing(access(reading.options, one.memory)) as topics:
            batches = topics.batches({place: one.first}, {place: one.end})
            if reading.options.table is None:
                rows = generic_rows(reading, batches)
            else:
                rows = typed_rows(reading, planned_columns(reading, self.columns), batches)
            for batch in rows:
                if batch.num_rows:
                    yield batch.select([*self.columns])


def parts(reading: Reading, ranges: Sequence[Range], columns: dict[str, str]) -> list[Part]:
    """The parts for ranges. A task that reads one table only gets what is known of that table."""
    if reading.options.table is not None:
        reading = msgspec.structs.replace(reading, known=reading.known.only([reading.options.table]))
        planned_columns(reading, columns)  # UsageError before tasks run
    # packed once: it has the schemas of all tables, and there may be many parts
    packed = zlib.compress(pickle.dumps(reading))
    return [Part(one, packed, columns) for one in ranges]
