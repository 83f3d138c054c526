"""Finds the rows in which two sides differ: first by the checksum of each row, then by the values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from ticdc_spark.verify.cells import Key, Keys, Selection, keys_of, plain
from ticdc_spark.verify.columns import TablePlan
from ticdc_spark.verify.digests import Digest
from ticdc_spark.verify.sides import Side
from ticdc_spark.verify.values import Equal, equality

Kind: TypeAlias = Literal["missing", "extra", "changed", "duplicate", "unreadable"]
"""missing: the target lacks the row. extra: only the target has it. duplicate: the target has its key more than once.
"""


class Suspects(msgspec.Struct, frozen=True):
    """Keys of rows that may differ, as each side has them."""

    source: frozenset[Key] = frozenset()
    target: frozenset[Key] = frozenset()


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


def unequal(one: Sequence[Digest], other: Sequence[Digest]) -> list[int]:
    """The positions of the parts that differ."""
    return [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]


def find_suspects(
    plan: TablePlan, source: Sequence[pa.RecordBatch], target: Sequence[pa.RecordBatch], most: int
) -> Suspects | None:
    """The rows whose checksums the sides do not have equally often; ``None``: they are more than ``most``.

    ``source``, ``target``: from ``Side.checksums``.
    """
    sides = [[batch for batch in side if batch.num_rows] for side in (source, target)]
    sums = [batch.columns[-1].to_numpy() for side in sides for batch in side]
    if not sums:
        return Suspects()
    _, place = np.unique(np.concatenate(sums), return_inverse=True)
    rows = [sum(batch.num_rows for batch in side) for side in sides]
    differs = np.bincount(place, np.repeat([1, -1], rows))[place] != 0
    if differs.sum() > most:
        return None
    start, keys = 0, list[frozenset[Key]]()
    for side in sides:
        found = set[Key]()
        for batch in side:
            end = start + batch.num_rows
            found.update(keys_of(batch.filter(pa.array(differs[start:end])).columns[: plan.keys]))
            start = end
        keys.append(frozenset(found))
    return Suspects(*keys)


def single_differences(
    plan: TablePlan, source: Side, target: Side, rows: Suspects, *, live: bool
) -> list[Difference] | None:
    """The differences among some rows, read by their keys. ``live``: they may be gone meanwhile.

    ``None``: a side did not find a row by its key, for example since the key's value cannot be read.
    """
    keys = Keys(rows.source | rows.target)
    here, there = rows_of(plan, source.rows(keys)), rows_of(plan, target.rows(keys))
    if not live and not (rows.source <= here.keys() and rows.target <= there.keys()):
        return None
    return compared(plan, here, there)


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
