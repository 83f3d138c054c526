"""Row deltas: files that a task has written come into an Iceberg table in one commit, with the deletes of the rows
that they replace.

Instead of a MERGE, where Python can open the warehouse. Old rows are looked up in the key columns of the
live files (``sinks.iceberg.files.lookup``); where these are not as this package writes them, by Iceberg's own reader
(key columns and ``_file``, ``_pos``).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.iceberg.faults import faults, quote
from ticdc_spark.sinks.iceberg.files.data_files import DataFiles, Written
from ticdc_spark.sinks.iceberg.files.storage import Closed, remove
from ticdc_spark.sinks.iceberg.java import to_dict, to_fields, to_snapshot
from ticdc_spark.sinks.iceberg.stamps import note_of, read_note, summary, unseen
from ticdc_spark.sinks.iceberg.tables import IcebergTables
from ticdc_spark.spark.storage import name_of, path_in, write_parquet
from ticdc_spark.spark.tasks import files_at
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
_CODECS = {"zstd": "zstd", "gzip": "gzip", "snappy": "snappy", "uncompressed": "none"}
_OWN_LAYOUT = ("write.data.path", "write.folder-storage.path", "write.object-storage.enabled", "encryption.key-id")
"""Properties by which a table's files are not simply under its location."""
_POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)
"""A file of position deletes (Iceberg's specification, version 2)."""
_ORDERED = frozenset({"int32", "int64", "decimal", "string"})
"""Types that Arrow, Spark and Iceberg order alike, and whose values Spark takes as literals as they are."""
_REFUSED = ("ValidationException", "CommitFailedException")
"""What Iceberg throws where a commit did not come through, for certain."""
_MOST_LISTED = 200
"""So many keys are looked for one by one; Iceberg does no more with a longer list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table that row deltas can be committed to, as it is now."""

    table: TableName
    files: DataFiles
    snapshot_id: int | None
    manifest_list: str
    is_empty: bool
    is_touched: bool
    """Another writer changed it since the job read it."""


def target(
    sink: IcebergTables, table: TableName, columns: Sequence[LakeColumn], seen: int | None = None
) -> Target | Closed:
    """How ``table`` takes row deltas of exactly these columns; ``Closed``: it does not, a MERGE must do."""
    with faults(f"table {table} cannot be read"):
        loaded = sink.load_table(table)
        properties = to_dict(sink.iceberg, loaded.properties())
        files = layout(sink, loaded, properties)
        if isinstance(files, Closed):
            return files
        if properties.get("write.merge.mode") != "merge-on-read":
            return Closed("its property write.merge.mode is not merge-on-read")
        if sink.columns_of(loaded) != {column.name: column.type.spark for column in columns}:
            return Closed("it has other columns than its source")
        snapshot = to_snapshot(sink.iceberg, loaded.currentSnapshot())
        place = None if snapshot is None else snapshot.place
        others = unseen(sink.iceberg, loaded, place, note_of(properties), seen)
        data = 0 if snapshot is None else int(snapshot.summary.get("total-data-files", "1"))
    return Target(
        table=table,
        files=files,
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        manifest_list="" if snapshot is None else snapshot.manifest_list,
        is_empty=data == 0,
        is_touched=bool(others),
    )


def layout(sink: IcebergTables, loaded: Any, properties: Mapping[str, str]) -> DataFiles | Closed:
    """How tasks write the files of a table themselves; ``Closed``: Spark must do it. ``properties``: the table's."""
    codec = _CODECS.get(properties.get("write.parquet.compression-codec", "zstd"))
    own = [name for name in _OWN_LAYOUT if name in properties]
    if own:
        return Closed(f"it has the property {own[0]}")
    if codec is None or properties.get("write.format.default", "parquet") != "parquet":
        return Closed("its properties name another format or codec than Python writes")
    if not loaded.spec().isUnpartitioned() or loaded.specs().size() > 1:
        # A file of position deletes counts for the files of one spec only.
        return Closed("it is partitioned, or was")
    if sink.format_version(loaded) != 2:
        return Closed("its format version is not 2")  # version 3 has deletion vectors instead
    location = str(loaded.location()).rstrip("/")
    storage = sink.storages.of(loaded)
    if isinstance(storage, Closed):
        return storage
    folder = path_in(storage, location)
    assert folder is not None, "that is how the storage was found"
    fields = to_fields(sink.iceberg, loaded.schema())
    lists = [field for field in fields if isinstance(field.type, dict) and field.type["type"] == "list"]
    return DataFiles(
        storage=storage,
        folder=f"{folder}/data",
        location=f"{location}/data",
        codec=codec,
        field_ids={field.name: field.id for field in fields},
        element_ids={field.name: field.type["element-id"] for field in lists},
    )


def positions(
    sink: IcebergTables, session: SparkSession, to: Target, columns: Sequence[LakeColumn], keys: pa.Table | None
) -> pa.Table:
    """Where the rows with given keys lie: ``file_path``, ``pos``, in that order."""
    if to.is_empty or keys is None:
        return _POSITIONS.empty_table()
    with faults(f"the rows to replace in {to.table} cannot be found"):
        found = sink.lookup.find(to.files.storage, to.manifest_list, keys, to.files.field_ids)
    return positions_by_spark(sink, session, to, columns, keys) if found is None else _in_order(found)


def _in_order(found: Mapping[str, pa.Array]) -> pa.Table:
    files = sorted(found)
    names = [pa.repeat(file, len(found[file])) for file in files]
    columns = [pa.chunked_array(names, pa.string()), pa.chunked_array([found[file] for file in files], pa.int64())]
    return pa.table(columns, schema=_POSITIONS)


def positions_by_spark(
    sink: IcebergTables, session: SparkSession, to: Target, columns: Sequence[LakeColumn], wanted: pa.Table
) -> pa.Table:
    """As ``positions``, by Iceberg's own reader."""
    keys = [column for column in columns if column.key]
    schema = ", ".join(f"{quote(column.name)} {column.type.spark}" for column in keys)
    with faults(f"the rows to replace in {to.table} cannot be found"):
        named = session.createDataFrame(wanted, schema)
        table = session.read.option("snapshot-id", str(to.snapshot_id)).table(sink.sql_name(to.table))
        for condition in _bounds(wanted.column(keys[0].name), keys[0]):
            table = table.where(condition)
        found = (
            table.select("_file", "_pos", *(quote(column.name) for column in keys))
            .join(sf.broadcast(named), [column.name for column in keys], "left_semi")
            .select("_file", "_pos")
            .toArrow()
        )
    found = found.rename_columns(["file_path", "pos"])
    return found.take(pc.sort_indices(found, [("file_path", "ascending"), ("pos", "ascending")])).cast(_POSITIONS)


def _bounds(values: pa.ChunkedArray, column: LakeColumn) -> list[Column]:
    """Conditions on the first key column that let Iceberg leave out files and row groups by their statistics."""
    if column.type.arrow not in _ORDERED:
        return []
    key = sf.col(quote(column.name))
    distinct = pc.unique(values)
    if len(distinct) <= _MOST_LISTED:
        listed = distinct.to_pylist()
        literals = [_literal(value) for value in listed]
        if any(literal is None for literal in literals):
            return [key.isin(listed)]
        # As text: ``isin`` calls the JVM several times for each value.
        return [sf.expr(f"{quote(column.name)} IN ({', '.join(map(str, literals))})")]
    ends = pc.min_max(values).as_py()
    return [key >= sf.lit(ends["min"]), key <= sf.lit(ends["max"])]


def _literal(value: object) -> str | None:
    """SQL of a value; ``None`` for one whose SQL depends on its type or on how Spark reads escapes."""
    if isinstance(value, int):
        return str(value)
    return f"'{value}'" if isinstance(value, str) and not {"'", "\\"} & set(value) else None


def commit(sink: IcebergTables, to: Target, written: Written, old: pa.Table, stamp: Stamp) -> bool:
    """Add what was written, delete ``old``, and mark: one commit. ``False``: another writer changed the table
    meanwhile, and nothing was done.
    """
    with faults(f"rows cannot be committed to {to.table}"):
        loaded = sink.load_table(to.table)
        iceberg = sink.iceberg
        spec = loaded.spec()
        transaction = loaded.newTransaction()
        delta = transaction.newRowDelta()
        if written.rows:
            path = f"{to.files.location}/{written.name}"
            config = iceberg.MetricsConfig.forTable(loaded)
            builder = iceberg.DataFiles.builder(spec)
            delta.addRows(described(sink, builder, path, written.size, written.footer, config).build())
        name = f"{uuid4().hex}-deletes.parquet"
        if len(old):
            place = f"{to.files.folder}/{name}"
            with files_at(name_of(to.files.storage, place)):
                size, footer = write_parquet(to.files.storage, place, old, compression=to.files.codec)
            builder = iceberg.FileMetadata.deleteFileBuilder(spec).ofPositionDeletes()
            config = iceberg.MetricsConfig.forPositionDelete(loaded)
            path = f"{to.files.location}/{name}"
            delta.addDeletes(described(sink, builder, path, size, footer, config).build())
            delta.validateDataFilesExist(_java_list(sink, pc.unique(old.column("file_path")).to_pylist()))
        if to.snapshot_id is not None:
            delta.validateFromSnapshot(to.snapshot_id)
        delta.conflictDetectionFilter(iceberg.expressions.Expressions.alwaysTrue())
        delta.validateDeletedFiles().validateNoConflictingDataFiles().validateNoConflictingDeleteFiles()
        for key, value in summary(stamp).items():
            delta.set(key, value)
        try:
            delta.commit()
            sink.commit(to.table, transaction, stamp, read_note(iceberg, loaded))
        except Py4JJavaError as error:
            kind = str(error.java_exception.getClass().getSimpleName())
            if kind in _REFUSED:  # of any other it is not known whether it came through
                mine = [written.name, name] if len(old) else [written.name]
                remove(loaded.io(), [f"{to.files.location}/{one}" for one in mine if one])
            if kind != "ValidationException":
                raise
            log.warning("%s.%s was changed by another writer meanwhile: %s", *to.table, error.java_exception)
            return False
    return True


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


def _java_list(sink: IcebergTables, values: Sequence[str]) -> Any:
    found = sink.java.util.ArrayList()
    for value in values:
        found.add(value)
    return found


__all__ = ["Target", "commit", "described", "layout", "positions", "positions_by_spark", "target"]
