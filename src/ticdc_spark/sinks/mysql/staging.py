"""Stages rows: tasks insert them into a table beside the target, and one transaction takes them from there."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from ticdc_spark.changes.columns import ALWAYS, OP, TIES
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.sinks.mysql.client import connect, faults
from ticdc_spark.sinks.staged import ATTEMPT, answer
from ticdc_spark.spark.tasks import ArrowTask

_BYTES = 1 << 20
"""Size of one INSERT of several rows: below max_allowed_packet of any server."""
_ROWS = 2_000
_NULL = "NULL"
EXTRA = (
    f"`{OP}` char(1) NULL",
    f"`{TIES}` tinyint(1) NULL",
    f"`{ALWAYS}` tinyint(1) NULL",
    f"`{ATTEMPT}` bigint NOT NULL",
)
"""Columns that a staging table has in addition to the columns of the changes."""


def stage(options: Mapping[str, Any], place: str, names: Sequence[str]) -> ArrowTask:
    """Return a task that inserts rows into a table and returns the answer for ``Staged``.

    ``options``: of a connection; ``place``: the table for SQL; ``names``: the columns to insert, if batches have them.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        connection: Any = None
        attempt, rows = secrets.randbits(62), 0
        try:
            with faults(place):
                for batch in batches:
                    if len(batch) and connection is None:
                        connection = connect(options)
                        connection.begin()
                    for statement in _inserts(batch, place, names, attempt):
                        _check_size(connection, statement, place)
                        connection.query(statement)
                    rows += len(batch)
                if connection is not None:
                    connection.commit()
        finally:
            if connection is not None:
                connection.close()
        if rows:
            yield answer(attempt, rows)

    return run


def _check_size(connection: Any, statement: str, place: str) -> None:
    """Refuse a row that is too large for the server. Raises: DecisionNeeded"""
    if len(statement) <= 2 * _BYTES:
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        ((most,),) = cursor.fetchall()
    if (size := len(statement.encode())) >= int(most):
        raise DecisionNeeded(
            f"{place}: a row has {size} bytes as SQL, but max_allowed_packet of the server is {most}: raise "
            "max_allowed_packet, and start the job again"
        )


def _inserts(batch: pa.RecordBatch, place: str, wanted: Sequence[str], attempt: int) -> Iterator[str]:
    names = [name for name in wanted if name in batch.schema.names]
    head = f"INSERT INTO {place} ({', '.join(map(quoted, [*names, ATTEMPT]))}) VALUES "
    for first in range(0, len(batch), _ROWS):
        part = batch.slice(first, _ROWS)
        columns = [literals(part.column(name)) for name in names]
        rows: list[str] = []
        size = 0
        for cells in zip(*columns, strict=True):
            row = f"({','.join(cells)},{attempt})"
            if rows and size + len(row) > _BYTES:
                yield head + ",".join(rows)
                rows, size = [], 0
            rows.append(row)
            size += len(row)
        if rows:
            yield head + ",".join(rows)


def literals(array: pa.Array) -> list[str]:
    """Values of a column as SQL literals."""
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return [_NULL if value is None else str(int(value)) for value in array.to_pylist()]
    literal = _literal(kind)
    return [_NULL if value is None else literal(value) for value in _plain(array).to_pylist()]


def _plain(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        array = array.cast(pa.timestamp(kind.unit))
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    return array


def _literal(kind: pa.DataType) -> Callable[[Any], str]:
    if pa.types.is_binary(kind):
        return lambda value: f"x'{value.hex()}'"
    if pa.types.is_floating(kind):
        # Without an exponent it would be a DECIMAL, which has no -0.
        return lambda value: "-0e0" if repr(value) == "-0.0" else repr(value)
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return str  # unquoted: a BIT takes text as bytes; other decimals are quoted, else they could become DOUBLE
    if pa.types.is_list(kind):
        return lambda value: text_literal(msgspec.json.encode(value).decode())
    return text_literal


_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"})


def text_literal(text: str) -> str:
    """A text as a SQL literal."""
    return f"'{text.translate(_ESCAPES)}'"
