"""Avro behind a schema registry: by its document's examples, by bad input, and by any table, row or bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.avro_examples import (
    CHECKSUM_FIELDS,
    EVERYTHING,
    EXTENSION,
    SHANGHAI,
    TS,
    Registry,
    document,
    framed,
    read,
    record,
)
from ticdc_spark import mysql
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import MessageError, RegistryFault, UsageError
from ticdc_spark.model import (
    Envelope,
    Rejected,
    RowChange,
    SchemaChange,
    Value,
    Watermark,
)
from ticdc_spark.mysql.checksum import row_checksums
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.avro.decode import AvroDecoder
from ticdc_spark.protocols.avro.encode import AvroConfig, default_topic, encoder
from ticdc_spark.protocols.avro.schema import table_from_schemas
from ticdc_spark.protocols.base import ReadOptions, decode
from ticdc_spark.protocols.shared.avro_names import sanitized
from ticdc_spark.wire.avro_binary import write_bytes, write_long, write_text
from ticdc_spark.wire.confluent import frame


@pytest.mark.parametrize(
    ("column", "column_type", "sent", "expected"),
    [
        (document("int", "INT"), "int", -5, "-5"),
        (document("int", "INT UNSIGNED"), "int unsigned", 255, "255"),
        (document("long", "INT UNSIGNED"), "int unsigned", 2**32 - 1, "4294967295"),
        (document("long", "BIGINT"), "bigint", -(2**63), "-9223372036854775808"),
        (document("long", "BIGINT UNSIGNED"), "bigint unsigned", -1, "18446744073709551615"),
        (document("string", "BIGINT UNSIGNED"), "bigint unsigned", "18446744073709551615", "18446744073709551615"),
        (document("bytes", "BLOB"), "longblob", b"\xff\0", b"\xff\0"),
        (document("string", "TEXT"), "longtext charset utf8mb4", "世", "世"),
        (document("double", "FLOAT"), "float", 0.10000000149011612, "0.1"),
        (document("float", "FLOAT"), "float", 0.1, "0.1"),
        (document("double", "DOUBLE"), "double", 1e308, "1e308"),
        (document("string", "DATE"), "date", "0000-00-00", "0000-00-00"),
        (document("string", "DATETIME"), "datetime(6)", "2024-01-02 03:04:05.50", "2024-01-02 03:04:05.50"),
        (document("string", "TIMESTAMP"), "timestamp(6)", "2024-01-02 03:04:05.678", "2024-01-01 19:04:05.678"),
        (document("string", "TIME"), "time(6)", "-838:59:59", "-838:59:59"),
        (document("int", "YEAR"), "year", 0, "0"),
        (document("bytes", "BIT", length="64"), "bit(64)", b"\xff" * 8, "18446744073709551615"),
        (document("string", "JSON"), "json", "{}", "{}"),
        (document("string", "ENUM", allowed="a,b,c"), "enum('a','b','c')", "b", "2"),
        (document("string", "ENUM", allowed="a\\,b,,c\\d"), "enum('a,b','','c\\d')", "", "2"),
        (document("string", "SET", allowed="a,b,c"), "set('a','b','c')", "a,c", "5"),
        (document("bytes", "DECIMAL", logicalType="decimal", precision=10, scale=4), "decimal(10,4)", b"\xff", None),
        (document("string", "DECIMAL"), "decimal(65,30)", "1.50", "1.50"),
        (document("string", "TiDBVECTORFloat32"), "vector", "[1,2]", "[1,2]"),
        (document("int", "INT", nullable=True), "int", None, None),
    ],
)
def test_the_documents_types_and_those_that_are_sent(
    column: dict[str, Any], column_type: str, sent: Any, expected: Value
) -> None:
    schema = record(column)
    (found,) = table_from_schemas(None, schema).columns
    assert mysql.format_type(found.type) == mysql.format_type(mysql.parse_type(column_type))
    assert found.nullable == isinstance(column["type"], list)
    kind = column["type"]
    if column_type.startswith("decimal(10"):
        kind.pop("logicalType")  # with it another writer needs a Decimal
        expected = "-0.0001"
    columns = read(schema, framed(record(column), {"c": sent}))
    assert (columns.values, columns.bad, columns.absent) == ([[expected]], {}, {})


def test_the_documents_extension_fields() -> None:
    schema = record(document("int", "INT"), *EXTENSION)
    for op, expected in (("c", "insert"), ("u", "update")):
        row = {"c": 7, "_tidb_op": op, "_tidb_commit_ts": TS, "_tidb_commit_physical_time": mysql.tso_physical_ms(TS)}
        value = framed(schema, row)
        (event,) = AvroDecoder({1: schema}).open_message(None, value)
        assert event == Envelope(expected, "s", "t", TS, None, value, None, "1")  # type: ignore[arg-type]
        assert read(schema, value).values == [["7"]]


def test_ddl_and_watermarks_that_are_internal_to_ticdc() -> None:
    to = encoder(AvroConfig(enable_tidb_extension=True, avro_enable_watermark=True), Registry())
    ddl = SchemaChange(commit_ts=TS, query="CREATE TABLE `t`(`a` INT) /* <> */", kind="CREATE", schema="s", name="t")
    sent, mark = to.ddl(ddl), to.watermark(TS)
    assert sent is not None and mark is not None
    assert mark.value == b"\2" + TS.to_bytes(8, "big")
    assert sent.value == (
        b'\1{"query":"CREATE TABLE `t`(`a` INT) /* \\u003c\\u003e */","type":3,"schema":"s","table":"t","commitTs":%d}'
        % TS
    )
    opened = [decoder("avro").open_message(one.key, one.value) for one in (sent, mark)]
    assert opened == [(replace(ddl, kind="3"),), (Watermark(TS),)]
    silent = encoder(AvroConfig(), Registry())
    assert (silent.ddl(ddl), silent.watermark(TS), silent.bootstrap(EVERYTHING)) == (None, None, None)


KEY = record(document("int", "INT"))
VALUE = record(document("int", "INT"), {**document("string", "TEXT", nullable=True), "name": "v"}, *EXTENSION)
BEFORE = {
    "default": None,
    "name": "_ticdc_before",
    "type": ["null", {**json.loads(record(document("int", "INT"), name="t_before"))}],
}
WITH_BEFORE = record(document("int", "INT"), BEFORE, *EXTENSION)
SCHEMAS = {1: KEY, 2: VALUE, 3: WITH_BEFORE, 4: '"string"', 5: "not JSON", 6: record(document("int", "ROWID"))}
DECODER = AvroDecoder(SCHEMAS)
TAIL = write_text("c") + write_long(TS) + write_long(1)


def test_the_old_row_inside_a_value() -> None:
    table = table_from_schemas(KEY, WITH_BEFORE)
    rest = {"_tidb_commit_ts": TS, "_tidb_commit_physical_time": 1}
    expected = {
        "c": ("insert", None, {"c": "7"}),
        "u": ("update", {"c": "6"}, {"c": "7"}),
        "d": ("delete", {"c": "7"}, None),
    }
    for op, wanted in expected.items():
        old = {"c": {"u": 6, "d": 7}[op]} if op != "c" else None
        value = framed(WITH_BEFORE, {"c": 7, "_ticdc_before": old, "_tidb_op": op, **rest}, 3)
        (found,) = decode(DECODER, framed(KEY, {"c": 7}), value, {("s", "t", "3"): table})
        assert isinstance(found, RowChange)
        assert (found.op, found.before, found.after) == wanted
        assert (found.commit_ts, found.partial) == (TS, False)


def test_the_old_row_without_the_extension() -> None:
    schema = record(document("int", "INT"), BEFORE, EXTENSION[0])
    reader = AvroDecoder({1: KEY, 3: schema})
    expected = {
        "c": ("insert", None, {"c": "7"}),
        "u": ("update", {"c": "6"}, {"c": "7"}),
        "d": ("delete", {"c": "7"}, None),
    }
    for op, wanted in expected.items():
        old = {"c": {"u": 6, "d": 7}[op]} if op != "c" else None
        value = framed(schema, {"c": 7, "_ticdc_before": old, "_tidb_op": op}, 3)
        (found,) = decode(reader, framed(KEY, {"c": 7}), value, {("s", "t", "3"): table_from_schemas(KEY, schema)})
        assert isinstance(found, RowChange)
        assert (found.op, found.before, found.after, found.commit_ts) == (*wanted, 0)


@pytest.mark.parametrize(("wrong", "version", "is_bad"), [(0, 1, False), (1, 1, True), (1, 0, False)])
def test_the_checksum_of_a_delete_is_that_of_its_old_row(wrong: int, version: int, is_bad: bool) -> None:
    schema = record(document("int", "INT"), BEFORE, *EXTENSION, *CHECKSUM_FIELDS)
    table = table_from_schemas(KEY, schema)
    sent = {"c": 7, "_ticdc_before": {"c": 7}, "_tidb_op": "d", "_tidb_commit_ts": TS, "_tidb_commit_physical_time": 1}
    (sum_of_row,) = row_checksums([table.columns[0].type])([["7"]])
    checksum = {
        "_tidb_row_level_checksum": str(sum_of_row + wrong),
        "_tidb_corrupted": False,
        "_tidb_checksum_version": version,
    }
    value = framed(schema, {**sent, **checksum}, 3)
    options = replace(SHANGHAI, verify_checksum=True)
    (found,) = decode(AvroDecoder({1: KEY, 3: schema}), framed(KEY, {"c": 7}), value, {("s", "t", "3"): table}, options)
    assert isinstance(found, Rejected if is_bad else RowChange)


def test_the_columns_of_soft_delete_tables_are_in_the_schema() -> None:
    gone = {**document("string", "TIMESTAMP", nullable=True), "name": "_tidb_softdelete_time"}
    origin = {**document("long", "BIGINT UNSIGNED", nullable=True), "name": "_tidb_origin_ts"}
    schema = record(document("int", "INT"), gone, origin, *EXTENSION)
    table = table_from_schemas(KEY, schema)
    row = {"c": 7, "_tidb_softdelete_time": "2026-01-01 08:00:01.5", "_tidb_origin_ts": 9}
    value = framed(schema, {**row, "_tidb_op": "u", "_tidb_commit_ts": TS, "_tidb_commit_physical_time": 1}, 3)
    (found,) = decode(AvroDecoder({3: schema}), None, value, {("s", "t", "3"): table}, SHANGHAI)
    assert isinstance(found, RowChange)
    expected = {"c": "7", "_tidb_softdelete_time": "2026-01-01 00:00:01.5", "_tidb_origin_ts": "9"}
    assert (found.op, found.after) == ("update", expected)


def test_deletes_have_their_key_and_sometimes_their_time() -> None:
    key = framed(KEY, {"c": 7})
    for value, ts in ((None, 0), (b"\3" + TS.to_bytes(8, "big"), TS)):
        (event,) = DECODER.open_message(key, value)
        assert event == Envelope("delete", "s", "t", ts, key, None, None, "1", True, key)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (None, None, "a delete without a key"),
        (b"", b"", "no schema registry framing"),
        (b"\0\0\0\0\1\2", b"\0\0\0\0", "no schema registry framing"),
        (None, b'{"id":1}', "no schema registry framing"),
        (None, frame(9), "schema id 9 is not known"),
        (frame(9) + b"\2", None, "schema id 9 is not known"),
        (None, frame(4), "no schema that TiCDC registers"),
        (None, frame(5), "no schema that TiCDC registers"),
        (None, frame(6), "tidb_type 'ROWID' as Avro 'int'"),
        (None, frame(2), "without its extension fields"),
        (None, frame(2) + b"\2\0" + write_text("x") + TAIL[2:], "_tidb_op is not where it should be"),
        (None, frame(2) + b"\2\0" + write_text("c") + write_long(-1) + b"\2", "_tidb_commit_ts is -1"),
        (None, frame(2) + b"\xff" * 30, "no number where one should be"),
        (None, b"\2\0", "a timestamp of 00; expected eight bytes"),
        (None, b"\2" + b"\xff" * 8, "a timestamp of ffffffffffffffff"),
        (None, b"\1[]", "no DDL in JSON"),
        (None, b'\1{"query":"q","type":1,"schema":"","table":"","commitTs":0}', "field `commitTs` is 0"),
        (b"\0\0\0\0\1\2", b"\3\0", "a timestamp of 00"),
    ],
)
def test_a_bad_message_is_rejected_with_its_reason(key: bytes | None, value: bytes | None, expected: str) -> None:
    (event,) = DECODER.open_message(key, value)
    assert isinstance(event, Rejected)
    assert expected in event.reason


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"\2\2" + write_long(2**62) + TAIL, "an Avro length of 4611686018427387904"),
        (b"\2\2" + write_long(-3) + TAIL, "an Avro length of -3"),
        (b"\2\4" + TAIL, "column `v`: Avro union branch byte 0x04"),
        (b"\2\0x" + TAIL, "an Avro length of 60"),
        (b"\xff" * 10 + b"\1\0" + TAIL, "more than"),
        (b"\2\0" + TAIL + b"\0", "bytes behind its end"),
        (b"\2", "ends too early"),
    ],
)
def test_a_bad_image_is_bad_with_its_reason(body: bytes, expected: str) -> None:
    reader = DECODER.row_reader(table_from_schemas(None, VALUE), SHANGHAI)
    columns = reader([frame(2) + body, frame(2) + b"\2\2" + write_text("x") + TAIL, None])
    assert expected in columns.bad[0]
    assert columns.values == [[None, "1", None], [None, "x", None]]


def test_images_of_several_versions_and_of_keys_are_read_into_one_table() -> None:
    images = [frame(2) + b"\2\2" + write_text("x") + TAIL, frame(1) + b"\4", frame(1) + b"\6"]
    columns = DECODER.row_reader(table_from_schemas(KEY, VALUE), SHANGHAI)(images)
    assert (columns.values, columns.bad, columns.absent) == ([["1", "2", "3"], ["x", None, None]], {}, {"v": [1, 2]})
    fewer = DECODER.row_reader(table_from_schemas(KEY, None), SHANGHAI)(images)
    assert "the table has no column 'v'" in fewer.bad[0]
    only = DECODER.row_reader(table_from_schemas(KEY, VALUE), SHANGHAI, frozenset({"c"}))(images)
    assert (only.values, only.bad, only.absent) == ([["1", "2", "3"], [None] * 3], {}, {})


def test_a_timestamp_needs_the_changefeeds_time_zone() -> None:
    schema = record(document("string", "TIMESTAMP"))
    columns = read(schema, framed(schema, {"c": "2024-01-01 00:00:00"}), ReadOptions())
    assert "source-timezone" in columns.bad[0]


def test_a_member_that_the_schema_does_not_have() -> None:
    schema = record(document("string", "ENUM", allowed="a,b"))
    assert "'c' is no member of ENUM" in read(schema, framed(schema, {"c": "c"})).bad[0]


def test_a_broken_registry_is_never_a_bad_message() -> None:
    class Broken:
        def __getitem__(self, number: int, /) -> str:
            raise RegistryFault("down")

    with pytest.raises(RegistryFault):
        AvroDecoder(Broken()).open_message(None, frame(1))
    with pytest.raises(UsageError, match="none was given"):
        decoder("avro").open_message(None, frame(1))


def test_names() -> None:
    assert [sanitized(name) for name in ("a b", "9", "世x", "_", "a.b")] == ["a_b", "_9", "_x", "_", "a_b"]
    assert default_topic("odd db.1", "a世") == "odd_db.1_a_"


def test_tables_whose_names_become_one_cannot_be_distinguished() -> None:
    registered: set[tuple[str, str]] = set()

    class Subjects:
        def register(self, subject: str, schema: str) -> int:
            registered.add((subject, schema))
            return 1

    to = encoder(AvroConfig(), Subjects())
    for name in ("订单", "商品"):
        table = parse_create(f"CREATE TABLE shop.`{name}` (id INT PRIMARY KEY)", "shop")
        assert list(to.rows([RowChange(op="insert", table=table, commit_ts=1, after={"id": "1"})]))
    assert {subject for subject, _ in registered} == {"shop___-key", "shop___-value"}
    assert len(registered) == 2


@given(st.binary(max_size=40), st.binary(max_size=60), st.sampled_from(sorted(SCHEMAS)))
def test_any_bytes_give_events(key: bytes, value: bytes, number: int) -> None:
    for framed_key, framed_value in ((key, value), (frame(1) + key, frame(number) + value), (None, b"\2" + value)):
        (event,) = DECODER.open_message(framed_key, framed_value)
        assert isinstance(event, Rejected | Envelope | Watermark)
        if isinstance(event, Envelope):
            table = table_from_schemas(KEY, SCHEMAS[int(event.schema_key)])
            assert len(DECODER.row_reader(table, SHANGHAI)([event.before, event.after]).values[0]) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '{"type":"record","name":"t","namespace":"a.b","fields":[{"name":"id","type":"int"}]}',
            "field 'id' has no `con",
        ),
        (
            '{"type":"record","name":"t","namespace":"a.b","fields":[{"name":"v","type":["null","string"]}]}',
            "field 'v' has",
        ),
        ('{"type":"record","name":"t","fields":[]}', "field `namespace` is missing"),
        ('{"type":"record","name":"t","namespace":"a.b"}', "field `fields` is missing"),
    ],
)
def test_a_schema_that_lacks_something_is_answered_with_its_name(text: str, reason: str) -> None:
    with pytest.raises(MessageError) as raised:
        table_from_schemas(None, text)
    assert reason in str(raised.value) and "Error" not in str(raised.value)


def test_bytes_of_every_length_are_written_and_read() -> None:
    for size in (0, 1, 63, 64, 8191, 8192):
        schema = record(document("bytes", "BLOB"))
        assert read(schema, frame(1) + write_bytes(b"x" * size)).values == [[b"x" * size]]
