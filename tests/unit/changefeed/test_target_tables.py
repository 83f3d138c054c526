"""Ids and versions of tables whose source gives none."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from tests.support.changefeed_tables import cadence
from ticdc_spark.capture.base import CapturedDdl, CaptureState, Transaction
from ticdc_spark.changefeed.actions import Cadence, Place, Routed, Save
from ticdc_spark.changefeed.outbox import Outbox
from ticdc_spark.changefeed.sequence import Sequencer
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Bootstrap, Envelope, Event, Message, RowChange, SchemaChange, Table
from ticdc_spark.protocols import decoder, protocol
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.streams.converter import Converter
from ticdc_spark.streams.reader import EventReader
from ticdc_spark.streams.target_tables import TargetTables

T, U = (parse_create(f"CREATE TABLE {name} (id INT PRIMARY KEY)", "d") for name in "tu")
WIDE = parse_create("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "d")


def insert(table: Table, ts: int, number: int) -> RowChange:
    row = {column.name: str(number) for column in table.columns}
    return RowChange(op="insert", table=table, commit_ts=ts, after=row)


class Topic:
    """Two partitions of one topic; what is sent is acknowledged at once."""

    def __init__(self) -> None:
        self.sent: dict[int, list[Event]] = {0: [], 1: []}
        self._decoder = decoder("simple")

    def topics(self, tables: Iterable[Table]) -> Iterable[str]:
        return ["topic"]

    def topic_of(self, table: Table) -> str | None:
        return "topic"

    def partitions(self, topic: str) -> int:
        return 2

    def receipt(self, ticket: int, messages: int, into: list[int]) -> None:
        into.append(ticket)

    def send(self, topic: str, partition: int, key: bytes | None, value: bytes | None, receipt: None) -> None:
        self.sent[partition] += self._decoder.open_message(key, value)


def check(events: Iterable[Event]) -> dict[str, set[int]]:
    """No row is before its schema or below its version; the ids of each table."""
    known: dict[tuple[str, str], Table] = {}
    ids: dict[str, set[int]] = {}
    for event in events:
        if isinstance(event, Bootstrap) or (isinstance(event, SchemaChange) and event.table is not None):
            known[event.table.name, str(event.table.version)] = event.table
        elif isinstance(event, Envelope):
            assert int(event.schema_key) <= event.commit_ts
            table = known[event.table, event.schema_key]
            assert event.table_id and event.table_id == table.table_id
            ids.setdefault(event.table, set()).add(event.table_id)
    return ids


def test_a_version_is_not_above_a_row_that_goes_to_another_partition() -> None:
    topic = Topic()
    outbox = Outbox("simple", lambda limit: target_encoder("simple", {}), lambda name: 1 << 20, topic)
    every = Cadence(bootstrap=cadence(interval=60.0, messages=1000))
    sequencer = Sequencer(CaptureState(position="", commit_ts=100), topic, every, 0.0)

    def offer(*rows: tuple[Place, RowChange]) -> None:
        changes = tuple(change for _, change in rows)
        captured = Transaction(commit_ts=changes[-1].commit_ts, changes=changes, position="")
        sequencer.offer(Routed(captured, rows=rows))

    def work() -> None:
        for _ in range(4):
            for action in sequencer.actions(0.0):
                if isinstance(action, Save):
                    sequencer.saved(action.state)
                else:
                    outbox.do(action)
            acknowledged, outbox.acknowledged[:] = [*outbox.acknowledged], []
            for ticket in acknowledged:
                sequencer.acknowledge(ticket)

    offer((("topic", 0), insert(U, 110, 1)))
    offer((("topic", 1), insert(T, 120, 1)))
    offer((("topic", 0), insert(T, 130, 2)))
    work()
    change = SchemaChange(
        commit_ts=140,
        query="ALTER TABLE t ADD v INT",
        kind="alter table",
        schema="d",
        name="t",
        table=WIDE,
        pre_table=T,
    )
    ddl = CapturedDdl(commit_ts=140, changes=(change,), position="")
    sequencer.offer(Routed(ddl, ddls=[("topic", change)]))
    work()
    offer((("topic", 0), insert(U, 150, 2)))
    offer((("topic", 1), insert(WIDE, 160, 3)))
    offer((("topic", 0), insert(WIDE, 170, 4)))
    work()
    found = [check(events) for events in topic.sent.values()]
    assert found[0]["t"] == found[1]["t"] != found[0]["u"]
    assert [sum(isinstance(one, Envelope) for one in events) for events in topic.sent.values()] == [4, 2]


def test_convert_gives_no_version_above_a_row() -> None:
    source, made = target_encoder("open", {}), target_encoder("simple", {})
    numbers = count()
    converter = Converter(EventReader(decoder("open")).tables_of, "simple", made)
    reader = EventReader(decoder("open"), ReadOptions())
    found: list[Message] = []
    for partition, table, ts in ((0, U, 110), (0, T, 130), (1, T, 120), (0, T, 140), (1, WIDE, 125), (0, T, 141)):
        (encoded,) = source.rows([insert(table, ts, 1)])
        message = Message(
            topic="x", partition=partition, offset=next(numbers), key=encoded.key, value=encoded.value, timestamp=0
        )
        for one in reader.read(message):
            found += [made for made in converter.convert(one) if isinstance(made, Message)]
    found += [made for made in converter.flush() if isinstance(made, Message)]
    opener = decoder("simple")
    ids = [
        check(event for one in found if one.partition == partition for event in opener.open_message(one.key, one.value))
        for partition in range(2)
    ]
    assert ids[0]["t"] == ids[1]["t"] != ids[0]["u"] and len(ids[0]["t"]) == 1


def test_what_a_source_gives_is_kept() -> None:
    tables = TargetTables(protocol("simple").traits)
    table = Table(schema="d", name="t", columns=T.columns, table_id=7, version=5)
    assert tables.table(table, 100) is table
    nameless = tables.table(T, 100)
    assert nameless.table_id is not None and 1 << 48 <= nameless.table_id < 1 << 53
    assert nameless.table_id == TargetTables(protocol("simple").traits).table(T, 200).table_id
    assert tables.table(T, 300) is nameless
