"""Iceberg tables as of a snapshot, after their columns have changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.iceberg.time_travel import table_as_of


def _lake(spark: SparkSession, folder: Path, catalog: str) -> SparkSession:
    """A session with a catalog of its own."""
    session = spark.newSession()
    options = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": str(folder)}
    for name, value in options.items():
        session.conf.set(f"spark.sql.catalog.{catalog}{name}", value)
    return session


def _loaded(session: SparkSession, name: str) -> Any:
    """The current table in Iceberg's Java API."""
    utilities = session._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
    return utilities.loadIcebergTable(session._jsparkSession, name)


@pytest.mark.parametrize("planning", ["auto", "local", "distributed"])
def test_rows_of_then_have_the_columns_of_now_and_filters_find_them(
    spark: SparkSession, tmp_path: Path, planning: str
) -> None:
    session = _lake(spark, tmp_path, f"then_{planning}")
    name = f"then_{planning}.shop.t"
    properties = f"'read.data-planning-mode'='{planning}', 'read.delete-planning-mode'='{planning}'"
    session.sql(
        f"CREATE TABLE {name} (id INT, a STRING, gone INT, p STRING) USING iceberg PARTITIONED BY (p) "
        f"TBLPROPERTIES ('write.delete.mode'='merge-on-read', {properties})"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 'x', 7, 'p1'), (2, 'y', 7, 'p1'), (3, 'z', 7, 'p2')")
    session.sql(f"DELETE FROM {name} WHERE id = 2")
    then = _loaded(session, name).currentSnapshot().snapshotId()
    for change in (
        "RENAME COLUMN a TO b",
        "ADD COLUMN a INT",
        "DROP COLUMN gone",
        "ALTER COLUMN id TYPE BIGINT",
    ):
        session.sql(f"ALTER TABLE {name} {change}")
    loaded = _loaded(session, name)
    with pytest.raises(SinkFault, match=r"another writer renamed column `b` of .*\.shop\.t.*undo the change"):
        table_as_of(session, name, loaded, then)

    session.sql(f"INSERT INTO {name} VALUES (4, 'w', 'p1', 8)")
    loaded = _loaded(session, name)
    frame = table_as_of(session, name, loaded, then)
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("id", "bigint"),
        ("b", "string"),
        ("p", "string"),
        ("a", "int"),
    ]
    assert sorted(map(tuple, frame.collect())) == [(1, "x", "p1", None), (3, "z", "p2", None)]
    assert [row.id for row in frame.where("b = 'x'").collect()] == [1]
    assert [row.id for row in frame.where("p = 'p2' AND id > 0").collect()] == [3]
    assert frame.where("a IS NOT NULL").count() == 0
    places = table_as_of(session, name, loaded, then, ["_file", "_pos"]).where("b = 'z'").select("_file", "_pos")
    assert [row._pos for row in places.collect()] == [0]


def test_the_current_snapshot_is_read_after_columns_came_and_went(spark: SparkSession, tmp_path: Path) -> None:
    session = _lake(spark, tmp_path, "then_current")
    name = "then_current.shop.t"
    session.sql(f"CREATE TABLE {name} (id INT, gone INT, p STRING) USING iceberg PARTITIONED BY (p)")
    session.sql(f"INSERT INTO {name} VALUES (1, 7, 'p1'), (3, 7, 'p2')")
    for change in "DROP COLUMN gone", "ADD COLUMN a INT", "ALTER COLUMN id TYPE BIGINT":
        session.sql(f"ALTER TABLE {name} {change}")
    loaded = _loaded(session, name)
    frame = table_as_of(session, name, loaded, loaded.currentSnapshot().snapshotId())
    assert sorted(map(tuple, frame.collect())) == [(1, "p1", None), (3, "p2", None)]
    assert [row.id for row in frame.where("p = 'p2' AND id > 0").collect()] == [3]
    assert frame.where("id = 3000000000").count() == 0
    assert frame.where("a = 5").count() == 0


def test_a_nested_column_that_another_writer_changed_is_not_guessed(spark: SparkSession, tmp_path: Path) -> None:
    session = _lake(spark, tmp_path, "then_nested")
    name = "then_nested.shop.t"
    session.sql(f"CREATE TABLE {name} (id INT, s STRUCT<a: INT, b: INT>, v ARRAY<FLOAT>) USING iceberg")
    session.sql(f"INSERT INTO {name} VALUES (1, named_struct('a', 1, 'b', 2), array(0.5))")
    then = _loaded(session, name).currentSnapshot().snapshotId()
    session.sql(f"ALTER TABLE {name} ADD COLUMN w INT")
    loaded = _loaded(session, name)
    assert [tuple(row) for row in table_as_of(session, name, loaded, then).collect()] == [(1, (1, 2), [0.5], None)]
    session.sql(f"ALTER TABLE {name} ALTER COLUMN s.b FIRST")
    loaded = _loaded(session, name)
    with pytest.raises(SinkFault, match=r"another writer changed the nested column `s` of"):
        table_as_of(session, name, loaded, then)
