"""A table in memory as a side of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from ticdc_spark.ddl import parse_create
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.types import LakeOptions, arrow_type, lake_columns
from ticdc_spark.verify.cells import Key, Parts, Selection, places
from ticdc_spark.verify.columns import TablePlan, plan_of
from ticdc_spark.verify.digests import Digest, checksums, digests, key_hashes, with_checksums

LAKE = LakeOptions()


def plan(create: str, protocol: str = "simple", lake: LakeOptions = LAKE) -> TablePlan:
    """A table that is the same on both sides."""
    table = parse_create(create, "s", "escape")
    columns = lake_columns(table, handle_key(table), lake)
    found = plan_of((table, table), (columns, columns), lake, protocol)
    assert isinstance(found, TablePlan), found
    return found


class MemoryTable:
    """See ``sides.Source``. Rows are tuples of values in the order of the plan, and may be changed."""

    def __init__(self, of: TablePlan, rows: Sequence[tuple[Any, ...]]) -> None:
        self.plan, self.rows_ = of, list(rows)
        self.read = 0
        """Rows that were read one by one."""

    def digests(self, selection: Parts) -> list[Digest]:
        return digests(self.plan, selection, self._batches())

    def checksums(self, selection: Parts) -> Iterator[pa.RecordBatch]:
        for batch in self._batches():
            place = places(selection, batch.columns[: self.plan.keys], key_hashes(self.plan, batch))
            yield with_checksums(self.plan, batch, checksums(self.plan, batch)).filter(pa.array(place >= 0))

    def rows(self, selection: Selection) -> Iterator[pa.RecordBatch]:
        for batch in self._batches():
            place = places(selection, batch.columns[: self.plan.keys], key_hashes(self.plan, batch))
            found = batch.filter(pa.array(place >= 0))
            self.read += found.num_rows
            yield found

    def bounds(self, rows: int) -> Sequence[Key]:
        return sorted(row[: self.plan.keys] for row in self.rows_)[rows - 1 :: rows]

    def _batches(self) -> Iterator[pa.RecordBatch]:
        kinds = [arrow_type(pair.source.type) for pair in self.plan.pairs]
        for start in range(0, len(self.rows_), 700):
            some = self.rows_[start : start + 700]
            cells = [[row[at] for row in some] for at in range(len(kinds))]
            arrays = [pa.array(one, kind) for one, kind in zip(cells, kinds, strict=True)]
            arrays.append(pa.nulls(len(some), pa.string()))
            yield pa.RecordBatch.from_arrays(arrays, names=[str(at) for at in range(len(arrays))])


def shuffled(rows: Sequence[tuple[Any, ...]], seed: int) -> list[tuple[Any, ...]]:
    found = [*rows]
    Random(seed).shuffle(found)
    return found
