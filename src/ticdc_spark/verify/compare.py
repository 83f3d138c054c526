"""Finds the rows in which two sides differ: parts with different checksums are cut until they are small, then read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import msgspec
import pyarrow as pa

from ticdc_spark.verify.cells import Key, Keys, Range, Ranges, Selection, plain
from ticdc_spark.verify.columns import TablePlan
from ticdc_spark.verify.digests import Digest
from ticdc_spark.verify.sides import Side, Source
from ticdc_spark.verify.values import Equal, equality

LEAF = 2_000
"""Parts with at most this many rows are read row by row."""
CUTS = 16
"""A larger part is cut into about this many."""
Kind: TypeAlias = Literal["missing", "extra", "changed", "duplicate", "unreadable"]
"""missing: the target lacks the row. extra: only the target has it. duplicate: the target has its key more than once.
"""
Rows: TypeAlias = dict[Key, list[tuple[Any, ...]]]
"""Rows by their keys. A row's last value says why one of its values cannot be read."""


class Difference(msgspec.Struct, frozen=True):
    """A row in which the sides differ."""

    key: Key
    kind: Kind
    columns: tuple[int, ...] = ()
    """For a changed row: positions in ``TablePlan.pairs``."""
    source: tuple[Any, ...] | None = None
    target: tuple[Any, ...] | None = None
    """The values of the row; ``None``: it does not exist."""


def unequal(selection: Selection, one: Sequence[Digest], other: Sequence[Digest]) -> list[int]:
    """The positions of the parts that differ."""
    return [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]


def leaves(source: Source, target: Side, selection: Selection, sizes: Sequence[int]) -> Selection:
    """Cut differing parts until they are small or cannot be cut. ``sizes``: the approximate rows of each part."""
    if not isinstance(selection, Ranges):
        return selection
    found = list[Range]()
    waiting = [*zip(selection.of, sizes, strict=True)]
    while waiting:
        found += [one for one, rows in waiting if rows <= LEAF]
        cut = [part for one, rows in waiting if rows > LEAF for part in _cut(source, one, rows)]
        whole = [part for part, is_whole in cut if is_whole]
        found += whole
        parts = Ranges(tuple(part for part, is_whole in cut if not is_whole))
        if not parts.of:
            break
        one, other = source.digests(parts), target.digests(parts)
        waiting = [(parts.of[at], max(one[at].rows, other[at].rows)) for at in unequal(parts, one, other)]
    return Ranges(tuple(sorted(found, key=_order)))


def _cut(source: Source, of: Range, rows: int) -> Iterator[tuple[Range, bool]]:
    """Cut a range. Each part comes with whether it is the whole range: then only the target has the many rows."""
    bounds = source.bounds(of, max(LEAF, -(-rows // CUTS)))
    ends: list[Key | None] = [of.above, *bounds, of.upto]
    for above, upto in pairwise(ends):
        yield Range(above, upto), not bounds


def _order(of: Range) -> tuple[bool, Key]:
    return of.above is not None, of.above or ()


def differences(plan: TablePlan, source: Side, target: Side, selection: Selection) -> list[Difference]:
    """The rows of some parts that differ between the sides."""
    return compared(plan, rows_of(plan, source.rows(selection)), rows_of(plan, target.rows(selection)))


def looked_up(plan: TablePlan, side: Side, keys: Iterable[Key]) -> Rows:
    """Read single rows."""
    return rows_of(plan, side.rows(Keys(frozenset(keys))))


def rows_of(plan: TablePlan, batches: Iterable[pa.RecordBatch]) -> Rows:
    """Rows by their keys."""
    found: Rows = {}
    for batch in batches:
        columns = [plain(column) for column in batch.columns[: len(plan.pairs) + 1]]
        for row in zip(*columns, strict=True):
            found.setdefault(row[: plan.keys], []).append(row)
    return found


def compared(plan: TablePlan, source: Mapping[Key, Any], target: Mapping[Key, Any]) -> list[Difference]:
    """The differences between rows of both sides."""
    equal = [equality(pair, plan.protocol) for pair in plan.pairs]
    found = [_compared(equal, key, rows, target.get(key, [])) for key, rows in source.items()]
    found += [Difference(key, "extra", (), None, rows[0]) for key, rows in target.items() if key not in source]
    return [one for one in found if one is not None]


def _compared(
    equal: Sequence[Equal], key: Key, source: Sequence[tuple[Any, ...]], target: Sequence[tuple[Any, ...]]
) -> Difference | None:
    row = source[0]
    if not target:
        return Difference(key, "missing", (), row, None)
    if len(target) > 1:
        return Difference(key, "duplicate", (), row, target[0])
    other = target[0]
    columns = tuple(at for at, same in enumerate(equal) if not same(row[at], other[at]))
    if row[-1] is not None or other[-1] is not None:
        return Difference(key, "unreadable", columns, row, other)
    return Difference(key, "changed", columns, row, other) if columns else None
