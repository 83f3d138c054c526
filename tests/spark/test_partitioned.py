"""Row deltas into partitioned tables: each file has rows of one partition, and deletes are of their data file's."""

import random
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from tests.spark.lake import Rows, lake, replicate, write_job
from tests.spark.simple_topic import ID, INT, KEY, ddl, insert, table, topic
from tests.spark.test_row_delta import MERGE_ON_READ, Ways, delete, orphans, update
from tests.spark.test_row_delta import rows as read_rows
from tests.spark.test_row_delta import ways as ways
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Change, Column, Row, RowChange, Table, Watermark
from ticdc_spark.mysql import parse_type
from ticdc_spark.sinks.iceberg.files.partitions import PartitionField, PartitionSpec, split, to_spec
from ticdc_spark.sinks.iceberg.java import JavaNames, to_schema

KINDS = {
    "n": "bigint",
    "s": "varchar(20)",
    "d": "date",
    "at": "datetime(6)",
    "ts": "timestamp",
    "x": "decimal(9,2)",
    "b": "varbinary(9)",
}
LAKE = (
    "(id INT, n BIGINT, s STRING, d DATE, at TIMESTAMP_NTZ, ts TIMESTAMP, x DECIMAL(9,2), b BINARY) USING iceberg "
    "PARTITIONED BY ({}) TBLPROPERTIES ({})"
)
SPECS = [
    "d, bucket(2, s)",
    "bucket(3, id)",
    "truncate(40, n), truncate(2, s)",
    "days(ts), years(at)",
    "months(d), hours(at), ts",
    "x, b, bucket(2, x)",
    "s, at, bucket(2, b), bucket(2, ts)",
]
OLD_DATES = [-719468, -719162, -141427, -366, -365, -1, 0, 1, 59, 18321, 2932896]
MICROS = [-62167219200000000, -86400000001, -86400000000, -3600000001, -1, 0, 1, 3599999999, 1700000000123456]


def table_of() -> Table:
    columns = []
    for name, kind in KINDS.items():
        type_ = parse_type(kind)
        charset = {"varchar": "utf8mb4", "varbinary": "binary"}.get(type_.name)
        columns.append(Column(name=name, type=msgspec.structs.replace(type_, charset=charset)))
    return Table(schema="s", name="t", columns=(ID, *columns), indexes=(KEY,), table_id=10, version=10)


T = table_of()


def draw_row(draw: random.Random, key: int) -> Row:
    day = f"{draw.choice((1969, 2024))}-0{draw.randint(1, 2)}-{draw.choice(('01', '28'))}"
    time = f"{draw.choice(('00', '23'))}:59:59.{draw.choice(('000000', '999999'))}"
    drawn: dict[str, str | bytes | None] = {
        "n": str(draw.randint(-60, 60)),
        "s": draw.choice(["", "a", "äöü", "\U0001f600日%=/ x", "null"]),
        "d": day,
        "at": f"{day} {time}",
        "ts": f"2024-{day[5:]} {time[:8]}",
        "x": draw.choice(["-1.50", "0.00", "1234567.89"]),
        "b": draw.choice([b"", b"\0", b"\xff\x10abc"]),
    }
    return {"id": str(key)} | {name: value if draw.random() > 0.1 else None for name, value in drawn.items()}


def changes(draw: random.Random, live: dict[int, Row], ts: int) -> list[Change]:
    """A batch: inserts, updates that mostly move a row to another partition, deletes, changed keys."""
    found: list[Change] = []
    for at in draw.sample(range(40), 25):
        ts += 1
        row = live.get(at)
        new = draw_row(draw, at)
        if row is None:
            found.append(RowChange(op="insert", table=T, commit_ts=ts, after=new))
        elif draw.random() < 0.25:
            found.append(delete(T, ts, row))
            del live[at]
            continue
        elif draw.random() < 0.2 and at + 100 not in live:
            found.append(update(T, ts, row, id=str(at + 100)))
            live[at + 100] = row | {"id": str(at + 100)}
            del live[at]
            continue
        else:
            found.append(RowChange(op="update", table=T, commit_ts=ts, before=row, after=new))
        live[at] = new
    return [*found, Watermark(ts + 1)]


CALL = "CALL lake.system"
OTHERS: list[Callable[[SparkSession], object]] = [
    lambda session: session.sql("ALTER TABLE lake.s.t ADD PARTITION FIELD bucket(2, n)").collect(),
    lambda session: session.sql("DELETE FROM lake.s.t WHERE id = 3").collect(),
    lambda session: session.sql(
        f"{CALL}.rewrite_data_files(table => 's.t', options => map('rewrite-all', 'true'))"
    ).collect(),
    lambda session: session.sql("ALTER TABLE lake.s.t DROP PARTITION FIELD bucket(2, n)").collect(),
    lambda session: session.sql(f"{CALL}.rewrite_position_delete_files('s.t')").collect(),
]
"""What is done between batches. The row with id 3 is deleted for the job, too."""


def run(spark: SparkSession, folder: Path, writer: str, spec: str, version: str) -> Rows:
    """Batches among what others do; the rows in the end."""
    draw, live = random.Random(spec), dict[int, Row]()
    (folder / "lake").mkdir(parents=True)
    session = lake(spark, folder)
    session.sql("CREATE NAMESPACE lake.s")
    session.sql(f"CREATE TABLE lake.s.t {LAKE.format(spec, MERGE_ON_READ.replace(chr(39) + '2', chr(39) + version))}")
    events: list[Change] = [ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY)", T)]
    job = write_job(folder, topic(folder, events), f'adopt = true\nwriter = "{writer}"')
    job.write_text(job.read_text() + "[upkeep]\nenabled = false\n")
    for number, other in enumerate([lambda session: None, *OTHERS]):
        other(lake(spark, folder))
        events += changes(draw, live, 100 * (number + 1))
        if 3 in live:
            events[-1:] = [delete(T, 100 * (number + 1) + 90, live.pop(3)), Watermark(100 * (number + 1) + 91)]
        topic(folder, events)
        replicate(job)
    assert [row["id"] for row in read_rows(spark, folder)] == sorted(live)
    return read_rows(spark, folder)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("spec", SPECS)
def test_a_partitioned_table_ends_as_by_merge(
    spark: SparkSession, folder: Path, ways: Ways, spec: str, version: str
) -> None:
    found = run(spark, folder / "python", "python", spec, version)
    assert (ways.direct, ways.merges) == ([True] * (len(OTHERS) + 1), 0)
    assert not orphans(spark, folder / "python")
    assert found == run(spark, folder / "spark", "spark", spec, version)
    session = lake(spark, folder / "python")
    deletes = session.table("lake.s.t.delete_files").select("spec_id", "partition").distinct().collect()
    assert len(deletes) > 1
    # Iceberg leaves out files by their partitions: what it finds so is what it finds among all rows.
    for row in session.sql("SELECT * FROM lake.s.t").collect():
        conditions = [sf.col(name).eqNullSafe(sf.lit(value)) for name, value in row.asDict().items() if name != "id"]
        same = session.table("lake.s.t").where(reduce(and_, conditions)).select("id").collect()
        assert row["id"] in [one["id"] for one in same], row


def test_a_column_of_the_partitions_is_not_dropped(spark: SparkSession, folder: Path, ways: Ways) -> None:
    before = table(10, Column(name="v", type=INT), Column(name="w", type=INT))
    after = table(40, Column(name="w", type=INT))
    (folder / "lake").mkdir()
    session = lake(spark, folder)
    session.sql("CREATE NAMESPACE lake.s")
    columns = "(id INT, v INT, w INT) USING iceberg PARTITIONED BY (truncate(10, v))"
    session.sql(f"CREATE TABLE lake.s.t {columns} TBLPROPERTIES ({MERGE_ON_READ})")
    events: list[Change] = [
        ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT,`w` INT)", before),
        *(insert(before, 20, id=str(at), v=str(at), w="0") for at in range(30)),
        Watermark(30),
        update(before, 31, {"id": "1", "v": "1", "w": "0"}, w="5"),
        Watermark(35),
    ]
    job = write_job(folder, topic(folder, events[:-2]), "adopt = true")
    replicate(job)
    topic(folder, events)
    replicate(job)
    events += [
        ddl("ALTER", 40, "ALTER TABLE `t` DROP COLUMN `v`", after, before),
        delete(after, 50, {"id": "2", "w": "0"}),
    ]
    topic(folder, [*events, Watermark(60)])
    with pytest.raises(DecisionNeeded, match=r"column `v` of `lake`\.`s`\.`t` cannot be dropped") as stop:
        replicate(job)
    # What it says helps.
    for statement in re.findall(r"^  ([A-Z].*);$", str(stop.value), re.MULTILINE):
        lake(spark, folder).sql(statement).collect()
    replicate(job)
    assert not ways.merges
    events += [Watermark(60), update(after, 70, {"id": "1", "w": "5"}, w="6"), Watermark(80)]
    topic(folder, events)
    replicate(job)
    assert read_rows(spark, folder) == [{"id": at, "w": 6 if at == 1 else 0} for at in range(30) if at != 2]


DECIMALS = ("14.20", "-1.28", "-1.29", "1.27", "1.28", "0.00", "-327.68", "-327.69", "9" * 36 + ".99")
COLUMNS: dict[str, tuple[str, pa.Array]] = {
    "int": ("int", pa.array([-(2**31), -11, -10, -1, 0, 1, 9, 10, 2**31 - 1, None], pa.int32())),
    "long": ("long", pa.array([-(2**63) + 100, -1, 0, 34, 2**63 - 1, None], pa.int64())),
    "string": ("string", pa.array(["", "iceberg", "abc", "äöü", "\U0001f600\U0001f600", "a" * 37, None], pa.string())),
    "binary": ("binary", pa.array([b"", b"\0\1\2\3", b"\xff" * 9, None], pa.binary())),
    "decimal": ("decimal(38, 2)", pa.array([*map(Decimal, DECIMALS), None], pa.decimal128(38, 2))),
    "date": ("date", pa.array([*OLD_DATES, None], pa.date32())),
    "timestamp": ("timestamp", pa.array([*MICROS, None], pa.timestamp("us"))),
    "timestamptz": ("timestamptz", pa.array([*MICROS, None], pa.timestamp("us", "UTC"))),
    "boolean": ("boolean", pa.array([True, False, None])),
}
TRANSFORMS = {
    "int": ["identity", "bucket[16]", "truncate[10]"],
    "long": ["identity", "bucket[7]", "truncate[50]"],
    "string": ["identity", "bucket[100]", "truncate[2]"],
    "binary": ["identity", "bucket[100]", "truncate[3]"],
    "decimal": ["identity", "bucket[100]"],
    "date": ["identity", "bucket[5]", "year", "month", "day"],
    "timestamp": ["identity", "bucket[5]", "year", "month", "day", "hour"],
    "timestamptz": ["identity", "bucket[5]", "year", "month", "day", "hour"],
    "boolean": ["identity"],
}


@pytest.mark.parametrize("at", [0, 1, *(pytest.param(at, marks=pytest.mark.slow) for at in range(2, 6))])
def test_partitions_are_those_that_iceberg_computes(spark: SparkSession, folder: Path, at: int) -> None:
    (folder / "lake").mkdir()
    session = lake(spark, folder)
    session.sql("CREATE NAMESPACE lake.s")
    chosen = {kind: transforms[at] for kind, transforms in TRANSFORMS.items() if at < len(transforms)}
    long = max(len(values) for _, values in COLUMNS.values())
    padded = {
        kind: pa.concat_arrays([values, pa.nulls(long - len(values), values.type)])
        for kind, (_, values) in COLUMNS.items()
    }
    rows = pa.table({"row": pa.array(range(long), pa.int32())} | {f"v_{kind}": padded[kind] for kind in chosen})
    named = ", ".join(f"v_{kind} {SPARK.get(kind, COLUMNS[kind][0])}" for kind in chosen)
    fields = ", ".join(in_sql(transform, f"v_{kind}") for kind, transform in chosen.items())
    session.sql(f"CREATE TABLE lake.s.t (row INT, {named}) USING iceberg PARTITIONED BY ({fields})")
    session.createDataFrame(rows).writeTo("lake.s.t").append()
    iceberg: Any = JavaNames(spark._jvm.org.apache.iceberg)  # type: ignore[union-attr]
    java = iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, "lake.s.t")
    names = {field.id: (field.name, field.type) for field in to_schema(iceberg, java.schema()).fields}
    spec = to_spec(str(iceberg.PartitionSpecParser.toJson(java.spec())), names)
    assert spec is not None
    by_file = {}
    planned = java.newScan().planFiles().iterator()
    while planned.hasNext():
        file = planned.next().file()
        by_file[str(file.location())] = msgspec.json.decode(str(iceberg.ContentFileParser.toJson(file, java.spec())))
    wanted = {
        row["row"]: by_file[row["_file"]]["partition"]
        for row in session.sql("SELECT row, _file FROM lake.s.t").collect()
    }
    found = {
        row: msgspec.json.decode(partition)
        for partition, part in split(rows, spec)
        for row in part.column("row").to_pylist()
    }
    assert [shown(found[row]) for row in range(long)] == [shown(wanted[row]) for row in range(long)]


SPARK = {"int": "INT", "long": "BIGINT", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP"}


def in_sql(transform: str, column: str) -> str:
    name, _, width = transform.rstrip("]").partition("[")
    return column if name == "identity" else f"{name}({width}, {column})" if width else f"{name}s({column})"


def shown(partition: list[Any]) -> list[Any]:
    """Iceberg leaves out seconds and fractions that are 0."""
    return [
        str(np.datetime64(one[:26].split("+")[0], "us")) + one[-6:][: 6 * one.endswith("+00:00")]
        if isinstance(one, str) and "T" in one
        else one
        for one in partition
    ]


def test_rows_of_a_partition_stay_together_in_their_order() -> None:
    rows = pa.table({"d": [date(2024, 1, 1), None, date(2024, 1, 2), date(2024, 1, 1), None], "n": range(5)})
    spec = PartitionSpec(fields=(PartitionField(column="d", kind="date", transform="identity"),))
    assert {partition: part.column("n").to_pylist() for partition, part in split(rows, spec)} == {
        '["2024-01-01"]': [0, 3],
        "[null]": [1, 4],
        '["2024-01-02"]': [2],
    }
    assert [partition for partition, _ in split(rows, PartitionSpec())] == ["[]"]
