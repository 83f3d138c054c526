"""Reads rows by a registered schema. A reader is compiled once per schema and table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table
from ticdc_spark.protocols.avro.schema import EXTENSION, Field, Schema
from ticdc_spark.protocols.avro.types import Read, codec_for
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.shared.avro_images import MISSING
from ticdc_spark.wire.avro_binary import DOUBLE, FLOAT, read_boolean, read_bytes, read_fixed, read_long

RecordReader: TypeAlias = Callable[[bytes, int], tuple[list[Any], int]]
_SKIPS: dict[str, Callable[[bytes, int], tuple[Any, int]]] = {
    "int": read_long,
    "long": read_long,
    "string": read_bytes,
    "bytes": read_bytes,
    "boolean": read_boolean,
    "float": lambda data, at: read_fixed(data, at, FLOAT),
    "double": lambda data, at: read_fixed(data, at, DOUBLE),
}
_EXTRA = [*(avro for _, avro, _ in EXTENSION), "string", "boolean", "int"]


def compile_reader(
    schema: Schema, table: Table, options: ReadOptions, only: frozenset[str] | None, *, old: bool
) -> RecordReader:
    """Compile a reader of records. It gives cells in the order of the table's columns.

    ``old``: cells are of the old row in the record. ``only``: other columns are ``None``.

    Raises: MessageError for a field that the table does not have.
    """
    places = {column.name: at for at, column in enumerate(table.columns)}
    wanted = [MISSING if only is None or column.name in only else None for column in table.columns]
    steps = _steps(schema.fields, places, options, only, skip=old)
    tail = [_SKIPS[_EXTRA[at]] for at in range(len(schema.extra))]
    before = _steps(schema.before or (), places, options, only, skip=not old)
    has_before = schema.before is not None
    straight = not tail and not has_before and [at for at, _ in steps] == [*range(len(places))]

    def read_straight(data: bytes, at: int) -> tuple[list[Any], int]:
        cells = []
        for _, read in steps:
            cell, at = read(data, at)
            cells.append(cell)
        return cells, at

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        cells = [*wanted, None]  # the last one takes unwanted columns
        for place, read_field in steps:
            cells[place], at = read_field(data, at)
        if has_before:
            branch = data[at]
            at += 1
            if branch not in (0, 2) or (old and branch == 0):
                raise MessageError(f"_ticdc_before with Avro union branch byte 0x{branch:02x}")
            if branch == 2:
                for place, read_field in before:
                    cells[place], at = read_field(data, at)
        for skip in tail:
            _, at = skip(data, at)
        cells.pop()
        return cells, at

    return read_straight if straight else read


def _steps(
    fields: tuple[Field, ...],
    places: dict[str, int],
    options: ReadOptions,
    only: frozenset[str] | None,
    *,
    skip: bool,
) -> list[tuple[int, Read]]:
    steps = []
    for field in fields:
        if field.name not in places and only is None:
            raise MessageError(f"the table has no column {field.name!r}, which the row's schema has")
        passed = skip or (only is not None and field.name not in only)
        read: Read = _SKIPS[field.type.avro] if passed else codec_for(field.type).read(field.type, options)
        steps.append((-1 if passed else places[field.name], _nullable(read, field) if field.nullable else read))
    return steps


def _nullable(read: Read, field: Field) -> Read:
    null, there = (2, 0) if field.null_last else (0, 2)

    def read_nullable(data: bytes, at: int) -> tuple[Any, int]:
        branch = data[at]
        at += 1
        if branch == there:
            return read(data, at)
        if branch != null:
            raise MessageError(f"column `{field.name}`: Avro union branch byte 0x{branch:02x}; allowed: 0x00, 0x02")
        return None, at

    return read_nullable
