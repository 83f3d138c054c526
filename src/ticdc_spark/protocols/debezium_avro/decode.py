"""Debezium in Avro with a schema registry (``protocol=debezium-avro`` of TiCDC's new architecture): to events.

A value is framed with its schema's id. It is a record with ``before``, ``after``, ``source`` and ``op``, as in JSON.
There are no DDL and no watermarks. TiCDC always writes ``source.commit_ts``. Without it, the commit_ts is
``source.ts_ms`` with a logical part of 0. Values are as in Debezium's JSON, except that bytes are bytes, DECIMAL is an
unscaled number, and a BIGINT UNSIGNED may be text.

The other direction is ``debezium_avro.encode``. An image is the id's frame and the row's record, so it names its own
schema; ``schema_key`` is the id in decimal. No document describes this protocol. Source: the vectors of ``ticdc``, and
their registered schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import msgspec

from ticdc_spark import mysql
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Column, Envelope, Event, Op, Rejected, Table, Value
from ticdc_spark.mysql import is_bytes, tso
from ticdc_spark.protocols.base import ReadOptions, RowReader, Schemas
from ticdc_spark.protocols.debezium.blocks import WireField
from ticdc_spark.protocols.debezium.native import DECIMAL, cell_of_field
from ticdc_spark.protocols.debezium.reads import unscaled
from ticdc_spark.protocols.debezium.tables import table_of_fields
from ticdc_spark.protocols.debezium_avro.schema import Field, Record, read_record
from ticdc_spark.protocols.shared.avro_images import MISSING, image_reader
from ticdc_spark.wire.avro_binary import read_bytes, read_text_or_bytes, readable
from ticdc_spark.wire.confluent import HEAD, schema_id

_OPS: dict[str, Op] = {"c": "insert", "u": "update", "d": "delete", "r": "upsert"}
_IMAGES = ("before", "after")
_MAX_MS = 1 << 45
_SCHEMAS_KEPT = 512
_PYTHON: Mapping[str, type] = {
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "boolean": bool,
}
_NUMBERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))
Cells = Callable[[bytes, int], tuple[list[Any], int]]


class WireSource(msgspec.Struct):
    """The origin of a change."""

    db: str
    table: str
    ts_ms: int
    commit_ts: int | None = None


class _Opener(NamedTuple):
    """How a value of one schema is read."""

    fields: tuple[Field, ...]
    images: dict[str, Record]


class DebeziumAvroDecoder:
    """Reads Debezium in Avro with the schemas of a mapping, which may be a registry's client."""

    name = "debezium-avro"

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        """Open one message: one event, or none for a tombstone."""
        if value is None:
            return ()
        try:
            with readable():
                return (_open(value, _opener(self._text(value)), key),)
        except MessageError as error:
            return (Rejected(f"debezium-avro message: {error}"),)

    def _text(self, message: bytes) -> str:
        number = schema_id(message)
        try:
            return self._schemas[number]
        except KeyError as error:
            raise MessageError(f"schema id {number} is not known to the registry") from error

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        """Compile a reader of images. A field that the table does not have makes a row bad."""
        readers: dict[bytes, Cells] = {}

        def read_image(image: bytes) -> Sequence[Value]:
            head = image[:HEAD]
            read = readers.get(head)
            if read is None:
                record = next(iter(_opener(self._text(image)).images.values()))
                read = readers[head] = _compile(record, table, only)
            cells, at = read(image, HEAD)
            if at != len(image):
                raise MessageError(f"a row with {len(image) - at} bytes behind its end")
            return cells

        return image_reader(table, read_image)


class _NoSchemas:
    """Used if no registry was given."""

    def __getitem__(self, number: int, /) -> str:
        raise UsageError(f"Avro messages name schemas of a registry (id {number}); none was given")


DECODER = DebeziumAvroDecoder(_NoSchemas())
"""Has no schemas: UsageError at the first row. Use ``DebeziumAvroDecoder`` with a mapping."""


@lru_cache(_SCHEMAS_KEPT)
def _opener(text: str) -> _Opener:
    record = read_record(text)
    images = {
        field.name: field.type.record
        for field in record.fields
        if field.name in _IMAGES and field.type.record is not None and field.type.optional
    }
    missing = {*_IMAGES, "source", "op"} - {field.name for field in record.fields}
    if missing or len(images) != len(_IMAGES):
        raise MessageError(f"record {record.name!r} is no Debezium envelope: it lacks {sorted(missing) or 'rows'}")
    return _Opener(record.fields, images)


def _open(value: bytes, opener: _Opener, key: bytes | None) -> Envelope:
    at = HEAD
    images: dict[str, bytes | None] = {}
    fields: dict[str, Any] = {}
    for field in opener.fields:
        if field.name in opener.images:
            begin = at + 1  # after the union's branch
            there, at = field.type.skip(value, at)
            images[field.name] = value[:HEAD] + value[begin:at] if there else None
        else:
            fields[field.name], at = field.type.read(value, at)
    if at != len(value):
        raise MessageError(f"a message with {len(value) - at} bytes behind its end")
    op = _OPS.get(str(fields["op"]))
    if op is None:
        raise MessageError(f"field `op` is {fields['op']!r}; allowed: {', '.join(_OPS)}")
    try:
        source = msgspec.convert(fields["source"], WireSource)
    except msgspec.ValidationError as error:
        raise MessageError(f"field `source`: {error}") from error
    before, after = images["before"], images["after"]
    if (before if op == "delete" else after) is None:
        raise MessageError(f"op {fields['op']!r} without field `{'before' if op == 'delete' else 'after'}`")
    if op == "update" and before is None:
        op = "upsert"
    return Envelope(
        op, source.db, source.table, _commit_ts(source), before, after, None, str(schema_id(value)), False, key
    )


def _commit_ts(source: WireSource) -> int:
    if source.commit_ts is not None:
        if not 0 < source.commit_ts < 1 << 63:
            raise MessageError(f"field `source.commit_ts` is {source.commit_ts}; allowed: 1 … 2^63 - 1")
        return source.commit_ts
    if not 0 <= source.ts_ms < _MAX_MS:
        raise MessageError(f"field `source.ts_ms` is {source.ts_ms}; allowed: milliseconds, 0 … 2^45 - 1")
    return tso(source.ts_ms)


def _compile(record: Record, table: Table, only: frozenset[str] | None) -> Cells:
    """A reader of a row's record. It gives cells in the order of the table's columns."""
    places = {column.name: (at, column) for at, column in enumerate(table.columns)}
    wanted = [MISSING if only is None or column.name in only else None for column in table.columns]
    steps: list[tuple[int, Callable[[bytes, int], tuple[Any, int]], Callable[[Any], Value] | None]] = []
    for field in record.fields:
        if field.name not in places and only is None:
            raise MessageError(f"the table has no column {field.name!r}, which the row's schema has")
        if only is not None and field.name not in only:
            steps.append((-1, field.type.skip, None))
        else:
            place, column = places[field.name]
            steps.append((place, *_value(field, column)))

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        cells = [*wanted, None]  # the last one takes unwanted columns
        for place, read_field, convert in steps:
            found, at = read_field(data, at)
            cells[place] = found if found is None or convert is None else convert(found)
        cells.pop()
        return cells, at

    return read


def _value(
    field: Field, column: Column
) -> tuple[Callable[[bytes, int], tuple[Any, int]], Callable[[Any], Value] | None]:
    """How a column's value is read, and converted to the canonical form.

    Raises: MessageError if the field's type does not fit the column's.
    """
    kind, wire = field.type, column.type
    if kind.name == "bytes":
        if kind.connect == DECIMAL and wire.name in ("decimal", *_NUMBERS):
            sent, scale = kind.scale, (wire.decimal or 0) if wire.name == "decimal" else 0
            return kind.read, lambda raw: unscaled(raw, sent, scale)
        if wire.name == "bit":
            return kind.read, lambda raw: _bits(raw, wire.length or 1)
        if is_bytes(wire):
            return kind.read, None
    elif kind.name == "string" and wire.name in _NUMBERS:
        return kind.read, mysql.canonical_integer
    elif kind.name == "string" and mysql.is_text(wire):
        return kind.of(read_text_or_bytes), None
    elif kind.name == "string" and is_bytes(wire):
        return kind.of(read_bytes), None
    elif kind.name in _PYTHON:
        cell = cell_of_field(wire, _wire_field(field))
        if _PYTHON[kind.name] in get_args(cell.wire):
            return kind.read, cell.read
    raise MessageError(f"column `{column.name}` is {wire.name}, and the row's schema has {kind.name!r} for it")


def _bits(raw: bytes, length: int) -> Value:
    number = int.from_bytes(raw, "little")
    if number >> length:
        raise MessageError(f"{raw[:16].hex()} has more than {length} bits")
    return str(number)


def table_from_schemas(schema: str, name: str, key: str | None, value: str) -> Table:
    """The table that a row's registered schemas describe; see ``debezium.tables``.

    Raises: MessageError if they are not understood.
    """
    record = next(iter(_opener(value).images.values()))
    keys = [field.name for field in read_record(key).fields] if key is not None else []
    return table_of_fields(schema, name, [_wire_field(field) for field in record.fields], keys)


_CONNECT = {"int": "int32", "long": "int64"}


def _wire_field(field: Field) -> WireField:
    kind = field.type
    return WireField(
        type=_CONNECT.get(kind.name, kind.name),
        optional=kind.optional,
        field=field.name,
        name=kind.connect or None,
        parameters=dict(kind.parameters) or None,
        tidb_type=field.tidb_type,
    )
