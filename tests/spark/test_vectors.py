"""TiCDC's own messages through Spark to the final tables of the database that they came from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.golden.exceptions import with_replacement
from tests.golden.test_reference import final_tables
from tests.spark.lake import lake, names, read_table, replicate, sorted_rows, write_job
from tests.support.vectors import Config, case, needs_vectors
from ticdc_spark.errors import DecisionNeeded, UnsupportedDdl
from ticdc_spark.model import Row, Table
from ticdc_spark.names import escape
from ticdc_spark.spark.types import LakeOptions, lake_columns, to_arrow

pytestmark = needs_vectors

WHOLE = ("smoke", "keys", "types_all", "odd")
LONG = ("shop", "types_vector", "keys_raw", "types_shanghai", "types_checksum")
STOPS: Mapping[str, tuple[type[DecisionNeeded], str]] = {
    "ddl_all": (UnsupportedDdl, "RECOVER TABLE"),  # until `keep-dropped` keeps dropped tables
    "keys_force": (DecisionNeeded, "k_none|k_unique_null"),  # until `no-key` says what becomes of them
}
"""Cases that stop until the job file decides. ``golden/test_jobs.py`` runs them to their end."""


def expected_rows(table: Table, rows: list[Row]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The lake's columns with their types, and its rows, of a table in normal form."""
    options = LakeOptions()
    visible = set(rows[0]) if rows else {column.name for column in table.columns}
    columns = [column for column in lake_columns(table, (), options) if column.source in visible]
    cells: dict[str, list[Any]] = {}
    for column in columns:
        values = [row[column.source] for row in rows]
        if column.type.arrow == "string":  # text that is not UTF-8 is lost on the wire: a rule of the golden tests
            values = [with_replacement(value) if isinstance(value, bytes) else value for value in values]
        array, bad, _ = to_arrow(column, options)(values)
        assert not bad, bad
        cells[column.name] = array.to_pylist()
    kinds = {column.name: column.type.spark for column in columns}
    return kinds, [dict(zip(cells, values, strict=True)) for values in zip(*cells.values(), strict=True)]


def check_lake(spark: SparkSession, folder: Path, config: Config) -> None:
    """Every table of the final state is in the lake, with its columns, types and rows, and none besides."""
    session = lake(spark, folder)
    expected = final_tables(config)
    assert names(session) == {(escape(schema), escape(name)) for schema, name in expected}
    for (schema, name), (table, rows) in expected.items():
        kinds, wanted = expected_rows(table, rows)
        live = session.table(f"lake.`{escape(schema)}`.`{escape(name).replace('`', '``')}`").schema
        found = {field.name: field.dataType.simpleString() for field in live.fields}
        assert {key: found.get(key) for key in kinds} == kinds, f"{schema}.{name}"
        actual = [{key: row[key] for key in kinds} for row in read_table(session, schema, name)]
        assert sorted_rows(actual) == sorted_rows(wanted), f"{schema}.{name}"


def config_of(name: str) -> Config:
    return case("tiflow", name).config("simple_json")


@pytest.mark.parametrize("name", [*WHOLE, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)])
def test_a_case_ends_in_its_final_state(spark: SparkSession, folder: Path, name: str) -> None:
    config = config_of(name)
    summary = replicate(write_job(folder, config.path))
    assert summary.finished
    assert not summary.progress.ddls
    check_lake(spark, folder, config)


def test_a_case_ends_in_the_same_state_when_spark_writes(spark: SparkSession, folder: Path) -> None:
    config = config_of("types_all")
    assert replicate(write_job(folder, config.path, 'writer = "spark"')).finished
    check_lake(spark, folder, config)


@pytest.mark.slow
@pytest.mark.parametrize("name", STOPS)
def test_a_case_stops_until_the_job_file_decides_and_says_why(folder: Path, name: str) -> None:
    error, word = STOPS[name]
    with pytest.raises(error, match=word):
        replicate(write_job(folder, config_of(name).path))
