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

from tests.conversion_cases import VALUES, ZONE, column, converted, every_conversion
from ticdc_spark.errors import MessageError
from ticdc_spark.mysql import Ambiguous, canonical_float
from ticdc_spark.replicate.plan.conversions import conversion
from ticdc_spark.replicate.plan.conversions.steps import render
from ticdc_spark.spark.types import LakeOptions, to_arrow

RUNS: list[tuple[str, Ambiguous, str]] = [
    (ZONE, "earlier", "true"),
    ("Australia/Lord_Howe", "later", "false"),
    (ZONE, "reject", "true"),
]


def lake(kind: str, cells: list[Any]) -> pa.Array:
    array, bad, _ = to_arrow(column(kind), LakeOptions())(cells)
    assert not bad, (kind, bad)
    return array


def spark_rows(spark: SparkSession, kind: str, expressions: list[str]) -> list[dict[str, Any]]:
    table = pa.table({"at": pa.array(range(len(VALUES[kind]))), "c": lake(kind, list(VALUES[kind]))})
    shown = [f"{expression} AS e{at}" for at, expression in enumerate(expressions)]
    found: list[dict[str, Any]] = spark.createDataFrame(table).selectExpr("at", *shown).toArrow().to_pylist()
    return sorted(found, key=lambda row: row["at"])


@pytest.mark.parametrize(("zone", "ambiguous", "ansi"), RUNS)
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
                said = [converted(change, value) for value in VALUES[old]]
                cells = lake(new, [None if isinstance(one, MessageError) else one for one in said]).to_pylist()
                differ += [
                    f"{old} -> {new}: {value!r}: SQL {row[f'e{at}']!r}, Python {one!r}"
                    for row, value, cell, one in zip(rows, VALUES[old], cells, said, strict=True)
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


def test_the_text_of_any_float_is_the_shortest(spark: SparkSession) -> None:
    """Also under Java 17, whose own is not always."""
    draw = random.Random(5)
    doubles = [struct.unpack("<d", draw.randbytes(8))[0] for _ in range(20_000)]
    doubles += [draw.uniform(-1000, 1000) for _ in range(10_000)] + [
        round(draw.uniform(0, 99), 2) for _ in range(10_000)
    ]
    doubles = [one for one in doubles if math.isfinite(one)] + [2e-3, 2e23, 1.1e23, 8.41e21, 2.0**-1074, 2.0**53]
    singles = [struct.unpack("<f", draw.randbytes(4))[0] for _ in range(20_000)]
    singles = [one for one in singles if math.isfinite(one)]
    for kind, arrow, numbers in (("double", pa.float64(), doubles), ("float", pa.float32(), singles)):
        change = conversion(column(kind), column("text"), None)
        table = pa.table({"c": pa.array(numbers, arrow)})
        found = spark.createDataFrame(table).selectExpr("c", f"{render(change.steps, 'c')} AS t").toArrow().to_pylist()
        bits = 32 if kind == "float" else 64
        wrong = [
            (row, wanted)
            for row in found
            if row["t"] != (wanted := change.python(canonical_float(repr(row["c"]), bits)))
        ]
        assert not wrong, (len(wrong), wrong[:5])


def test_an_update_of_an_iceberg_table_takes_the_sql(spark: SparkSession, folder: Path) -> None:
    """UPDATE does not take every expression that SELECT takes."""
    spark.conf.set("spark.sql.catalog.conversions", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.conversions.type", "hadoop")
    spark.conf.set("spark.sql.catalog.conversions.warehouse", str(folder))
    for at, (old, new) in enumerate([("datetime(6)", "datetime"), ("double", "text"), ("time(3)", "time")]):
        name, change = f"conversions.db.t{at}", conversion(column(old), column(new), ZONE)
        spark.sql(f"CREATE TABLE {name} (c {change.old.spark}, d {change.new.spark}) USING iceberg")
        spark.createDataFrame(pa.table({"c": lake(old, list(VALUES[old]))})).selectExpr(
            "c", "NULL AS d"
        ).createOrReplaceTempView("v")
        spark.sql(
            f"INSERT INTO {name} SELECT * FROM v WHERE c IS NULL OR c < '9999' OR c > 'A'"
            if old != "double"
            else f"INSERT INTO {name} SELECT * FROM v"
        )
        spark.sql(f"UPDATE {name} SET d = {change.template.format(old='c')}")
        assert spark.sql(f"SELECT * FROM {name} WHERE d IS NULL").count() == 0
