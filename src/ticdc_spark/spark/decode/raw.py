"""Decoded row changes of one table: metadata in Arrow, and images as they arrived.

Images stay Python objects, since their readers need those: in Arrow each image would be copied twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.protocols.rows import Numbers

T = TypeVar("T")
Image: TypeAlias = bytes | None
RAW_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("seq", pa.int32()),
        ("op", pa.string()),
        ("schema_key", pa.string()),
        ("commit_ts", pa.int64()),
        ("partial", pa.bool_()),
        ("before", pa.binary()),
        ("after", pa.binary()),
        ("checksum", pa.int64()),
        ("corrupted", pa.bool_()),
        ("table_id", pa.int64()),
    ]
)
"""Row changes of one table with raw images. ``seq`` counts the events of one message. ``table_id`` is the physical
id, if requested."""
ABOUT = pa.schema([field for field in RAW_SCHEMA if field.name not in {"before", "after"}])
"""The columns that are in Arrow."""


class RawRows(NamedTuple):
    """Row changes of one table. All parts have the same length."""

    about: pa.RecordBatch
    """``ABOUT``."""
    before: Sequence[Image]
    """Bytes, or objects that ``bytes`` converts (``Rows``)."""
    after: Sequence[Image]

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self.about.num_rows)

    def filter(self, mask: pa.Array) -> RawRows:
        """The rows for which ``mask`` is true."""
        numbers = pc.indices_nonzero(mask).to_numpy().astype(np.int64)
        return self if len(numbers) == self.num_rows else self.take(numbers)

    def take(self, numbers: Numbers) -> RawRows:
        """The rows with these numbers."""
        listed = numbers.tolist()
        return RawRows(self.about.take(pa.array(numbers)), picked(self.before, listed), picked(self.after, listed))

    def to_arrow(self) -> pa.RecordBatch:
        """All columns as ``RAW_SCHEMA``."""
        images = {"before": self.before, "after": self.after}
        arrays = [
            pa.array([None if image is None else bytes(image) for image in images[field.name]], field.type)
            if field.name in images
            else self.about.column(field.name)
            for field in RAW_SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)


def together(parts: Sequence[RawRows]) -> RawRows:
    """Concatenate rows. There must be at least one part."""
    if len(parts) == 1:
        return parts[0]
    before, after = ([*chain.from_iterable(part[side] for part in parts)] for side in (1, 2))
    return RawRows(pa.concat_batches([part.about for part in parts]), before, after)


def picked(cells: Sequence[T], numbers: Sequence[int]) -> Sequence[T]:
    """The cells with these numbers. Faster than a comprehension."""
    return itemgetter(*numbers)(cells) if len(numbers) > 1 else [cells[at] for at in numbers]


def of_arrow(batch: pa.RecordBatch) -> RawRows:
    """Row changes from a batch that is all in Arrow."""
    before, after = (batch.column(name).to_pylist() for name in ("before", "after"))
    return RawRows(batch.drop_columns(["before", "after"]), before, after)


RawTask: TypeAlias = Callable[[Iterable[RawRows]], Iterator[pa.RecordBatch]]
"""A task over row changes."""
