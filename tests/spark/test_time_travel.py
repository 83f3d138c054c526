"""Iceberg tables as of a snapshot, after their columns have changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.iceberg.time_travel import table_as_of


@pytest.mark.parametrize("planning", ["auto", "local", "distributed"])
def test_rows_of_then_have_the_columns_of_now_and_filters_find_them(
    spark: SparkSession, tmp_path: Path, planning: str
) -> None:
    session = spark.newSession()
    catalog = f"spark.sql.catalog.then_{planning}"
    session.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{catalog}.type", "hadoop")
    session.conf.set(f"{catalog}.warehouse", str(tmp_path))
    name = f"then_{planning}.shop.t"
    properties = f"'read.data-planning-mode'='{planning}', 'read.delete-planning-mode'='{planning}'"
    session.sql(
        f"CREATE TABLE {name} (id INT, a STRING, gone INT, p STRING) USING iceberg PARTITIONED BY (p) "
        f"TBLPROPERTIES ('write.delete.mode'='merge-on-read', {properties})"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 'x', 7, 'p1'), (2, 'y', 7, 'p1'), (3, 'z', 7, 'p2')")
    session.sql(f"DELETE FROM {name} WHERE id = 2")
    utilities = session._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
    then = utilities.loadIcebergTable(session._jsparkSession, name).currentSnapshot().snapshotId()
    for change in (
        "RENAME COLUMN a TO b",
        "ADD COLUMN a INT",
        "DROP COLUMN gone",
        "ALTER COLUMN id TYPE BIGINT",
    ):
        session.sql(f"ALTER TABLE {name} {change}")
    loaded = utilities.loadIcebergTable(session._jsparkSession, name)
    with pytest.raises(SinkFault, match=r"another writer renamed column `b` of .*\.shop\.t.*undo the change"):
        table_as_of(session, name, loaded, then)

    session.sql(f"INSERT INTO {name} VALUES (4, 'w', 'p1', 8)")
    loaded = utilities.loadIcebergTable(session._jsparkSession, name)
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
    session = spark.newSession()
    catalog = "spark.sql.catalog.then_current"
    session.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{catalog}.type", "hadoop")
    session.conf.set(f"{catalog}.warehouse", str(tmp_path))
    name = "then_current.shop.t"
    session.sql(f"CREATE TABLE {name} (id INT, gone INT, p STRING) USING iceberg PARTITIONED BY (p)")
    session.sql(f"INSERT INTO {name} VALUES (1, 7, 'p1'), (3, 7, 'p2')")
    for change in "DROP COLUMN gone", "ADD COLUMN a INT", "ALTER COLUMN id TYPE BIGINT":
        session.sql(f"ALTER TABLE {name} {change}")
    utilities = session._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
    loaded = utilities.loadIcebergTable(session._jsparkSession, name)
    frame = table_as_of(session, name, loaded, loaded.currentSnapshot().snapshotId())
    assert sorted(map(tuple, frame.collect())) == [(1, "p1", None), (3, "p2", None)]
    assert [row.id for row in frame.where("p = 'p2' AND id > 0").collect()] == [3]
    assert frame.where("id = 3000000000").count() == 0
    assert frame.where("a = 5").count() == 0


def test_a_nested_column_that_another_writer_changed_is_not_guessed(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    catalog = "spark.sql.catalog.then_nested"
    session.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{catalog}.type", "hadoop")
    session.conf.set(f"{catalog}.warehouse", str(tmp_path))
    name = "then_nested.shop.t"
    session.sql(f"CREATE TABLE {name} (id INT, s STRUCT<a: INT, b: INT>, v ARRAY<FLOAT>) USING iceberg")
    session.sql(f"INSERT INTO {name} VALUES (1, named_struct('a', 1, 'b', 2), array(0.5))")
    utilities = session._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
    then = utilities.loadIcebergTable(session._jsparkSession, name).currentSnapshot().snapshotId()
    session.sql(f"ALTER TABLE {name} ADD COLUMN w INT")
    loaded = utilities.loadIcebergTable(session._jsparkSession, name)
    assert [tuple(row) for row in table_as_of(session, name, loaded, then).collect()] == [(1, (1, 2), [0.5], None)]
    session.sql(f"ALTER TABLE {name} ALTER COLUMN s.b FIRST")
    loaded = utilities.loadIcebergTable(session._jsparkSession, name)
    with pytest.raises(SinkFault, match=r"another writer changed the nested column `s` of"):
        table_as_of(session, name, loaded, then)
