"""A table in a database: its SQL computes checksums, and rows are read by ranges of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from ticdc_spark.model import Column, ColumnType
from ticdc_spark.spark.types import LakeColumn, LakeType
from ticdc_spark.verify.cells import Buckets, Key, Keys, Parts, Range, Ranges, Selection, keys_of, places
from ticdc_spark.verify.columns import TablePlan
from ticdc_spark.verify.dialects import Dialect, among, in_range
from ticdc_spark.verify.digests import Digest, checksums, digests, from_hex, key_hashes, with_checksums

_KEYS = 200
"""Keys per query."""
_CHECKSUM = LakeColumn(
    source="checksum",
    name="checksum",
    type=LakeType("string", "string"),
    column=Column(name="checksum", type=ColumnType(name="char", length=16, charset="utf8mb4")),
)
_FULL = (1 << 64) - 1


class Sessions(Protocol):
    """Sessions of a server that read a fixed moment, or the current state. Each thread has its own."""

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a small result."""

    def batches(self, sql: str, columns: Sequence[LakeColumn]) -> Iterator[pa.RecordBatch]:
        """Rows in the types of columns, followed by a column with the reason why a value cannot be read."""


class Place(NamedTuple):
    """Where and how a table is read."""

    sessions: Sessions
    dialect: Dialect
    name: str
    """For SQL."""


class DatabaseTable:
    """See ``sides.Source``."""

    def __init__(
        self,
        plan: TablePlan,
        columns: Sequence[LakeColumn],
        place: Place,
        pool: Executor | None = None,
    ) -> None:
        """``columns``: of this side, in the order of ``plan.pairs``. ``pool``: reads several ranges concurrently."""
        self._plan, self._columns, self._map = plan, columns, map if pool is None else pool.map
        self._sessions, self._dialect, self._place = place
        self._names = [self._dialect.quoted(column.name) for column in columns[: plan.keys]]

    def digests(self, selection: Parts) -> list[Digest]:
        plan = self._plan
        if not plan.has_text_key:
            return digests(plan, selection, self._read("TRUE"))
        match selection:
            case Ranges(of=ranges):
                return [*self._map(self._of_range, ranges)]
            case Buckets():
                return self._of_buckets(selection)

    def checksums(self, selection: Parts) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        if plan.has_text_key:
            for batches in self._map(self._checksums, self._conditions(selection)):
                yield from batches
            return
        for batch in self.rows(selection):
            yield with_checksums(plan, batch, checksums(plan, batch))

    def rows(self, selection: Selection) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        for where in self._conditions(selection):
            for batch in self._read(where):
                key = [batch.column(at) for at in range(plan.keys)]
                # A collation equates different keys, and a table whose key has no SQL text is read completely.
                yield batch.filter(pa.array(places(selection, key, key_hashes(plan, batch)) >= 0))

    def bounds(self, rows: int) -> Sequence[Key]:
        found, above, key = list[Key](), None, self._columns[: self._plan.keys]
        chosen, order = ", ".join(map(self._dialect.select, key)), ", ".join(self._names)
        while True:
            where = in_range(self._names, Range(above, None), self._dialect.literal)
            sql = f"SELECT {chosen} FROM {self._place} WHERE {where} ORDER BY {order} LIMIT 1 OFFSET {rows - 1}"
            next_ = [one for batch in self._sessions.batches(sql, key) for one in keys_of(batch.columns[:-1])]
            if not next_:
                return found
            above = next_[0]
            found.append(above)

    def _conditions(self, selection: Selection) -> Iterator[str]:
        if not self._plan.has_text_key:
            yield "TRUE"
            return
        literal = self._dialect.literal
        match selection:
            case Ranges(of=ranges):
                yield from (in_range(self._names, one, literal) for one in ranges)
            case Buckets(count=count, of=numbers):
                bucket = self._dialect.bucket(self._key_text(), count)
                yield f"{bucket} IN ({', '.join(map(str, numbers))})"
            case Keys(of=keys):
                held = [key for key in keys if all(map(self._dialect.may_hold, self._columns, key))]
                for some in _some(held, _KEYS):
                    yield among(self._names, some, literal)

    def _of_range(self, of: Range) -> Digest:
        where = in_range(self._names, of, self._dialect.literal)
        sql = f"SELECT {self._dialect.digest(self._text(self._plan.pushed))} FROM {self._place} WHERE {where}"
        ((rows, pushed),) = self._sessions.fetch(sql)
        found = Digest(int(rows), int(pushed or 0) & _FULL)
        if not self._plan.rest:
            return found
        (rest,) = digests(self._plan, Ranges((of,)), self._read(where, rest=True), pushed=False)
        return _both(found, rest)

    def _of_buckets(self, selection: Buckets) -> list[Digest]:
        bucket, text = self._dialect.bucket(self._key_text(), selection.count), self._text(self._plan.pushed)
        # Grouped by position, since a column could have the same name.
        sql = f"SELECT {bucket}, {self._dialect.digest(text)} FROM {self._place} GROUP BY 1"
        by_number = {
            int(number): Digest(int(rows), int(sum_) & _FULL) for number, rows, sum_ in self._sessions.fetch(sql)
        }
        found = [by_number.get(number, Digest()) for number in selection.of]
        if not self._plan.rest:
            return found
        rest = digests(self._plan, selection, self._read("TRUE", rest=True), pushed=False)
        return [*map(_both, found, rest)]

    def _key_text(self) -> str:
        return self._text(range(self._plan.keys))

    def _text(self, of: Iterable[int]) -> str:
        forms = [(self._columns[at], self._plan.pairs[at].form) for at in of]
        return self._dialect.joined([self._dialect.text(column, form) for column, form in forms if form is not None])

    def _checksums(self, where: str) -> list[pa.RecordBatch]:
        plan, sum_ = self._plan, self._dialect.checksum(self._text(self._plan.pushed))
        wanted = [*range(plan.keys), *plan.rest]
        columns = [*(self._columns[at] for at in wanted), _CHECKSUM]
        chosen = ", ".join([*map(self._dialect.select, columns[:-1]), sum_])
        found = []
        for batch in self._sessions.batches(f"SELECT {chosen} FROM {self._place} WHERE {where}", columns):
            every = _widened(batch, wanted, len(self._columns))
            sums = checksums(plan, every, pushed=from_hex(batch.column(len(wanted))))
            found.append(with_checksums(plan, every, sums))
        return found

    def _read(self, where: str, *, rest: bool = False) -> Iterator[pa.RecordBatch]:
        """Rows. ``rest``: only the key and the columns without a server checksum; other columns are NULL."""
        wanted = [*range(self._plan.keys), *self._plan.rest] if rest else range(len(self._columns))
        chosen = ", ".join(self._dialect.select(self._columns[at]) for at in wanted)
        columns = [self._columns[at] for at in wanted]
        for batch in self._sessions.batches(f"SELECT {chosen} FROM {self._place} WHERE {where}", columns):
            yield _widened(batch, wanted, len(self._columns)) if rest else batch


def _widened(batch: pa.RecordBatch, wanted: Sequence[int], count: int) -> pa.RecordBatch:
    there = {place: batch.column(at) for at, place in enumerate(wanted)} | {count: batch.columns[-1]}
    nothing = pa.nulls(batch.num_rows)
    columns = [there.get(at, nothing) for at in range(count + 1)]
    return pa.RecordBatch.from_arrays(columns, names=[str(at) for at in range(count + 1)])


def _both(pushed: Digest, rest: Digest) -> Digest:
    """The digest of all columns. If the table changed between the two queries, it equals no other digest."""
    return Digest(pushed.rows, pushed.pushed, rest.rest if pushed.rows == rest.rows else -1)


def _some(of: Sequence[Any], count: int) -> Iterator[Sequence[Any]]:
    return (of[start : start + count] for start in range(0, len(of), count))


def to_batch(
    rows: Sequence[Sequence[Any]],
    columns: Sequence[LakeColumn],
    convert: Callable[[LakeColumn, list[Any]], tuple[pa.Array, dict[int, str]]],
) -> pa.RecordBatch:
    """Rows in the types of their columns, followed by a column with the reason why a value cannot be read."""
    reasons = np.full(len(rows), None, object)
    arrays = []
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        array, bad = convert(column, list(cells))
        arrays.append(array)
        for at, reason in bad.items():
            reasons[at] = f"column `{column.source}`: a masked value cannot be read" if column.mask else reason
    arrays.append(pa.array(reasons, pa.string()))
    return pa.RecordBatch.from_arrays(arrays, names=[str(at) for at in range(len(arrays))])
