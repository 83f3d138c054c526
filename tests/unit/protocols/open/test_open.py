"""The Open protocol by its document's examples, by bad input, and by random rows there and back."""

from __future__ import annotations

import json
import struct
import tracemalloc
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Envelope, Rejected, Row, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import ReadOptions, decode
from ticdc_spark.protocols.open.decode import DECODER
from ticdc_spark.protocols.open.encode import OpenConfig, encoder
from ticdc_spark.protocols.open.frames import frame_key, frame_value, split_keys
from ticdc_spark.protocols.open.images import table_from_row
from ticdc_spark.protocols.shared.tidb_ddl_codes import ddl_type_code

T1 = parse_create("CREATE TABLE test.t1(id int primary key, val varchar(16))", "test")
ROW_KEY = {"ts": 415508878783938562, "scm": "test", "tbl": "t1", "t": 1}


def message(*events: tuple[Any, Any]) -> tuple[bytes, bytes]:
    """A message of events, each a key and a value to be written as JSON (bytes stay as they are)."""
    texts = [[part if isinstance(part, bytes) else json.dumps(part).encode() for part in event] for event in events]
    return frame_key(key for key, _ in texts), frame_value(value for _, value in texts)


def one(key: Any, value: Any) -> Any:
    (event,) = DECODER.open_message(*message((key, value)))
    return event


def values(table: Table, image: Any, **options: Any) -> Row:
    """The one row of an image, or a MessageError with why it is bad."""
    columns = DECODER.row_reader(table, ReadOptions(**options))([json.dumps(image).encode()])
    if columns.bad:
        raise MessageError(columns.bad[0])
    return {column.name: cells[0] for column, cells in zip(table.columns, columns.values, strict=True)}


def column(kind: str, cell: dict[str, Any], **options: Any) -> Any:
    return values(parse_create(f"CREATE TABLE d.t (c {kind})", "d"), {"c": cell}, **options)["c"]


def test_the_documents_stream() -> None:
    """Document 002, "Event stream": logs 1, 2, 5 and 9; VARCHAR is base64 and has no flags there."""
    assert decoder("open") is DECODER
    ddl_key = {"ts": 415508856908021766, "scm": "test", "tbl": "t1", "t": 2}
    sql = "CREATE TABLE test.t1(id int primary key, val varchar(16))"
    assert one(ddl_key, {"q": sql, "t": 3}) == SchemaChange(
        commit_ts=415508856908021766, query=sql, kind="3", schema="test", name="t1"
    )
    assert one({"ts": 415508856908021766, "t": 3}, b"") == Watermark(415508856908021766)
    insert = {"u": {"id": {"t": 3, "h": True, "v": 1}, "val": {"t": 15, "v": "YWE="}}}
    tables = {("test", "t1", ""): T1}
    (change,) = decode(DECODER, *message((ROW_KEY, insert)), tables)
    assert change == RowChange(
        op="upsert", table=T1, commit_ts=415508878783938562, after={"id": "1", "val": "aa"}, before=None
    )
    (deleted,) = decode(DECODER, *message((ROW_KEY, {"d": {"id": {"t": 3, "h": True, "v": 1}}})), tables)
    assert isinstance(deleted, RowChange)
    assert (deleted.op, deleted.before, deleted.after) == ("delete", {"id": "1"}, None)


def test_a_batch_gives_an_event_each() -> None:
    row = {"u": {"id": {"t": 3, "f": 11, "v": 1}}}
    update = {**row, "p": row["u"]}
    events = DECODER.open_message(*message((ROW_KEY, row), (ROW_KEY, {"x": 1}), (ROW_KEY, update)))
    assert [type(event).__name__ for event in events] == ["Envelope", "Rejected", "Envelope"]
    assert [event.op for event in events if isinstance(event, Envelope)] == ["upsert", "update"]


@pytest.mark.parametrize("value", [None, b"", b"\0" * 8])
def test_a_resolved_event_may_have_no_value(value: bytes | None) -> None:
    key, _ = message(({"ts": 7, "t": 3}, b""))
    assert DECODER.open_message(key, value) == [Watermark(7)]


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("TINYINT", {"t": 1, "v": 1}, "1"),
        ("BIGINT UNSIGNED", {"t": 8, "f": 193, "v": 18446744073709551615}, "18446744073709551615"),
        ("FLOAT", {"t": 4, "v": 153.123}, "153.123"),
        ("DOUBLE", {"t": 5, "f": 65, "v": 1e300}, "1e300"),
        ("INT", {"t": 6, "v": None}, None),
        ("DOUBLE", {"t": 6, "v": None}, None),
        ("TEXT", {"t": 6, "v": None}, None),
        ("DATE", {"t": 14, "v": "2000-01-01"}, "2000-01-01"),
        ("TIME", {"t": 11, "v": "-838:59:59"}, "-838:59:59"),
        ("YEAR", {"t": 13, "v": 1970}, "1970"),
        ("VARCHAR(9)", {"t": 253, "f": 64, "v": "测试"}, "测试"),
        ("CHAR(9)", {"t": 254, "f": 0, "v": "YWE="}, "YWE="),
        ("VARBINARY(9)", {"t": 15, "f": 65, "v": "\\x89PNG\\r\\n\\x1a\\n"}, b"\x89PNG\r\n\x1a\n"),
        ("VARBINARY(9)", {"t": 15, "f": 0, "v": "\\xff"}, b"\xff"),  # a stale flag of the new architecture
        ("VARBINARY(9)", {"t": 15, "v": "/w=="}, b"\xff"),  # without flags: old
        ("BIT(7)", {"t": 16, "v": 81}, "81"),
        ("JSON", {"t": 245, "v": '{"key1": "value1"}'}, '{"key1": "value1"}'),
        ("JSON", {"t": 251, "v": "WzEsICLDqSJd"}, '[1, "é"]'),
        ("JSON", {"t": 251, "v": None}, None),
        ("DECIMAL(20,7)", {"t": 246, "v": "129012.1230000"}, "129012.1230000"),
        ("ENUM('a')", {"t": 247, "v": 1}, "1"),
        ("SET('a','b')", {"t": 248, "v": 3}, "3"),
        ("TEXT", {"t": 252, "f": 64, "v": "5rWL6K+VdGV4dA=="}, "测试text"),
        ("TINYTEXT", {"t": 249, "f": 64, "v": "/w=="}, b"\xff"),  # not UTF-8
        ("BLOB", {"t": 252, "f": 65, "v": "5rWL6K+VdGV4dA=="}, "测试text".encode()),
    ],
)
def test_values_by_type_code(kind: str, cell: dict[str, Any], value: object) -> None:
    assert column(kind, cell) == value


def test_a_negative_zero_keeps_its_sign() -> None:
    table = parse_create("CREATE TABLE d.t (c DOUBLE)", "d")
    columns = DECODER.row_reader(table, ReadOptions())([b'{"c":{"t":5,"f":65,"v":-0}}'])
    assert columns.values == [["-0"]]


def test_a_timestamp_needs_the_changefeeds_zone() -> None:
    cell = {"t": 7, "f": 65, "v": "2024-01-02 03:04:05.678"}
    assert column("TIMESTAMP(3)", cell, source_timezone="Asia/Shanghai") == "2024-01-01 19:04:05.678"
    with pytest.raises(MessageError, match="source-timezone"):
        column("TIMESTAMP(3)", cell)


@pytest.mark.parametrize(
    ("kind", "cell", "reason"),
    [
        ("INT", {"t": 15, "f": 64, "v": "x"}, "int"),
        ("INT", {"t": 246, "f": 65, "v": 1}, "another version"),
        ("JSON", {"t": 252, "v": "WzEsICLDqSJd"}, "another version"),
        ("JSON", {"t": 251, "v": "[1]"}, "not base64"),
        ("INT", {"t": 3, "f": 65, "v": "1"}, "Expected `int | null`"),
        ("INT", {"t": 3, "f": 65}, "missing required field `v`"),
        ("FLOAT", {"t": 4, "f": 65, "v": 1.23456789e39}, "32-bit"),
        ("VARCHAR(9)", {"t": 15, "v": "no base64!"}, "not base64"),
        ("VARBINARY(9)", {"t": 15, "f": 65, "v": "\\q"}, "bad escape"),
        ("BLOB", {"t": 252, "f": 65, "v": "*"}, "base64"),
    ],
)
def test_a_value_that_cannot_be_read_is_bad(kind: str, cell: dict[str, Any], reason: str) -> None:
    with pytest.raises(MessageError, match=reason.replace("|", r"\|")):
        column(kind, cell)


def test_a_column_that_the_table_has_not_is_bad() -> None:
    with pytest.raises(MessageError, match="unknown"):
        values(T1, {"id": {"t": 3, "v": 1}, "more": {"t": 3, "v": 1}})


def frame_with_length(length: int) -> bytes:
    return struct.pack(">QQ", 1, length) + b"{}"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"x", "has a key"),
        (b"", b"x", "has a key"),
        (b"\0" * 7, b"", "8 bytes of version"),
        (struct.pack(">Q", 2), b"", "version is 0x2"),
        (struct.pack(">Q", 1), struct.pack(">Q", 2) + b"{}", "0 keys and 1 values"),
        (frame_with_length(3), b"", "length of 3 bytes where 2 are left"),
        (frame_with_length(2**63), b"", "where 2 are left"),
        (frame_with_length(2) + b"\0\0", b"", "8 bytes of length"),
        (frame_with_length(2), struct.pack(">QQ", 0, 0), "1 keys and 2 values"),
        (b'{"ts":1}', b"", "version is"),
        (b'{"ts":1,"scm":"a","tbl":"b","t":1}', b'{"u":{}}', "an Open key without its frame: 8 bytes"),
        (b' { "ts": 1, "t": 3 }', b"", "an Open key without its frame: 8 bytes"),
    ],
)
def test_a_broken_frame_is_one_reject(key: bytes | None, value: bytes, reason: str) -> None:
    (event,) = DECODER.open_message(key, value)
    assert isinstance(event, Rejected) and reason in event.reason


@pytest.mark.parametrize("value", [b"", None])
def test_the_version_alone_is_an_empty_batch(value: bytes | None) -> None:
    assert [*DECODER.open_message(struct.pack(">Q", 1), value)] == []


def test_a_huge_length_takes_no_memory() -> None:
    tracemalloc.start()
    DECODER.open_message(frame_with_length(1 << 40), struct.pack(">Q", 1 << 40))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


IMAGE = {"id": {"t": 3, "f": 11, "v": 1}}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ({**ROW_KEY, "ts": 2**63}, {"u": IMAGE}, "allowed: 1 … 2^63 - 1"),
        ({**ROW_KEY, "ts": 0}, {"u": IMAGE}, "`ts` is 0"),
        ({**ROW_KEY, "t": 4}, {"u": IMAGE}, "allowed: 1 (row), 2 (DDL), 3 (resolved)"),
        ({**ROW_KEY, "ts": "1"}, {"u": IMAGE}, "Expected `int`"),
        ({**ROW_KEY, "tbl": ""}, {"u": IMAGE}, "`scm` or `tbl`"),
        (b"{", {"u": IMAGE}, "not an Open event"),
        (ROW_KEY, {"u": 1}, "no JSON object"),
        (ROW_KEY, {"u": IMAGE, "p": []}, "no JSON object"),
        (ROW_KEY, {"p": IMAGE}, 'neither "u" nor "d"'),
        (ROW_KEY, {"u": IMAGE, "d": IMAGE}, 'both "d" and'),
        (ROW_KEY, b"", "not an Open event"),
        (ROW_KEY, b"\xff\xff\xff\xff\xff\xff", "snappy"),
        ({**ROW_KEY, "t": 2}, {"q": 1}, "Expected `str`"),
        (ROW_KEY, {"u": IMAGE, "p": {"t": 3, "v": [1]}}, "got `array` - at `$.v`"),
        (ROW_KEY, {"u": IMAGE, "p": {"id": {"t": [1]}, "t": 3}}, "neither text nor number"),
    ],
)
def test_a_broken_event_has_a_reason(key: Any, value: Any, reason: str) -> None:
    event = one(key, value)
    assert isinstance(event, Rejected) and reason in event.reason


def test_a_snappy_bomb_is_refused() -> None:
    event = one(ROW_KEY, b"\xff\xff\xff\xff\x0f" + b"\0" * 20)  # claims 4 GiB
    assert isinstance(event, Rejected) and "allowed" in event.reason


def test_an_update_of_changed_columns_has_a_whole_before() -> None:
    new = {"a": {"t": 3, "f": 65, "v": 2}, "id": {"t": 3, "f": 11, "v": 1}, "p": {"t": 3, "f": 65, "v": 5}}
    event = one(ROW_KEY, {"u": new, "p": {"a": {"t": 3, "f": 65, "v": 1}}})
    assert json.loads(event.before) == {**new, "a": {"t": 3, "f": 65, "v": 1}}
    assert not event.partial
    assert json.loads(one(ROW_KEY, {"u": new, "p": {}}).before) == new


def test_columns_without_a_name_are_put_back_where_there_is_no_doubt() -> None:
    """The new architecture forgets the name of a column that became NULL."""
    null = {"t": 16, "f": 193, "v": None}
    old = b'{"t":16,"f":193,"v":85,"t":16,"f":193,"v":86,"x":{"t":3,"f":65,"v":1}}'
    new = {"b1": null, "b2": null, "x": {"t": 3, "f": 65, "v": 2}}
    (event,) = DECODER.open_message(*message((ROW_KEY, b'{"u":' + json.dumps(new).encode() + b',"p":' + old + b"}")))
    assert isinstance(event, Envelope) and event.before is not None
    assert {name: cell["v"] for name, cell in json.loads(event.before).items()} == {"b1": 85, "b2": 86, "x": 1}


def test_columns_without_a_name_are_left_out_where_there_is_doubt() -> None:
    null = {"t": 16, "f": 193, "v": None}
    new = {"b1": null, "b2": null, "x": {"t": 3, "f": 65, "v": 2}}
    event = one(ROW_KEY, {"u": new, "p": {"t": 16, "f": 193, "v": 85}})
    assert json.loads(event.before) == {"x": {"t": 3, "f": 65, "v": 2}}


def test_a_null_without_a_name_may_stand_beside_a_column_that_is_no_object() -> None:
    event = one(ROW_KEY, {"u": {"a": None, "b": {"t": 3, "f": 65, "v": None}}, "p": {"t": 3, "f": 65, "v": 7}})
    assert json.loads(event.before) == {"a": None, "b": {"t": 3, "f": 65, "v": 7}}


def test_columns_of_one_name_with_a_columns_field_are_whole_only_with_a_value() -> None:
    """Of a column that became NULL only its fields come: they are no names, though the table has columns of them."""
    new = {"v": {"t": 3, "f": 65, "v": None}}
    assert json.loads(one(ROW_KEY, {"u": new, "p": {"t": 3, "f": 65, "v": 7}}).before) == {
        "v": {"t": 3, "f": 65, "v": 7}
    }


def test_the_last_of_repeated_key_fields_counts() -> None:
    """The new architecture writes ohk twice into claim-check keys."""
    key = b'{"ts":7,"scm":"s","tbl":"t","t":1,"ohk":true,"ohk":false,"ccl":"file:///x","ptn":9}'
    event = one(key, {"u": IMAGE})
    assert (event.partial, event.claim_check, event.table_id) == (True, "file:///x", 9)


def test_what_a_row_shows_of_its_table() -> None:
    image = {
        "b": {"t": 15, "f": 65, "v": "x"},
        "id": {"t": 8, "h": True, "f": 139, "v": 1},
        "s": {"t": 252, "f": 64, "v": "eA=="},
        "e": {"t": 247, "f": 0, "v": 1},
    }
    table = table_from_row("d", "t", json.dumps(image).encode())
    assert [(c.name, c.type.name, c.type.unsigned, c.nullable) for c in table.columns] == [
        ("b", "varbinary", False, True),
        ("id", "bigint", True, False),
        ("s", "text", False, True),
        ("e", "enum", False, False),
    ]
    assert handle_key(table) == ("id",)
    for broken in (b"[]", b'{"a":{"t":255,"f":1}}', b'{"a":{"t":6,"f":1}}'):
        with pytest.raises(MessageError):
            table_from_row("d", "t", broken)


TABLE = parse_create(
    """CREATE TABLE d.`o"dd \\n` (
    id BIGINT UNSIGNED PRIMARY KEY, v VARCHAR(20) CHARACTER SET utf8mb4, vb VARBINARY(9),
    t TEXT, b BLOB, f FLOAT, dbl DOUBLE, dc DECIMAL(10,2), ts TIMESTAMP(3) NULL, e ENUM('a','b'),
    `q"\\` INT, j JSON)""",
    "d",
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
YEARS = datetime.fromisoformat("1971-01-01"), datetime.fromisoformat("2037-01-01")
CELLS = {
    "id": st.integers(0, 2**64 - 1).map(str),
    "v": TEXT,
    "vb": st.binary(max_size=9),
    "t": TEXT,
    "b": st.binary(max_size=30),
    "f": st.sampled_from(["0", "-0", "1.5", "3.40282e38", "1e-45", "0.1"]),
    "dbl": st.sampled_from(["0", "-0", "1e300", "-2.5", "1e-7", "1.2345678901234568e20"]),
    "dc": st.decimals(-9999, 9999, places=2).map(str),
    "ts": st.datetimes(min_value=YEARS[0], max_value=YEARS[1]).map(
        lambda at: at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}"
    ),
    "e": st.sampled_from(["0", "1", "2"]),
    'q"\\': st.integers(-(2**31), 2**31 - 1).map(str),
    "j": st.sampled_from(['{"a": "<&>\u2028"}', "null"]),
}
ROWS = st.fixed_dictionaries({name: cell if name == "id" else st.none() | cell for name, cell in CELLS.items()})


@given(
    st.lists(st.tuples(ROWS, ROWS, st.sampled_from(["upsert", "update", "delete"])), min_size=1, max_size=20),
    st.booleans(),
    st.sampled_from(["none", "snappy", "lz4"]),
    st.integers(1, 16),
)
def test_rows_come_back(rows: list[Any], changed_only: bool, compression: Any, batch: int) -> None:
    config = OpenConfig(
        time_zone="Asia/Shanghai",
        only_output_updated_columns=changed_only,
        compression=compression,
        max_batch_size=batch,
    )
    changes = [
        RowChange(
            op="upsert" if op == "update" and changed_only and before == after else op,
            table=TABLE,
            commit_ts=at + 1,
            before=before if op != "upsert" else None,
            after=after if op != "delete" else None,
        )
        for at, (before, after, op) in enumerate(rows)
    ]
    changes = [change if change.op != "upsert" else replace(change, before=None) for change in changes]
    messages = list(encoder(config).rows(changes))
    assert [message.rows for message in messages[:-1]] == [batch] * (len(messages) - 1)
    options = ReadOptions(source_timezone="Asia/Shanghai")
    tables = {(TABLE.schema, TABLE.name, ""): TABLE}
    assert [c for m in messages for c in decode(DECODER, m.key, m.value, tables, options)] == changes


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_give_events(key: bytes, value: bytes) -> None:
    for framed_key, framed_value in ((key, value), (frame_key([key]), frame_value([value]))):
        events = DECODER.open_message(framed_key, framed_value)
        assert events and all(isinstance(event, Rejected | Watermark | Envelope | SchemaChange) for event in events)


T2 = parse_create("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(9))", "d")


def test_large_rows_go_elsewhere_or_are_refused() -> None:
    change = RowChange(op="upsert", table=T2, commit_ts=5, after={"id": "1", "v": "x" * 500})
    with pytest.raises(MessageError, match="max-message-bytes is 300"):
        list(encoder(OpenConfig(max_message_bytes=300)).rows([change]))
    (small,) = encoder(OpenConfig(max_message_bytes=300, large_message_handle="handle-key-only")).rows([change])
    (event,) = DECODER.open_message(small.key, small.value)
    assert isinstance(event, Envelope) and event.partial and event.after == b'{"id":{"t":3,"h":true,"f":11,"v":1}}'
    claim = OpenConfig(max_message_bytes=300, large_message_handle="claim-check", store=lambda key, value: "s3://b/x")
    (small,) = encoder(claim).rows([change])
    assert b'"ccl":"s3://b/x"' in split_keys(small.key or b"")[0]
    with pytest.raises(MessageError, match="a place to store"):
        list(encoder(OpenConfig(max_message_bytes=300, large_message_handle="claim-check")).rows([change]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (RowChange(op="update", table=T2, commit_ts=5, after={"id": "1"}), "without its before image"),
        (RowChange(op="insert", table=T2, commit_ts=5), "without its after image"),
        (RowChange(op="insert", table=T2, commit_ts=5, after={"nothing": "1"}), "no column"),
    ],
)
def test_a_change_that_cannot_be_written_has_a_reason(change: RowChange, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        list(encoder().rows([change]))


def test_ddl_of_other_protocols_gets_its_type_code() -> None:
    sql = "ALTER TABLE t ADD COLUMN a INT, ADD COLUMN b INT"
    sent = encoder().ddl(SchemaChange(commit_ts=7, query=sql, kind="ALTER", schema="d", name="t"))
    assert sent is not None
    (event,) = DECODER.open_message(sent.key, sent.value)
    assert event == SchemaChange(commit_ts=7, query=sql, kind="61", schema="d", name="t")
    assert ddl_type_code("GRANT ALL ON *.* TO x") == 0
    assert ddl_type_code("ALTER TABLE t DROP CONSTRAINT c") == 0
