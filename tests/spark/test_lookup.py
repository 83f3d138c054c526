"""Looking old rows up in a table's files finds what Iceberg's own reader finds, whatever the table has been through."""

import random
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import lake
from ticdc_spark.model import Column, Index, Table
from ticdc_spark.mysql import parse_type
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog, catalog_options
from ticdc_spark.sinks.iceberg.rows.row_delta import positions, positions_by_spark
from ticdc_spark.sinks.iceberg.rows.target import Target, target
from ticdc_spark.sinks.iceberg.sink import IcebergSink
from ticdc_spark.spark.types import LakeColumn, LakeOptions, arrow_type, lake_columns

NAME = ("s", "t")
MERGE_ON_READ = (
    "TBLPROPERTIES ('format-version' = '{version}', 'write.merge.mode' = 'merge-on-read', "
    "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', "
    "'write.parquet.row-group-size-bytes' = '2048', 'commit.manifest.min-count-to-merge' = '4')"
)
KINDS = {"day": ("date",), "number": ("bigint",), "text": ("varchar(40)",), "composite": ("int", "varchar(40)")}
RARE = ("day", "number", "text")
"""Left to the slow tests: the composite key has a number and a text."""
VALUES: dict[str, Callable[[int], int | str | date]] = {
    "bigint": lambda at: (at - 40) * 1_000_000_007,
    "int": lambda at: at // 7 - 5,
    "date": lambda at: date(1990, 1, 1) + timedelta(days=at),
    "varchar(40)": lambda at: f"{'a shared beginning' if at % 2 else 'ÿ日'}{at:04} it's \\ {at % 5}",
}


def columns_of(kinds: Sequence[str]) -> tuple[LakeColumn, ...]:
    keys = [Column(name=f"k{at}", type=parse_type(kind), nullable=False) for at, kind in enumerate(kinds)]
    index = Index(name="PRIMARY", columns=tuple(key.name for key in keys), unique=True, primary=True, nullable=False)
    table = Table(schema="s", name="t", columns=(*keys, Column(name="v", type=parse_type("int"))), indexes=(index,))
    return lake_columns(table, index.columns, LakeOptions())


def key_of(kinds: Sequence[str], at: int) -> list[int | str | date]:
    return [VALUES[kind](at) for kind in kinds]


class Lake:
    """A table, and the sink that looks its rows up."""

    def __init__(self, spark: SparkSession, folder: Path, kinds: Sequence[str], version: int = 2) -> None:
        (folder / "lake").mkdir()
        self.folder = folder
        self.kinds = kinds
        self.columns = columns_of(kinds)
        self.session = lake(spark, folder)
        warehouse = str(folder / "lake")
        options = catalog_options("lake", warehouse, {})
        self.sink = IcebergSink(IcebergCatalog(spark.newSession(), "lake", warehouse, {}, options))
        named = ", ".join(f"{column.name} {column.type.spark}" for column in self.columns)
        self.session.sql("CREATE NAMESPACE lake.s")
        self.session.sql(f"CREATE TABLE lake.s.t ({named}) USING iceberg {MERGE_ON_READ.format(version=version)}")

    def sql(self, text: str) -> None:
        self.session.sql(text).collect()

    def insert(self, rows: Sequence[int]) -> None:
        data = [(*key_of(self.kinds, at), at) for at in rows]
        ddl = ", ".join(f"{column.name} {column.type.spark}" for column in self.columns)
        self.session.createDataFrame(data, ddl).coalesce(1).writeTo("lake.s.t").append()

    def found(self, rows: Sequence[int]) -> int:
        """How many rows have these keys; their positions must be those that Iceberg's reader finds."""
        to = target(self.sink.tables, NAME, self.columns)
        assert isinstance(to, Target)
        keys = [column for column in self.columns if column.key]
        values = [key_of(self.kinds, at) for at in rows]
        arrays = [pa.array([row[at] for row in values], arrow_type(key.type)) for at, key in enumerate(keys)]
        self.keys = pa.table(arrays, names=[key.name for key in keys])
        found = positions(self.sink.tables, self.session, to, self.columns, self.keys)
        assert found == positions_by_spark(self.sink.tables, self.session, to, self.columns, self.keys)
        return sum(map(len, found.values()))

    def is_read_directly(self) -> bool:
        """Whether the last look-up needed no Spark."""
        to = target(self.sink.tables, NAME, self.columns)
        assert isinstance(to, Target)
        find = self.sink.catalog.lookup.find
        return find(to.files.storage, to.manifest_list, self.keys, to.files.field_ids) is not None


@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [pytest.param(one, marks=pytest.mark.slow if one in RARE else ()) for one in KINDS])
def test_rows_are_found_after_whatever_happened(spark: SparkSession, folder: Path, kind: str, version: int) -> None:
    table, draw = Lake(spark, folder, KINDS[kind], version), random.Random(kind)
    call = "CALL lake.system"
    with_a_list = (
        "ALTER TABLE lake.s.t ADD COLUMN w ARRAY<FLOAT> FIRST",
        "UPDATE lake.s.t SET w = array(1.0, 2.0) WHERE v % 4 = 1",
        "ALTER TABLE lake.s.t DROP COLUMN w",
    )
    steps: list[Callable[[], object]] = [
        lambda: table.insert(range(60)),
        lambda: table.insert(range(60, 200)),
        lambda: table.sql("DELETE FROM lake.s.t WHERE v % 3 = 0"),
        lambda: table.sql("UPDATE lake.s.t SET v = v + 1000 WHERE v % 5 = 1"),
        lambda: table.insert(range(0, 60, 3)),  # keys that were deleted come back in another file
        lambda: [table.sql(text) for text in with_a_list],
        lambda: table.sql("UPDATE lake.s.t SET v = -v WHERE v % 7 = 2"),
        lambda: table.sql(
            f"{call}.rewrite_position_delete_files(table => 's.t', options => map('rewrite-all', 'true'))"
        ),
        lambda: table.sql(f"{call}.rewrite_manifests(table => 's.t', use_caching => false)"),
        lambda: table.sql("DELETE FROM lake.s.t WHERE v % 11 = 4"),
        lambda: table.sql(f"{call}.rewrite_data_files(table => 's.t', options => map('rewrite-all', 'true'))"),
        lambda: table.insert(range(200, 230)),
    ]
    counts = []
    for step in steps:
        step()
        counts += [table.found([draw.randrange(250) for _ in range(size)]) for size in (1, 40)]
        table.found(range(230, 240))
        assert table.is_read_directly()
    assert sum(counts) > 100
    held = table.session.table("lake.s.t").count()
    assert table.found(range(250)) == held, "every row that is there is found, and none that was deleted"


def test_a_key_that_became_wider_is_found_in_old_and_new_files(spark: SparkSession, folder: Path) -> None:
    table = Lake(spark, folder, ("int",))
    table.insert(range(0, 70, 7))
    table.sql("ALTER TABLE lake.s.t ALTER COLUMN k0 TYPE BIGINT")
    table.sql("ALTER TABLE lake.s.t RENAME COLUMN k0 TO number")
    table.sql("ALTER TABLE lake.s.t RENAME COLUMN number TO k0")
    table.columns, table.kinds = columns_of(("bigint",)), ("bigint",)
    table.sql("INSERT INTO lake.s.t VALUES (1000000007, 1), (-3, 2)")
    rows = [41, 39]
    assert [VALUES["bigint"](at) for at in rows] == [1_000_000_007, -1_000_000_007]
    assert table.found(rows) == 1
    assert table.found([40]) == 1, "0, which lies in the file with the narrow key"
    assert table.is_read_directly()


def test_a_name_that_another_column_had_is_not_mistaken_for_the_key(spark: SparkSession, folder: Path) -> None:
    table = Lake(spark, folder, ("int",))
    table.insert(range(0, 70, 7))
    table.sql("ALTER TABLE lake.s.t RENAME COLUMN k0 TO old")
    table.sql("ALTER TABLE lake.s.t RENAME COLUMN v TO k0")
    table.sql("ALTER TABLE lake.s.t RENAME COLUMN old TO v")
    table.sql("ALTER TABLE lake.s.t ALTER COLUMN k0 FIRST")
    table.sql("INSERT INTO lake.s.t SELECT * FROM lake.s.t WHERE false")  # as a job, whose DDL commits a snapshot
    assert table.found([7 * (14 + 5)]) == 1, "14, once a value"
    assert table.found([7 * (-5 + 5)]) == 0, "-5, once a key"
    assert table.is_read_directly()


def test_files_of_another_format_are_left_to_iceberg(spark: SparkSession, folder: Path) -> None:
    table = Lake(spark, folder, ("bigint",))
    table.sql("ALTER TABLE lake.s.t SET TBLPROPERTIES ('write.format.default' = 'orc')")
    table.insert(range(10))
    table.sql("ALTER TABLE lake.s.t SET TBLPROPERTIES ('write.format.default' = 'parquet')")
    table.insert(range(10, 20))
    assert table.found([1, 11, 30]) == 2
    assert not table.is_read_directly()


def test_files_without_ids_of_columns_are_left_to_iceberg(spark: SparkSession, folder: Path) -> None:
    """As ``add_files`` brings them in: Iceberg knows their columns by name."""
    table = Lake(spark, folder, ("bigint",))
    table.insert(range(10))
    made = pa.table({"k0": [VALUES["bigint"](at) for at in range(10, 20)], "v": pa.array(range(10), pa.int32())})
    (folder / "plain").mkdir()
    pq.write_table(made, folder / "plain" / "a.parquet", store_schema=False)
    table.sql(f"CALL lake.system.add_files(table => 's.t', source_table => '`parquet`.`file:{folder / 'plain'}`')")
    assert table.found([1, 11, 30]) == 2
    assert not table.is_read_directly()
