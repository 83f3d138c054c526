"""Whole rows of tables in memory that come and go, as a table without a key has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tests.memory_sink.lake import LakeRow
from ticdc_spark.changes.columns import COUNT
from ticdc_spark.changes.typed import TypedChanges

Copies = Sequence[tuple[int, dict[str, Any]]]


def read_counts(changes: TypedChanges) -> Copies:
    """How many copies of each whole row come, or go. Raises: UnreadableRows"""
    found: list[tuple[int, dict[str, Any]]] = []

    def take(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found.extend((row.pop(COUNT), row) for row in batch.to_pylist())
        yield pa.record_batch([pa.array([b""])], ["taken"])

    changes.write(take)
    return found


def with_counts(rows: Iterable[LakeRow], copies: Copies, ids: Mapping[str, int]) -> tuple[LakeRow, ...]:
    """The rows of a table after changes. ``ids``: of the fields of the changes."""
    names = list(ids)
    goes = Counter({_image(row[name] for name in names): -number for number, row in copies if number < 0})
    kept: list[LakeRow] = []
    for row in rows:
        image = _image(row.get(ids[name]) for name in names)
        if goes[image] > 0:
            goes[image] -= 1
        else:
            kept.append(row)
    new = [{ids[name]: row[name] for name in names} for number, row in copies for _ in range(number)]
    return (*kept, *new)


def _image(values: Iterable[Any]) -> str:
    return repr(list(values))
