"""Simple JSON by its document's examples, by bad input, and by properties."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark import mysql
from ticdc_spark.errors import MessageError
from ticdc_spark.model import (
    Bootstrap,
    Checksum,
    Column,
    ColumnType,
    Envelope,
    Event,
    Index,
    Rejected,
    RowChange,
    SchemaChange,
    Table,
    Value,
    Watermark,
)
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import ReadOptions, decode
from ticdc_spark.protocols.simple import DECODER, SimpleConfig, encoder

BUILD_TS = 1708923662983
ENCODER = encoder(SimpleConfig(build_ts=lambda: BUILD_TS))


def text_type(name: str, length: int) -> ColumnType:
    return ColumnType(name=name, length=length, charset="utf8mb4", collate="utf8mb4_bin")


USER = Table(
    schema="simple",
    name="user",
    table_id=148,
    version=447984074911121426,
    columns=(
        Column(name="id", type=mysql.parse_type("int"), nullable=False),
        Column(name="name", type=text_type("varchar", 255)),
        Column(name="age", type=mysql.parse_type("int")),
        Column(name="score", type=mysql.parse_type("float")),
    ),
    indexes=(Index(name="primary", unique=True, primary=True, nullable=False, columns=("id",)),),
)
ROW = {"id": "1", "name": "John Doe", "age": "25", "score": "90.5"}
USER_JSON = (
    '{"schema":"simple","table":"user","tableID":148,"version":447984074911121426,"columns":['
    '{"name":"id","dataType":{"mysqlType":"int","charset":"binary","collate":"binary","length":11},'
    '"nullable":false,"default":null},'
    '{"name":"name","dataType":{"mysqlType":"varchar","charset":"utf8mb4","collate":"utf8mb4_bin","length":255},'
    '"nullable":true,"default":null},'
    '{"name":"age","dataType":{"mysqlType":"int","charset":"binary","collate":"binary","length":11},'
    '"nullable":true,"default":null},'
    '{"name":"score","dataType":{"mysqlType":"float","charset":"binary","collate":"binary","length":12},'
    '"nullable":true,"default":null}],'
    '"indexes":[{"name":"primary","unique":true,"primary":true,"nullable":false,"columns":["id"]}]}'
)
HEAD = '{"version":1,"database":"simple","table":"user","tableID":148,"type":'
INSERT = (
    HEAD + '"INSERT","commitTs":447984084414103554,"buildTs":1708923662983,"schemaVersion":447984074911121426,'
    '"data":{"age":"25","id":"1","name":"John Doe","score":"90.5"}}'
)
UPDATE = (
    HEAD + '"UPDATE","commitTs":447984099186180098,"buildTs":1708923662983,"schemaVersion":447984074911121426,'
    '"data":{"age":"25","id":"1","name":"John Doe","score":"95"},'
    '"old":{"age":"25","id":"1","name":"John Doe","score":"90.5"}}'
)
DELETE = (
    HEAD + '"DELETE","commitTs":447984114259722243,"buildTs":1708923662983,"schemaVersion":447984074911121426,'
    '"old":{"age":"25","id":"1","name":"John Doe","score":"95"}}'
)
WATERMARK = '{"version":1,"type":"WATERMARK","commitTs":447984124732375041,"buildTs":1708923662983}'
BOOTSTRAP = f'{{"version":1,"type":"BOOTSTRAP","commitTs":0,"buildTs":1708923662983,"tableSchema":{USER_JSON}}}'
SQL = "ALTER TABLE `user` ADD COLUMN `createTime` TIMESTAMP"
ALTER = (
    f'{{"version":1,"type":"ALTER","sql":"{SQL}","commitTs":447987408682614795,"buildTs":1708923662983,'
    f'"tableSchema":{USER_JSON},"preTableSchema":{USER_JSON}}}'
)
EXAMPLES = [INSERT, UPDATE, DELETE, WATERMARK, BOOTSTRAP, ALTER]
TABLES = {("simple", "user", str(USER.version)): USER}


def opened(message: str | bytes) -> Event:
    (event,) = DECODER.open_message(None, message.encode() if isinstance(message, str) else message)
    return event


def reason(message: str | bytes | None) -> str:
    (event,) = DECODER.open_message(None, message.encode() if isinstance(message, str) else message)
    assert isinstance(event, Rejected)
    return event.reason


def change(op: Any, commit_ts: int, before: Any = None, after: Any = None) -> RowChange:
    return RowChange(op=op, table=USER, commit_ts=commit_ts, before=before, after=after, table_id=148)


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
        (b"\x04\x22\x4d\x18dp\xb9", "compressed"),
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


def read(images: list[bytes | None], table: Table = USER, **options: Any) -> Any:
    return DECODER.row_reader(table, ReadOptions(**options))(images)


def test_a_bad_image_leaves_the_others_alone() -> None:
    columns = read(
        [
            b'{"id":"1","name":"a","age":null,"score":"1"}',
            b'{"id":2,"name":"b","age":null,"score":"1"}',
            None,
            b'{"id":"3","name":"c","age":null,"score":"x"}',
            b'{"id":"4","name":"d","age":"4","score":"1.50","extra":"1"}',
            b'{"id":"5","name":"e"',
            b'{"id":"6","name":"f","age":"6","score":"1.50"}',
        ]
    )
    assert columns.values == [
        ["1", None, None, None, None, None, "6"],
        ["a", None, None, None, None, None, "f"],
        [None, None, None, None, None, None, "6"],
        ["1", None, None, None, None, None, "1.5"],
    ]
    assert columns.absent == {}
    assert {at: text.split(": ", 1)[1] for at, text in columns.bad.items()} == {
        1: "Expected `str | null`, got `int` - at `$.id`",
        3: "'x' is no number",
        4: "Object contains unknown field `extra`",
        5: "Input data was truncated",
    }
    assert all("`simple`.`user`" in columns.bad[at] for at in (1, 4, 5))


def test_a_bad_image_among_many() -> None:
    images: list[bytes | None] = [json.dumps({**ROW, "id": str(at)}).encode() for at in range(3000)]
    images[1500], images[2500], images[2600] = b"{}", b"{", None
    columns = read(images)
    expected = [None if at in (1500, 2500, 2600) else str(at) for at in range(3000)]
    assert columns.values[0] == expected
    assert columns.bad.keys() == {2500}
    assert columns.absent == {name: [1500] for name in ROW}


def test_columns_that_images_do_not_carry_are_absent() -> None:
    columns = read([b'{"id":"1","name":null}', b'{"id":"2","age":"2"}'])
    assert columns.values == [["1", "2"], [None, None], [None, "2"], [None, None]]
    assert {name: list(rows) for name, rows in columns.absent.items()} == {"name": [1], "age": [0], "score": [0, 1]}
    assert columns.absent["score"] == range(2)
    assert list(read([None, b'{"id":"1"}', None]).absent["score"]) == [1]


@pytest.mark.parametrize("name", ["name", 'na"me'])
def test_only_some_columns_are_read(name: str) -> None:
    key = Column(name="id", type=mysql.parse_type("int"))
    table = msgspec.structs.replace(
        USER, columns=(key, Column(name=name, type=text_type("text", 9)), *USER.columns[2:])
    )
    images = [
        json.dumps({"id": "1", name: "a", "age": 5, "unknown": []}).encode(),
        json.dumps({"id": 2, name: "b"}).encode(),
        json.dumps({"id": "3"}).encode(),
    ]
    columns = DECODER.row_reader(table, ReadOptions(), frozenset({"id", name}))(images)
    assert columns.values == [["1", None, "3"], ["a", None, None], [None] * 3, [None] * 3]
    assert columns.bad.keys() == {1}
    assert columns.absent == {name: [2]}


def test_no_images() -> None:
    assert read([]).values == [[], [], [], []]
    assert read([None]).values == [[None]] * 4


def one_column(column_type: ColumnType, name: str = "c") -> Table:
    column = Column(name=name, type=column_type)
    return Table(schema="s", name="t", version=1, table_id=1, columns=(column,))


@pytest.mark.parametrize(
    ("text", "wire", "value"),
    [
        ("bigint unsigned", '"18446744073709551615"', "18446744073709551615"),
        ("float", '"340282000000000000000000000000000000000"', "3.40282e38"),
        ("double", '"0.000025"', "2.5e-5"),
        ("double", '"-0"', "-0"),
        ("decimal(10,2)", '"1.50"', "1.50"),
        ("varbinary(4)", '"AP8="', b"\x00\xff"),
        ("blob", '""', b""),
        ("varchar(9)", '"\\u003ca\\u0026\\u2028\\u003e"', "<a&\u2028>"),
        ("varchar(9)", '"\\b\\f\\n\\r\\t\\u0000\\u000b\\u001f\x7f"', "\b\f\n\r\t\x00\x0b\x1f\x7f"),
        ("json", '"{\\"a\\": 1}"', '{"a": 1}'),
        ("timestamp(3)", '{"location":"UTC","value":"2024-01-02 03:04:05.678"}', "2024-01-02 03:04:05.678"),
        ("timestamp", '{"location":"UTC","value":"0000-00-00 00:00:00"}', "0000-00-00 00:00:00"),
        ("time(2)", '"-838:59:59.00"', "-838:59:59.00"),
        ("year", '"0"', "0"),
        ("bit(10)", '"257"', "257"),
        ("enum('a','b')", '"2"', "2"),
        ("set('a','b')", '"3"', "3"),
        ("vector(2)", '"[1,2.5]"', "[1,2.5]"),
        ("int", "null", None),
    ],
)
def test_a_value_of_each_type_both_ways(text: str, wire: str, value: Value) -> None:
    table = one_column(mysql.parse_type(text))
    message = (
        '{"version":1,"database":"s","table":"t","tableID":1,"type":"INSERT","commitTs":7,'
        f'"buildTs":{BUILD_TS},"schemaVersion":1,"data":{{"c":{wire}}}}}'
    ).encode()
    row = RowChange(op="insert", table=table, commit_ts=7, after={"c": value}, table_id=1)
    assert decode(DECODER, None, message, {("s", "t", "1"): table}) == [row]
    (encoded,) = ENCODER.rows([row])
    assert encoded.value == message


def test_raw_html_characters_of_the_new_architecture_are_read() -> None:
    assert read([b'{"c":"<a>&"}'], one_column(text_type("varchar", 9))).values == [["<a>&"]]


def test_bytes_that_are_not_utf8_are_written_as_go_writes_them() -> None:
    table = one_column(text_type("varchar", 9))
    row = RowChange(op="insert", table=table, commit_ts=7, after={"c": b"a\xff<\xe4\xb8"})
    (encoded,) = ENCODER.rows([row])
    assert encoded.value is not None
    assert rb'"data":{"c":"a\ufffd\u003c\ufffd\ufffd"}' in encoded.value


def test_timestamps_are_read_in_the_zone_that_they_name() -> None:
    table = one_column(mysql.parse_type("timestamp"))
    twice = b'{"c":{"location":"America/New_York","value":"2024-11-03 01:30:00"}}'
    shanghai = b'{"c":{"location":"Asia/Shanghai","value":"2024-01-01 00:00:00"}}'
    assert read([twice, shanghai], table).values == [["2024-11-03 05:30:00", "2023-12-31 16:00:00"]]
    assert read([twice], table, ambiguous_timestamp="later").values == [["2024-11-03 06:30:00"]]
    rejected = read([twice, shanghai], table, ambiguous_timestamp="reject")
    assert rejected.values == [[None, "2023-12-31 16:00:00"]]
    assert "column `c`" in rejected.bad[0]
    nowhere = read([shanghai.replace(b"Asia", b"Mars"), b'{"c":"2024-01-01 00:00:00"}'], table)
    assert "time zone 'Mars/Shanghai'" in nowhere.bad[0]
    assert "Expected `object | null`, got `str` - at `$.c`" in nowhere.bad[1]


@pytest.mark.parametrize("name", ['e"f', "k\\l", "a\nb", "c0", "世界", "a b", "$.c0"])
def test_any_column_name(name: str) -> None:
    table = one_column(mysql.parse_type("blob"), name)
    good, bad = (json.dumps({name: value}).encode() for value in ("AP8=", "?"))
    columns = read([good, bad, b'{"other":"AP8="}', good], table)
    assert columns.values == [[b"\x00\xff", None, None, b"\x00\xff"]]
    assert columns.bad[1].endswith(f"Invalid base64 encoded string - at `$.{name}`")
    assert columns.bad[2].endswith("unknown field `other`")


def test_a_type_that_no_row_carries() -> None:
    with pytest.raises(MessageError, match="'unspecified'"):
        DECODER.row_reader(one_column(ColumnType(name="unspecified")), ReadOptions())


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


def test_what_simple_cannot_say_is_refused() -> None:
    for wrong, match in (
        (change("upsert", 7, None, ROW), "no message for 'upsert'"),
        (change("update", 7, None, ROW), "UPDATE without its before image"),
        (change("insert", 7, ROW, None), "INSERT without its after image"),
        (change("insert", 7, None, {**ROW, "more": "1"}), "has no column \\['more'\\]"),
    ):
        with pytest.raises(MessageError, match=match):
            list(ENCODER.rows([wrong]))


def test_compression_and_checksum_are_applied_when_asked_for() -> None:
    sums = Checksum(version=2, corrupted=False, current=7, previous=0)
    row = RowChange(op="insert", table=USER, commit_ts=7, after=ROW, table_id=148, checksum=sums)
    config = SimpleConfig(enable_row_checksum=True, compress=base64.b64encode)
    (encoded,) = encoder(config).rows([row])
    assert encoded.value is not None
    assert decode(DECODER, None, base64.b64decode(encoded.value), TABLES) == [row]
    (plain,) = ENCODER.rows([row])
    assert plain.value is not None
    assert b"checksum" not in plain.value


def test_the_protocol_is_found_by_its_name() -> None:
    assert decoder("simple") is DECODER
    assert DECODER.has_watermark


# Properties

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INSTANTS = st.integers(86_400, 2**31 - 86_400).map(lambda seconds: datetime.fromtimestamp(seconds + 0.5, UTC))


def integers(column_type: ColumnType) -> st.SearchStrategy[str]:
    bounds = mysql.integer_range(column_type)
    assert bounds is not None
    return st.integers(*bounds).map(str)


def values(column_type: ColumnType) -> st.SearchStrategy[Any]:
    """Canonical values of a type."""
    digits = mysql.fsp(column_type)
    match column_type.name:
        case "float":
            floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
            return floats.map(lambda number: mysql.canonical_float(repr(number), 32))
        case "double":
            return st.floats(allow_nan=False, allow_infinity=False).map(lambda n: mysql.canonical_float(repr(n), 64))
        case "decimal":
            return st.integers(-(10**10), 10**10).map(lambda n: mysql.canonical_decimal(f"{n}.5", 2))
        case "datetime" | "timestamp":
            return INSTANTS.map(
                lambda at: (
                    mysql.canonical_datetime(f"{at:%Y-%m-%d %H:%M:%S}" + (f".{at:%f}"[: digits + 1]), digits)
                    if digits
                    else f"{at:%Y-%m-%d %H:%M:%S}"
                )
            )
    if mysql.is_bytes(column_type):
        return st.binary(max_size=12)
    return integers(column_type) if mysql.is_integer(column_type) else TEXT


TYPES = st.sampled_from(
    [
        *("tinyint(1)", "int", "bigint unsigned", "year", "bit(64)", "enum('a','b')", "set('a','','c')"),
        *("float", "double", "decimal(12,2)", "datetime(3)", "timestamp(6)", "timestamp", "time", "json", "vector"),
        *("binary(4)", "varbinary(9)", "blob", "longtext charset utf8mb4 collate utf8mb4_bin", "date"),
    ]
).map(mysql.parse_type)


def defaults(column_type: ColumnType) -> st.SearchStrategy[str | int | None]:
    return st.none() | (st.integers(0, 9) if column_type.name == "bit" else TEXT)


@st.composite
def tables_and_rows(draw: st.DrawFn) -> tuple[Table, list[dict[str, Value]]]:
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    types = [draw(TYPES) for _ in names]
    columns = tuple(
        Column(name=name, type=column_type, nullable=draw(st.booleans()), default=draw(defaults(column_type)))
        for name, column_type in zip(names, types, strict=True)
    )
    primary = Index(name="PRIMARY", unique=True, primary=True, nullable=False, columns=(names[0],))
    table = Table(
        schema=draw(NAMES),
        name=draw(NAMES),
        columns=columns,
        indexes=draw(st.sampled_from([(), (primary,)])),
        table_id=draw(st.integers(1, 2**63 - 1)),
        version=draw(st.integers(1, 2**63 - 1)),
    )
    row: st.SearchStrategy[dict[str, Value]] = st.fixed_dictionaries(
        {name: st.none() | values(column_type) for name, column_type in zip(names, types, strict=True)}
    )
    return table, draw(st.lists(row, min_size=1, max_size=4))


@given(tables_and_rows(), st.sampled_from(["UTC", "Asia/Shanghai", "+05:30"]), st.integers(0, 2**63 - 1))
def test_any_table_and_rows_round_trip(drawn: tuple[Table, list[dict[str, Value]]], zone: str, commit_ts: int) -> None:
    table, rows = drawn
    to = encoder(SimpleConfig(time_zone=zone))
    bootstrap = to.bootstrap(table)
    assert bootstrap is not None
    assert opened(bootstrap.value or b"") == Bootstrap(table)
    sent = [
        RowChange(op="update", table=table, commit_ts=commit_ts, before=rows[0], after=row, table_id=9) for row in rows
    ]
    key = (table.schema, table.name, str(table.version))
    assert [decode(DECODER, None, one.value, {key: table}) for one in to.rows(sent)] == [[one] for one in sent]


@given(st.binary(max_size=60), st.none() | st.binary(max_size=9))
def test_arbitrary_bytes_are_rejected(value: bytes, key: bytes | None) -> None:
    (event,) = DECODER.open_message(key, value)
    assert isinstance(event, Rejected)
    columns = read([value, None, b'{"id":"1"}'])
    assert set(columns.bad) <= {0}
    assert columns.values[0][2] == "1"


@given(st.sampled_from(EXAMPLES), st.data())
def test_mutated_messages_never_raise(message: str, data: st.DataObject) -> None:
    raw = message.encode()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(raw) - 1))
        end = data.draw(st.integers(start, min(start + 8, len(raw))))
        raw = raw[:start] + data.draw(st.binary(max_size=4)) + raw[end:] or b" "
    (event,) = DECODER.open_message(None, raw)
    if isinstance(event, Envelope):
        assert 0 <= event.commit_ts < 2**63
        columns = read([event.before, event.after])
        assert all(len(cells) == 2 for cells in columns.values)
    else:
        assert isinstance(event, Rejected | SchemaChange | Bootstrap | Watermark)


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.dictionaries(NAMES, inner)))
def test_any_json_value_in_a_field_never_raises(value: Any) -> None:
    for message in EXAMPLES:
        fields = json.loads(message)
        for field in fields:
            (event,) = DECODER.open_message(None, json.dumps({**fields, field: value}).encode())
            if isinstance(event, Envelope):
                read([event.before, event.after])
