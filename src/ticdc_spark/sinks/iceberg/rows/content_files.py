"""Files of a table as objects of Iceberg's Java API, from what their writer knows: no file is read again."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.files.data_files import DataFiles, WrittenFile
from ticdc_spark.sinks.iceberg.files.manifests import LiveFile
from ticdc_spark.sinks.iceberg.files.partitions import NO_PARTITION, to_partition
from ticdc_spark.spark.storage import metadata_of


class NewFile(NamedTuple):
    """A Parquet file that was written."""

    spec_id: int
    partition: str
    path: str
    size: int
    """Bytes."""
    footer: bytes


def data_file(catalog: IcebergCatalog, loaded: Any, files: DataFiles, file: WrittenFile) -> Any:
    """A new data file. Raises: Py4JError"""
    builder = catalog.iceberg.DataFiles.builder(loaded.specs().get(files.spec_id))
    config = catalog.iceberg.MetricsConfig.forTable(loaded)
    new = NewFile(files.spec_id, file.partition, f"{files.location}/{file.name}", file.size, file.footer)
    return _described(catalog, loaded, new, builder, config)


def position_deletes(catalog: IcebergCatalog, loaded: Any, file: NewFile) -> Any:
    """A new file of position deletes. Raises: Py4JError"""
    builder = catalog.iceberg.FileMetadata.deleteFileBuilder(loaded.specs().get(file.spec_id)).ofPositionDeletes()
    return _described(catalog, loaded, file, builder, catalog.iceberg.MetricsConfig.forPositionDelete())


def _described(catalog: IcebergCatalog, loaded: Any, file: NewFile, builder: Any, config: Any) -> Any:
    iceberg = catalog.iceberg
    parquet = iceberg.shaded.org.apache.parquet
    converter = parquet.format.converter.ParquetMetadataConverter
    # Without these options it has no limit for the size of a footer, and refuses every footer.
    options = parquet.ParquetReadOptions.builder(parquet.conf.PlainParquetConfiguration()).build()
    footer = catalog.java.io.ByteArrayInputStream(file.footer)
    read = converter(options).readParquetMetadata(footer, converter.NO_FILTER)
    metrics = iceberg.parquet.ParquetUtil.footerMetrics(read, catalog.java.util.stream.Stream.empty(), config)
    metrics = _without_bounds(catalog, metrics, columns_without_bounds(file.footer))
    named = builder.withPath(file.path).withFormat("parquet").withFileSizeInBytes(file.size).withMetrics(metrics)
    if file.partition != NO_PARTITION:
        parsed = _parsed(catalog, loaded, file.spec_id, file.partition, {"content": "data"})
        named = named.withPartition(parsed.partition())
    return named.build()


def old_data_file(catalog: IcebergCatalog, loaded: Any, files: DataFiles, file: LiveFile) -> Any:
    """A live data file, without metrics, to be removed. Raises: Py4JError"""
    text = {"content": "data", "file-path": file.location, "file-size-in-bytes": file.size, "record-count": file.rows}
    partition = to_partition(file.partition, files.specs[file.spec_id])
    return _parsed(catalog, loaded, file.spec_id, partition, text)


def columns_without_bounds(footer: bytes) -> set[int]:
    """The ids of columns of which only some row groups of a file have bounds.

    Arrow gives a row group no bounds for texts of more than 4 KiB. Iceberg would use the bounds of the other row groups
    for the whole file, and readers would skip rows.
    """
    metadata = metadata_of(footer)
    groups = range(metadata.num_row_groups)
    if len(groups) < 2:
        return set()
    fields = metadata.schema.to_arrow_schema()
    assert len(fields) == metadata.num_columns, "a column has one leaf"
    return {
        int(field.metadata[b"PARQUET:field_id"])
        for at, field in enumerate(fields)
        if any(_has_no_bounds(metadata.row_group(group).column(at)) for group in groups)
    }


def _has_no_bounds(column: Any) -> bool:
    """Whether a row group has values in a column, and no bounds of them."""
    known = column.statistics
    if known is None:
        return bool(column.num_values)
    return not known.has_min_max and not (known.has_null_count and known.null_count == column.num_values)


def _without_bounds(catalog: IcebergCatalog, metrics: Any, ids: Collection[int]) -> Any:
    """Metrics of a file without the bounds of some columns."""
    if not ids:
        return metrics
    lower, upper = (catalog.java.util.HashMap(bounds) for bounds in (metrics.lowerBounds(), metrics.upperBounds()))
    for bounds in (lower, upper):
        for one in ids:
            bounds.remove(one)
    counts = metrics.columnSizes(), metrics.valueCounts(), metrics.nullValueCounts(), metrics.nanValueCounts()
    return catalog.iceberg.Metrics(metrics.recordCount(), *counts, lower, upper)


def delete_file(catalog: IcebergCatalog, loaded: Any, files: DataFiles, file: LiveFile) -> Any:
    """Deletes of one data file, without metrics, in three calls, because there may be many. Raises: Py4JError"""
    text = {
        "content": "position-deletes",
        "file-path": file.location,
        "file-format": "parquet" if file.blob is None else "puffin",
        "file-size-in-bytes": file.size,
        "record-count": file.rows,
        "referenced-data-file": file.references,
    }
    if file.blob is not None:
        text |= {"content-offset": file.blob[0], "content-size-in-bytes": file.blob[1]}
    partition = to_partition(file.partition, files.specs[file.spec_id])
    return _parsed(catalog, loaded, file.spec_id, partition, text)


def _parsed(catalog: IcebergCatalog, loaded: Any, spec_id: int, partition: str, text: Mapping[str, object]) -> Any:
    unknown: dict[str, object] = {
        "file-path": "-",
        "file-format": "parquet",
        "file-size-in-bytes": 1,
        "record-count": 1,
    }
    whole = {**unknown, **text, "spec-id": spec_id, "partition": msgspec.Raw(partition.encode())}
    read = catalog.iceberg.util.JsonUtil.mapper().readTree(msgspec.json.encode(whole).decode())
    return catalog.iceberg.ContentFileParser.fromJson(read, loaded.specs())
