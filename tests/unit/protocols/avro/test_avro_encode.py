"""Avro written: everything both ways, the schemas registered, what cannot be written, any table and row."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest
from msgspec.structs import replace

from tests.support.avro_examples import (
    EVERYTHING,
    ROW,
    SHANGHAI,
    TS,
    Registry,
    change,
)
from ticdc_spark import mysql
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import MessageError
from ticdc_spark.model import (
    Checksum,
    Envelope,
    RowChange,
    Value,
)
from ticdc_spark.protocols.avro.decode import AvroDecoder
from ticdc_spark.protocols.avro.encode import AvroConfig, encoder
from ticdc_spark.protocols.avro.schema import table_from_schemas
from ticdc_spark.protocols.base import decode

CONFIGS = [
    AvroConfig(time_zone="Asia/Shanghai", enable_tidb_extension=extended, avro_decimal_handling_mode=decimal)
    for extended in (False, True)
    for decimal in ("precise", "string")
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("unsigned", ["long", "string"])
def test_everything_both_ways_and_by_another_reader(config: AvroConfig, unsigned: Any) -> None:
    registry = Registry()
    to = encoder(replace(config, avro_bigint_unsigned_handling_mode=unsigned), registry)
    nulls: dict[str, Value] = {
        column.name: None if column.nullable else ROW[column.name] for column in EVERYTHING.columns
    }
    nulls.pop("g")
    for op, row in (("insert", ROW), ("update", nulls), ("delete", ROW)):
        (sent,) = to.rows([change(op, row)])
        key, value = table_from_schemas(*registry.schemas.values()), None
        (event,) = AvroDecoder(registry.schemas).open_message(sent.key, sent.value)
        assert isinstance(event, Envelope)
        assert (event.schema, event.table, event.key) == ("a_b", "_7_days", sent.key)
        tables = {("a_b", "_7_days", number): key for number in ("1", "2")}
        (found,) = decode(AvroDecoder(registry.schemas), sent.key, sent.value, tables, SHANGHAI)
        assert isinstance(found, RowChange)
        if op == "delete":
            assert (found.op, found.before, found.partial) == ("delete", {"id": ROW["id"], "k": ROW["k"]}, True)
            continue
        assert (found.op, found.after) == (op if config.enable_tidb_extension else "upsert", row)
        assert found.commit_ts == (TS if config.enable_tidb_extension else 0)
        value = BytesIO((sent.value or b"")[5:])
        fastavro.schemaless_reader(value, plain(registry.schemas[2]), None)
        assert value.read() == b""


def plain(schema: str) -> Any:
    """A schema for another reader, which refuses base64 as a default of bytes."""
    read = json.loads(schema)
    for one in read["fields"]:
        one.pop("default", None)
    return fastavro.parse_schema(read)


def test_the_schemas_that_are_registered() -> None:
    registry = Registry()
    config = AvroConfig(enable_tidb_extension=True, topic=lambda schema, table: f"{schema}.x")
    list(encoder(config, registry).rows([change("insert", ROW)]))
    (key_subject, key), (value_subject, value) = registry.ids
    assert (key_subject, value_subject) == ("a_b_x-key", "a_b_x-value")
    assert key == (
        '{"type":"record","name":"_7_days","namespace":"default.a_b","fields":['
        '{"name":"id","type":{"type":"long","connect.parameters":{"tidb_type":"BIGINT UNSIGNED"}}},'
        '{"name":"k","type":{"type":"bytes","connect.parameters":{"tidb_type":"BLOB"}}}]}'
    )
    for expected in (
        '{"default":3,"name":"ti","type":[{"type":"int","connect.parameters":{"tidb_type":"INT UNSIGNED"}},"null"]}',
        '{"default":1.0000000150474662e+30,"name":"f","type":[{"type":"float","connect.parameters":{"tidb_type":"FLOAT"}},"null"]}',
        (
            '{"default":null,"name":"n","type":["null",{"type":"bytes","connect.parameters":{"tidb_type":"DECIMAL"},'
            '"logicalType":"decimal","precision":20,"scale":5}]}'
        ),
        (
            '{"default":"BQ==","name":"bit","type":[{"type":"bytes","connect.parameters":{"length":"10","tidb_type":"BIT"}},'
            '"null"]}'
        ),
        '{"default":"\\u003cé\\u003e","name":"v","type":{"type":"string","connect.parameters":{"tidb_type":"TEXT"}}}',
        '{"allowed":"a\\\\,b,,c","tidb_type":"ENUM"}',
        '{"default":"dmI=","name":"vb"',
        (
            '{"default":"","name":"_tidb_op","type":"string"},{"default":0,"name":"_tidb_commit_ts","type":"long"},'
            '{"default":0,"name":"_tidb_commit_physical_time","type":"long"}]}'
        ),
    ):
        assert expected in value
    assert '"g"' not in value
    found = table_from_schemas(key, value)
    defaults = {column.name: column.default for column in found.columns if column.default is not None}
    assert defaults == {"ti": "3", "f": "1e30", "d": "-2.5", "bit": 5, "v": "<é>", "s": "x,y", "vb": "vb"}
    assert mysql.handle_key(found) == ("id", "k")


def test_a_checksum_both_ways() -> None:
    table = parse_create("CREATE TABLE s.t (id INT PRIMARY KEY, v VARCHAR(9))", "s")
    registry = Registry()
    config = AvroConfig(enable_row_checksum=True)
    with pytest.raises(MessageError, match="needs enable-tidb-extension"):
        encoder(config, registry)
    whole = replace(
        config,
        enable_tidb_extension=True,
        avro_decimal_handling_mode="string",
        avro_bigint_unsigned_handling_mode="string",
    )
    for sums in (Checksum(version=2, corrupted=True, current=2**32 - 1, previous=0), None):
        (sent,) = encoder(whole, registry).rows([change("insert", {"id": "1", "v": "c1"}, table, checksum=sums)])
        (event,) = AvroDecoder(registry.schemas).open_message(sent.key, sent.value)
        assert isinstance(event, Envelope)
        assert event.checksum == (sums or Checksum(version=0, corrupted=False, current=0, previous=0))
        assert (event.op, event.commit_ts) == ("insert", TS)


@pytest.mark.parametrize(
    ("sql", "row", "expected"),
    [
        ("CREATE TABLE s.t (a INT)", {"a": "1"}, "no handle key"),
        (
            "CREATE TABLE s.t (`9` INT PRIMARY KEY, `_9` INT)",
            {"9": "1", "_9": "1"},
            "two columns that Avro can only call",
        ),
        ("CREATE TABLE s.t (a INT PRIMARY KEY, e ENUM('x'))", {"a": "1", "e": "0"}, "ENUM index 0 has no name"),
        ("CREATE TABLE s.t (a INT PRIMARY KEY)", {"a": None}, "column `a` of `s`.`t` is NOT NULL"),
        ("CREATE TABLE s.t (a DECIMAL(5,1) PRIMARY KEY)", {"a": "1.25"}, "more than 1 digits"),
        ("CREATE TABLE s.t (a INT PRIMARY KEY)", None, "insert of `s`.`t` without its after image"),
    ],
)
def test_what_cannot_be_written(sql: str, row: dict[str, Value] | None, expected: str) -> None:
    with pytest.raises(MessageError, match=expected):
        list(encoder(AvroConfig(), Registry()).rows([change("insert", row, parse_create(sql, "s"))]))
