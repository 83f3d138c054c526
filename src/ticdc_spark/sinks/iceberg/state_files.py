"""The files of a job's state in Iceberg: each part of the state is one data file with its manifest."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from ticdc_spark.names import escape
from ticdc_spark.sinks.iceberg.python_catalog import reason
from ticdc_spark.sinks.state import Parts, StateRow
from ticdc_spark.spark.storage import local_folder

log = logging.getLogger(__name__)
RESOLVED_TS = "ticdc.resolved-ts"
"""Key in the summary of a snapshot: the commit_ts of its tables."""
_COMPRESSION: AvroCompressionCodec = "deflate"
SCHEMA = Schema(
    NestedField(1, "kind", StringType(), required=True, doc="job, plan, request, progress, partition, table or schema"),
    NestedField(2, "schema_name", StringType(), doc="the namespace of a table in the catalog"),
    NestedField(3, "table_name", StringType(), doc="the name of a table in the catalog"),
    NestedField(4, "resolved_ts", LongType(), doc="commitTs up to which all changes are applied"),
    NestedField(5, "snapshot_id", LongType(), doc="the snapshot of the table that has them"),
    NestedField(6, "condition", StringType(), doc="what is known of the table"),
    NestedField(7, "value", StringType(), required=True, doc="the rest, as JSON"),
)
_ARROW = pa.schema(
    [
        pa.field(
            field.name,
            pa.int64() if isinstance(field.field_type, LongType) else pa.string(),
            nullable=field.optional,
            metadata={"PARQUET:field_id": str(field.field_id)},
        )
        for field in SCHEMA.fields
    ]
)

_PART = "ticdc.part."
"""Prefix in the summary of a snapshot, before the name of each part: its data file, below the table's location."""


class Draft:
    """The files of a commit."""

    def __init__(self, table: Table, parts: Parts, resolved_ts: int) -> None:
        self.snapshot_id = table.metadata.new_snapshot_id()
        self._table, self._parts, self._resolved_ts = table, parts, resolved_ts
        self._new: dict[str, ManifestFile] = {}
        """Manifests by part."""
        self._paths: dict[str, str] = {}
        self._lists: list[str] = []

    def write(self) -> None:
        """Write the parts, each with a manifest."""
        table, location = self._table, self._table.location()
        for part, rows in self._parts.items():
            path = f"data/{part}-{uuid4().hex}.parquet"
            self._paths[part] = path
            size = write_whole(table.io, f"{location}/{path}", _parquet(rows))
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"{location}/{path}",
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=len(rows),
                file_size_in_bytes=size,
                spec_id=table.spec().spec_id,
            )
            output = table.io.new_output(f"{location}/{manifest_of(path)}")
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=self.snapshot_id, data_file=file
            )
            with write_manifest(2, table.spec(), SCHEMA, output, self.snapshot_id, _COMPRESSION) as writer:
                writer.add(entry)
            self._new[part] = writer.to_manifest_file()

    def snapshot(self, table: Table) -> Snapshot:
        """A snapshot whose parent is the newest one of a table."""
        parent = table.current_snapshot()
        before = {} if parent is None else files_of(parent)
        paths = before | self._paths
        manifests = list(self._new.values())
        if parent is not None and (taken := {*before} - {*self._paths}):
            names = {f"{table.location()}/{manifest_of(before[part])}" for part in taken}
            manifests += [one for one in parent.manifests(table.io) if one.manifest_path in names]
        name = f"{table.location()}/metadata/snap-{self.snapshot_id}-{uuid4().hex}.avro"
        self._lists.append(name)
        sequence = table.metadata.next_sequence_number()
        head = None if parent is None else parent.snapshot_id
        output = table.io.new_output(name)
        with write_manifest_list(2, output, self.snapshot_id, head, sequence, _COMPRESSION) as writer:
            writer.add_manifests(manifests)
        rows = sum(one.added_rows_count or 0 for one in manifests)
        more = {
            RESOLVED_TS: str(self._resolved_ts),
            "total-records": str(rows),
            "total-data-files": str(len(manifests)),
            "total-delete-files": "0",
        }
        return Snapshot.model_validate(
            {
                "snapshot-id": self.snapshot_id,
                "parent-snapshot-id": head,
                "sequence-number": sequence,
                "manifest-list": name,
                "schema-id": table.metadata.current_schema_id,
                "summary": {"operation": "overwrite", **more, **{f"{_PART}{part}": paths[part] for part in paths}},
            }
        )

    def remove(self) -> None:
        """Remove the written files, if they were surely not committed."""
        location = self._table.location()
        paths = [f"{location}/{name}" for path in self._paths.values() for name in (path, manifest_of(path))]
        remove(self._table.io, [*paths, *self._lists])


def files_of(snapshot: Snapshot) -> dict[str, str]:
    """The data files of a snapshot by part; empty if another tool made the snapshot."""
    found = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return {key.removeprefix(_PART): path for key, path in found.items() if key.startswith(_PART)}


def manifest_of(path: str) -> str:
    """The manifest of a part's data file."""
    return f"metadata/{Path(path).stem}.avro"


def _parquet(rows: Sequence[StateRow]) -> bytes:
    names = [None if row.schema is None else escape(row.schema) for row in rows]
    tables = [None if row.table is None else escape(row.table) for row in rows]
    columns = (
        [row.kind for row in rows],
        names,
        tables,
        [row.resolved_ts for row in rows],
        [row.snapshot_id for row in rows],
        [row.condition for row in rows],
        [row.value for row in rows],
    )
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _ARROW, strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, schema=_ARROW), sink, compression="zstd", store_schema=False)
    return bytes(sink.getvalue())


def read_rows(io: FileIO, location: str) -> tuple[StateRow, ...]:
    """The rows of a part. Raises: OSError"""
    with io.new_input(location).open() as file:
        # Not read_table: its imports take longer than status may take.
        # No threads: one that still frees the buffer while the interpreter ends aborts the process.
        found = pq.ParquetFile(pa.BufferReader(file.read())).read(columns=["kind", "value"], use_threads=False)
    kinds, values = found.column("kind").to_pylist(), found.column("value").to_pylist()
    return tuple(StateRow(kind=kind, value=value) for kind, value in zip(kinds, values, strict=True))


def write_whole(io: FileIO, location: str, content: bytes) -> int:
    """Write or replace a file atomically: a reader finds either the old or the new content."""
    path = local_folder(location)
    if path is None:
        with io.new_output(location).create(overwrite=True) as file:
            file.write(content)
        return len(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{uuid4().hex[:8]}.tmp")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        error.filename = str(path)  # the error of a failed write does not name the file
        raise
    return len(content)


def remove(io: FileIO, locations: Iterable[str]) -> None:
    """Remove files that belong to no snapshot, if possible."""
    for location in locations:
        try:
            io.delete(location)
        except FileNotFoundError:
            continue
        except Exception as error:  # noqa: BLE001  a file that belongs to no snapshot does no harm
            log.debug("%s was not removed: %s", location, reason(error))
