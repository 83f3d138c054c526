"""Simple in Avro: by its document's types, by bad input, by any table, row or bytes; and beside JSON."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simple_examples import BUILD_TS, INSERT, ROW, TABLES, USER, change, one_column, opened, read, reason
from tests.unit.protocols.simple.test_simple_properties import tables_and_rows
from ticdc_spark import mysql
from ticdc_spark.errors import MessageError
from ticdc_spark.model import (
    Bootstrap,
    Checksum,
    Envelope,
    Rejected,
    RowChange,
    SchemaChange,
    Table,
    Value,
    Watermark,
)
from ticdc_spark.protocols.base import ReadOptions, decode
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.wire.avro_binary import write_long, write_text
from ticdc_spark.wire.compression import Compression

TO = encoder(SimpleConfig(encoding_format="avro", build_ts=lambda: BUILD_TS))
SQL = "ALTER TABLE `user` ADD COLUMN `createTime` TIMESTAMP"
DDL = SchemaChange(
    commit_ts=447987408682614795, query=SQL, kind="ALTER", schema="simple", name="user", table=USER, pre_table=USER
)
VALUE = [
    *("null", "long", "float", "double", "string", "bytes"),
    {
        "type": "record",
        "name": "Timestamp",
        "fields": [{"name": "location", "type": "string"}, {"name": "value", "type": "string"}],
    },
    {"type": "record", "name": "UnsignedBigint", "fields": [{"name": "value", "type": "long"}]},
]
MAP = fastavro.parse_schema(
    {"type": "record", "name": "Image", "fields": [{"name": "row", "type": ["null", {"type": "map", "values": VALUE}]}]}
)


def image(row: dict[str, Any]) -> bytes:
    """An image as another writer makes it; a (name, value) pair names the branch."""
    to = BytesIO()
    fastavro.schemaless_writer(to, MAP, {"row": row})
    return to.getvalue()


def value_of(column_type: str, sent: Any, **options: Any) -> Value:
    columns = read([image({"c": sent})], one_column(mysql.parse_type(column_type)), **options)
    assert columns.bad == {}
    found: Value = columns.values[0][0]
    return found


def test_messages_of_every_type_both_ways() -> None:
    better = {**ROW, "score": "95"}
    rows = [change("insert", 5, None, ROW), change("update", 6, ROW, better), change("delete", 7, better)]
    for row, sent in zip(rows, TO.rows(rows), strict=True):
        assert (sent.key, sent.rows) == (None, 1)
        assert sent.value is not None and sent.value[:3] == b"\x16\6\6"
        assert decode(DECODER, None, sent.value, TABLES) == [row]
    for encoded, event in (
        (TO.watermark(447984124732375041), Watermark(447984124732375041)),
        (TO.bootstrap(USER), Bootstrap(USER)),
        (TO.ddl(DDL), DDL),
    ):
        assert encoded is not None and encoded.value is not None
        assert (encoded.key, encoded.rows) == (None, 0)
        assert opened(encoded.value) == event


@pytest.mark.parametrize(
    ("column_type", "sent", "expected"),
    [
        ("tinyint", -128, "-128"),
        ("int unsigned", 4294967295, "4294967295"),
        ("bigint", -(2**63), "-9223372036854775808"),
        ("bigint unsigned", 2**63 - 1, "9223372036854775807"),
        ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
        ("bigint unsigned", ("UnsignedBigint", {"value": -1}), "18446744073709551615"),
        ("bigint unsigned", ("UnsignedBigint", {"value": 7}), "7"),
        ("bit(64)", -1, "18446744073709551615"),
        ("bit(9)", "390", "390"),
        ("set('a','b')", 3, "3"),
        ("enum('a','b')", 0, "0"),
        ("year", 2024, "2024"),
        ("float", ("float", 0.10000000149011612), "0.1"),
        ("double", ("double", 1e308), "1e308"),
        ("decimal(10,2)", "1.50", "1.50"),
        ("varchar(9)", "x", "x"),
        ("varbinary(9)", b"\x00\xff", b"\x00\xff"),
        ("date", "0000-00-00", "0000-00-00"),
        ("json", '{"a": 1}', '{"a": 1}'),
        ("timestamp(3)", ("Timestamp", {"location": "Asia/Shanghai", "value": "2024-01-02 03:04:05.678"}), None),
    ],
)
def test_the_documents_types_and_those_that_are_sent(column_type: str, sent: Any, expected: Value) -> None:
    assert value_of(column_type, sent) == (expected or "2024-01-01 19:04:05.678")


def test_a_timestamp_as_the_document_has_it_needs_a_time_zone() -> None:
    sent = "2024-01-02 03:04:05"
    assert value_of("timestamp", sent, source_timezone="Asia/Shanghai") == "2024-01-01 19:04:05"
    columns = read([image({"c": sent})], one_column(mysql.parse_type("timestamp")))
    assert "source-timezone" in columns.bad[0]


def test_text_that_is_not_utf8_comes_as_its_bytes() -> None:
    raw = b"\2\2" + write_text("c") + b"\x08" + write_text(b"a\xff") + b"\0"
    assert read([raw], one_column(mysql.parse_type("text charset utf8mb4"))).values == [[b"a\xff"]]
    assert "not UTF-8" in read([raw], one_column(mysql.parse_type("json"))).bad[0]


def test_both_encodings_side_by_side() -> None:
    avro = image({"id": 2, "name": None})
    json = b'{"id":"1","name":"x","age":null,"score":null}'
    columns = read([json, None, avro, b"{", b"\2\1", avro])
    assert columns.values[0] == ["1", None, "2", None, None, "2"]
    assert columns.values[1] == ["x", None, None, None, None, None]
    assert set(columns.bad) == {3, 4}
    assert {name: [*rows] for name, rows in columns.absent.items()} == {"age": [2, 5], "score": [2, 5]}


def test_only_some_columns_are_read() -> None:
    sent = image({"id": 2, "name": ("double", 1.0), "gone": "unknown"})
    columns = DECODER.row_reader(USER, ReadOptions(), frozenset({"id"}))([sent])
    assert (columns.values, columns.bad, columns.absent) == ([["2"], [None], [None], [None]], {}, {})
    assert "no column b'gone'" in read([image({"gone": "unknown"})]).bad[0]


def test_a_map_in_blocks_with_their_sizes() -> None:
    entry = write_text("id") + b"\2" + write_long(5)
    assert read([b"\2" + b"\1" + write_long(len(entry)) + entry + b"\0"]).values[0] == ["5"]


@pytest.mark.parametrize("compression", ["snappy", "lz4"])
def test_compressed_avro(compression: Compression) -> None:
    (sent,) = encoder(SimpleConfig(encoding_format="avro", compression=compression)).rows(
        [change("insert", 5, None, ROW)]
    )
    assert sent.value is not None and sent.value[:1] != b"\x16"
    assert decode(DECODER, None, sent.value, TABLES) == [change("insert", 5, None, ROW)]


def test_checksums_and_large_rows() -> None:
    sums = Checksum(version=1, corrupted=True, current=2**32 - 1, previous=3)
    row = RowChange(op="insert", table=USER, commit_ts=5, after=ROW, table_id=148, checksum=sums)
    (sent,) = encoder(SimpleConfig(encoding_format="avro", enable_row_checksum=True)).rows([row])
    assert decode(DECODER, None, sent.value, TABLES) == [row]
    large = change("insert", 5, None, {**ROW, "name": "x" * 500})
    kept: list[bytes] = []
    config = SimpleConfig(
        encoding_format="avro",
        max_message_bytes=300,
        large_message_handle="claim-check",
        store=lambda value: kept.append(value) or "s3://b/x",
    )
    (sent,) = encoder(config).rows([large])
    (found,) = decode(DECODER, None, sent.value, TABLES)
    assert isinstance(found, RowChange)
    assert (found.after, found.partial, found.claim_check) == ({"id": "1"}, True, "s3://b/x")
    assert decode(DECODER, None, kept[0], TABLES) == [large]


(SENT,) = [sent.value or b"" for sent in TO.rows([change("insert", 5, None, ROW)])]
BOMB = write_long(2**62)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"\x16", "begins with b'\\x16'"),
        (b"\x16\0\2\2", "begins with"),
        (b"\x16\0\0\2\2", "ends too early"),
        (b"\x16\0\0\2\2\2\2", "1 bytes behind its end"),
        (b"\x16\0\0\2\1\2", "a timestamp or version of -1"),
        (b"\x16\0\0\4\2\2", "field `version` is 2"),
        (b"\x16\0\0" + b"\xff" * 11, "more than ten bytes"),
        (b"\x16\0\0\2" + b"\xff" * 9 + b"\x7f", "more than 64 bits"),
        (b"\x16\6\6\2" + BOMB + b"x", "an Avro length of 4611686018427387904 where 1 bytes are left"),
        (b"\x16\6\6\2\1x", "an Avro length of -1"),
        (b"\x16\4\4\2\x10", "field `type` is number 8; allowed: 0 … 7"),
        (b"\x16\2\2\2\2\2s\2t\2\2" + BOMB, "an Avro block of 4611686018427387904 items"),
        (SENT[:-1] + b"\2", "INSERT with an image that it should not have"),
        (b"\x16\6\6\2\2s\2t\2\0\2\2\2\4", "branch byte 0x04"),
        (b"\x16\6\6\2\2s\2t\2\0\2\2\2\0\2\2", "an Avro boolean of 2"),
        (b"\x16\6\6\2\2s\2t\2\0\2\2\2\0\0\0\0\0", "INSERT message without field `data`"),
    ],
)
def test_a_bad_message_is_rejected_with_its_reason(message: bytes, expected: str) -> None:
    assert expected in reason(message)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"\2" + BOMB, "an Avro block of"),
        (b"\2\2" + write_text("id") + b"\x08" + write_text("1") + b"\0", "column `id` of type int is sent as string"),
        (b"\2\2" + write_text("id") + b"\x10", "sent as 0x10; allowed: null, long"),
        (b"\2\2" + write_text("name") + b"\x08" + BOMB, "an Avro length of"),
        (b"\2\2" + write_text("score") + b"\4\0", "ends too early"),
        (b"\2\0\0", "1 bytes behind its end"),
    ],
)
def test_a_bad_image_is_bad_with_its_reason(raw: bytes, expected: str) -> None:
    assert expected in read([raw]).bad[0]


def test_what_cannot_be_written() -> None:
    with pytest.raises(MessageError, match="no column"):
        list(TO.rows([change("insert", 5, None, {"nothing": "1"})]))


@given(tables_and_rows(), st.sampled_from(["UTC", "Asia/Shanghai", "+05:30"]), st.integers(0, 2**63 - 1))
def test_any_table_and_rows_round_trip(drawn: tuple[Table, list[dict[str, Value]]], zone: str, commit_ts: int) -> None:
    table, rows = drawn
    to = encoder(SimpleConfig(encoding_format="avro", time_zone=zone))
    bootstrap = to.bootstrap(table)
    assert bootstrap is not None
    event = opened(bootstrap.value or b"")
    assert isinstance(event, Bootstrap)
    assert [column.name for column in event.table.columns] == [column.name for column in table.columns]
    sent = [
        RowChange(op="update", table=table, commit_ts=commit_ts, before=rows[0], after=row, table_id=9) for row in rows
    ]
    key = (table.schema, table.name, str(table.version))
    for one, message in zip(sent, to.rows(sent), strict=True):
        assert decode(DECODER, None, message.value, {key: table}) == [one]
        (envelope,) = DECODER.open_message(None, message.value)
        assert isinstance(envelope, Envelope) and envelope.after is not None
        theirs = fastavro.schemaless_reader(BytesIO(envelope.after), MAP, None, handle_unicode_errors="replace")
        assert isinstance(theirs, dict) and theirs["row"].keys() == (one.after or {}).keys()


@given(st.sampled_from([TO.rows, None]), st.data())
def test_mutated_messages_never_raise(rows: Any, data: st.DataObject) -> None:
    if rows is None:
        raw = getattr(TO.ddl(DDL), "value", b"")
    else:
        (sent,) = rows([change("update", 6, ROW, ROW)])
        raw = sent.value
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(1, len(raw) - 1))
        end = data.draw(st.integers(start, min(start + 8, len(raw))))
        raw = raw[:start] + data.draw(st.binary(max_size=4)) + raw[end:] + b"\0"
    (event,) = DECODER.open_message(None, raw)
    if isinstance(event, Envelope):
        columns = read([event.before, event.after])
        assert all(len(cells) == 2 for cells in columns.values)
    else:
        assert isinstance(event, Rejected | SchemaChange | Bootstrap | Watermark)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_never_raise(tail: bytes) -> None:
    for start in (b"\x16", b"\x16\0\0", b"\x16\2\2", b"\x16\4\4", b"\x16\6\6"):
        (event,) = DECODER.open_message(None, start + tail)
        assert isinstance(event, Rejected | Watermark | Envelope | SchemaChange | Bootstrap)
    columns = read([b"\2" + tail, None, INSERT.encode()[-56:-1]])
    assert len(columns.values[0]) == 3
