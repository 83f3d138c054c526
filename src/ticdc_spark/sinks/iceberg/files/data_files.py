"""Net changes of one table, written by the task that has them: data files, and the keys whose old rows must go.

A task has all events of its keys, so its result is exact, and no row goes through Spark. Afterwards, the driver looks
up the old rows and commits (``sinks.iceberg.rows.row_delta``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.changes.columns import FIRST, OP
from ticdc_spark.sinks.iceberg.files.partitions import NO_PARTITION, PartitionSpec, split
from ticdc_spark.spark.storage import Storage, list_files, name_of, write_parquet
from ticdc_spark.spark.tasks import ArrowTask, files_at
from ticdc_spark.spark.types import LakeColumn, arrow_type


class DataFiles(msgspec.Struct, frozen=True, kw_only=True):
    """How the files of a table are written; sent to each task."""

    storage: Storage
    folder: str
    """Path in the storage."""
    location: str
    """The same folder as Iceberg spells it; in manifests the names of files begin with it."""
    codec: str
    field_ids: Mapping[str, int]
    element_ids: Mapping[str, int]
    """Ids of the elements of list columns."""
    spec_id: int
    """The partition spec of new files."""
    specs: Mapping[int, PartitionSpec]
    """The table's current and earlier partition specs, by id, if Python can compute them."""
    attempt: str
    """Prefix of the names of all files that one attempt writes."""
    is_partitioned: bool
    """Whether some files may belong to a partition."""


class WrittenFile(msgspec.Struct, frozen=True, kw_only=True):
    """A new data file."""

    name: str
    """The name in the folder of the table's files."""
    rows: int
    size: int
    """Bytes."""
    footer: bytes
    """Parquet's ``FileMetaData``."""
    partition: str = NO_PARTITION


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The files that one task wrote, and the keys to look up."""

    files: tuple[WrittenFile, ...] = ()
    """One per partition."""
    keys: tuple[bytes, ...] = ()
    """The keys of rows that may replace an old row, as Arrow streams (``read_keys``)."""


def write_rows(columns: Sequence[LakeColumn], files: DataFiles, *, may_append: bool) -> ArrowTask:
    """Return a function from the net changes of some keys to one row: ``Written`` in MessagePack (``read_written``).

    ``may_append``: a key whose first event is an insert has no old row.
    """
    keys = [column.name for column in columns if column.key]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        written = _write(pa.Table.from_batches(parts)) if parts else Written()
        yield pa.RecordBatch.from_pylist([{"written": msgspec.msgpack.encode(written)}])

    def _write(net: pa.Table) -> Written:
        touched, new = net.select(keys), net.select([column.name for column in columns])
        if may_append:
            touched = touched.filter(pc.not_equal(net.column(FIRST), "i"))
        new = new.filter(pc.not_equal(net.column(OP), "d"))
        looked_up = (_keys_of(touched),) if len(touched) else ()
        return Written(files=tuple(write_files(new, columns, files)), keys=looked_up)

    return run


def read_written(parts: Iterable[bytes]) -> Written:
    """Combine the results of ``write_rows`` tasks."""
    found = [msgspec.msgpack.decode(part, type=Written) for part in parts]
    return Written(
        files=tuple(file for part in found for file in part.files),
        keys=tuple(keys for part in found for keys in part.keys),
    )


def _keys_of(keys: pa.Table) -> bytes:
    whole = pa.BufferOutputStream()
    with pa.ipc.new_stream(whole, keys.schema) as stream:
        stream.write_table(keys)
    found: bytes = whole.getvalue().to_pybytes()
    return found


def read_keys(keys: Sequence[bytes]) -> pa.Table | None:
    """``Written.keys`` as a table; ``None``: there are no keys."""
    tables = [pa.ipc.open_stream(held).read_all() for held in keys]
    return pa.concat_tables(tables) if tables else None


def write_files(rows: pa.Table, columns: Sequence[LakeColumn], files: DataFiles) -> Iterator[WrittenFile]:
    """Write rows to new data files of a table, one per partition. Without rows, no file. Raises: SinkFault"""
    if not len(rows):
        return
    typed = rows.cast(pa.schema([_field(column, files) for column in columns]))
    for partition, part in split(typed, files.specs[files.spec_id]):
        name = new_name(files)
        path = f"{files.folder}/{name}"
        with files_at(name_of(files.storage, path)):
            size, footer = write_parquet(
                files.storage, path, part, compression=files.codec, store_decimal_as_integer=True
            )
        yield WrittenFile(name=name, rows=len(part), size=size, footer=footer, partition=partition)


def new_name(files: DataFiles) -> str:
    """A name for a new data file."""
    return f"{files.attempt}-{uuid4().hex}.parquet"


def written_by(files: DataFiles) -> list[str]:
    """The locations of all files that an attempt has written. Raises: OSError"""
    found = list_files(files.storage, files.folder)
    names = [path.removeprefix(f"{files.folder}/") for path in found]
    return [f"{files.location}/{name}" for name in names if name.startswith(f"{files.attempt}-")]


def _field(column: LakeColumn, files: DataFiles) -> pa.Field:
    kind = arrow_type(column.type)
    if pa.types.is_list(kind):
        element = pa.field("element", kind.value_type, metadata=_id(files.element_ids[column.name]))
        kind = pa.list_(element)
    return pa.field(column.name, kind, metadata=_id(files.field_ids[column.name]))


def _id(field_id: int) -> dict[str, str]:
    return {"PARQUET:field_id": str(field_id)}
