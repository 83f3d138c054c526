"""Net changes of one table, written by the task that reads them: data files and the keys whose old rows must go.

One task does a table's whole stretch, so what it finds is exact, and no row goes through Spark. What is left to do is
to look up where the old rows lie and to commit (``sinks.iceberg.rows.row_delta``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ticdc_spark.spark.decode.combine import combine, net
from ticdc_spark.spark.decode.rows import BAD, OP
from ticdc_spark.spark.tasks import ArrowTask, files_at
from ticdc_spark.spark.types import LakeColumn, arrow_type


class DataFiles(msgspec.Struct, frozen=True, kw_only=True):
    """How the files of a table are written; sent to the task."""

    folder: str
    """Local path."""
    codec: str
    field_ids: Mapping[str, int]
    element_ids: Mapping[str, int]
    """Of list columns."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What one task wrote. Paths are local; ``""`` where there was nothing to write."""

    rows_path: str = ""
    rows: int = 0
    rows_bytes: int = 0
    keys_path: str = ""
    keys: int = 0
    unread: int = 0
    """Rows that cannot be read: then nothing was written."""


def write_rows(columns: Sequence[LakeColumn], files: DataFiles, keys_folder: str, *, may_append: bool) -> ArrowTask:
    """Return a function over all typed rows of one table (``rows.rows_ddl``), to one row: ``Written``.

    ``may_append``: a key whose first event is an insert has no old row.
    """
    keys = [column.name for column in columns if column.key]
    one_a_key = combine(keys, keep_first=may_append)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = [pa.Table.from_batches([batch]) for batch in one_a_key(batches)]
        written = Written()
        if tables:
            rows = pa.concat_tables(tables)
            unread = len(rows) - rows.column(BAD).null_count
            written = Written(unread=unread) if unread else _write(rows, may_append)
        yield pa.RecordBatch.from_pylist([msgspec.structs.asdict(written)])

    def _write(rows: pa.Table, may_append: bool) -> Written:
        last, first_ops = net(rows, keys)
        stays = pc.not_equal(last.column(OP), "d")
        touched = last
        if may_append:
            touched = last.filter(pc.not_equal(first_ops, "i"))
        new = last.filter(stays).select([column.name for column in columns])
        path, size = write_file(new, columns, files) if len(new) else ("", 0)
        keys_path = ""
        if len(touched):
            keys_path = str(Path(keys_folder, f"keys-{uuid4().hex}.parquet"))
            with files_at(keys_path):
                pq.write_table(touched.select(keys), keys_path, compression="none", store_schema=False)
        return Written(rows_path=path, rows=len(new), rows_bytes=size, keys_path=keys_path, keys=len(touched))

    return run


def write_file(rows: pa.Table, columns: Sequence[LakeColumn], files: DataFiles) -> tuple[str, int]:
    """Write rows to a new data file of a table; returns its path and bytes. Raises: SinkFault"""
    folder = Path(files.folder)
    path = folder / f"{uuid4().hex}.parquet"
    with files_at(path):
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            rows.cast(pa.schema([_field(column, files) for column in columns])),
            path,
            compression=files.codec,
            store_schema=False,
            store_decimal_as_integer=True,
        )
        return str(path), path.stat().st_size


def _field(column: LakeColumn, files: DataFiles) -> pa.Field:
    kind = arrow_type(column.type)
    if pa.types.is_list(kind):
        element = pa.field("element", kind.value_type, metadata=_id(files.element_ids[column.name]))
        kind = pa.list_(element)
    return pa.field(column.name, kind, metadata=_id(files.field_ids[column.name]))


def _id(field_id: int) -> dict[str, str]:
    return {"PARQUET:field_id": str(field_id)}


__all__ = ["DataFiles", "Written", "write_file", "write_rows"]
