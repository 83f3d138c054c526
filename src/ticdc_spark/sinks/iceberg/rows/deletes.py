"""Deletes of a row delta as files of the table: position deletes, or deletion vectors from version 3 on."""

from typing import Any
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa

from ticdc_spark.sinks.iceberg.files.deleted import by_file
from ticdc_spark.sinks.iceberg.files.manifests import LiveFile
from ticdc_spark.sinks.iceberg.files.vectors import write_puffin
from ticdc_spark.sinks.iceberg.rows.target import Target
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.spark.storage import name_of, write_parquet
from ticdc_spark.spark.tasks import files_at

POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)
"""A file of position deletes (Iceberg's specification, version 2)."""


def add_deletes(sink: IcebergTables, loaded: Any, delta: Any, to: Target, old: pa.Table) -> str:
    """Write the deletes of ``old`` (``POSITIONS``, in order, not empty) and add them to a row delta.

    Returns: the location of what was written. Raises: OSError, Py4JError, SinkFault
    """
    if to.version == 2:
        return _add_positions(sink, loaded, delta, to, old)
    return _add_vectors(sink, loaded, delta, to, old)


def _add_positions(sink: IcebergTables, loaded: Any, delta: Any, to: Target, old: pa.Table) -> str:
    name = f"{uuid4().hex}-deletes.parquet"
    place = f"{to.files.folder}/{name}"
    with files_at(name_of(to.files.storage, place)):
        size, footer = write_parquet(to.files.storage, place, old, compression=to.files.codec)
    builder = sink.iceberg.FileMetadata.deleteFileBuilder(loaded.spec()).ofPositionDeletes()
    config = sink.iceberg.MetricsConfig.forPositionDelete(loaded)
    path = f"{to.files.location}/{name}"
    delta.addDeletes(described(sink, builder, path, size, footer, config).build())
    return path


def _add_vectors(sink: IcebergTables, loaded: Any, delta: Any, to: Target, old: pa.Table) -> str:
    """A data file has one vector at most: a new one holds what was deleted before, and the former one goes."""
    new = by_file(old.column("file_path").combine_chunks().dictionary_encode(), old.column("pos").combine_chunks())
    storage = to.files.storage
    former = sink.lookup.former_deletes(storage, to.manifest_list, to.key_id, new.keys())
    name = f"{uuid4().hex}-deletes.puffin"
    place, path = f"{to.files.folder}/{name}", f"{to.files.location}/{name}"
    whole = {one: np.union1d(np.asarray(rows), np.asarray(former[one][0])) for one, rows in new.items()}
    with files_at(name_of(storage, place)):
        size, vectors = write_puffin(storage, place, whole)
    written = [
        LiveFile(
            location=path,
            path=place,
            size=size,
            sequence=0,
            lower=None,
            upper=None,
            rows=one.rows,
            references=one.references,
            blob=(one.offset, one.size),
        )
        for one in vectors
    ]
    specs, spec_id = loaded.specs(), loaded.spec().specId()
    for file in written:
        delta.addDeletes(_delete_file(sink, specs, spec_id, file))
    for _, files in former.values():
        for file in files:
            delta.removeDeletes(_delete_file(sink, specs, spec_id, file))
    return path


def _delete_file(sink: IcebergTables, specs: Any, spec_id: int, file: LiveFile) -> Any:
    """Deletes of one data file of an unpartitioned table, in three calls: there may be many."""
    text = {
        "spec-id": spec_id,
        "content": "position-deletes",
        "file-path": file.location,
        "file-format": "parquet" if file.blob is None else "puffin",
        "partition": [],
        "file-size-in-bytes": file.size,
        "record-count": file.rows,
        "referenced-data-file": file.references,
    }
    if file.blob is not None:
        text |= {"content-offset": file.blob[0], "content-size-in-bytes": file.blob[1]}
    parsed = sink.iceberg.util.JsonUtil.mapper().readTree(msgspec.json.encode(text).decode())
    return sink.iceberg.ContentFileParser.fromJson(parsed, specs)


def described(sink: IcebergTables, builder: Any, path: str, size: int, footer: bytes, config: Any) -> Any:
    """A file of a table, as a builder of Iceberg that knows everything about it but what kind of file it is.

    From the footer that its writer had in its hands: the file is not read again.
    """
    iceberg = sink.iceberg
    parquet = iceberg.shaded.org.apache.parquet
    converter = parquet.format.converter.ParquetMetadataConverter
    # Without these options it has no limit for the size of a footer, and refuses every one.
    options = parquet.ParquetReadOptions.builder(parquet.conf.PlainParquetConfiguration()).build()
    read = converter(options).readParquetMetadata(sink.java.io.ByteArrayInputStream(footer), converter.NO_FILTER)
    metrics = iceberg.parquet.ParquetUtil.footerMetrics(read, sink.java.util.stream.Stream.empty(), config)
    return builder.withPath(path).withFormat("parquet").withFileSizeInBytes(size).withMetrics(metrics)


__all__ = ["POSITIONS", "add_deletes", "described"]
