"""The sink in memory reads messages and rows in plain Python: what comes out is what tasks over Arrow make of it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory_sink.raw import RawRow
from tests.memory_sink.reading import read_raw
from tests.support.strategies import WIRES, Wire, changes_of, tables
from ticdc_spark.changes.opening import Opener, Opening, of_messages, raw_rows
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Message, Table
from ticdc_spark.mysql import INTEGER_BITS, handle_key, is_text
from ticdc_spark.spark.decode.raw import RAW_SCHEMA, of_arrow
from ticdc_spark.spark.decode.rows import BAD, OP, ORDER, SEQ, TS, BadRow, read_rows
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.types import LakeOptions, lake_columns

PLAIN = [wire for wire in WIRES if not wire.name.startswith(("avro", "debezium-avro"))]


class Count:
    """Counts as an accumulator does."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, number: Any, /) -> None:
        self.value += number


def by_arrow(plan: ReadPlan, rows: Sequence[RawRow]) -> tuple[list[Any], list[BadRow], int]:
    zeros = Count()
    batches = [of_arrow(pa.RecordBatch.from_pylist([msgspec.structs.asdict(row) for row in rows], schema=RAW_SCHEMA))]
    read = [row for part in read_rows(plan, zeros)(batches) for row in part.to_pylist()]
    names = (OP, TS, ORDER, SEQ)
    good = [
        (*(row[name] for name in names), tuple(row[column.name] for column in plan.columns))
        for row in read
        if row[BAD] is None
    ]
    return good, [msgspec.json.decode(row[BAD], type=BadRow) for row in read if row[BAD] is not None], zeros.value


def raw_rows_of(messages: Sequence[Message], protocol: str) -> list[RawRow]:
    held = of_messages(messages)
    opened = Opener(Opening(protocol=protocol)).open(held)
    raw = raw_rows(held, opened, range(len(opened.rows)), verify=False)
    return [RawRow(**row) for row in raw.to_arrow().to_pylist()]


def damaged(rand: Random, row: RawRow) -> RawRow:
    """A row with an image that is another one, none, or no image at all."""
    other = rand.choice((row.before, b"{}", b"[", b'{"no": 1}', (row.after or b"")[:-3], None))
    if rand.random() < 0.5:
        return msgspec.structs.replace(row, before=other, op="update" if other and row.after else row.op)
    return msgspec.structs.replace(row, after=other, partial=rand.random() < 0.3)


@pytest.mark.parametrize("wire", PLAIN, ids=str)
@settings(max_examples=15)
@given(data=st.data(), table=tables(), seed=st.integers(0, 9999))
def test_rows_are_read_as_they_are_by_arrow(wire: Wire, data: st.DataObject, table: Table, seed: int) -> None:
    rand = Random(seed)
    protocol = wire.name.split(" in ")[0].split(",")[0]
    changes = [change for _ in range(3) for change in changes_of(table, data.draw(wire.rows(table, 3)), 7 << 18)]
    sent, _ = wire.send(changes)
    messages = [Message(topic="t", partition=0, offset=at, key=one.key, value=one.value) for at, one in enumerate(sent)]
    rows = raw_rows_of(messages, protocol)
    rows = [damaged(rand, row) if rand.random() < 0.2 else row for row in rows]
    rows = [row for row in rows if row.before is not None or row.after is not None]
    try:
        columns = lake_columns(table, handle_key(table)[: 1 + seed % 2], LakeOptions())
    except UsageError:
        return  # two names that the lake does not distinguish
    newer = msgspec.structs.replace(table, columns=table.columns[:1])
    plan = ReadPlan(
        protocol=protocol,
        tables={key: newer if rand.random() < 0.1 else table for key in {row.schema_key for row in rows}},
        columns=columns,
        options=wire.options,
        lake=LakeOptions(zero_dates=rand.choice(("null", "error"))),
        deleted_by=columns[-1].source if rand.random() < 0.3 else "",
        old_images="history" if rand.random() < 0.3 else "key",
    )
    first = table.columns[0].type  # of every version
    if rand.random() < 0.5 and (is_text(first) or first.name in INTEGER_BITS):
        plan = msgspec.structs.replace(plan, where=f"`{table.columns[0].name.replace('`', '``')}` > '5'")
    read = read_raw(plan, rows)
    assert ([tuple(row) for row in read.typed], read.bad, read.zero_dates) == by_arrow(plan, rows)
    assert read_raw(plan, rows) == read  # from values that are remembered now
