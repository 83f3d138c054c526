"""Counts of whole rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ticdc_spark.changes.columns import COUNT
from ticdc_spark.changes.counted import copies, counts
from ticdc_spark.spark.decode.rows import BAD, OP, ORDER, SEQ, TS

BEGINS = (("t", 0, 0), ("t", 0, 9), ("t", 1, 0))


def counted(*rows: tuple[Any, ...], kinds: tuple[pa.DataType, ...] = (pa.int32(), pa.string())) -> list[Any]:
    """``rows``: op, commit_ts, number of the try, and cells. Returns: the counts, and the cells."""
    names = [f"c{at}" for at in range(len(kinds))]
    fields = [(OP, pa.string()), (TS, pa.int64()), (ORDER, pa.int64()), (SEQ, pa.int32()), (BAD, pa.string())]
    schema = pa.schema([*fields, *zip(names, kinds, strict=True)])
    given = [dict(zip([OP, TS, ORDER, *names], row, strict=True)) | {SEQ: 0} for row in rows]
    batches = [pa.RecordBatch.from_pylist([row], schema=schema) for row in given]
    found = [row for batch in counts(names, BEGINS)(batches) for row in batch.to_pylist()]
    return sorted(((row[COUNT], *(row[name] for name in names)) for row in found), key=repr)


def test_inserts_are_copies_more_and_deletes_copies_less() -> None:
    rows = [("i", 1, 0, 1, "a"), ("i", 1, 0, 1, "a"), ("d", 2, 0, 1, None), ("u", 3, 0, None, "a"), ("d", 3, 0, 1, "a")]
    assert counted(*rows) == [(-1, 1, None), (1, 1, "a"), (1, None, "a")]
    assert counted(("i", 1, 0, 1, "a"), ("d", 2, 0, 1, "a")) == []
    assert counted() == []


def test_a_transaction_counts_as_in_the_try_that_has_it_most() -> None:
    cut, whole = ("i", 5, 0, 1, "a"), ("i", 5, 1, 1, "a")
    assert counted(cut, whole, whole) == [(2, 1, "a")]
    assert counted(cut, cut, whole) == [(2, 1, "a")]
    assert counted(cut, whole, ("i", 6, 1, 1, "a")) == [(2, 1, "a")], "another transaction adds up"
    assert counted(cut, whole, ("d", 5, 1, 1, "a")) == [], "and so does a delete"


def test_the_counts_of_partitions_add_up() -> None:
    assert counted(("i", 5, 0, 1, "a"), ("i", 5, 1, 1, "a"), ("i", 5, 2, 1, "a")) == [(2, 1, "a")]


def test_lists_are_compared_too() -> None:
    kinds = (pa.list_(pa.float32()),)
    assert counted(("i", 1, 0, [1.5]), ("i", 1, 0, [1.5]), ("d", 1, 0, None), kinds=kinds) == [(-1, None), (2, [1.5])]


def test_a_row_that_comes_is_copied_as_often_as_it_counts() -> None:
    batch = pa.RecordBatch.from_pydict({COUNT: [2, -3, 1], "c": ["a", "b", "c"]})
    assert [row["c"] for one in copies([batch]) for row in one.to_pylist()] == ["a", "a", "b", "c"]
