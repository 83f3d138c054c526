"""The SQL of every conversion gives what its Python function gives, value by value, in Spark itself."""

from __future__ import annotations

import math
import random
import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.conversion_cases import VALUES, ZONE, column, converted, every_conversion
from ticdc_spark.errors import MessageError
from ticdc_spark.mysql import Ambiguous, canonical_float
from ticdc_spark.sinks.conversions import conversion
from ticdc_spark.sinks.conversions.steps import render
from ticdc_spark.spark.types import LakeOptions, to_arrow

RUNS: list[tuple[str, Ambiguous, str]] = [
    (ZONE, "earlier", "true"),
    ("Australia/Lord_Howe", "later", "false"),
    (ZONE, "reject", "true"),
]
"""The first is not slow."""


def lake(kind: str, cells: list[Any]) -> pa.Array:
    array, bad, _ = to_arrow(column(kind), LakeOptions())(cells)
    assert not bad, (kind, bad)
    return array


def spark_rows(spark: SparkSession, kind: str, expressions: list[str]) -> list[dict[str, Any]]:
    table = pa.table({"at": pa.array(range(len(VALUES[kind]))), "c": lake(kind, list(VALUES[kind]))})
    shown = [f"{expression} AS e{at}" for at, expression in enumerate(expressions)]
    found: list[dict[str, Any]] = spark.createDataFrame(table).selectExpr("at", *shown).toArrow().to_pylist()
    return sorted(found, key=lambda row: row["at"])


@pytest.mark.parametrize(
    ("zone", "ambiguous", "ansi"), [RUNS[0], *(pytest.param(*run, marks=pytest.mark.slow) for run in RUNS[1:])]
)
def test_sql_and_python_agree_on_every_value(spark: SparkSession, zone: str, ambiguous: Ambiguous, ansi: str) -> None:
    """NULL in SQL before the last check, which raises, is a MessageError in Python."""
    pairs = defaultdict(list)
    for old, new, _, _, change in every_conversion(zone, ambiguous):
        if change.exact and not change.keeps_lake:
            pairs[old].append((new, change))
    differ = []
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for old, changes in pairs.items():
            shown = [f"CAST({render(change.steps, 'c')} AS {change.new.spark})" for _, change in changes]
            rows = spark_rows(spark, old, shown)
            for at, (new, change) in enumerate(changes):
                message = [converted(change, value) for value in VALUES[old]]
                cells = lake(new, [None if isinstance(one, MessageError) else one for one in message]).to_pylist()
                differ += [
                    f"{old} -> {new}: {value!r}: SQL {row[f'e{at}']!r}, Python {one!r}"
                    for row, value, cell, one in zip(rows, VALUES[old], cells, message, strict=True)
                    if row[f"e{at}"] != cell
                ]
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
    assert not differ, "\n".join([str(len(differ)), *differ])


def test_what_needs_no_rewrite_is_the_same_in_the_lake() -> None:
    for old, new, _, _, change in every_conversion():
        if not change.keeps_lake:
            continue
        good = [(value, one) for value in VALUES[old] if not isinstance(one := converted(change, value), MessageError)]
        before, after = lake(old, [value for value, _ in good]), lake(new, [one for _, one in good])
        assert before.to_pylist() == after.to_pylist(), (old, new)


def test_a_value_that_strict_mode_refuses_raises_and_null_stays_null(spark: SparkSession) -> None:
    change = conversion(column("varchar(30)"), column("int(11)"), None)
    rows = spark.sql(f"SELECT {change.sql('c')} AS n FROM VALUES ('2.5'), (NULL), ('-0.5') AS t(c)").collect()
    assert [row.n for row in rows] == [3, None, -1]
    for ansi in ("true", "false"):
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        with pytest.raises(PySparkException, match="no int is made of a value of `varchar`: abc"):
            spark.sql(f"SELECT {change.sql('c')} FROM VALUES ('abc') AS t(c)").collect()
    spark.conf.set("spark.sql.ansi.enabled", "true")


def test_the_text_of_a_double_is_the_shortest_but_for_ties(spark: SparkSession) -> None:
    """Also under Java 17, whose own is not always; a FLOAT halfway between two texts may get the other one."""
    draw = random.Random(5)
    numbers = [struct.unpack("<d", draw.randbytes(8))[0] for _ in range(20_000)]
    numbers += [float(draw.randrange(2**53, 2**63)) for _ in range(10_000)]
    numbers += [draw.uniform(-1000, 1000) for _ in range(10_000)] + [round(draw.uniform(0, 99), 2) for _ in range(9999)]
    numbers = [one for one in numbers if math.isfinite(one)] + [2e-3, 2e23, 1.1e23, 8.41e21, 2.0**-1074, 2.0**53]
    change = conversion(column("double"), column("text"), None)
    shown = ["c", f"{render(change.steps, 'c')} AS t"]
    found = spark.createDataFrame(pa.table({"c": pa.array(numbers)})).selectExpr(*shown).toArrow().to_pylist()
    wrong = [row for row in found if row["t"] != change.python(canonical_float(repr(row["c"]), 64))]
    assert not wrong, (len(wrong), wrong[:5])


@pytest.mark.parametrize(
    ("old", "new"), [("datetime(6)", "datetime"), ("double", "decimal(20,6)"), ("time(3)", "time")]
)
def test_an_update_of_an_iceberg_table_takes_the_sql(spark: SparkSession, folder: Path, old: str, new: str) -> None:
    """UPDATE does not take every expression that SELECT takes."""
    catalog, change = "spark.sql.catalog.conversions", conversion(column(old), column(new), ZONE)
    spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{catalog}.type", "hadoop")
    spark.conf.set(f"{catalog}.warehouse", str(folder))
    spark.sql("CREATE NAMESPACE IF NOT EXISTS conversions.db")
    name = f"conversions.db.{folder.name}"
    good = [(value, one) for value in VALUES[old] if not isinstance(one := converted(change, value), MessageError)]
    spark.createDataFrame(pa.table({"c": lake(old, [value for value, _ in good])})).writeTo(name).create()
    spark.sql(f"ALTER TABLE {name} ADD COLUMN d {change.new.spark}")
    spark.sql(f"UPDATE {name} SET d = {change.template.format(old='c')}")
    found = spark.table(name).select("d").toArrow().column("d").to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, lake(new, [one for _, one in good]).to_pylist()))
