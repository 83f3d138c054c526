"""What one would write without this package: ``from_json``, the newest change of a key, ``MERGE INTO``.

They order nothing across batches, follow no DDL, and cannot be restarted. They write into tables with the same
properties, in batches with the same bounds, as the job that they are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from ticdc_spark.changes.columns import OP
from ticdc_spark.model import ColumnType, Offsets, Table
from ticdc_spark.mysql import handle_key, is_bytes
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.iceberg.sink import IcebergSink
from ticdc_spark.spark.sources.base import Source
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn, LakeOptions, lake_columns

THREADS = 4
_ROWS = ("INSERT", "UPDATE", "DELETE")
Bounds = Sequence[tuple[Offsets, Offsets]]


def columns_of(table: Table) -> tuple[LakeColumn, ...]:
    return lake_columns(table, handle_key(table), LakeOptions())


def image_schema(table: Table) -> str:
    """A row image as ``from_json`` reads it."""
    stamp = "struct<location: string, value: string>"
    return ", ".join(f"{quote(c.name)} {stamp if c.type.name == 'timestamp' else 'string'}" for c in table.columns)


def typed(image: Column, column: LakeColumn) -> Column:
    """A column of an image, cast to the lake's type."""
    source: ColumnType = column.column.type
    text = image.getField(column.source)
    match source.name:
        case "enum":
            return sf.try_element_at(sf.array(*map(sf.lit, source.elements)), text.cast("int"))
        case "set":
            mask = text.cast("bigint")
            names = (sf.when(mask.bitwiseAND(1 << bit) > 0, name) for bit, name in enumerate(source.elements))
            return sf.when(text.isNotNull(), sf.concat_ws(",", *names))
        case "timestamp":
            return text.getField("value").cast("timestamp")
        case _ if is_bytes(source):
            return sf.unbase64(text)
        case _ if column.type.spark == "string":
            return text
    return text.cast(column.type.spark)


def typed_columns(old: Column, new: Column, columns: Sequence[LakeColumn]) -> list[Column]:
    """The columns of a change: from the new image, or (a delete) the key from the old one."""
    return [(sf.coalesce(typed(new, c), typed(old, c)) if c.key else typed(new, c)).alias(c.name) for c in columns]


def newest(changes: DataFrame, columns: Sequence[LakeColumn]) -> DataFrame:
    """The newest change of each key."""
    keys = [quote(column.name) for column in columns if column.key]
    window = Window.partitionBy(*keys).orderBy(sf.col("ts").desc())
    return changes.withColumn("n", sf.row_number().over(window)).where("n = 1").drop("n", "ts")


def create(sink: IcebergSink, tables: Sequence[Table]) -> None:
    """Create the tables as a job does."""
    for table in tables:
        sink.create((table.schema, table.name), columns_of(table), Stamp("baseline", (0, 0), 0))


def _merge(sink: IcebergSink, table: Table, changes: DataFrame, columns: Sequence[LakeColumn]) -> None:
    op = sf.when(sf.col("type") == "DELETE", "d").otherwise("u").alias(OP)
    net = changes.select(op, *(quote(column.name) for column in columns))
    sink.spark_writer.merge((table.schema, table.name), net, columns, Stamp("baseline", (1, 0), 0))


def naive(source: Source, sink: IcebergSink, tables: Sequence[Table], bounds: Bounds) -> None:
    """Table after table, each from the messages."""
    for start, end in bounds:
        for table in tables:
            image, columns = image_schema(table), columns_of(table)
            schema = f"type string, `table` string, commitTs bigint, data struct<{image}>, old struct<{image}>"
            read = source.read(start, end).select(sf.from_json(sf.col("value").cast("string"), schema).alias("m"))
            mine = read.where((sf.col("m.table") == table.name) & sf.col("m.type").isin(*_ROWS))
            cells = typed_columns(sf.col("m.old"), sf.col("m.data"), columns)
            changes = mine.select("m.type", sf.col("m.commitTs").alias("ts"), *cells)
            _merge(sink, table, newest(changes, columns), columns)


def tuned(source: Source, sink: IcebergSink, tables: Sequence[Table], bounds: Bounds) -> None:
    """The messages of a batch opened once and cached, images still raw; then the tables, four at a time."""
    envelope = "type string, `table` string, commitTs bigint, data string, old string"
    for start, end in bounds:
        opened = (
            source.read(start, end)
            .select(sf.from_json(sf.col("value").cast("string"), envelope).alias("m"))
            .select("m.*")
            .where(sf.col("type").isin(*_ROWS))
            .persist(StorageLevel.MEMORY_AND_DISK)
        )

        def one(table: Table, opened: DataFrame = opened) -> None:
            columns = columns_of(table)
            changes = images_typed(opened.where(sf.col("table") == table.name), table, columns)
            _merge(sink, table, newest(changes, columns), columns)

        opened.count()
        try:
            with ThreadPoolExecutor(THREADS) as pool:
                list(pool.map(one, tables))
        finally:
            opened.unpersist()


def images_typed(opened: DataFrame, table: Table, columns: Sequence[LakeColumn]) -> DataFrame:
    """Opened messages of one table, with ``data`` and ``old`` read to the lake's columns."""
    schema = image_schema(table)
    new, old = sf.from_json("data", schema).alias("new"), sf.from_json("old", schema).alias("old")
    return opened.select("type", sf.col("commitTs").alias("ts"), new, old).select(
        "type", "ts", *typed_columns(sf.col("old"), sf.col("new"), columns)
    )
