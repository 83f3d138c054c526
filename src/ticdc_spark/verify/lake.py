"""A table in a lake as of one snapshot: Spark's tasks compute checksums and select rows, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, lit
from pyspark.sql.types import LongType, StructField, StructType

from ticdc_spark.spark.faults import spark_faults
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.tasks import ArrowTask, in_worker
from ticdc_spark.spark.types import arrow_type
from ticdc_spark.verify.cells import Keys, Parts, Range, Ranges, Selection, places, size
from ticdc_spark.verify.columns import TablePlan
from ticdc_spark.verify.digests import Digest, checksums, digests, key_hashes

_CHECKSUM = "_ticdc_spark_checksum"
"""Name of the column of checksums. No table has such a column."""
_PRUNED = 200
"""Ranges or keys that are passed to Spark, so that it can skip files."""


class LakeTable:
    """See ``sides.Side``."""

    def __init__(self, plan: TablePlan, read: Callable[[], DataFrame], where: str) -> None:
        """``read``: the table as of its snapshot. ``where``: its name, for messages."""
        self._plan, self._read, self._where = plan, read, where

    def digests(self, selection: Parts) -> list[Digest]:
        with spark_faults(f"{self._where} cannot be read"):
            ddl = "place bigint, counted bigint, pushed string, rest string"
            rows = self._frame(selection).mapInArrow(_digesting(self._plan, selection), ddl).collect()
        found = [Digest()] * size(selection)
        for place, counted, pushed, rest in rows:
            found[place] += Digest(counted, int(pushed), int(rest))
        return found

    def checksums(self, selection: Parts) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        with spark_faults(f"{self._where} cannot be read"):
            frame = self._frame(selection)
            kinds = StructType([*frame.schema.fields[: plan.keys], StructField(_CHECKSUM, LongType())])
            found = frame.mapInArrow(_summing(plan, selection), kinds).toArrow()
        for batch in found.to_batches():
            keys = _typed_columns(plan, batch.columns[: plan.keys])
            yield pa.RecordBatch.from_arrays([*keys, batch.columns[-1].view(pa.uint64())], names=batch.schema.names)

    def rows(self, selection: Selection) -> Iterator[pa.RecordBatch]:
        with spark_faults(f"{self._where} cannot be read"):
            frame = self._frame(selection)
            picked = frame.mapInArrow(_picking(self._plan, selection), frame.schema).toArrow()
        for batch in picked.to_batches():
            yield _typed(self._plan, batch)

    def _frame(self, selection: Selection) -> DataFrame:
        frame = self._read().select(*(quote(pair.target.name) for pair in self._plan.pairs))
        first = col(quote(self._plan.pairs[0].target.name))
        if self._plan.pairs[0].target.type.arrow not in ("int32", "int64"):
            return frame
        match selection:
            case Keys(of=keys) if keys and all(key[0] is not None for key in keys):
                values = [key[0] for key in keys]
                return frame.where(
                    first.isin(values) if len(keys) <= _PRUNED else first.between(min(values), max(values))
                )
            case Ranges(of=ranges) if len(ranges) <= _PRUNED:
                return frame.where(reduce(or_, (_within(first, one) for one in ranges), lit(False)))
        return frame


def _within(first: Column, of: Range) -> Column:
    """A condition on the first key column that all keys of a range meet."""
    above = lit(True) if of.above is None else first >= of.above[0]
    return above if of.upto is None else above & (first <= of.upto[0])


def _digesting(plan: TablePlan, selection: Selection) -> ArrowTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = digests(plan, selection, (_typed(plan, batch) for batch in batches))
        there = [(at, one) for at, one in enumerate(found) if one.rows]
        yield pa.record_batch(
            {
                "place": pa.array([at for at, _ in there], pa.int64()),
                "counted": pa.array([one.rows for _, one in there], pa.int64()),
                "pushed": pa.array([str(one.pushed) for _, one in there], pa.string()),
                "rest": pa.array([str(one.rest) for _, one in there], pa.string()),
            }
        )

    return in_worker(run)


def _summing(plan: TablePlan, selection: Selection) -> ArrowTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            typed = _typed(plan, batch)
            place = places(selection, typed.columns[: plan.keys], key_hashes(plan, typed))
            columns = [*batch.columns[: plan.keys], pa.array(checksums(plan, typed)).view(pa.int64())]
            names = [*batch.schema.names[: plan.keys], _CHECKSUM]
            yield pa.RecordBatch.from_arrays(columns, names=names).filter(pa.array(place >= 0))

    return in_worker(run)


def _picking(plan: TablePlan, selection: Selection) -> ArrowTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            typed = _typed(plan, batch)
            place = places(selection, typed.columns[: plan.keys], key_hashes(plan, typed))
            yield batch.filter(pa.array(place >= 0))

    return in_worker(run)


def _typed(plan: TablePlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark's columns in the types of the plan, followed by an empty column of reasons: all values can be read."""
    arrays = [*_typed_columns(plan, batch.columns), pa.nulls(batch.num_rows, pa.string())]
    return pa.RecordBatch.from_arrays(arrays, names=[str(at) for at in range(len(arrays))])


def _typed_columns(plan: TablePlan, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The first columns of the plan, in its types."""
    return [_cast(column, arrow_type(pair.target.type)) for column, pair in zip(columns, plan.pairs, strict=False)]


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type) and column.type.tz not in (None, str(UTC)):
        column = column.cast(pa.timestamp("us", "UTC"))
    return column.cast(kind)
