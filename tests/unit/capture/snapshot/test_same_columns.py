"""Whether a full read gives rows that look like those of the job's own schema."""

from __future__ import annotations

import pytest

from ticdc_spark.capture.snapshot.base import same_columns
from ticdc_spark.ddl import parse_create
from ticdc_spark.spark.types import LakeOptions, lake_columns


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("TIME(3)", "TIME", False),
        ("TIME(3)", "TIME(3)", True),
        ("DATETIME(6)", "DATETIME", False),
        ("VARCHAR(9)", "VARCHAR(20)", True),
        ("ENUM('a','b')", "ENUM('b','a')", False),
        ("INT", "BIGINT", False),
    ],
)
def test_a_type_whose_values_are_written_otherwise_is_another_one(one: str, other: str, same: bool) -> None:
    tables = [parse_create(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})", "s", "escape") for kind in (one, other)]
    columns = [lake_columns(table, ("id",), LakeOptions()) for table in tables]
    assert same_columns(*columns) is same
