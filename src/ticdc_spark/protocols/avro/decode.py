"""Avro with a schema registry: messages to events. The other direction is ``avro.encode``.

Key and value are framed with their schemas' ids. The value of a delete is null: its image is the key. TiDB's extension
fields say whether a value is an insert or an update, and when it was committed. Without them a row is an ``upsert`` at
commit_ts 0. A delete never has its commit_ts: 0.

- ``avro-enable-watermark`` (internal to TiCDC) adds values that begin with 0x01 (a DDL, as JSON), 0x02 (a watermark)
  and 0x03 (a delete's commit_ts).
- ``avro-include-before-value`` adds the old row. Then a delete has a value with the old row twice, and a value has its
  operation also without the extension.

A decoder needs a mapping of ids to schemas' texts, and keeps what it compiles from them. An image is a framed key or
value, unchanged. If its first byte is 0x01, it means the old row inside. So images name their schemas, and
``row_reader`` reads images of any version into the columns of one table, by name. ``schema_key`` is the id in decimal.

Source: the Avro protocol document, and ``avro`` in the vectors' notes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Envelope, Event, Op, Rejected, SchemaChange, Table, Value, Watermark
from ticdc_spark.protocols.avro.schema import Schema, read_schema
from ticdc_spark.protocols.avro.tail import Tail, read_tail
from ticdc_spark.protocols.avro.values import compile_reader
from ticdc_spark.protocols.base import ReadOptions, RowReader, Schemas
from ticdc_spark.protocols.shared.avro_images import image_reader
from ticdc_spark.wire.confluent import HEAD, MAGIC, schema_id

DDL, WATERMARK, DELETE = b"\1", b"\2", b"\3"
OLD = b"\1"
"""First byte of an image that means the old row inside a value."""
_OPS: dict[str, Op] = {"c": "insert", "u": "update", "d": "delete"}
_MAX_TS = 2**63 - 1


class WireDdl(msgspec.Struct):
    """A DDL's value, in TiCDC's order of fields."""

    query: str
    type: int
    schema: str
    table: str
    commit_ts: int = msgspec.field(name="commitTs")


_DDL = msgspec.json.Decoder(WireDdl)


class AvroDecoder:
    """Reads Avro with the schemas of a mapping, which may be a registry's client.

    A mapping's KeyError (no such id) rejects the message. RegistryFault (the registry is broken) is raised.
    """

    name = "avro"

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        """Open one message: one event, or ``Rejected``."""
        try:
            return (self._event(key, value),)
        except MessageError as error:
            return (Rejected(str(error)),)

    def _event(self, key: bytes | None, value: bytes | None) -> Event:
        head = None if value is None else value[:1]
        if key is None and value is not None and head in (DDL, WATERMARK):
            return _ddl(value[1:]) if head == DDL else Watermark(_ts(value))
        if value is None or head == DELETE:
            return self._delete(key, 0 if value is None else _ts(value))
        return self._row(key, value)

    def _delete(self, key: bytes | None, commit_ts: int) -> Event:
        if key is None:
            return Rejected("a delete without a key: it does not identify its row (a table without a primary key)")
        number = schema_id(key)
        schema = self._schema(number)
        return Envelope("delete", schema.database, schema.table, commit_ts, key, None, None, str(number), True, key)

    def _row(self, key: bytes | None, value: bytes) -> Event:
        number = schema_id(value)
        schema = self._schema(number)
        tail = read_tail(value, schema) if schema.extra else _NO_TAIL
        op: Op = _OPS[tail.op] if tail.op else "upsert"
        old = OLD + value[1:] if schema.before is not None and op == "update" else None
        return Envelope(
            op,
            schema.database,
            schema.table,
            tail.commit_ts,
            value if op == "delete" else old,
            None if op == "delete" else value,
            None,
            str(number),
            False,
            key,
            tail.checksum,
        )

    def _schema(self, number: int) -> Schema:
        try:
            text = self._schemas[number]
        except KeyError as error:
            raise MessageError(f"schema id {number} is not known to the registry") from error
        return read_schema(text)

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        """Compile a reader of images. TIMESTAMP needs ``options.source_timezone``; otherwise the row is bad.

        A field that the table does not have makes a row bad. A column that its schema does not have is absent.
        """
        readers: dict[bytes, Callable[[bytes, int], tuple[list[Any], int]]] = {}

        def read_image(image: bytes) -> Sequence[Value]:
            head = image[:HEAD]
            read = readers.get(head)
            if read is None:
                schema = self._schema(schema_id(MAGIC + image[1:]))
                read = readers[head] = compile_reader(schema, table, options, only, old=head[:1] == OLD)
            cells, at = read(image, HEAD)
            if at != len(image):
                raise MessageError(f"a row with {len(image) - at} bytes behind its end")
            return cells

        return image_reader(table, read_image)


class _NoSchemas:
    """Used if no registry was given. Rejecting every row for that would hide the mistake."""

    def __getitem__(self, number: int, /) -> str:
        raise UsageError(f"Avro messages name schemas of a registry (id {number}); none was given")


DECODER = AvroDecoder(_NoSchemas())
"""Has no schemas: UsageError at the first row. Use ``AvroDecoder`` with a mapping."""
_NO_TAIL = Tail("", 0, None)


def _ddl(raw: bytes) -> Event:
    try:
        ddl = _DDL.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Rejected(f"no DDL in JSON: {error}")
    if not 0 < ddl.commit_ts <= _MAX_TS:
        return Rejected(f"field `commitTs` is {ddl.commit_ts}; allowed: 1 … 2^63 - 1")
    return SchemaChange(commit_ts=ddl.commit_ts, query=ddl.query, kind=str(ddl.type), schema=ddl.schema, name=ddl.table)


def _ts(value: bytes) -> int:
    if len(value) != 9 or value[1] & 0x80:
        raise MessageError(f"a timestamp of {value[1:].hex()}; expected eight bytes, below 2^63")
    return int.from_bytes(value[1:], "big")
