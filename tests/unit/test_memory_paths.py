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

from tests.simulator.wire import encoder
from tests.strategies import WIRES, Wire, changes_of, tables
from tests.workload import WorkloadConfig, dispatch, generate
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Message, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.sinks.memory.reading import read_logged
from ticdc_spark.spark.decode.control import ControlEvent, RowsRead
from ticdc_spark.spark.decode.envelopes import LandingPlan, partition_key, table_id_key
from ticdc_spark.spark.decode.log_schema import LOG_SCHEMA
from ticdc_spark.spark.decode.plain_landing import LoggedRow, land_by_arrow, land_messages
from ticdc_spark.spark.decode.rows import BAD, LOG_COLUMNS, OP, ORDER, SEQ, TS, BadRow, read_rows
from ticdc_spark.spark.decode.versions import ReadPlan
from ticdc_spark.spark.types import LakeOptions, lake_columns

CONFIG = WorkloadConfig(
    changes=300, ddl_every=20, partitions=2, restart_every=40, reorder=True, duplicates=0.1, topic_per_table=True
)
PLAIN = [wire for wire in WIRES if not wire.name.startswith(("avro", "debezium-avro"))]
READ = pa.schema([LOG_SCHEMA.field(name) for name in LOG_COLUMNS])


def plan_of(protocol: str, rand: Random, messages: Sequence[Message]) -> LandingPlan:
    """A plan by which some rows are replays, some late, and some new."""
    first = LandingPlan(protocol=protocol, generation=1, batch=1, buckets=8, table_replay_below={}, watermarks={})
    groups = [event for event in land_by_arrow(messages, first)[1] if isinstance(event, RowsRead)]
    stamps = sorted({ts for event in groups for ts in (event.summary.min_ts, event.summary.max_ts)})
    some = [event for event in groups if rand.random() < 0.6]
    return msgspec.structs.replace(
        first,
        table_replay_below={table_id_key(event.schema, event.table): rand.choice(stamps) for event in some},
        watermarks={partition_key(event.topic, event.partition): rand.choice(stamps) for event in groups},
        replay_below=rand.choice((0, 0, *stamps)),
        arrival=rand.random() < 0.3,
        verify_checksum=rand.random() < 0.3,
    )


def in_order(controls: Sequence[ControlEvent]) -> list[ControlEvent]:
    return sorted(controls, key=lambda event: (event.offset, event.topic, event.partition, event.seq, repr(event)))


@pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
@pytest.mark.parametrize("seed", range(4))
def test_messages_land_as_they_do_by_arrow(protocol: str, seed: int) -> None:
    rand = Random(seed)
    config = msgspec.structs.replace(CONFIG, seed=seed)
    messages = list(dispatch(generate(config), config, encoder(protocol, "UTC")))
    for at in rand.sample(range(len(messages)), 5):
        messages[at] = msgspec.structs.replace(messages[at], value=(messages[at].value or b"")[: rand.randrange(9)])
    plan = plan_of(protocol, rand, messages)
    for size in (1, 30, len(messages)):
        part = messages[: rand.randrange(size, len(messages) + 1)][-size:]
        rows, controls = land_messages(part, plan)
        by_arrow, reported = land_by_arrow(part, plan)
        assert rows == by_arrow
        assert in_order(controls) == in_order(reported)


class Count:
    """Counts as an accumulator does."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, number: Any, /) -> None:
        self.value += number


def by_arrow(plan: ReadPlan, rows: Sequence[LoggedRow]) -> tuple[list[Any], list[BadRow], int]:
    zeros = Count()
    found = [{name: getattr(row, name) for name in LOG_COLUMNS} for row in rows]
    batches = [pa.RecordBatch.from_pylist(found, schema=READ)]
    read = [row for part in read_rows(plan, zeros)(batches) for row in part.to_pylist()]
    names = (OP, TS, ORDER, SEQ)
    good = [
        (*(row[name] for name in names), tuple(row[column.name] for column in plan.columns))
        for row in read
        if row[BAD] is None
    ]
    return good, [msgspec.json.decode(row[BAD], type=BadRow) for row in read if row[BAD] is not None], zeros.value


def damaged(rand: Random, row: LoggedRow) -> LoggedRow:
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
    landing = LandingPlan(protocol=protocol, generation=1, batch=1, buckets=8, table_replay_below={}, watermarks={})
    rows, _ = land_messages(messages, landing)
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
    )
    read = read_logged(plan, rows)
    assert ([tuple(row) for row in read.typed], read.bad, read.zero_dates) == by_arrow(plan, rows)
    assert read_logged(plan, rows) == read  # from values that are remembered now
