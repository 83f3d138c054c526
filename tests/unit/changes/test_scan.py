"""A scan without Spark: every event of every message is reported or counted, however the batches are cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.support.avro_examples import ROW, Registry, change
from tests.support.debezium_connect import change as change_of
from tests.support.debezium_connect import field
from tests.workload import WorkloadConfig, dispatch, generate
from ticdc_spark.changes.held import Held, HeldMessages, held_rows
from ticdc_spark.changes.opening import Opening, of_messages
from ticdc_spark.changes.ranges import RowRange, RowScan, stretches
from ticdc_spark.changes.scan import ScanPlan, read_events, scan, table_id_key
from ticdc_spark.changes.spark_topic import select
from ticdc_spark.ddl.known_names import Names
from ticdc_spark.model import Envelope, Message, Offsets, Watermark
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.avro import encode as avro
from ticdc_spark.protocols.base import Encoder
from ticdc_spark.protocols.open.encode import OpenConfig
from ticdc_spark.protocols.open.encode import encoder as open_encoder
from ticdc_spark.protocols.simple.encode import SimpleConfig
from ticdc_spark.protocols.simple.encode import encoder as simple_encoder
from ticdc_spark.replicate.report import tables_read
from ticdc_spark.spark.decode.control import OPS, ControlEvent, RowsRead, SchemaBlockRead, WatermarkRead
from ticdc_spark.topics.json_lines import to_table

ENCODERS: dict[str, Encoder] = {"simple": simple_encoder(SimpleConfig()), "open": open_encoder(OpenConfig())}
CONFIG = WorkloadConfig(changes=400, ddl_every=20, partitions=2, key_change_share=0.0)


def batch_of(messages: list[Message]) -> pa.RecordBatch:
    return to_table(messages).combine_chunks().to_batches()[0]


def scanned(plan: ScanPlan, batches: list[list[Message]]) -> list[ControlEvent]:
    found = [part.column("events").to_pylist() for part in scan(plan)(map(batch_of, batches))]
    return read_events(one for part in found for one in part)


def cut(messages: list[Message], size: int) -> list[list[Message]]:
    return [messages[at : at + size] for at in range(0, len(messages), size)]


def plan_of(protocol: str, **more: Any) -> ScanPlan:
    return ScanPlan(opening=Opening(protocol=protocol), **more)


def rows_of(events: list[ControlEvent]) -> list[RowsRead]:
    return [event for event in events if isinstance(event, RowsRead)]


@pytest.mark.parametrize("protocol", ENCODERS)
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("chunk", [1, 50, 16_384])
def test_every_event_is_reported_and_every_row_is_counted_where_it_is(
    protocol: str, size: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ticdc_spark.changes.scan.CHUNK", chunk)
    messages = list(dispatch(generate(CONFIG), CONFIG, ENCODERS[protocol]))
    opened = [
        (message, seq, event)
        for message in messages
        for seq, event in enumerate(decoder(protocol).open_message(message.key, message.value))
    ]
    events = scanned(plan_of(protocol), cut(messages, size))
    kinds = {"DdlRead": "SchemaChange", "WatermarkRead": "Watermark", "BootstrapRead": "Bootstrap"}
    others = [event for event in events if not isinstance(event, RowsRead)]
    assert Counter((one.partition, one.offset, one.seq, kinds[type(one).__name__]) for one in others) == Counter(
        (message.partition, message.offset, seq, type(event).__name__)
        for message, seq, event in opened
        if not isinstance(event, Envelope)
    )
    counted: Counter[tuple[int, str]] = Counter()
    for one in rows_of(events):
        counts = one.summary
        counted[one.partition, one.table] += counts.rows
        mine = [
            event
            for message, _, event in opened
            if isinstance(event, Envelope)
            and (message.partition, event.schema, event.table, event.schema_key)
            == (one.partition, *one.sent, one.schema_key)
            and counts.first <= message.offset < counts.end
        ]
        assert len(mine) == counts.rows and (counts.min_ts, counts.max_ts) == (
            min(event.commit_ts for event in mine),
            max(event.commit_ts for event in mine),
        )
    assert counted == Counter(
        (message.partition, event.table) for message, _, event in opened if isinstance(event, Envelope)
    )


@pytest.mark.parametrize("protocol", ENCODERS)
@pytest.mark.parametrize("size", [7, 1000])
def test_messages_and_operations_are_counted_whether_rows_are_new_or_come_again(protocol: str, size: int) -> None:
    messages = list(dispatch(generate(CONFIG), CONFIG, ENCODERS[protocol]))
    of, sizes, ops = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[tuple[str, str, str]]()
    for message in messages:
        events = decoder(protocol).open_message(message.key, message.value)
        rows = [(event.schema, event.table, event.op) for event in events if isinstance(event, Envelope)]
        ops.update(rows)
        for table in {row[:2] for row in rows}:
            of[table] += 1
            sizes[table] += len(message.key or b"") + len(message.value or b"")
    replays = {table_id_key(*table): max(ts_of(messages, protocol)) for table in list(of)[:1]}
    read = tables_read(scanned(plan_of(protocol, table_replay_below=replays), cut(messages, size)))
    assert {table: one.messages for table, one in read.items()} == of
    found = {(*table, op): rows for table, one in read.items() for op, rows in zip(OPS, one.rows, strict=True) if rows}
    assert found == ops and len({op for *_, op in ops}) == 3
    assert sum(of.values()) < sum(ops.values()) or protocol == "simple", "messages of Open have several rows"
    for table, one in read.items():
        assert one.bytes == pytest.approx(sizes[table], rel=0.1)


def ts_of(messages: list[Message], protocol: str) -> list[int]:
    """The commit_ts of all rows."""
    opened = (event for one in messages for event in decoder(protocol).open_message(one.key, one.value))
    return [event.commit_ts for event in opened if isinstance(event, Envelope)]


@pytest.mark.parametrize("protocol", ENCODERS)
def test_a_scan_is_read_back_row_by_row(protocol: str) -> None:
    messages = list(dispatch(generate(CONFIG), CONFIG, ENCODERS[protocol]))
    summaries = rows_of(scanned(plan_of(protocol), cut(messages, 100)))
    opening = Opening(protocol=protocol)
    held = HeldMessages()
    for part in cut(messages, 90):
        start: Offsets = {}
        for one in part:
            start.setdefault((one.topic, one.partition), one.offset)
        held.add(Held(start, {(one.topic, one.partition): one.offset + 1 for one in part}, of_messages(part)))
    for table in {(one.schema, one.table) for one in summaries}:
        mine = [one for one in summaries if (one.schema, one.table) == table]
        ranges = tuple(RowRange(m.topic, m.partition, m.summary.first, m.summary.end, m.sent) for m in mine)
        stamps = sorted(
            event.commit_ts
            for message in messages
            for event in decoder(protocol).open_message(message.key, message.value)
            if isinstance(event, Envelope) and (event.schema, event.table) == table
        )
        above, upto = stamps[len(stamps) // 3], stamps[len(stamps) // 2]
        wanted = RowScan(table=table, ranges=ranges, above=above, upto=upto)
        covering = held.covering(stretches(ranges))
        assert covering is not None
        found = [
            ts for batch in held_rows(covering, wanted, opening) for ts in batch.about.column("commit_ts").to_pylist()
        ]
        assert sorted(found) == [ts for ts in stamps if above < ts <= upto]
        read = select(opening, wanted)(map(batch_of, cut(messages, 70)))
        by_task = [ts.as_py() for batch in read for ts in batch.about.column("commit_ts")]
        assert sorted(by_task) == sorted(found)


@pytest.mark.parametrize("arrival", [True, False])
def test_rows_without_commit_ts_are_counted(arrival: bool) -> None:
    ids = Registry()
    to = avro.encoder(avro.AvroConfig(enable_tidb_extension=True, time_zone="UTC"), ids)
    sent = list(to.rows([change("insert", ROW), change("delete", ROW)]))
    plan = ScanPlan(opening=Opening(protocol="avro", schemas=dict(ids.schemas)), has_watermarks=not arrival)
    for messages, hidden in ((sent, True), (sent[:1], False)):
        places = [Message(topic="t", partition=0, offset=at, key=m.key, value=m.value) for at, m in enumerate(messages)]
        reported = [event.summary for event in rows_of(scanned(plan, [places]))]
        assert any(summary.hidden for summary in reported) == hidden
        assert sum(summary.rows for summary in reported) == (len(messages) if arrival else 1)


def test_each_schema_block_is_returned_once_with_its_first_row() -> None:
    first, second = field("id", "int32"), field("name", "string")
    about = {"topic": "t", "partition": 0, "key": None}
    values = [
        change_of("c", None, {"id": 1}, [first]),
        change_of("c", None, {"id": 2}, [first]),
        change_of("c", None, {"id": 3, "name": "x"}, [first, second]),
        change_of("c", None, {"id": 4}, [field("id", "map")]),  # not understood
        change_of("c", None, {"id": 5}, []),
    ]
    plan = ScanPlan(opening=Opening(protocol="debezium", block_keys=True))
    messages = [Message(offset=at, value=value, **about) for at, value in enumerate(values)]  # type: ignore[arg-type]
    for size in (1, 2, 5):
        events = scanned(plan, cut(messages, size))
        blocks = [event for event in events if isinstance(event, SchemaBlockRead)]
        assert [[column.name for column in block.held.columns] for block in blocks] == [["id"], ["id", "name"]]
        assert [(block.schema, block.table) for block in blocks] == [("inventory", "items")] * 2
        keys = {event.schema_key: event.summary.rows for event in rows_of(events)}
        assert keys[blocks[0].schema_key] == 2 and keys[blocks[1].schema_key] == 1
        assert keys[""] == 1 and len(keys) == 4
    events = scanned(ScanPlan(opening=Opening(protocol="debezium")), [messages])
    assert [(type(event), event.schema_key) for event in rows_of(events)] == [(RowsRead, "")] and len(events) == 1


@pytest.mark.parametrize("exact", [False, True])
def test_rows_count_under_the_name_by_which_their_table_is_known(exact: bool) -> None:
    message = Message(
        topic="t",
        partition=0,
        offset=0,
        key=None,
        value=change_of("c", None, {"id": 1}, [field("id", "int32")]),
    )
    plan = ScanPlan(
        opening=Opening(protocol="debezium", block_keys=True),
        table_replay_below={table_id_key("Inventory", "Items"): 1 << 62},
        names=Names(tables=(("Inventory", "Items"),), exact=exact),
    )
    name = ("inventory", "items") if exact else ("Inventory", "Items")
    events = scanned(plan, [[message]])
    (rows,) = rows_of(events)
    assert (rows.schema, rows.table) == name and rows.sent == ("inventory", "items")
    assert (rows.summary.rows, rows.summary.late) == ((1, 0) if exact else (0, 1))
    assert [(one.schema, one.table) for one in events if isinstance(one, SchemaBlockRead)] == [name]
    (unknown,) = rows_of(scanned(msgspec.structs.replace(plan, names=Names()), [[message]]))
    assert (unknown.schema, unknown.table) == ("inventory", "items")


def test_as_many_rows_as_messages_hide_no_watermark() -> None:
    messages = list(dispatch(generate(CONFIG), CONFIG, ENCODERS["open"]))
    opened = {id(message): decoder("open").open_message(message.key, message.value) for message in messages}
    two_rows = next(m for m in messages if len(opened[id(m)]) == 2 and isinstance(opened[id(m)][0], Envelope))
    watermark = next(m for m in messages if isinstance(opened[id(m)][0], Watermark))
    events = scanned(plan_of("open"), [[two_rows, watermark]])
    assert sum(event.summary.rows for event in rows_of(events)) == 2
    assert [event for event in events if isinstance(event, WatermarkRead)]
