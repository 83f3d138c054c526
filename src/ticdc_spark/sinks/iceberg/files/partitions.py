"""Partitions of rows and files, by the transforms of Iceberg's specification.

A partition is a JSON list with a value for each field of the spec, in Iceberg's single-value serialisation.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import mmh3
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers: TypeAlias = npt.NDArray[np.int64]
NO_PARTITION = "[]"
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
"""Microseconds."""
_SOURCES = {
    "identity": ("boolean", "int", "long", "string", "binary", "decimal", "date", "timestamp", "timestamptz"),
    "bucket": ("int", "long", "string", "binary", "decimal", "date", "timestamp", "timestamptz"),
    "truncate": ("int", "long", "string", "binary"),
    "year": ("date", "timestamp", "timestamptz"),
    "month": ("date", "timestamp", "timestamptz"),
    "day": ("date", "timestamp", "timestamptz"),
    "hour": ("timestamp", "timestamptz"),
}
"""Types that each transform supports here. Identity of a float is left to Iceberg, because of zeros and NaNs."""


class PartitionField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a partition spec; sent to the tasks."""

    column: str
    kind: str
    """Iceberg's type of the column."""
    transform: str
    width: int = 0
    """The parameter of ``bucket`` and ``truncate``."""

    @property
    def result(self) -> str:
        """Iceberg's type of its values."""
        if self.transform in {"identity", "truncate"}:
            return self.kind
        return "date" if self.transform == "day" else "int"


class PartitionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows of a file have in common."""

    fields: tuple[PartitionField, ...] = ()


class _Field(msgspec.Struct, frozen=True, rename="kebab"):
    name: str
    source_id: int
    transform: str


class _Spec(msgspec.Struct, frozen=True, rename="kebab"):
    fields: tuple[_Field, ...]


def to_spec(text: str, columns: Mapping[int, tuple[str, Any]]) -> PartitionSpec | None:
    """A spec from Iceberg's JSON; ``None`` if it has fields that this module cannot compute.

    ``columns``: name and type of each column, by its id.
    """
    spec = msgspec.json.decode(text, type=_Spec)
    fields = []
    for field in spec.fields:
        transform, _, width = field.transform.rstrip("]").partition("[")
        name, kind = columns.get(field.source_id, ("", ""))
        if str(kind).split("(")[0] not in _SOURCES.get(transform, ()):
            return None
        fields.append(PartitionField(column=name, kind=kind, transform=transform, width=int(width or 0)))
    return PartitionSpec(fields=tuple(fields))


def partition_columns(text: str, names: Mapping[int, str]) -> list[tuple[str, str]]:
    """The columns of a spec in Iceberg's JSON, each with the name of its field; ``names``: of columns, by id."""
    fields = msgspec.json.decode(text, type=_Spec).fields
    return [(names[field.source_id], field.name) for field in fields if field.source_id in names]


def to_partition(values: Sequence[Any], spec: PartitionSpec) -> str:
    """The partition of a file, from the values in its manifest."""
    return _json([_single_value(value, field.result) for value, field in zip(values, spec.fields, strict=True)])


def split(rows: pa.Table, spec: PartitionSpec) -> Iterator[tuple[str, pa.Table]]:
    """Groups of rows, each after its partition. Rows keep their order within a group."""
    if not spec.fields or not len(rows):
        yield NO_PARTITION, rows
        return
    values = [_values_of(rows.column(field.column).combine_chunks(), field) for field in spec.fields]
    codes = [np.asarray(one.dictionary_encode(null_encoding="encode").indices) for one in values]
    numbers = np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
        first = pa.array(order[begin : begin + 1])
        partition = [_as_text(one.take(first), field.result) for one, field in zip(values, spec.fields, strict=True)]
        yield _json(partition), rows.take(pa.array(order[begin:end]))


def _json(values: Sequence[Any]) -> str:
    return msgspec.json.encode(values).decode()


def _single_value(value: Any, kind: str) -> Any:
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        zone = "+00:00" if kind == "timestamptz" else ""
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + zone
    if isinstance(value, date):
        return value.isoformat()
    if kind == "date" and value is not None:  # some writers store ``day`` as an int
        return str(np.datetime64(value, "D"))
    return value


def _as_text(one: pa.Array, kind: str) -> Any:
    """The only value of an array. Python's dates are not used: they begin with the year 1."""
    if not one[0].is_valid:
        return None
    if kind == "date":
        return str(np.datetime64(one.cast(pa.int32())[0].as_py(), "D"))
    if kind in {"timestamp", "timestamptz"}:
        micros = one.cast(pa.int64())[0].as_py()
        return str(np.datetime64(micros, "us")) + ("+00:00" if kind == "timestamptz" else "")
    return _single_value(one[0].as_py(), kind)


def _values_of(column: pa.Array, field: PartitionField) -> pa.Array:
    transform = field.transform
    if transform == "identity":
        return column
    if transform == "bucket":
        return _bucket(column, field)
    if transform == "truncate":
        return _truncate(column, field.width)
    if transform == "hour":
        return _like(column, _numbers(column) // _HOUR, pa.int32())
    days = _numbers(column) if field.kind == "date" else _numbers(column) // _DAY
    if transform == "day":
        return _like(column, days, pa.date32())
    unit = days.astype("datetime64[D]").astype(f"datetime64[{transform[0].upper()}]")
    return _like(column, unit.astype(np.int64), pa.int32())


def _numbers(column: pa.Array) -> Numbers:
    """Days, microseconds or integers; 0 for a missing value."""
    whole = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
    return np.asarray(whole.cast(pa.int64()).fill_null(0))


def _like(column: pa.Array, values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """``values``, but null where ``column`` is null."""
    whole = pa.array(values.astype(np.int32 if kind != pa.int64() else np.int64), mask=np.asarray(column.is_null()))
    return whole.cast(kind)


def _truncate(column: pa.Array, width: int) -> pa.Array:
    if pa.types.is_string(column.type):
        return pc.utf8_slice_codeunits(column, 0, width)  # Arrow's code units are code points
    if pa.types.is_binary(column.type):
        return pc.binary_slice(column, 0, width)
    values = _numbers(column)
    return _like(column, values - np.mod(values, width), column.type)


def _bucket(column: pa.Array, field: PartitionField) -> pa.Array:
    kind = field.kind.split("(")[0]
    if kind == "string":
        encoded = column.cast(pa.binary()).fill_null(b"").to_pylist()
    elif kind == "binary":
        encoded = column.fill_null(b"").to_pylist()
    elif kind == "decimal":
        encoded = [_unscaled(value) for value in column.to_pylist()]
    else:
        encoded = [value.tobytes() for value in _numbers(column).astype("<i8")]
    hashes = np.fromiter((mmh3.hash(one, 0, signed=False) for one in encoded), np.int64, len(encoded))
    return _like(column, (hashes & 0x7FFFFFFF) % field.width, pa.int32())


def _unscaled(value: Decimal | None) -> bytes:
    """The unscaled number in two's complement, in as few bytes as possible, highest first."""
    if value is None:
        return b""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
