"""Avro against a real schema registry: rows there and back, a refused schema, an unknown id, a registry down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apicurio_registry import Registry
from ticdc_spark.clients.registry import SchemaRegistry
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import IncompatibleSchema, RegistryFault
from ticdc_spark.model import Rejected, Row, RowChange, Table
from ticdc_spark.protocols.avro.decode import AvroDecoder
from ticdc_spark.protocols.avro.encode import AvroConfig, encoder
from ticdc_spark.protocols.avro.schema import table_from_schemas
from ticdc_spark.protocols.base import Encoded, ReadOptions, decode
from ticdc_spark.wire.confluent import schema_id

CONFIG = AvroConfig(enable_tidb_extension=True)
COLUMNS = "id BIGINT UNSIGNED PRIMARY KEY, d DECIMAL(10,2), e ENUM('x,y','z'), b BIT(9) DEFAULT b'1'"
V1 = parse_create(f"CREATE TABLE shop.`a.b` ({COLUMNS})", "shop")
V2 = parse_create(f"CREATE TABLE shop.`a.b` ({COLUMNS}, note VARCHAR(9))", "shop")
REFUSED = parse_create("CREATE TABLE shop.`a.b` (id BIGINT UNSIGNED PRIMARY KEY, n INT NOT NULL)", "shop")
ROW: Row = {"id": str(2**64 - 1), "d": "-0.50", "e": "1", "b": "256"}


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistry]:
    """A writer's client."""
    with SchemaRegistry(registry.url, {"max.retries": 0, "timeout": 20}) as opened:
        yield opened


@pytest.fixture
def other(registry: Registry) -> Iterator[SchemaRegistry]:
    """A reader's client, independent of the writer's."""
    with SchemaRegistry(registry.url, {"max.retries": 0, "timeout": 20}) as opened:
        yield opened


def send(registry: SchemaRegistry, table: Table, row: Row) -> Encoded:
    (sent,) = encoder(CONFIG, registry).rows([RowChange(op="insert", table=table, commit_ts=9, after=row)])
    return sent


def received(registry: SchemaRegistry, sent: Encoded) -> object:
    """What a reader that has only the registry makes of a message."""
    key_id, value_id = sorted(schema_id(part) for part in (sent.key, sent.value))
    table = table_from_schemas(registry[key_id], registry[value_id])
    tables = {(table.schema, table.name, str(value_id)): table}
    (found,) = decode(AvroDecoder(registry), sent.key, sent.value, tables, ReadOptions())
    return found


def test_rows_there_and_back_and_a_schema_that_grows(
    registry: Registry, client: SchemaRegistry, other: SchemaRegistry
) -> None:
    registry.compatibility("shop_a_b-value", "BACKWARD")
    for table, row in ((V1, ROW), (V2, {**ROW, "note": "grown"}), (V1, ROW)):
        found = received(other, send(client, table, row))
        assert isinstance(found, RowChange)
        assert (found.op, found.commit_ts, found.after) == ("insert", 9, row)
        assert (found.table.schema, found.table.name) == ("shop", "a_b")
    with pytest.raises(IncompatibleSchema) as refused:
        send(client, REFUSED, {"id": "1", "n": "1"})
    reason = str(refused.value)
    assert reason.startswith(
        "subject shop_a_b-value: the registry refuses the new schema: column `n` is new, INT as int"
    )
    assert "without a default; column `d` is gone" in reason


def test_an_unknown_id_is_a_bad_message(client: SchemaRegistry) -> None:
    (found,) = AvroDecoder(client).open_message(None, b"\0\x7f\xff\xff\xff\2")
    assert found == Rejected("schema id 2147483647 is not known to the registry")


def test_a_registry_that_is_down_is_a_fault_until_it_is_back(
    registry: Registry, client: SchemaRegistry, other: SchemaRegistry
) -> None:
    sent = send(client, V1, ROW)
    registry.stop()
    with pytest.raises(RegistryFault, match="schema id"):
        AvroDecoder(other).open_message(sent.key, sent.value)
    with pytest.raises(RegistryFault, match="subject shop_a_b-value"):
        send(client, V2, ROW)
    registry.start()
    assert isinstance(received(other, send(other, V1, ROW)), RowChange)
