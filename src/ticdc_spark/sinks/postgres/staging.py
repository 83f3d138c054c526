"""Stages rows: tasks copy them into a table beside the target, and one transaction takes them from there."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.changes.columns import ALWAYS, OP, TIES
from ticdc_spark.clients.postgres import connect, quoted
from ticdc_spark.sinks.postgres.client import faults
from ticdc_spark.sinks.staged import ATTEMPT, answer
from ticdc_spark.spark.tasks import ArrowTask

EXTRA = (f"{OP} text", f"{TIES} boolean", f"{ALWAYS} boolean", f"{ATTEMPT} bigint NOT NULL")
"""Columns that a staging table has in addition to the columns of the changes."""
_NULL = "\\N"
_ESCAPED = r"[\\\t\n\r]"
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def stage(options: Mapping[str, Any], place: str, names: Sequence[str]) -> ArrowTask:
    """Return a task that copies rows into a table and returns the answer for ``Staged``.

    ``options``: of a connection; ``place``: the table for SQL; ``names``: the columns to copy, if batches have them.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        connection: Any = None
        attempt, rows = secrets.randbits(62), 0
        try:
            with faults(place):
                for batch in batches:
                    if not len(batch):
                        continue
                    if connection is None:
                        connection = connect(dict(options), "ticdc-spark task")
                        connection.execute("BEGIN")
                    copy_rows(connection, place, batch, names, attempt)
                    rows += len(batch)
                if connection is not None:
                    connection.execute("COMMIT")
        finally:
            if connection is not None:
                connection.close()
        if rows:
            yield answer(attempt, rows)

    return run


def copy_rows(connection: Any, place: str, batch: pa.RecordBatch, wanted: Sequence[str], attempt: int) -> None:
    """Copy rows into a table. Raises: psycopg's errors"""
    names = [name for name in wanted if name in batch.schema.names]
    listed = ", ".join(map(quoted, [*names, ATTEMPT]))
    number = pa.scalar(str(attempt))
    cells = pc.binary_join_element_wise(*(_escaped(texts(batch.column(name))) for name in names), number, "\t")
    with connection.cursor() as cursor, cursor.copy(f"COPY {place} ({listed}) FROM STDIN") as copy:
        copy.write("\n".join(cells.to_pylist()) + "\n")


def texts(array: pa.Array) -> pa.Array:
    """Values of a column as text for PostgreSQL."""
    kind = array.type
    if pa.types.is_string(kind):
        return array
    if pa.types.is_binary(kind):
        return _each(array, lambda value: f"\\x{value.hex()}")
    if pa.types.is_list(kind):
        return _each(array, lambda value: "{" + ",".join(map(repr, value)) + "}")
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # The text has no zone; the session's time zone is UTC.
        array = array.cast(pa.timestamp(kind.unit))
    return array.cast(pa.string())


def _each(array: pa.Array, text: Any) -> pa.Array:
    return pa.array([None if value is None else text(value) for value in array.to_pylist()], pa.string())


def _escaped(array: pa.Array) -> pa.Array:
    """Texts escaped for COPY."""
    if pc.any(pc.match_substring_regex(array, _ESCAPED), min_count=0).as_py():
        for plain, escape in _ESCAPES:
            array = pc.replace_substring(array, plain, escape)
    return array.fill_null(_NULL)
