"""canal-json by its rules, by Canal's own messages, by bad and damaged ones, and by random rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocols.simple.test_simple_properties import NAMES, TEXT, tables_and_rows
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Envelope, Rejected, RowChange, SchemaChange, Table, Value, Watermark
from ticdc_spark.mysql import tso, tso_physical_ms
from ticdc_spark.protocols.base import ReadOptions, decode
from ticdc_spark.protocols.canal_json.decode import DECODER
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig, encoder
from ticdc_spark.protocols.canal_json.images import table_from_message
from ticdc_spark.wire.compression import compress

MS = 1_700_000_000_000
T = parse_create(
    "CREATE TABLE d.t (id INT PRIMARY KEY, u BIGINT UNSIGNED, v VARCHAR(900), b BLOB, ts TIMESTAMP(3))", "d"
)
ROW: dict[str, Value] = {"id": "1", "u": None, "v": "x", "b": b"\x00\xff", "ts": "2024-01-01 00:00:00.000"}
CHANGED: dict[str, Value] = {**ROW, "v": "y"}
UPDATE = RowChange(op="update", table=T, commit_ts=tso(MS, 3), before=ROW, after=CHANGED)
KEY = {("d", "t", ""): T}
UTC = ReadOptions(source_timezone="UTC")
FIELDS: dict[str, Any] = {
    "id": 0,
    "database": "d",
    "table": "t",
    "pkNames": ["id"],
    "isDdl": False,
    "type": "INSERT",
    "es": MS,
    "ts": MS,
    "sql": "",
    "sqlType": {},
    "mysqlType": {"id": "int"},
    "old": None,
    "data": [{"id": "1"}],
    "_tidb": {"commitTs": tso(MS, 3)},
}


def message(**fields: Any) -> bytes:
    return json.dumps({name: cell for name, cell in {**FIELDS, **fields}.items() if cell != "absent"}).encode()


def opened(value: bytes) -> Any:
    (event,) = DECODER.open_message(None, value)
    return event


def sent(change: RowChange, **config: Any) -> dict[str, Any]:
    (encoded,) = encoder(CanalJsonConfig(**config)).rows([change])
    assert encoded.key is None and encoded.rows == 1 and encoded.value
    return dict(json.loads(encoded.value))


def test_the_time_with_and_without_the_extension() -> None:
    assert opened(message()).commit_ts == tso(MS, 3)
    assert opened(message(_tidb="absent")).commit_ts == tso(MS)


def test_a_message_needs_only_the_fields_that_it_is_read_by() -> None:
    assert opened(b'{"isDdl":false,"type":"TIDB_WATERMARK","_tidb":{"watermarkTs":10}}') == Watermark(10)
    assert opened(message(es="absent")) == opened(message())
    ddl = opened(message(type="CREATE", isDdl=True, sql="CREATE DATABASE d", es="absent", table="absent"))
    assert (ddl.schema, ddl.name, ddl.commit_ts) == ("d", "", tso(MS, 3))


def test_canals_own_messages_have_several_rows() -> None:
    value = message(_tidb="absent", type="UPDATE", data=[{"id": "1"}, {"id": "2"}], old=[{"id": "8"}, {"id": "9"}])
    events = DECODER.open_message(None, value)
    assert [(event.before, event.after) for event in events if isinstance(event, Envelope)] == [
        (b'{"id": "8"}', b'{"id": "1"}'),
        (b'{"id": "9"}', b'{"id": "2"}'),
    ]


def test_an_update_without_old_values_is_an_upsert() -> None:
    event = opened(message(type="UPDATE"))
    assert (event.op, event.before, event.after) == ("upsert", None, b'{"id": "1"}')


def test_changed_columns_only_give_a_whole_before() -> None:
    event = opened(message(type="UPDATE", data=[{"id": "1", "v": None, "w": "3"}], old=[{"v": "2"}]))
    assert json.loads(event.before) == {"id": "1", "v": "2", "w": "3"}
    assert json.loads(opened(message(type="UPDATE", data=[{"id": "1"}], old=[{}])).before) == {"id": "1"}


@pytest.mark.parametrize("more", [{"onlyHandleKey": True}, {"claimCheckLocation": "s3://b/x.json"}])
def test_handle_keys_only_are_partial(more: dict[str, Any]) -> None:
    event = opened(message(_tidb={"commitTs": 5, **more}))
    assert event.partial
    assert event.claim_check == more.get("claimCheckLocation")


def test_compressed_messages() -> None:
    for kind in ("lz4", "snappy"):
        assert opened(compress(message(), kind)) == opened(message())


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "this one is null"),
        (b"", "this one is empty"),
        (b"\xff\xff", "neither JSON nor snappy nor lz4"),
        (b"{", "neither JSON nor snappy nor lz4"),
        (b'{"', "not a canal-json message"),
        (b"{}", "missing required field `isDdl`"),
        (message(isDdl="yes"), "isDdl"),
        (message(type="MERGE"), "field `type` is 'MERGE'"),
        (message(type="QUERY", isDdl=True), "without field `sql`"),
        (message(data=None), "0 rows in `data`"),
        (message(data=[]), "0 rows in `data`"),
        (message(data=["x"]), "no JSON object"),
        (message(type="UPDATE", old=[{}, {}]), "1 rows in `data` and 2 in `old`"),
        (message(type="UPDATE", old=[5]), "no JSON object"),
        (message(table=""), "a row without field `table`"),
        (message(table="absent"), "a row without field `table`"),
        (message(database="absent"), "a row without field `database`"),
        (message(type="QUERY", isDdl=True, sql="DROP TABLE t", database="absent"), "QUERY without field `database`"),
        (message(_tidb={}), "`_tidb.commitTs` is missing"),
        (message(_tidb={"commitTs": 0}), "`_tidb.commitTs` is 0"),
        (message(_tidb={"commitTs": 1 << 63}), "commitTs"),
        (message(_tidb="absent", es="absent"), "field `es` is missing, and there is no `_tidb`"),
        (message(_tidb="absent", es=0), "field `es` is 0"),
        (message(_tidb="absent", es=1 << 45), "field `es`"),
        (message(type="TIDB_WATERMARK", _tidb={}), "`_tidb.watermarkTs` is missing"),
        (message(type="TIDB_WATERMARK", _tidb="absent"), "`_tidb.watermarkTs` is missing"),
        (message(type="TIDB_WATERMARK", _tidb={"watermarkTs": 0}), "`_tidb.watermarkTs` is 0"),
        (b'{"data":' + b"[" * 100_000, "not a canal-json message"),
    ],
)
def test_a_bad_message_has_a_reason(value: bytes | None, reason: str) -> None:
    (event,) = DECODER.open_message(None, value)
    assert isinstance(event, Rejected)
    assert reason in event.reason


def test_a_snappy_bomb_is_refused() -> None:
    event = opened(b"\xff\xff\xff\xff\x0f" + b"x")
    assert isinstance(event, Rejected) and "4294967295 bytes unpacked" in event.reason


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ({"id": 1}, "str | null"),
        ({"id": "1", "no": "x"}, "unknown field `no`"),
        ({"id": "1", "b": "\u0100"}, "which is no byte"),
        ({"id": "1", "ts": "soon"}, "is no time"),
    ],
)
def test_a_value_that_cannot_be_read_is_bad(image: dict[str, Any], reason: str) -> None:
    (event,) = decode(DECODER, None, message(data=[image]), KEY, ReadOptions(source_timezone="Asia/Shanghai"))
    assert isinstance(event, Rejected)
    assert reason in event.reason


def test_a_timestamp_needs_the_changefeeds_zone() -> None:
    value = message(data=[{"id": "1", "ts": "2024-01-01 08:00:00.000"}])
    (without,) = decode(DECODER, None, value, KEY)
    assert isinstance(without, Rejected) and "source-timezone must name" in without.reason
    (change,) = decode(DECODER, None, value, KEY, ReadOptions(source_timezone="Asia/Shanghai"))
    assert isinstance(change, RowChange) and change.after == {"id": "1", "ts": "2024-01-01 00:00:00.000"}


def test_a_type_that_is_not_known_is_refused() -> None:
    table = parse_create("CREATE TABLE d.t (id INT PRIMARY KEY, g GEOMETRY)", "d")
    with pytest.raises(MessageError, match="geometry"):
        DECODER.row_reader(table, UTC)


def test_unsigned_codes_depend_on_the_value() -> None:
    table = parse_create(
        "CREATE TABLE d.t (id INT PRIMARY KEY, a TINYINT UNSIGNED, b SMALLINT UNSIGNED, c INT UNSIGNED, "
        "d BIGINT UNSIGNED, e INT)",
        "d",
    )
    small = {"id": "1", "a": "127", "b": "32767", "c": str(2**31 - 1), "d": str(2**63 - 1), "e": None}
    large = {"id": "1", "a": "128", "b": "32768", "c": str(2**31), "d": str(2**63), "e": "-1"}
    codes = [
        sent(RowChange(op="insert", table=table, commit_ts=5, after=row))["sqlType"]
        for row in (small, large, {**large, "d": None})
    ]
    assert [list(found.values()) for found in codes] == [
        [4, -6, 5, 4, -5, 4],
        [4, 5, 4, -5, 3, 4],
        [4, 5, 4, -5, -5, 4],
    ]


def test_types_and_codes_of_odd_names_and_of_some_columns() -> None:
    """Codes are put into a text of all types: a percent sign stays, and a row may lack a column."""
    table = parse_create("CREATE TABLE d.t (`%d` TINYINT UNSIGNED PRIMARY KEY, `a%` INT, b INT UNSIGNED)", "d")
    rows: list[dict[str, Value]] = [{"%d": "200", "a%": "1", "b": "3000000000"}, {"%d": "1", "a%": None, "b": None}]
    rows += [{"%d": "128", "b": "1"}, {"%d": "2", "a%": "1", "b": "4294967295"}]
    codes = [{"%d": 5, "a%": 4, "b": -5}, {"%d": -6, "a%": 4, "b": 4}, {"%d": 5, "b": 4}, {"%d": -6, "a%": 4, "b": -5}]
    changes = [RowChange(op="update", table=table, commit_ts=1 << 18, before=rows[0], after=row) for row in rows]
    types = {"%d": "tinyint unsigned", "a%": "int", "b": "int unsigned"}
    for row, code, written in zip(rows, codes, encoder().rows(changes), strict=True):
        assert written.value is not None
        found = json.loads(written.value)
        assert (found["data"], found["sqlType"]) == ([row], code)
        assert found["mysqlType"] == {name: types[name] for name in row}
        assert found["old"] == [{name: rows[0][name] for name in row}]


def test_control_characters_have_no_short_forms() -> None:
    table = parse_create("CREATE TABLE d.t (`\b` VARCHAR(9), b VARBINARY(9), j JSON)", "d")
    row: dict[str, Value] = {"\b": "\f", "b": b"\b", "j": '"<"'}
    (written,) = encoder().rows([RowChange(op="insert", table=table, commit_ts=1 << 18, after=row)])
    assert written.value is not None
    assert written.value.endswith(rb'"data":[{"\u0008":"\u000c","b":"\u0008","j":"\"\u003c\""}]}')


def test_columns_stand_in_the_tables_order_whatever_the_rows() -> None:
    def turned(row: dict[str, Value], *without: str) -> dict[str, Value]:
        return {name: row[name] for name in reversed(row) if name not in without}

    insert = RowChange(op="insert", table=T, commit_ts=5, after=turned(ROW))
    update = RowChange(op="update", table=T, commit_ts=5, before=turned(ROW, "u"), after=turned(CHANGED, "b"))
    found = [json.loads(one.value or b"") for one in encoder().rows([UPDATE, insert, update, UPDATE])]
    whole, fewer = list(ROW), [name for name in ROW if name != "b"]
    assert [[list(one[field]) for field in ("sqlType", "mysqlType")] for one in found] == [
        [names, names] for names in (whole, whole, fewer, whole)
    ]
    assert [list(one["data"][0]) for one in found] == [whole, whole, fewer, whole]
    assert [one["old"] and list(one["old"][0]) for one in found] == [whole, None, ["id", "v", "ts"], whole]
    assert {**found[0], "ts": 0} == {**found[3], "ts": 0}


def test_text_is_escaped_as_tidbs_writer_does() -> None:
    table = parse_create("CREATE TABLE d.`<t>` (`<id>` INT PRIMARY KEY, v VARCHAR(9), `\\b` VARCHAR(9))", "d")
    rows: list[dict[str, Value]] = [
        {"<id>": "1", "v": v, "\\b": "\\f"} for v in ("&\u2028", "\b\f\\b", b"<\xff", b"\xff\b")
    ]
    changes = [RowChange(op="insert", table=table, commit_ts=5, after=row) for row in rows]
    values = [(one.value or b"").partition(b'"data":')[2] for one in encoder().rows(changes)]
    start, end = rb'[{"\u003cid\u003e":"1","v":"', rb'","\\b":"\\f"}]}'
    assert values == [
        start + text + end for text in (rb"\u0026\u2028", rb"\u0008\u000c\\b", rb"\u003c\ufffd", rb"\ufffd\u0008")
    ]


def test_old_has_all_or_the_changed_columns() -> None:
    assert sent(UPDATE)["old"][0].keys() == ROW.keys()
    assert sent(UPDATE, only_output_updated_columns=True)["old"] == [{"v": "x"}]
    compatible = sent(UPDATE, content_compatible=True)
    assert compatible["old"] == [{"v": "x"}]
    assert compatible["mysqlType"]["u"] == "bigint(20) unsigned"


def test_a_delete_may_have_its_keys_only() -> None:
    delete = RowChange(op="delete", table=T, commit_ts=5, before=ROW)
    assert sent(delete, delete_only_output_handle_key_columns=True)["data"] == [{"id": "1"}]
    keyless = RowChange(
        op="delete", table=parse_create("CREATE TABLE d.t (a INT)", "d"), commit_ts=5, before={"a": "1"}
    )
    with pytest.raises(MessageError, match="has no handle key"):
        sent(keyless, delete_only_output_handle_key_columns=True)


def test_large_rows_go_elsewhere_or_are_refused() -> None:
    large = RowChange(op="insert", table=T, commit_ts=5, after={**ROW, "v": "x" * 900})
    limit: dict[str, Any] = {"max_message_bytes": 400, "enable_tidb_extension": True}
    with pytest.raises(MessageError, match="max-message-bytes is 400"):
        sent(large, **limit)
    keys = sent(large, **limit, large_message_handle="handle-key-only")
    assert (keys["data"], keys["_tidb"]) == ([{"id": "1"}], {"commitTs": 5, "onlyHandleKey": True})
    kept: list[bytes] = []
    claim = {"large_message_handle": "claim-check", "store": lambda value: kept.append(value) or "s3://b/x"}
    assert sent(large, **limit, **claim)["_tidb"] == {"commitTs": 5, "claimCheckLocation": "s3://b/x"}
    assert json.loads(kept[0])["data"][0]["v"] == "x" * 900
    with pytest.raises(MessageError, match="a place to store"):
        sent(large, **limit, large_message_handle="claim-check")
    with pytest.raises(MessageError, match="max-message-bytes is 100"):
        sent(large, **{**limit, "max_message_bytes": 100}, large_message_handle="handle-key-only")
    with pytest.raises(MessageError, match="max-message-bytes"):
        sent(large, max_message_bytes=400, large_message_handle="handle-key-only")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (RowChange(op="update", table=T, commit_ts=5, after=ROW), "without its before image"),
        (RowChange(op="insert", table=T, commit_ts=5), "without its after image"),
        (RowChange(op="upsert", table=T, commit_ts=5, after=ROW), "no message for 'upsert'"),
        (RowChange(op="insert", table=T, commit_ts=5, after={"no": "1"}), "has no column ['no']"),
        (RowChange(op="update", table=T, commit_ts=5, before={**ROW, "no": "1"}, after=ROW), "has no column ['no']"),
        (RowChange(op="insert", table=T, commit_ts=5, after={**ROW, "no": "1"}), "has no column ['no']"),
    ],
)
def test_a_change_that_cannot_be_written_has_a_reason(change: RowChange, reason: str) -> None:
    with pytest.raises(MessageError) as raised:
        list(encoder().rows([change]))
    assert reason in str(raised.value)


def test_watermarks_and_schemas() -> None:
    assert encoder().watermark(5) is None
    assert encoder().bootstrap(T) is None
    encoded = encoder(CanalJsonConfig(enable_tidb_extension=True)).watermark(tso(MS, 3))
    assert encoded is not None and opened(encoded.value or b"") == Watermark(tso(MS, 3))


def test_ddl_of_other_protocols_gets_canals_word() -> None:
    to = encoder(CanalJsonConfig(enable_tidb_extension=True))
    for sql, word in (
        ("DROP TABLE `t`", "ERASE"),
        ("CREATE INDEX i ON t (a)", "CINDEX"),
        ("ALTER TABLE t ADD b INT", "ALTER"),
    ):
        change = SchemaChange(commit_ts=5, query=sql, kind="61", schema="d", name="t")
        encoded = to.ddl(change)
        assert encoded is not None
        event = opened(encoded.value or b"")
        assert (event.kind, event.query, event.schema, event.name) == (word, sql, "d", "t")


def test_what_a_message_shows_of_its_table() -> None:
    types = {"id": "int unsigned", "e": "enum", "v": "varchar(20)", "b": "blob", "d": "decimal(10,2)"}
    table = table_from_message(message(mysqlType=types))
    assert (table.schema, table.name, table.indexes[0].columns) == ("d", "t", ("id",))
    found = {column.name: column.type for column in table.columns}
    assert found["id"].unsigned and found["e"].elements == () and found["v"].length == 20
    assert found["b"].charset == "binary" and found["d"].decimal == 2
    for bad in ({"g": "geometry"}, {"g": "((("}, None):
        with pytest.raises(MessageError):
            table_from_message(message(mysqlType=bad))
    with pytest.raises(MessageError, match="not a canal-json row"):
        table_from_message(b'{"')


@given(
    tables_and_rows(),
    st.sampled_from(["UTC", "Asia/Shanghai", "+05:30"]),
    st.integers(1 << 18, 2**63 - 1),
    st.booleans(),
    st.sampled_from(["none", "lz4", "snappy"]),
    st.tuples(st.booleans(), st.booleans()),
)
def test_any_table_and_rows_round_trip(
    drawn: tuple[Table, list[dict[str, Value]]],
    zone: str,
    commit_ts: int,
    extension: bool,
    compression: Any,
    form: tuple[bool, bool],
) -> None:
    table, rows = drawn
    config = CanalJsonConfig(
        time_zone=zone,
        enable_tidb_extension=extension,
        compression=compression,
        content_compatible=form[0],
        only_output_updated_columns=form[1],
    )
    reported = commit_ts if extension else tso(tso_physical_ms(commit_ts))
    changes = [RowChange(op="update", table=table, commit_ts=reported, before=rows[0], after=row) for row in rows]
    key = {(table.schema, table.name, ""): table}
    options = ReadOptions(source_timezone=zone)
    assert [decode(DECODER, None, one.value, key, options) for one in encoder(config).rows(changes)] == [
        [change] for change in changes
    ]


STARTS = st.sampled_from([b"", b"\x04\x22\x4d\x18", b'\x10<{"', b"{", b'{"isDdl":true,', message()[:90]])


@given(st.builds(bytes.__add__, STARTS, st.binary(max_size=60)), st.none() | st.binary(max_size=9))
def test_arbitrary_bytes_are_rejected(value: bytes, key: bytes | None) -> None:
    (event,) = DECODER.open_message(key, value)
    assert isinstance(event, Rejected)


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.dictionaries(NAMES, inner)))
def test_any_json_value_in_a_field_never_raises(value: Any) -> None:
    for example in (FIELDS, {**FIELDS, "type": "UPDATE", "old": [{"id": "2"}]}, {**FIELDS, "isDdl": True, "sql": "x"}):
        for field in example:
            assert decode(DECODER, None, json.dumps({**example, field: value}).encode(), KEY, UTC) is not None
