"""Rows of a full read in the lake's types."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ticdc_spark.clients.mysql_texts import is_raw
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Value
from ticdc_spark.mysql import is_bytes
from ticdc_spark.spark.tasks import UNREADABLE, Counter
from ticdc_spark.spark.types import Cells, LakeColumn, LakeOptions, arrow_type, to_arrow


def typed(
    rows: Sequence[Sequence[Value]], columns: Sequence[LakeColumn], lake: LakeOptions, zeros: Counter
) -> pa.RecordBatch:
    """Rows of a server's values, converted to the lake's types. Raises: MessageError"""
    arrays = []
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        values: Cells = list(cells)
        if is_bytes(column.column.type):
            values = [cell.encode() if isinstance(cell, str) else cell for cell in values]
        elif is_raw(column.column.type):
            at = next((at for at, cell in enumerate(values) if isinstance(cell, bytes)), None)
            if at is not None:
                charset = column.column.type.charset
                shown = "a value" if column.mask is not None else f"{values[at]!r:.200}"
                reason = f"{shown} has characters of {charset} that the server cannot convert to Unicode"
                raise _unreadable(rows[at], columns, f"column `{column.source}`: {reason}")
        elif any(type(cell) is bytes for cell in values):
            values = [cell.decode() if isinstance(cell, bytes) else cell for cell in values]
        array, bad, nulled = to_arrow(column, lake)(values)
        if bad:
            at, reason = next(iter(bad.items()))
            raise _unreadable(rows[at], columns, reason)
        if nulled:
            zeros.add(nulled)
        arrays.append(array)
    fields = [pa.field(column.name, arrow_type(column.type)) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _unreadable(row: Sequence[Value], columns: Sequence[LakeColumn], reason: str) -> MessageError:
    shown = ["(masked)" if column.mask is not None else f"{row[at]!r:.100}" for at, column in enumerate(columns)]
    key = ", ".join(f"{column.source}={shown[at]}" for at, column in enumerate(columns) if column.key)
    return MessageError(f"{UNREADABLE}: the row {key}: {reason}")
