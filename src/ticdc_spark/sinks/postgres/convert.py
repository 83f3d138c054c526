"""MODIFY COLUMN: computes the new value of each distinct old value here, and writes all of them with one UPDATE."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ticdc_spark.clients.postgres import quoted
from ticdc_spark.errors import DecisionNeeded, MessageError
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp, unconverted
from ticdc_spark.sinks.postgres.rows import PostgresRows
from ticdc_spark.sinks.postgres.staging import copy_rows
from ticdc_spark.sinks.postgres.tables import put_stamp, sql_name
from ticdc_spark.sinks.postgres.types import type_name
from ticdc_spark.sinks.staged import ATTEMPT
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.encode.typed_images import from_arrow
from ticdc_spark.spark.types import LakeColumn, arrow_type, to_arrow

_TOGETHER = 10_000
_BY_TEXT = ("json", "real", "double precision")
"""Types without equality, or whose equality ignores a difference: 0 and -0."""
_WHOLE = ("smallint", "integer", "bigint")


def convert(
    rows: PostgresRows, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
) -> None:
    """See ``sinks.base.Rewrites.convert_column``."""
    place = ""
    try:
        with rows.tables.step() as cursor:
            was, new, target = quoted(old), quoted(column.name), sql_name(table)
            before = conversion.before
            if before is None or conversion.convert is None:
                held = rows.tables.columns(table)[old]
                cursor.execute(f"UPDATE {target} SET {new} = {_cast(was, held, type_name(column))}")
            else:
                kinds = [f"old {type_name(before)}", f"new {type_name(column)}", f"{ATTEMPT} bigint NOT NULL"]
                place = rows.new_stage(kinds)
                asked = f"SELECT DISTINCT {_shown(was, before)} FROM {target} WHERE {was} IS NOT NULL"
                _stage(rows, cursor, asked, place, column, conversion)
                same = f"t.{was}::text = s.old::text" if type_name(before) in _BY_TEXT else f"t.{was} = s.old"
                cursor.execute(f"UPDATE {target} t SET {new} = s.new FROM {place} s WHERE {same}")
                cursor.execute(f"DROP TABLE {place}")
            put_stamp(cursor, table, stamp)
    except BaseException as error:
        if place:
            rows.discard(place)
        is_value = isinstance(error, MessageError) or (
            isinstance(error, DecisionNeeded) and error.__cause__ is not None  # an error of the fence has no cause
        )
        if not is_value:
            raise
        raise DecisionNeeded(unconverted(column, str(error))) from error


def _stage(
    rows: PostgresRows, cursor: Any, asked: str, place: str, column: LakeColumn, conversion: ColumnConversion
) -> None:
    """Stage each queried value with its converted value. Raises: DecisionNeeded, MessageError"""
    assert conversion.before is not None and conversion.convert is not None, "that is why"
    read, write = from_arrow(conversion.before), to_arrow(column, conversion.lake)
    with rows.client.connection() as connection:
        for found in _values(cursor, asked):
            cells, bad = read(_array(conversion.before, found))
            array, unread, _ = write([conversion.convert(cell) for cell in cells])
            for why in (bad, unread):
                if why:
                    raise MessageError(next(iter(why.values())))
            batch = pa.record_batch([pa.array(found, pa.string()), array], ["old", "new"])
            copy_rows(connection, place, batch, ["old", "new"], 0)


def _values(cursor: Any, asked: str) -> Iterator[list[str]]:
    """Values as text from the server, in batches."""
    cursor.execute(f"DECLARE ticdc_values CURSOR FOR {asked}")
    while True:
        cursor.execute(f"FETCH {_TOGETHER} FROM ticdc_values")
        found = [str(row[0]) for row in cursor.fetchall()]
        if not found:
            break
        yield found
    cursor.execute("CLOSE ticdc_values")


def _shown(name: str, column: LakeColumn) -> str:
    """SQL of a value as text that reads back, with times in UTC. Also works for types without equality."""
    return f"({name} AT TIME ZONE 'UTC')::text" if column.type.arrow == "instant" else f"{name}::text"


def _array(column: LakeColumn, texts: list[str]) -> pa.Array:
    kind = arrow_type(column.type)
    match column.type.arrow:
        case "binary":
            return pa.array([bytes.fromhex(text.removeprefix("\\x")) for text in texts], kind)
        case "floats":
            return pa.array([[float(one) for one in text.strip("{}").split(",") if one] for text in texts], kind)
        case "instant":
            return pa.array(texts, pa.string()).cast(pa.timestamp("us")).cast(kind)
        case _:
            return pa.array(texts, pa.string()).cast(kind)


def _cast(name: str, old: str, new: str) -> str:
    """A cast, if only the target's types are known; it fails if a value does not fit."""
    if old == "bytea" and new == "text":
        return f"convert_from({name}, 'UTF8')"
    if old == "text" and new == "bytea":
        return f"convert_to({name}, 'UTF8')"
    if old == "boolean" and new != "text":
        return f"{name}::integer::{new}"
    if old == "boolean":
        return f"{name}::integer::text"
    if new in _WHOLE:
        return f"round({name}::text::numeric)::{new}"
    return f"{name}::text::{new}"
