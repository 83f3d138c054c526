"""What Debezium's messages show of tables, against the tables that were there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.golden.test_open import equal
from tests.support.vectors import Config, configs, needs_vectors
from ticdc_spark import mysql
from ticdc_spark.model import Column, ColumnType, Envelope, Row, RowChange, SchemaChange, Table, Value
from ticdc_spark.mysql import canonical_datetime, fsp
from ticdc_spark.protocols.base import ReadOptions, read_envelope
from ticdc_spark.protocols.debezium.decode import DebeziumDecoder
from ticdc_spark.protocols.debezium.tables import table_of_row, tables_of_ddl

pytestmark = needs_vectors

CONFIGS = configs("debezium")
WITH_BLOCKS = [config for config in CONFIGS if not config.options["debezium_disable_schema"]]
BY_BLOCK = DebeziumDecoder(block_keys=True)
OF_TEXT = frozenset(("longtext", "longblob"))
WIDER = {
    ("tinyint", "smallint"),
    ("mediumint", "int"),
    ("smallint", "int"),
    ("int", "bigint"),
    ("decimal", "double"),
    ("float", "double"),
}


@cache
def ddl_differences(config: Config) -> list[Difference]:
    found: list[Difference] = []
    for sent in config.messages:
        (seq,) = sent.seqs
        truth = config.truth[seq]
        if isinstance(truth, SchemaChange):
            tables = tables_of_ddl(sent.message.value or b"")
            where = f"{config}/{truth.schema}.{truth.name}"
            if truth.table is None or not tables:
                # of databases, and what removes a table's rows
                dropped = truth.query.startswith(("DROP", "TRUNCATE", "CREATE DATABASE", "ALTER DATABASE"))
                found += equal("table", where, dropped and not tables, True)
                continue
            (table,) = tables
            found += equal("name", where, (table.schema, table.name), (truth.table.schema, truth.table.name))
            found += compare_columns(where, table, truth.table)
    return found


def compare_columns(where: str, table: Table, truth: Table) -> Iterator[Difference]:
    named = {column.name: column for column in truth.columns}
    yield from equal("columns", where, [c.name for c in table.columns], [*named])
    for column in table.columns:
        expected = named[column.name]
        at = f"{where}.{column.name}"
        yield from equal("type", at, bare(column), bare(expected))
        yield from equal("default", at, column.default, expected.default)


def bare(column: Column) -> tuple[ColumnType, bool]:
    return replace(
        column.type, collate=None, charset="binary" if mysql.is_bytes(column.type) else None
    ), column.nullable


@cache
def row_differences(config: Config) -> list[Difference]:
    found: list[Difference] = []
    for sent in config.messages:
        (seq,) = sent.seqs
        truth = config.truth[seq]
        for event in BY_BLOCK.open_message(sent.message.key, sent.message.value):
            if isinstance(truth, RowChange) and isinstance(event, Envelope):
                found += compare_row(config, event, truth, sent.message.value or b"")
    return found


def compare_row(config: Config, event: Envelope, truth: RowChange, value: bytes) -> Iterator[Difference]:
    described = table_of_row(event.schema, event.table, event.key, value)
    where = f"{config}/{described.schema}.{described.name}"
    tables = {(described.schema, described.name, event.schema_key): described}
    assert event.schema_key
    change = read_envelope(BY_BLOCK, event, tables, ReadOptions())
    if not isinstance(change, RowChange):
        yield Difference("row", where, change, truth)
        return
    columns = {column.name: column for column in truth.table.columns}
    for column in described.columns:
        if column.name in columns:
            yield from compare_types(f"{where}.{column.name}", config, column, columns[column.name])
    key = mysql.handle_key(truth.table)
    if key:  # the truth has primary keys only
        yield from equal("key", where, set(mysql.handle_key(described)), set(key))
    for image, expected in ((change.before, truth.before), (change.after, truth.after)):
        if image is not None and expected is not None:
            yield from equal("columns", where, sorted(image), sorted(expected))
            yield from compare_values(where, columns, described, image, expected)


def compare_types(where: str, config: Config, described: Column, truth: Column) -> Iterator[Difference]:
    kinds = (truth.type.name, described.type.name)
    if kinds[0] == kinds[1] or kinds == ("decimal", "double"):
        return
    if not config.options["enable_tidb_extension"]:
        text = mysql.is_text(truth.type) or mysql.is_bytes(truth.type)
        if kinds in WIDER or (text and described.type.name in OF_TEXT):
            return
    yield Difference("type", where, described.type, truth.type)


def compare_values(
    where: str, columns: dict[str, Column], described: Table, image: Row, expected: Row
) -> Iterator[Difference]:
    for column in described.columns:
        name = column.name
        if name in image and name in expected:
            sent, wanted = image[name], as_truth(columns[name].type, column.type, expected[name])
            yield from equal("value", f"{where}.{name}", sent, wanted)


def as_truth(truth: ColumnType, described: ColumnType, value: Value) -> Value:
    """A value in the normal form of the type that the block has."""
    if isinstance(value, str):
        if described.name in mysql.TIME_TYPES:
            return canonical_datetime(value, fsp(described))
        if described.name in ("float", "double") and truth.name in ("decimal", "float"):
            return mysql.canonical_float(value, 32 if described.name == "float" else 64)
    return value


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_ddl_has_its_table(config: Config) -> None:
    assert unexplained("debezium tables", ddl_differences(config)) == []


@pytest.mark.parametrize("config", WITH_BLOCKS, ids=str)
def test_a_rows_schema_block_reads_it(config: Config) -> None:
    found = row_differences(config)
    assert unexplained("debezium tables", [d for d in found if not explained_as_values(d)]) == []


def explained_as_values(difference: Difference) -> bool:
    """Whether it is the same loss as with the table known."""
    return unexplained("debezium", [difference]) == []


def test_every_exception_is_still_needed() -> None:
    found = [found for config in CONFIGS for found in ddl_differences(config)]
    found += [found for config in WITH_BLOCKS for found in row_differences(config)]
    assert unneeded("debezium tables", found) == []
