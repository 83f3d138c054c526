"""Which rows of a topic were sent again, by their places."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pytest

from tests.memory_sink.raw import RawInMemory, RawRow
from ticdc_spark.changes.tries import Tries, find_tries, numbered_tries
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.protocols.simple.avro.rows import row_writer
from ticdc_spark.spark.decode.raw import RawRows
from ticdc_spark.spark.decode.rows import TRY

Sent = Sequence[tuple[int, int, str]]
"""Offset, commit_ts and content of rows."""


def raw(sent: Sent, partition: int = 0) -> list[RawRow]:
    return [
        RawRow(
            topic="t",
            partition=partition,
            offset=offset,
            seq=at,
            op="watermark" if content == "w" else "insert",
            schema_key="",
            commit_ts=ts,
            partial=False,
            before=None,
            after=content.encode(),
            checksum=None,
            corrupted=None,
        )
        for at, (offset, ts, content) in enumerate(sent)
    ]


def tries(*rows: RawRow) -> Tries:
    return find_tries(RawInMemory(lambda: list(rows)), "simple")


def each(text: str) -> Sent:
    """A row a message; a letter is the content, and the digit behind it the commit_ts. ``w`` is a watermark."""
    return [(at, int(word[1:]), word[0]) for at, word in enumerate(text.split())]


@pytest.mark.parametrize(
    ("sent", "begins", "doubted"),
    [
        ("a1 b2 b3", [0], []),
        ("a1 b2 a1 b2", [0, 2], []),
        ("a1 b2 b2 a1 b2 c3 b2 c3", [0, 3, 6], [2]),
        ("a1 a1", [0], [1]),
        ("a1 b1 a1 b1", [0], [1]),
        ("a1 b1 a1 b1 c1", [0], [1]),
        ("a1 b1 a1", [0], []),
        ("a1 b1 b1", [0], [1]),
        ("a1 b1 c1 d1 b1 c1 d1 e1", [0], [1]),
        ("a1 b1 c1 b1 d1 a1 c1", [0], []),
        ("a1 b1 c2 b1 c2 d2", [0, 3], []),
        ("a1 b1 c1 a1 b1 d1", [0], []),
        ("a1 b2 b2 a1", [0, 3], [2]),
        ("a1 b1 w1 a1 b1", [0], [1]),
        ("a1 b1 w2 a1 b1", [0, 3], []),
        ("a1 b1 w2 a1", [0, 3], []),
        ("a1 w1 b1 w2 w1 a1 w1 b1 w2", [0, 5], []),
        ("w9 a1 a1", [0], [1]),
    ],
)
def test_a_try_begins_where_the_commit_ts_falls(sent: str, begins: list[int], doubted: list[int]) -> None:
    found = tries(*raw(each(sent)))
    assert found == Tries(tuple(("t", 0, offset) for offset in begins), tuple(doubted))


def test_a_copy_that_begins_inside_a_message_is_no_restart() -> None:
    assert tries(*raw([(7, 1, "a"), (7, 1, "a"), (8, 1, "b")])).doubted == ()
    assert tries(*raw([(7, 1, "a"), (7, 1, "b"), (8, 1, "a"), (8, 1, "b")])).doubted == (1,)


def test_a_row_whose_cells_come_in_another_order_is_the_same_row() -> None:
    columns = (Column(name="v", type=ColumnType(name="int")), Column(name="w", type=ColumnType(name="json")))
    orders = (columns, columns[::-1])
    row = {"v": "1", "w": '{"a": 1}'}
    images = [row_writer(Table(schema="s", name="t", columns=one, indexes=()), "UTC")(row) for one in orders]
    sent = [
        msgspec.structs.replace(one, after=bytes(image)) for one, image in zip(raw(each("a1 a1")), images, strict=True)
    ]
    assert sent[0].after != sent[1].after
    assert tries(*sent).doubted == (1,)


def test_each_partition_has_tries_of_its_own_in_whatever_order_rows_are_read() -> None:
    rows = [*raw(each("a1 b2 a1"), 1), *raw(each("a5 b4"))]
    found = tries(*reversed(rows))
    assert found.begins == (("t", 0, 0), ("t", 0, 1), ("t", 1, 0), ("t", 1, 2))
    assert found.partitions == (0, 0, 1, 1)
    batch = pa.RecordBatch.from_pydict(
        {"topic": ["t"] * 5, "partition": [1, 1, 0, 0, 2], "offset": [1, 2, 1, 0, 0]},
        schema=pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]),
    )
    (numbered,) = numbered_tries(found.begins)([RawRows(batch, [None] * 5, [None] * 5)])
    assert numbered.about.column(TRY).to_pylist() == [2, 3, 1, 0, -1]


def test_no_rows_have_no_tries() -> None:
    assert tries() == Tries()
