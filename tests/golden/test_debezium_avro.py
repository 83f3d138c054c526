"""Debezium in Avro, of the new architecture, against the truth: with the table known, and with the schemas alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from tests.golden.exceptions import Difference, unexplained
from tests.golden.test_debezium_tables import as_told
from tests.golden.test_open import compare_image, equal
from tests.vectors import ROOT, Config, configs, named, needs_vectors
from ticdc_spark import mysql
from ticdc_spark.model import Column, Envelope, Row, RowChange, Table
from ticdc_spark.protocols.base import ReadOptions, read_envelope
from ticdc_spark.protocols.debezium_avro import DebeziumAvroDecoder, table_from_schemas
from ticdc_spark.wire.confluent import schema_id

pytestmark = needs_vectors

CONFIGS = configs("debezium-avro")
every_config = pytest.mark.parametrize("config", CONFIGS, ids=str)


@cache
def schemas(config: Config) -> Mapping[int, str]:
    return {entry["id"]: entry["schema"] for entry in config.schemas}


@cache
def rows(config: Config) -> list[tuple[Envelope, RowChange, Table]]:
    """Every row as opened, the truth, and the table that its schemas tell."""
    registry = schemas(config)
    decoder = DebeziumAvroDecoder(registry)
    found = []
    for sent in config.messages:
        key, value = sent.message.key, sent.message.value
        assert key is not None and value is not None
        (event,) = decoder.open_message(key, value)
        truth = config.truth[sent.seqs[0]]
        assert isinstance(event, Envelope) and isinstance(truth, RowChange), event
        told = table_from_schemas(event.schema, event.table, registry[schema_id(key)], registry[schema_id(value)])
        found.append((event, truth, told))
    return found


@cache
def differences(config: Config) -> list[Difference]:
    return [found for event, truth, _ in rows(config) for found in compare(config, event, truth, truth.table)]


def compare(config: Config, event: Envelope, truth: RowChange, table: Table) -> Iterator[Difference]:
    where = f"{config}/{truth.table.schema}.{truth.table.name}"
    change = read(config, event, table)
    if change is None:
        yield Difference("row", where, None, truth)
        return
    yield from equal("row", where, (change.op, change.commit_ts), (truth.op, truth.commit_ts))
    for image, expected in ((change.before, truth.before), (change.after, truth.after)):
        yield from compare_image(where, named(table, image), named(table, expected), None)


def read(config: Config, event: Envelope, table: Table) -> RowChange | None:
    tables = {(table.schema, table.name, event.schema_key): table}
    change = read_envelope(DebeziumAvroDecoder(schemas(config)), event, tables, ReadOptions())
    return change if isinstance(change, RowChange) else None


@every_config
def test_decoded_messages_equal_the_truth(config: Config) -> None:
    assert rows(config)
    assert unexplained("debezium", differences(config)) == []


@every_config
def test_the_schemas_alone_read_a_row(config: Config) -> None:
    found: list[Difference] = []
    for event, truth, told in rows(config):
        change = read(config, event, told)
        assert change is not None
        columns = {column.name: column for column in truth.table.columns}
        assert [column.name for column in told.columns] == [*columns]
        key = mysql.handle_key(truth.table)
        assert not key or {*key} == {*mysql.handle_key(told)}
        for image, expected in ((change.before, truth.before), (change.after, truth.after)):
            if image is not None and expected is not None:
                found += compare_as_told(config, told, columns, image, expected)
    assert unexplained("debezium", found) == []


def compare_as_told(
    config: Config, told: Table, columns: Mapping[str, Column], image: Row, expected: Row
) -> Iterator[Difference]:
    for column in told.columns:
        kind = columns[column.name].type
        assert column.type.name == kind.name
        wanted = as_told(kind, column.type, expected[column.name])
        if isinstance(wanted, str) and kind.name == "decimal":
            wanted = mysql.canonical_decimal(wanted, column.type.decimal or 0)
        yield from equal("value", f"{config}/{told.schema}.{told.name}.{column.name}", image[column.name], wanted)


@every_config
def test_rows_that_ticdc_refused_are_not_there(config: Config) -> None:
    path = config.path.with_suffix(".errors.jsonl")
    refused = (
        {seq for line in path.read_bytes().splitlines() for seq in json.loads(line)["seq"]} if path.exists() else set()
    )
    assert not refused & {seq for sent in config.messages for seq in sent.seqs}


def test_every_vector_file_is_read() -> None:
    found = {path for path in ROOT.glob("*/*/debezium*avro*.jsonl*") if ".errors" not in path.name}
    assert found == {config.path for config in CONFIGS}
