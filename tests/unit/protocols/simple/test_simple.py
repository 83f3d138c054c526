"""Simple JSON by its document's examples and by bad input."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.simple_examples import (
    ALTER,
    BOOTSTRAP,
    DELETE,
    ENCODER,
    INSERT,
    ROW,
    SQL,
    TABLES,
    UPDATE,
    USER,
    USER_JSON,
    WATERMARK,
    change,
    opened,
    reason,
)
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import MessageError
from ticdc_spark.model import (
    Bootstrap,
    Checksum,
    Envelope,
    RowChange,
    SchemaChange,
    Watermark,
)
from ticdc_spark.protocols import decoder, protocol
from ticdc_spark.protocols.base import decode
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.wire.compression import Compression


def test_the_documents_rows_both_ways() -> None:
    better = {**ROW, "score": "95"}
    expected = [
        (INSERT, change("insert", 447984084414103554, None, ROW)),
        (UPDATE, change("update", 447984099186180098, ROW, better)),
        (DELETE, change("delete", 447984114259722243, better, None)),
    ]
    for message, row in expected:
        assert decode(DECODER, None, message.encode(), TABLES) == [row]
        (encoded,) = ENCODER.rows([row])
        assert (encoded.key, encoded.value, encoded.rows) == (None, message.encode(), 1)


def test_the_documents_other_messages_both_ways() -> None:
    assert opened(WATERMARK) == Watermark(447984124732375041)
    assert opened(BOOTSTRAP) == Bootstrap(USER)
    ddl = SchemaChange(
        commit_ts=447987408682614795, query=SQL, kind="ALTER", schema="simple", name="user", table=USER, pre_table=USER
    )
    assert opened(ALTER) == ddl
    for encoded, message in (
        (ENCODER.watermark(447984124732375041), WATERMARK),
        (ENCODER.bootstrap(USER), BOOTSTRAP),
        (ENCODER.ddl(ddl), ALTER),
    ):
        assert encoded is not None
        assert (encoded.key, encoded.value, encoded.rows) == (None, message.encode(), 0)


def test_the_envelope_keeps_raw_images() -> None:
    event = opened(UPDATE)
    assert event == Envelope(
        op="update",
        schema="simple",
        table="user",
        commit_ts=447984099186180098,
        before=b'{"age":"25","id":"1","name":"John Doe","score":"90.5"}',
        after=b'{"age":"25","id":"1","name":"John Doe","score":"95"}',
        table_id=148,
        schema_key="447984074911121426",
    )


def test_a_rename_is_named_by_what_it_renames() -> None:
    renamed = USER_JSON.replace('"table":"user"', '"table":"person"')
    message = ALTER.replace("ALTER", "RENAME", 1).replace(USER_JSON, renamed, 1)
    event = opened(message)
    assert isinstance(event, SchemaChange)
    assert (event.schema, event.name) == ("simple", "user")
    assert event.table is not None
    assert event.table.name == "person"


def test_a_database_ddl_has_only_its_sql() -> None:
    message = '{"version":1,"type":"QUERY","sql":"CREATE DATABASE `d`","commitTs":5,"buildTs":1708923662983}'
    ddl = SchemaChange(commit_ts=5, query="CREATE DATABASE `d`", kind="QUERY")
    assert opened(message) == ddl
    encoded = ENCODER.ddl(ddl)
    assert encoded is not None
    assert encoded.value == message.encode()


def test_a_ddl_kind_of_another_protocol_is_sent_as_query() -> None:
    encoded = ENCODER.ddl(SchemaChange(commit_ts=5, query="X", kind="create table"))
    assert encoded is not None
    assert encoded.value is not None
    assert json.loads(encoded.value)["type"] == "QUERY"


def test_fields_that_a_later_version_may_add_are_passed_over() -> None:
    assert opened(WATERMARK.replace('"commitTs"', '"new":{"a":[1]},"commitTs"')) == opened(WATERMARK)


def test_keys_only_and_claim_check_are_carried() -> None:
    flags = '"claimCheckLocation":"s3://b/x.json","handleKeyOnly":true,"data"'
    event = opened(INSERT.replace('"data"', flags))
    assert isinstance(event, Envelope)
    assert (event.partial, event.claim_check) == (True, "s3://b/x.json")
    sums = '"checksum":{"version":2,"corrupted":false,"current":7,"previous":0},"data"'
    event = opened(INSERT.replace('"data"', sums))
    assert isinstance(event, Envelope)
    assert event.checksum == Checksum(version=2, corrupted=False, current=7, previous=0)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (None, "null"),
        (b"", "empty"),
        (INSERT[:100], "not valid JSON: Input data was truncated"),
        (INSERT + "x", "not valid JSON"),
        ("[]", "not Simple JSON: begins with b'[]'"),
        (b"\x00\x00\x00\x00\x07abc", "schema registry"),
        (b"\x04\x22\x4d\x18dp\xb9", "not Simple JSON: begins with b'\\x04\"M\\x18dp\\xb9'"),
        ('{"payload":{},"schema":{}}', "Debezium, by its field `payload`"),
        ('{"id":0,"database":"d","table":"t","isDdl":false,"type":"INSERT"}', "canal-json"),
        (WATERMARK.replace('"version":1', '"version":2'), "field `version` is 2"),
        (WATERMARK.replace("WATERMARK", "MERGE"), "Invalid enum value 'MERGE' - at `$.type`"),
        (WATERMARK.replace("447984124732375041", "9223372036854775808"), "$.commitTs"),
        (WATERMARK.replace("447984124732375041", "-1"), "$.commitTs"),
        (WATERMARK.replace("447984124732375041", '"5"'), "Expected `int`, got `str` - at `$.commitTs`"),
        (WATERMARK.replace("447984124732375041", "5.5"), "$.commitTs"),
        (WATERMARK.replace('"commitTs":447984124732375041,', ""), "missing required field `commitTs`"),
        (WATERMARK.replace('"type":"WATERMARK",', ""), "missing required field `type`"),
        (INSERT.replace('"data"', '"date"'), "INSERT message without field `data`"),
        (UPDATE.replace('"old"', '"odd"'), "UPDATE message without field `old`"),
        (DELETE.replace('"old"', '"odd"'), "DELETE message without field `old`"),
        (INSERT.replace('"database"', '"db"'), "without field `database`"),
        (INSERT.replace('"table"', '"tbl"'), "without field `table`"),
        (INSERT.replace('"schemaVersion"', '"v"'), "without field `schemaVersion`"),
        (BOOTSTRAP.replace('"tableSchema"', '"ts"'), "without field `tableSchema`"),
        (ALTER.replace('"sql"', '"query"'), "without field `sql`"),
        (ALTER.replace('"length":11', '"length":"11"', 1), "$.tableSchema.columns[0].dataType.length"),
        (BOOTSTRAP.replace('"default":null', '"default":[]', 1), "$.tableSchema.columns[0].default"),
        (INSERT.encode().replace(b"user", b"us\xffr"), "not UTF-8"),
        ('{"version":1,"type":"INSERT","commitTs":1,"data":' + "[" * 100_000, "not valid JSON"),
    ],
)
def test_a_bad_message_is_rejected_with_its_reason(message: str | bytes | None, expected: str) -> None:
    assert expected in reason(message)


def test_a_row_that_does_not_fit() -> None:
    row = change("update", 7, ROW, {**ROW, "name": "x" * 500})
    with pytest.raises(MessageError, match=r"takes \d+ bytes; max-message-bytes is 600"):
        list(encoder(SimpleConfig(max_message_bytes=600, build_ts=lambda: 1)).rows([row]))
    (whole,) = encoder(SimpleConfig(build_ts=lambda: 1)).rows([row])
    # TiCDC counts 36 bytes more than the value (the vectors' limits show it)
    enough = len(whole.value or b"") + 36
    assert list(encoder(SimpleConfig(max_message_bytes=enough, build_ts=lambda: 1)).rows([row])) == [whole]
    with pytest.raises(MessageError, match=f"takes {enough} bytes"):
        list(encoder(SimpleConfig(max_message_bytes=enough - 1, build_ts=lambda: 1)).rows([row]))
    (keys,) = encoder(SimpleConfig(max_message_bytes=600, large_message_handle="handle-key-only")).rows([row])
    assert keys.value is not None
    sent = json.loads(keys.value)
    assert (sent["handleKeyOnly"], sent["data"], sent["old"]) == (True, {"id": "1"}, {"id": "1"})
    kept: list[bytes] = []

    def store(value: bytes) -> str:
        kept.append(value)
        return "file:///kept/1.json"

    config = SimpleConfig(max_message_bytes=600, large_message_handle="claim-check", store=store, build_ts=lambda: 1)
    (pointer,) = encoder(config).rows([row])
    event = opened(pointer.value or b"")
    assert isinstance(event, Envelope)
    assert (event.claim_check, event.partial) == ("file:///kept/1.json", True)
    assert decode(DECODER, None, kept[0], TABLES) == [row]
    with pytest.raises(MessageError, match="claim-check needs a place"):
        list(encoder(SimpleConfig(max_message_bytes=600, large_message_handle="claim-check")).rows([row]))
    with pytest.raises(MessageError, match="max-message-bytes is 100"):
        list(encoder(SimpleConfig(max_message_bytes=100, large_message_handle="handle-key-only")).rows([row]))


def test_what_simple_cannot_encode_is_refused() -> None:
    for wrong, match in (
        (change("upsert", 7, None, ROW), "no message for 'upsert'"),
        (change("update", 7, None, ROW), "UPDATE without its before image"),
        (change("insert", 7, ROW, None), "INSERT without its after image"),
        (change("insert", 7, None, {**ROW, "more": "1"}), "has no column \\['more'\\]"),
    ):
        with pytest.raises(MessageError, match=match):
            list(ENCODER.rows([wrong]))


def test_compression_and_checksum_are_applied_when_set() -> None:
    sums = Checksum(version=2, corrupted=False, current=7, previous=0)
    row = RowChange(op="insert", table=USER, commit_ts=7, after=ROW, table_id=148, checksum=sums)
    (plain,) = ENCODER.rows([row])
    assert plain.value is not None
    assert b"checksum" not in plain.value
    compressions: list[Compression] = ["lz4", "snappy"]
    for compression in compressions:
        config = SimpleConfig(enable_row_checksum=True, compression=compression)
        (encoded,) = encoder(config).rows([row])
        assert encoded.value is not None
        assert encoded.value[:1] != b"{"
        assert decode(DECODER, None, encoded.value, TABLES) == [row]


def test_a_snappy_value_whose_length_looks_like_json_is_unpacked() -> None:
    ddl = SchemaChange(commit_ts=7, query=f"CREATE DATABASE `{'a' * 31}`", kind="QUERY", schema="", name="")
    packed = encoder(SimpleConfig(compression="snappy", build_ts=lambda: 1708923662983)).ddl(ddl)
    assert packed is not None and packed.value is not None and packed.value[:1] == b"{"
    (event,) = DECODER.open_message(None, packed.value)
    assert isinstance(event, SchemaChange) and event.query == ddl.query


def schema_of(sql: str) -> dict[str, Any]:
    """The table of a CREATE TABLE as Simple sends it."""
    encoded = ENCODER.bootstrap(parse_create(sql, "d"))
    assert encoded is not None and encoded.value is not None
    found: dict[str, Any] = json.loads(encoded.value)["tableSchema"]
    return found


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ("PRIMARY KEY (id), UNIQUE u (v)", ["u", "primary"]),
        ("PRIMARY KEY (id) NONCLUSTERED, UNIQUE u (v)", ["PRIMARY", "u"]),
        ("UNIQUE u (id)", ["u", "primary"]),
        ("UNIQUE u (v)", ["u"]),
    ],
)
def test_a_key_that_tidb_has_no_index_for_is_added_last(keys: str, names: list[str]) -> None:
    table = schema_of(f"CREATE TABLE t (id INT NOT NULL, v INT, {keys})")
    assert [index["name"] for index in table["indexes"]] == names


def test_neither_digits_of_the_current_time_nor_the_scale_of_floats_are_sent() -> None:
    at, number = schema_of("CREATE TABLE t (a DATETIME(6) DEFAULT NOW(6), f FLOAT(7,3))")["columns"]
    assert at["default"] == "CURRENT_TIMESTAMP"
    assert "decimal" not in number["dataType"]


def test_the_protocol_is_found_by_its_name() -> None:
    assert decoder("simple") is DECODER
    assert protocol("simple").traits.watermarks == "always"
