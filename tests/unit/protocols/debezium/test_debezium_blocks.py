"""Debezium's schema block: found by its bytes, as if it were read each time; and bytes that are no message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.debezium_connect import SOURCE, change, field, key, text
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Envelope, Rejected, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.mysql import parse_type
from ticdc_spark.protocols.base import decode
from ticdc_spark.protocols.debezium.blocks import REMEMBERED, REMEMBERED_BYTES, parts, quick_parts
from ticdc_spark.protocols.debezium.decode import DECODER, DebeziumDecoder
from ticdc_spark.protocols.debezium.encode import DebeziumConfig, encoder
from ticdc_spark.protocols.debezium.native import DECIMAL
from ticdc_spark.protocols.debezium.tables import table_of_row, tables_of_ddl

BY_BLOCK = DebeziumDecoder(block_keys=True)
KINDS = {"id": "int", "name": "varchar(20)", "price": "decimal(10,2)", "at": "datetime(3)", "kind": "enum('a','b')"}
TABLE = Table(
    schema="inventory",
    name="items",
    columns=tuple(Column(name=name, type=parse_type(kind)) for name, kind in KINDS.items()),
)
ROW = {"id": "1", "name": '},"schema":{"type":"struct"', "price": "9.50", "at": "2020-01-02 03:04:05.678", "kind": "2"}
FIELDS = [field("id", "int32"), field("name", "string"), field("price", "bytes", DECIMAL, scale="2")]
(OURS,) = encoder(DebeziumConfig(enable_tidb_extension=True)).rows(
    [RowChange(op="update", table=TABLE, commit_ts=1 << 60, before=ROW, after={**ROW, "name": "x"})]
)
NATIVE = change(
    "u", {"id": 1, "name": '},"payload":{', "price": "BM4="}, {"id": 1, "name": "", "price": "BM4="}, FIELDS
)


def opened(value: bytes) -> Any:
    (event,) = BY_BLOCK.open_message(None, value)
    return event


@pytest.mark.parametrize("value", [OURS.value, NATIVE], ids=["payload first", "schema first"])
def test_a_block_is_found_again_as_it_was_read(value: bytes) -> None:
    first = opened(value)
    assert isinstance(first, Envelope) and first.schema_key
    found = quick_parts(value)
    assert found is not None and found[1] is not None
    payload, block = parts(value)
    assert block is not None
    assert (payload, block.raw) == (found[0], found[1].raw)
    assert opened(value) == first


def test_the_key_is_the_blocks_alone() -> None:
    other = change("d", {"id": 2, "name": None, "price": None}, None, FIELDS)
    wider = change("d", {"id": 2, "name": None, "price": None}, None, [*FIELDS, field("x", "string")])
    assert opened(other).schema_key == opened(NATIVE).schema_key != opened(wider).schema_key
    assert opened(change("c", None, {"id": 2})).schema_key == ""
    (event,) = DECODER.open_message(None, NATIVE)
    assert isinstance(event, Envelope) and event.schema_key == ""


PAYLOAD = text({"source": SOURCE | {"commit_ts": 7}, "op": "c", "before": None, "after": {"id": 1}})
BLOCK = b'{"type":"struct","fields":[]}'
WHOLE = b'{"payload":' + PAYLOAD + b',"schema":' + BLOCK + b"}"


@pytest.mark.parametrize(
    "value",
    [
        WHOLE[:-1],
        WHOLE + b"}",
        WHOLE + b" 1",
        WHOLE.replace(b'"after":{"id":1}}', b'"after":{"id":1}'),
        WHOLE.replace(b'"after":{"id":1}}', b'"after":{"id":1}}}'),
        WHOLE.replace(b'"after":{"id":1}}', b'"after":{"id":1}},{}'),
        b'{"payload":' + PAYLOAD,
        b'{"payload":' + PAYLOAD + b"}}",
        b'{"schema":' + BLOCK + b',"payload":' + PAYLOAD,
        b'{"schema":' + BLOCK + b',"payload":' + PAYLOAD + b"}}",
    ],
)
def test_what_is_around_a_known_block_must_be_json(value: bytes) -> None:
    opened(WHOLE)
    opened(b'{"schema":' + BLOCK + b',"payload":' + PAYLOAD + b"}")
    assert isinstance(opened(value), Rejected)


@pytest.mark.parametrize(
    "value",
    [
        WHOLE,
        b" " + WHOLE,
        WHOLE.replace(b',"schema"', b' , "schema"'),
        b'{"schema":' + BLOCK + b',"payload":' + PAYLOAD + b"}",
        b'{"schema" :' + BLOCK + b',"payload":' + PAYLOAD + b"} ",
        WHOLE[:-1] + b',"more":{}}',
        b'{"payload":' + PAYLOAD + b',"schema":{},"schema":' + BLOCK + b"}",
    ],
)
def test_other_ways_to_write_the_same(value: bytes) -> None:
    for _ in range(2):
        event = opened(value)
        assert isinstance(event, Envelope)
        assert (event.after, event.commit_ts, event.schema_key) == (b'{"id":1}', 7, opened(WHOLE).schema_key)


def test_a_column_called_schema_that_holds_an_object() -> None:
    after = {"a": {"wkb": ""}, "schema": {"wkb": ""}, "payload": {"wkb": ""}}
    for raw in (
        text({"payload": {"source": SOURCE, "op": "c", "after": after}, "schema": {"type": "struct", "fields": []}}),
        change("c", None, after, [field("a", "struct")]),
    ):
        for _ in range(2):
            event = opened(raw)
            assert isinstance(event, Envelope) and event.after is not None
            assert event.after.endswith(text(after))


def test_what_is_remembered_is_bounded() -> None:
    padding = "x" * 50_000
    for number in range(2 * REMEMBERED_BYTES // 100_000):
        event = opened(change("c", None, {"id": 1}, [field("id", "int32"), field(f"{padding}{number}", "string")]))
        assert isinstance(event, Envelope)
        assert REMEMBERED.size <= REMEMBERED_BYTES
    assert sum(len(around) + len(block.raw) for around, block in REMEMBERED.blocks.items()) == REMEMBERED.size
    assert all(around in REMEMBERED.blocks for around, _ in REMEMBERED.newest.values())
    huge = change("c", None, {"id": 1}, [field(padding * 30, "string")])
    before = REMEMBERED.size
    assert isinstance(opened(huge), Envelope) and REMEMBERED.size == before


DDL = text(
    {
        "payload": {
            "source": SOURCE | {"commit_ts": 7},
            "databaseName": "inventory",
            "ddl": "ALTER TABLE items ADD COLUMN x INT",
            "tableChanges": [
                {
                    "type": "ALTER",
                    "id": '"in.ventory"."i,te\\"ms"',
                    "table": {
                        "primaryKeyColumnNames": ["id"],
                        "columns": [
                            {
                                "name": "id",
                                "typeName": "INT UNSIGNED",
                                "length": None,
                                "scale": None,
                                "optional": False,
                            },
                            {"name": "b", "typeName": "BIT", "length": 4, "defaultValueExpression": "101"},
                            {"name": "e", "typeName": "ENUM", "length": 1, "enumValues": ["'a'", "'b,c'"]},
                            {"name": "t", "typeName": "TIMESTAMP", "defaultValueExpression": "1970-01-01 00:00:00"},
                        ],
                    },
                }
            ],
        }
    }
)


def test_the_table_of_a_ddl() -> None:
    (described,) = tables_of_ddl(DDL)
    assert (described.schema, described.name) == ("in.ventory", 'i,te\\"ms')
    assert [column.type for column in described.columns] == [
        parse_type("int unsigned"),
        parse_type("bit(4)"),
        parse_type("enum('a','b,c')"),
        parse_type("timestamp"),
    ]
    assert [column.default for column in described.columns] == [None, 5, None, "CURRENT_TIMESTAMP"]
    assert tables_of_ddl(text({"payload": {"ddl": "DROP TABLE x", "tableChanges": [{"id": "x", "table": None}]}})) == ()


def splices(raw: bytes) -> st.SearchStrategy[bytes]:
    """Bytes with a piece of them replaced: by noise, or by another piece."""
    at = st.integers(0, len(raw))
    piece = st.one_of(
        st.binary(max_size=20),
        st.builds(lambda start, size: raw[start : start + size], at, st.integers(0, 400)),
        st.sampled_from(
            [b"{", b"}", b'"', b"[", b"null", b"-1", b"1e999", b"\xff", b'},"schema":{', b'"a":', b"[" * 2000]
        ),
    )
    return st.builds(lambda start, gone, put: raw[:start] + put + raw[start + gone :], at, st.integers(0, 60), piece)


KEY = key({"id": 1}, field("id", "int32"))
SAMPLES = [OURS.value or b"", NATIVE, WHOLE, DDL]


@given(st.one_of(st.binary(max_size=80), *map(splices, SAMPLES)), st.one_of(st.none(), splices(KEY)))
def test_damaged_messages_are_rejected_and_nothing_else(value: bytes, damaged_key: bytes | None) -> None:
    for event in decode(DECODER, damaged_key, value, {("inventory", "items", ""): TABLE}):
        assert isinstance(event, RowChange | Rejected | SchemaChange | Watermark)
    again = DECODER.open_message(damaged_key, value)
    assert DECODER.open_message(damaged_key, value) == again
    for tell in (lambda: table_of_row("a", "b", damaged_key, value), lambda: tables_of_ddl(value)):
        try:
            described = tell()
        except MessageError:
            continue
        assert isinstance(described, Table | tuple)
