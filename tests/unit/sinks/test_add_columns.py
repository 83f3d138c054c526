"""The clause by which a person adds columns has the words and types of the target."""

from __future__ import annotations

import pytest

from ticdc_spark.model import Column, Table
from ticdc_spark.mysql import parse_type
from ticdc_spark.sinks.mysql.types import MysqlTypes
from ticdc_spark.sinks.postgres.types import PostgresTypes
from ticdc_spark.sinks.spark_types import SparkTypes
from ticdc_spark.sinks.type_map import TypeMap
from ticdc_spark.spark.types import LakeOptions

COLUMNS = {"id": "bigint", "what": "varchar(20)", "at": "datetime(3)"}


@pytest.mark.parametrize(
    ("types", "clause"),
    [
        (SparkTypes(), "ADD COLUMNS (`what` string, `at` timestamp_ntz)"),
        (
            MysqlTypes(),
            "ADD COLUMN `what` varchar(20) collate utf8mb4_bin NULL, ADD COLUMN `at` datetime(3) NULL",
        ),
        (PostgresTypes(), 'ADD COLUMN "what" text, ADD COLUMN "at" timestamp(3) without time zone'),
    ],
    ids=lambda one: type(one).__name__,
)
def test_columns_are_added_in_the_words_of_the_target(types: TypeMap, clause: str) -> None:
    columns = tuple(Column(name=name, type=parse_type(kind)) for name, kind in COLUMNS.items())
    table = Table(schema="shop", name="events", columns=columns)
    _, *missing = types.columns(table, ("id",), LakeOptions())
    assert types.add_columns(missing) == clause
