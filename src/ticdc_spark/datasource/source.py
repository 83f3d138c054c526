"""The data source that Spark registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from ticdc_spark.datasource.bounds import Bounds, bounds_of
from ticdc_spark.datasource.generic import fields_of
from ticdc_spark.datasource.options import ReadOptionsOfSource, read_options
from ticdc_spark.datasource.parts import Part, parts
from ticdc_spark.datasource.planning import Range, plan_batch, plan_columns
from ticdc_spark.datasource.stream import StreamReader
from ticdc_spark.datasource.typed import FIELDS, columns_of
from ticdc_spark.datasource.writer import BatchWriter, StreamWriter
from ticdc_spark.errors import UsageError
from ticdc_spark.spark.sql import quote


class TicdcDataSource(DataSource):
    """``format("ticdc")``: register it with ``spark.dataSource.register(TicdcDataSource)``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "ticdc"

    def schema(self) -> str:
        """The columns as Spark DDL. Raises: UsageError, SourceFault, RegistryFault"""
        columns = query_columns(read_options(self.options))
        return ", ".join(f"{quote(name)} {kind}" for name, kind in columns.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch. Raises: UsageError"""
        options = read_options(self.options)
        if options.max_offsets_per_trigger is not None:
            raise UsageError("option maxOffsetsPerTrigger: is for streams (readStream); endingOffsets ends a batch")
        return (FilteringReader if options.filter_pushdown else BatchReader)(options, planned(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """The reader of a stream. Raises: UsageError"""
        options = read_options(self.options)
        if options.ending_offsets is not None:
            raise UsageError("option endingOffsets: is for batches (read); a stream has no end")
        return StreamReader(options, planned(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer of a batch. Raises: UsageError"""
        return BatchWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """The writer of a stream. Raises: UsageError"""
        return StreamWriter(self.options, schema)


def query_columns(options: ReadOptionsOfSource) -> dict[str, str]:
    """The columns for the options, with their types. Raises: UsageError, SourceFault, RegistryFault"""
    if options.table is None:
        return {name: kind for name, kind, _ in fields_of(options)}
    columns = columns_of(plan_columns(options))
    return {column.name: column.type.spark for column in columns} | {name: kind for name, kind, _ in FIELDS}


def planned(schema: StructType) -> dict[str, str]:
    """The columns of a query, with their types."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


class BatchReader(DataSourceReader):
    """Reads everything between two offsets of each partition."""

    def __init__(self, options: ReadOptionsOfSource, columns: dict[str, str]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[Part]:
        """The parts. Raises: UsageError, SourceFault, RegistryFault"""
        reading, ranges = plan_batch(self._options)
        return parts(reading, ranges, self._columns)

    def read(self, partition: Part | None) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The rows of a part. Raises: RejectedMessage, SourceFault"""
        return iter(()) if partition is None else partition.rows()


class FilteringReader(BatchReader):
    """The same, if Spark may pass its filters. A separate class, because Spark 4.1 refuses a reader that takes filters
    while ``spark.sql.python.filterPushdown.enabled`` is off."""

    def __init__(self, options: ReadOptionsOfSource, columns: dict[str, str]) -> None:
        super().__init__(options, columns)
        self._bounds = Bounds()

    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802  Spark's name
        """Note what filters exclude. Returns: all filters, because Spark also applies them to the rows"""
        self._bounds = bounds_of(filters, typed=self._options.table is not None)
        return filters

    def partitions(self) -> list[Part]:
        """The parts that the filters do not exclude. Raises: as ``BatchReader.partitions``"""
        reading, ranges = plan_batch(self._options)
        reading = msgspec.structs.replace(reading, bounds=self._bounds)
        return parts(reading, bounded(ranges, self._bounds), self._columns)


def bounded(ranges: Iterable[Range], bounds: Bounds) -> list[Range]:
    """The parts of ranges inside bounds."""
    found = []
    for one in ranges:
        first, end = max(one.first, bounds.offsets.first), min(one.end, bounds.offsets.last + 1)
        if first < end and bounds.wants_place(one.topic, one.partition):
            found.append(msgspec.structs.replace(one, first=first, end=end))
    return found
