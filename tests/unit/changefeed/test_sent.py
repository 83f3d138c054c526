"""What a process counts of what it sends."""

from __future__ import annotations

from tests.unit.changefeed.test_target_tables import T, U, insert
from ticdc_spark.changefeed.actions import SendDdl, SendRows, SendWatermark
from ticdc_spark.changefeed.outbox import Outbox
from ticdc_spark.changefeed.sent import SentCounts, TableRows
from ticdc_spark.model import RowChange, SchemaChange
from ticdc_spark.protocols.encoder_options import target_encoder

PLACES = (("topic", 0), ("topic", 1))


class Sink:
    """Takes messages."""

    def __init__(self) -> None:
        self.bytes = 0

    def receipt(self, ticket: int, messages: int, into: list[int]) -> None:
        into.append(ticket)

    def send(self, topic: str, partition: int, key: bytes | None, value: bytes | None, receipt: None) -> None:
        self.bytes += len(key or b"") + len(value or b"")


def test_an_outbox_counts_rows_by_table_and_operation_bytes_and_ddl() -> None:
    sink, counts = Sink(), SentCounts()
    for _ in range(2):  # the counts remain when a producer is replaced
        outbox = Outbox(
            "open-protocol",
            lambda limit: target_encoder("open-protocol", {}),
            lambda name: 1 << 20,
            sink,
            counts=counts,
        )
        gone = RowChange(op="delete", table=T, commit_ts=12, before={"id": "1"})
        rows = (insert(T, 10, 1), insert(U, 11, 1), insert(T, 11, 2), gone)
        outbox.do(SendRows(1, PLACES[0], rows))
        sql = "ALTER TABLE t ADD v INT"
        ddl = SchemaChange(commit_ts=13, query=sql, kind="alter table", schema="d", name="t", table=T, pre_table=T)
        outbox.do(SendDdl(2, PLACES, ddl))
        outbox.do(SendWatermark(3, PLACES, 14))
    assert {*counts.rows} == {
        TableRows("d", "t", "insert", 4),
        TableRows("d", "t", "delete", 2),
        TableRows("d", "u", "insert", 2),
    }
    assert (counts.bytes, counts.ddls) == (sink.bytes, 2)


def test_a_ddl_that_a_protocol_does_not_have_is_not_counted() -> None:
    outbox = Outbox("avro", lambda limit: target_encoder("debezium", {}), lambda name: 1 << 20, Sink())
    outbox._ddl = lambda action: None  # type: ignore[method-assign]
    change = SchemaChange(commit_ts=13, query="ALTER TABLE t ADD v INT", kind="alter table", schema="d", name="t")
    outbox.do(SendDdl(2, PLACES, change))
    assert (outbox.counts.ddls, outbox.acknowledged) == (0, [2])
