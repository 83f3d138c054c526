"""Counts and checksums of rows, in the same way as servers compute them, independent of the order. Pure.

The checksum of a row is the first 8 bytes of the SHA-256 of its values' texts. MD5 would be faster, but MySQL 9.6 and
servers in FIPS mode lack it. The checksum of many rows is the exclusive or of their checksums. Rows of a table differ
in their keys, so if the counts are equal, no two rows cancel each other out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.verify.cells import Places, Selection, places, size
from ticdc_spark.verify.columns import Form, TablePlan

Hashes = npt.NDArray[np.uint64]
ALGORITHM = "sha256"
"""Checksums of a report that another algorithm computed are not compared."""
NULL = "N,"
"""Means NULL. No value has this text: a value begins with a digit, - or x, and a comma follows it."""
_MOST_DIGITS = 6
"""Up to this many decimals, Arrow writes a decimal without an exponent."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that no two checksums of one part of a row become equal."""
PLAIN = "^[-0-9:.]+$"
"""Matches a number or a time of day that a target stores as text."""


class Digest(msgspec.Struct, frozen=True, array_like=True):
    """The digest of some rows. If two digests are equal, so are the rows."""

    rows: int = 0
    pushed: int = 0
    """The checksum of the columns that servers can write as text."""
    rest: int = 0
    """The checksum of the other columns, each row with its key."""

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.rows + other.rows, self.pushed ^ other.pushed, self.rest ^ other.rest)


def digests(
    plan: TablePlan, selection: Selection, batches: Iterable[pa.RecordBatch], *, pushed: bool = True
) -> list[Digest]:
    """The digest of each part of a selection. ``pushed``: include the columns that a server could also write.

    Batches have the columns of ``plan.pairs``, in their order, and may have more.
    """
    found = [Digest()] * size(selection)
    for batch in batches:
        key = [batch.column(at) for at in range(plan.keys)]
        place = places(selection, key, key_hashes(plan, batch))
        one = row_hashes(plan, batch, plan.pushed if pushed else ())
        other = row_hashes(plan, batch, (*range(plan.keys), *plan.rest) if plan.rest else ())
        for at, digest in _summed(place, one, other):
            found[at] += digest
    return found


def checksums(plan: TablePlan, batch: pa.RecordBatch, pushed: Hashes | None = None) -> Hashes:
    """The checksum of each row, of all its columns. ``pushed``: a server's, of the columns that it writes."""
    one = row_hashes(plan, batch, plan.pushed) if pushed is None else pushed
    if not plan.rest:
        return one
    other = row_hashes(plan, batch, (*range(plan.keys), *plan.rest))
    mixed: Hashes = one * _MIX + other
    return mixed


def with_checksums(plan: TablePlan, batch: pa.RecordBatch, found: Hashes) -> pa.RecordBatch:
    """The key of each row, and its checksum as the last column."""
    columns = [*batch.columns[: plan.keys], pa.array(found, pa.uint64())]
    return pa.RecordBatch.from_arrays(columns, names=[str(at) for at in range(len(columns))])


def from_hex(texts: pa.Array) -> Hashes:
    """Checksums that a server wrote, each as 16 hexadecimal digits."""
    return np.frombuffer(bytes.fromhex("".join(texts.to_pylist())), ">u8").astype(np.uint64)


def key_hashes(plan: TablePlan, batch: pa.RecordBatch) -> Hashes | None:
    """Hashes of keys, if the plan uses buckets."""
    return None if plan.has_ranges else row_hashes(plan, batch, range(plan.keys))


def row_hashes(plan: TablePlan, batch: pa.RecordBatch, of: Sequence[int]) -> Hashes:
    """The checksum of some columns in each row; 0 without columns."""
    if not of or not batch.num_rows:
        return np.zeros(batch.num_rows, np.uint64)
    parts = [written(batch.column(at), plan.pairs[at].form) for at in of]
    texts = pc.binary_join_element_wise(*parts, "").cast(pa.binary()).to_pylist()
    return np.frombuffer(b"".join([sha256(text).digest()[:8] for text in texts]), ">u8").astype(np.uint64)


def written(column: pa.Array, form: Form | None) -> pa.Array:
    """The text of each value for a row's text."""
    text = _text(column, form)
    if text.type != pa.string():
        text = text.cast(pa.string())
    return pc.fill_null(pc.binary_join_element_wise(text, ",", ""), NULL)


def _text(column: pa.Array, form: Form | None) -> pa.Array:
    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8())
    if pa.types.is_decimal(kind) and kind.scale > _MOST_DIGITS:
        return pa.array([None if one is None else f"{one:f}" for one in column.to_pylist()], pa.string())
    if pa.types.is_timestamp(kind):
        return _moments(column)
    if pa.types.is_binary(kind):
        return pa.array([None if one is None else one.hex() for one in column.to_pylist()], pa.string())
    if pa.types.is_string(kind):
        if form in ("decimal", "time"):
            plain = pc.match_substring_regex(column, PLAIN)
            return pc.if_else(plain, column, pc.binary_join_element_wise("!", column, ""))
        return pc.binary_join_element_wise(pc.binary_length(column).cast(pa.string()), ":", column, "")
    if pa.types.is_floating(kind):
        return pc.add(column, pa.scalar(0.0, kind)).cast(pa.string())  # turns -0.0 into 0.0
    if pa.types.is_list(kind):
        return pa.array([None if one is None else repr(one) for one in column.to_pylist()], pa.string())
    return column.cast(pa.string())


def _moments(column: pa.Array) -> pa.Array:
    numbers = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    moments = np.asarray(pc.fill_null(numbers, 0)).astype("datetime64[us]")
    return pa.array(np.datetime_as_string(moments, unit="us"), pa.string(), mask=np.asarray(column.is_null()))


def _summed(place: Places, pushed: Hashes, rest: Hashes) -> Iterable[tuple[int, Digest]]:
    """The digest of each part that has rows."""
    order = np.argsort(place, kind="stable")
    sorted_ = place[order]
    first = int(np.searchsorted(sorted_, 0))
    if first == len(sorted_):
        return
    order, sorted_ = order[first:], sorted_[first:]
    starts = np.flatnonzero(np.r_[True, sorted_[1:] != sorted_[:-1]])
    counts = np.diff(np.r_[starts, len(sorted_)])
    one = np.bitwise_xor.reduceat(pushed[order], starts)
    other = np.bitwise_xor.reduceat(rest[order], starts)
    for at, count, left, right in zip(sorted_[starts], counts, one, other, strict=True):
        yield int(at), Digest(int(count), int(left), int(right))
