"""What MySQL's own conversion of a column does and does not make equal to the source's."""

from __future__ import annotations

import pytest

from tests.workload.columns import column_type
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.sinks.mysql.types import MysqlTypes
from ticdc_spark.spark.types import LakeColumn, LakeOptions


def typed(kind: ColumnType) -> LakeColumn:
    table = Table(schema="s", name="t", columns=(Column(name="c", type=kind),), indexes=())
    (found,) = MysqlTypes().columns(table, (), LakeOptions())
    return found


@pytest.mark.parametrize("after", ["DATE", "DATETIME", "DATETIME(3)", "TIMESTAMP"])
def test_a_time_that_gets_the_day_of_the_ddl_is_not_what_the_server_makes_of_it_today(after: str) -> None:
    old, new = typed(column_type("TIME(3)")), typed(column_type(after))
    assert not MysqlTypes().promotes(old.type.name, new.type.name)
    found = MysqlTypes().conversion(old, new, "UTC", "first")
    assert found is not None and "day" in found.inexact


@pytest.mark.parametrize(("before", "after"), [("TIME(3)", "TIME"), ("DATE", "DATETIME"), ("DATETIME", "TIME")])
def test_the_server_converts_what_depends_on_no_day(before: str, after: str) -> None:
    old, new = typed(column_type(before)), typed(column_type(after))
    assert MysqlTypes().promotes(old.type.name, new.type.name)
    assert MysqlTypes().conversion(old, new, None, "first") is None


def test_a_comment_is_cut_to_what_the_server_stores() -> None:
    tidb, mariadb = MysqlTypes("8.0.11-TiDB-v8.5.0"), MysqlTypes("11.4.5-MariaDB")
    assert tidb.comment("\0🙂" + "é" * 1024) == "🙂" + "é" * 510
    assert tidb.comment("a" * 1023 + "é") == "a" * 1023
    assert mariadb.comment("\0🙂" + "é" * 1024) == "?" + "é" * 1023


def test_a_type_of_the_server_is_written_as_the_server_reads_it() -> None:
    """TiDB shows the members of an ENUM without escapes."""
    assert (
        MysqlTypes("8.0.11-TiDB-v8.5.0").as_held("enum('a\\b')", "utf8mb4_bin") == "enum('a\\\\b') collate utf8mb4_bin"
    )
    assert MysqlTypes("8.4.0").as_held("enum('a\\\\b')", None) == "enum('a\\\\b')"
