"""The Simple protocol, in JSON and in Avro: messages to events. The other direction is ``simple.encode``.

One message has one event, and its Kafka key is null. Rows name the version of their table's schema, which is in a DDL
or BOOTSTRAP message. Source: the Simple protocol document, and ``simple`` in the vectors' notes.

The first byte shows the encoding. Avro begins with 0x16, the message's place in its union, and JSON with ``{``. A
compressed value begins with lz4's 0x04, or with its unpacked length (snappy). That would be 0x16 for 22 bytes, but no
message is that short in JSON, and Avro's next bytes distinguish it. Images begin with ``{`` (JSON) or 0x02 (Avro).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Bootstrap, Envelope, Event, Op, Rejected, SchemaChange, Table, Watermark
from ticdc_spark.protocols.base import Columns, ReadOptions, RowReader
from ticdc_spark.protocols.rows import Rows
from ticdc_spark.protocols.simple.avro.decode import MARK, read_message
from ticdc_spark.protocols.simple.avro.envelope import read_envelope
from ticdc_spark.protocols.simple.avro.rows import row_reader as avro_row_reader
from ticdc_spark.protocols.simple.avro.types import IMAGE
from ticdc_spark.protocols.simple.many import open_rows
from ticdc_spark.protocols.simple.message import (
    DECODER_OF_JSON,
    OPS,
    VERSION,
    WireMessage,
    WireTable,
    read_checksum,
    read_table,
)
from ticdc_spark.protocols.simple.rows import row_reader
from ticdc_spark.wire.compression import is_json, unpack


class SimpleDecoder:
    """Reads Simple in either encoding. Stateless."""

    name = "simple"

    def open_message(self, key: bytes | None, value: bytes | None) -> Sequence[Event]:
        """Open one message: one event, or one ``Rejected`` with the reason."""
        if not value:
            return (Rejected("a Simple message has a value; this one is " + ("null" if value is None else "empty")),)
        if value[:1] == MARK and (usual := read_envelope(value)) is not None:
            return (usual,)
        try:
            message = read_message(value) if value[:1] == MARK else DECODER_OF_JSON.decode(value)
        except MessageError as error:
            return (Rejected(str(error)),)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            plain = _unpacked(value)
            return self.open_message(key, plain) if plain else (Rejected(_reason(value, error)),)
        if message.version != VERSION:
            return (Rejected(f"field `version` is {message.version}; this version reads {VERSION}"),)
        op = OPS.get(message.type)
        return (_other(message) if op is None else _row(message, op),)

    def open_rows(self, values: Sequence[bytes | None]) -> Rows:
        """See ``RowsDecoder``: rows in JSON, as TiCDC writes them."""
        return open_rows(values)

    def row_reader(self, table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
        """See ``simple.rows.row_reader``. Images of both encodings may be mixed."""
        read_json = row_reader(table, options, only)
        read_avro = avro_row_reader(table, options, only)

        def read(images: Sequence[bytes | None]) -> Columns:
            first = next((image for image in images if image), None)
            columns = read_avro(images) if _is_avro(first) else read_json(images)
            if not columns.bad:  # an image of the other encoding would be bad
                return columns
            avro = [image if _is_avro(image) else None for image in images]
            if not any(avro):
                return read_json(images)
            rest = [image if other is None else None for image, other in zip(images, avro, strict=True)]
            return _merged(read_avro(avro), read_json(rest), avro) if any(rest) else read_avro(images)

        return read


DECODER = SimpleDecoder()


def _is_avro(image: bytes | None) -> bool:
    """``msgspec.Raw`` is JSON."""
    return isinstance(image, bytes) and image[:1] == IMAGE


def _merged(avro: Columns, json: Columns, images: Sequence[bytes | None]) -> Columns:
    """Columns of images in mixed encodings. Each side has ``None`` for the other's images."""
    values = [
        [mine if image is not None else other for mine, other, image in zip(*cells, images, strict=True)]
        for cells in zip(avro.values, json.values, strict=True)
    ]
    absent: dict[str, Sequence[int]] = {}
    for name in avro.absent.keys() | json.absent.keys():
        mine = (at for at in avro.absent.get(name, ()) if images[at] is not None)
        others = (at for at in json.absent.get(name, ()) if images[at] is None)
        absent[name] = sorted([*mine, *others])
    return Columns(values=values, bad={**avro.bad, **json.bad}, absent=absent)


def _row(message: WireMessage, op: Op) -> Event:
    before = None if op == "insert" else bytes(message.old)
    after = None if op == "delete" else bytes(message.data)
    schema, table, version = message.database, message.table, message.schema_version
    if before == b"" or after == b"" or not schema or not table or not version:
        return Rejected(f"{message.type} message without field `{_missing(message)}`")
    return Envelope(
        op,
        schema,
        table,
        message.commit_ts,
        before,
        after,
        message.table_id or None,
        str(version),
        message.handle_key_only,
        None,
        None if message.checksum is None else read_checksum(message.checksum),
        message.claim_check_location or None,
    )


def _missing(message: WireMessage) -> str:
    if not message.database:
        return "database"
    if not message.table:
        return "table"
    if not message.schema_version:
        return "schemaVersion"
    return "data" if message.type != "DELETE" and not bytes(message.data) else "old"


def _other(message: WireMessage) -> Event:
    if message.type == "WATERMARK":
        return Watermark(message.commit_ts)
    if message.type == "BOOTSTRAP":
        if message.table_schema is None:
            return Rejected("BOOTSTRAP message without field `tableSchema`")
        return Bootstrap(read_table(message.table_schema))
    if not message.sql:
        return Rejected(f"{message.type} message without field `sql`")
    return _ddl(message)


def _ddl(message: WireMessage) -> SchemaChange:
    table, pre = _read(message.table_schema), _read(message.pre_table_schema)
    # a RENAME has the name and the schema of the table before it
    named = pre or table if message.type == "RENAME" else table or pre
    return SchemaChange(
        commit_ts=message.commit_ts,
        query=message.sql,
        kind=message.type,
        schema=named.schema if named else "",
        name=named.name if named else "",
        table=table,
        pre_table=pre,
    )


def _read(wire: WireTable | None) -> Table | None:
    return None if wire is None else read_table(wire)


def _unpacked(value: bytes) -> bytes | None:
    """The content of a compressed value; ``None`` if it is none. Tried only if the plain value is no message.

    The first byte of a snappy value is its length, which may be that of ``{``.
    """
    if is_json(value) or value[:1] in (b"\x00", MARK):
        return None
    try:
        plain = unpack(value)
    except MessageError:
        return None
    return plain if is_json(plain) or plain[:1] == MARK else None


def _reason(value: bytes, error: Exception) -> str:
    """Why a value is no Simple message, and what it looks like instead."""
    if value[:1] == b"\x00":
        return "not Simple JSON: begins with byte 0x00, as Avro behind a schema registry does"
    if value.lstrip()[:1] != b"{":
        return f"not Simple JSON: begins with {value[:8]!r}, and neither Avro nor compressed"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error}"
    try:
        fields = msgspec.json.decode(value, type=dict[str, msgspec.Raw]).keys()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return f"not valid JSON: {error}"
    for protocol, mark in (("Debezium", "payload"), ("canal-json", "isDdl")):
        if mark in fields:
            return f"not a Simple message but {protocol}, by its field `{mark}`"
    return f"not a Simple message: {error}"
