"""The live rows of data files, in the present columns of their table.

A column is found by its id, since its name may have changed. A file without the column has NULL there.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.java import NestedField

Positions: TypeAlias = npt.NDArray[np.int64]
"""Increasing, without duplicates."""
_FIELD_ID = b"PARQUET:field_id"
_READ_ROWS = 1_024
"""Rows that are read at once: a file may hold a long text once that all of them have."""
_BATCH_BYTES, _BATCH_ROWS = 16 << 20, 16_384
"""What is handled at once."""
_GROUP_BYTES = 64 << 20
"""Bytes in Arrow of a row group, which is written at once."""
_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_WIDER = {
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.large_string(), pa.string()),
    (pa.large_binary(), pa.binary()),
}
"""Types in a file, and types of the table that have the same values."""


class Misread(Exception):
    """Python would not read a data file as Iceberg does."""


def schema_of(fields: Sequence[NestedField]) -> pa.Schema | Closed:
    """The columns of new data files; ``Closed``: Python does not write one of them. ``fields``: of the table."""
    if not fields:
        return Closed("it has no columns")
    columns = []
    for field in fields:
        kind = _arrow_type(field.type)
        if kind is None:
            return Closed(f"Python does not rewrite the type of its column {field.name}")
        columns.append(pa.field(field.name, kind, nullable=not field.required, metadata=_id(field.id)))
    return pa.schema(columns)


def _arrow_type(kind: Any) -> pa.DataType | None:
    """The type in Arrow of a type in Iceberg's JSON."""
    if isinstance(kind, str):
        found = _DECIMAL.fullmatch(kind)
        return pa.decimal128(int(found[1]), int(found[2])) if found else _TYPES.get(kind)
    element = _arrow_type(kind["element"]) if kind["type"] == "list" else None
    if element is None:
        return None
    nullable, metadata = not kind["element-required"], _id(kind["element-id"])
    return pa.list_(pa.field("element", element, nullable=nullable, metadata=metadata))


def _id(field_id: int) -> dict[bytes, bytes]:
    return {_FIELD_ID: str(field_id).encode()}


def live_rows(
    file: pq.ParquetFile, schema: pa.Schema, gone: Positions, always: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows of a data file in the columns of ``schema``. ``gone``: positions of deleted rows.

    ``always``: columns that the file must have. Raises: Misread; ArrowException, OSError
    """
    names = _names(file.schema_arrow, schema, always)
    chosen = sorted({name for name in names if name is not None})
    if not chosen:
        raise Misread("it has none of the table's columns")
    first = 0
    for batch in _joined(file.iter_batches(_rows_at_once(file.metadata), columns=chosen, use_threads=False)):
        low, high = np.searchsorted(gone, [first, first + len(batch)])
        kept = batch
        if high > low:
            is_live = np.ones(len(batch), np.bool_)
            is_live[gone[low:high] - first] = False
            kept = batch.filter(pa.array(is_live))
        first += len(batch)
        arrays = [
            pa.nulls(len(kept), field.type) if name is None else kept.column(name).cast(field.type)
            for name, field in zip(names, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of more rows, unless these are large."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def _names(held: pa.Schema, schema: pa.Schema, always: Collection[str]) -> list[str | None]:
    """The names in a file of the columns of ``schema``; ``None``: the file does not have the column. Raises: Misread"""
    if not all(field.metadata and _FIELD_ID in field.metadata for field in held):
        raise Misread("its columns have no ids")
    by_id = {field.metadata[_FIELD_ID]: field for field in held}
    if len({*held.names}) < len(held) or len(by_id) < len(held):
        raise Misread("two of its columns are called the same")
    found: list[str | None] = []
    for field in schema:
        there = by_id.get(field.metadata[_FIELD_ID])
        if there is None and (field.name in always or not field.nullable):
            raise Misread(f"it does not have column {field.name}")
        if there is not None and not _fits(there.type, field.type):
            raise Misread(f"its column {there.name} has the type {there.type}")
        found.append(None if there is None else there.name)
    return found


def _fits(held: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether all values of a type in a file are values of the table's type."""
    if pa.types.is_list(wanted):
        return (pa.types.is_list(held) or pa.types.is_large_list(held)) and _fits(held.value_type, wanted.value_type)
    if pa.types.is_decimal128(held) and pa.types.is_decimal128(wanted):
        return bool(held.scale == wanted.scale and held.precision <= wanted.precision)
    return held == wanted or (held, wanted) in _WIDER


def _rows_at_once(footer: pq.FileMetaData) -> int:
    size: int = sum(footer.row_group(at).total_byte_size for at in range(footer.num_row_groups))
    of_size: int = _BATCH_BYTES * footer.num_rows // max(size, 1)
    return max(1, min(_READ_ROWS, of_size))


def row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Rows in groups of about the same size."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _GROUP_BYTES:
            yield pa.Table.from_batches(held, schema)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held, schema)
