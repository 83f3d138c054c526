"""Reads and writes registered schemas of Debezium in Avro: records, with Kafka Connect's parameters of their fields.

Only records, unions with null, arrays and primitive types are read, as such schemas have no others. A record may be
named again after its definition, but not inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.protocols.shared.avro_names import sanitized
from ticdc_spark.protocols.shared.go_text import escape_html
from ticdc_spark.wire.avro_binary import (
    DOUBLE,
    FLOAT,
    array,
    optional,
    read_boolean,
    read_bytes,
    read_fixed,
    read_long,
    read_text,
)

Read = Callable[[bytes, int], tuple[Any, int]]
_PRIMITIVE: Mapping[str, Read] = {
    "int": read_long,
    "long": read_long,
    "string": read_text,
    "bytes": read_bytes,
    "boolean": read_boolean,
    "float": lambda data, at: read_fixed(data, at, FLOAT),
    "double": lambda data, at: read_fixed(data, at, DOUBLE),
}
_MAX_SCALE = 65


class Kind(NamedTuple):
    """A field's type."""

    name: str
    """A primitive type's name; else ``record`` or ``array``."""
    read: Read
    skip: Read
    """Like ``read``, but without decoding text. Only the place after the value counts."""
    optional: bool = False
    connect: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    scale: int = 0
    record: Record | None = None

    def of(self, read: Read) -> Read:
        """Another reader of the same bytes, optional if this one is."""
        return optional(read) if self.optional else read


class Field(NamedTuple):
    """A field of a record, with its name before it was sanitised for Avro."""

    name: str
    type: Kind
    tidb_type: str = ""


class Record(NamedTuple):
    """A record."""

    name: str
    fields: tuple[Field, ...]


def read_record(text: str) -> Record:
    """The record that a registered schema's text describes.

    Raises: MessageError if it is not understood.
    """
    try:
        kind = _kind(msgspec.json.decode(text), {}, "")
    except (
        msgspec.MsgspecError,
        UnicodeDecodeError,
        RecursionError,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:
        raise MessageError(f"the schema is not understood: {error!r}") from error
    if kind.record is None or kind.optional:
        raise MessageError(f"the schema is of a {kind.name}, not of a record")
    return kind.record


def _kind(sent: Any, known: dict[str, Kind], namespace: str) -> Kind:
    if isinstance(sent, list):
        if len(sent) != 2 or sent[0] != "null":
            raise MessageError(f"the union {sent!r:.80}; expected null and a type")
        kind = _kind(sent[1], known, namespace)
        return kind._replace(read=optional(kind.read), skip=optional(kind.skip), optional=True)
    if isinstance(sent, str):
        found = known.get(sent) or known.get(f"{namespace}.{sent}")
        if sent in _PRIMITIVE:
            return Kind(sent, _PRIMITIVE[sent], read_bytes if sent == "string" else _PRIMITIVE[sent])
        if found is None:
            raise MessageError(f"type {sent!r} is not known")
        return found
    name = sent["type"]
    if name == "record":
        return _record(sent, known, namespace)
    if name == "array":
        items = _kind(sent["items"], known, namespace)
        return Kind("array", array(items.read), array(items.skip))
    kind = _kind(name, known, namespace)
    parameters = sent.get("connect.parameters") or {}
    scale = int(sent.get("scale", parameters.get("scale", 0)))
    if not 0 <= scale <= _MAX_SCALE:
        raise MessageError(f"a scale of {scale}")
    return kind._replace(
        connect=str(sent.get("connect.name", "")),
        parameters=tuple((str(name), str(value)) for name, value in parameters.items()),
        scale=scale,
    )


def _record(sent: Any, known: dict[str, Kind], outer: str) -> Kind:
    namespace = sent.get("namespace", outer)
    fields = tuple(
        Field(
            str(field.get("connect.field", field["name"])),
            _kind(field["type"], known, namespace),
            str(field.get("tidb_type", "")),
        )
        for field in sent["fields"]
    )
    kind = Kind("record", _reader(fields), _skipper(fields), record=Record(sent["name"], fields))
    known[f"{namespace}.{sent['name']}"] = kind
    return kind


def _reader(fields: tuple[Field, ...]) -> Read:
    steps = [(field.name, field.type.read) for field in fields]

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        for name, read_field in steps:
            found[name], at = read_field(data, at)
        return found, at

    return read


def _skipper(fields: tuple[Field, ...]) -> Read:
    steps = [field.type.skip for field in fields]

    def skip(data: bytes, at: int) -> tuple[bool, int]:
        for step in steps:
            _, at = step(data, at)
        return True, at

    return skip


class WrittenField(NamedTuple):
    """A column in a schema that is written."""

    name: str
    schema: Any
    """Its Avro type, without null: every column may be null."""
    tidb_type: str = ""


_SOURCE: tuple[tuple[str, str, bool], ...] = (
    ("version", "string", False),
    ("connector", "string", False),
    ("name", "string", False),
    ("ts_ms", "long", False),
    ("snapshot", "string", True),
    ("db", "string", False),
    ("table", "string", False),
    ("server_id", "long", False),
    ("gtid", "string", True),
    ("file", "string", False),
    ("pos", "long", False),
    ("row", "int", False),
    ("thread", "long", True),
    ("query", "string", True),
    ("commit_ts", "long", False),
    ("cluster_id", "string", False),
)


def write_key(name: str, fields: Sequence[WrittenField]) -> str:
    """The schema of a table's keys. Without a handle key it has no fields.

    Raises: MessageError for names that become equal when sanitised.
    """
    return _text(_written(f"{name}Key", _columns(name, fields)))


def write_envelope(name: str, source: str, fields: Sequence[WrittenField]) -> str:
    """The schema of a table's values. ``source``: the name of that record.

    Raises: MessageError for names that become equal when sanitised.
    """
    row = _written(name, _columns(name, fields))
    envelope = _written(
        f"{name}Envelope",
        [
            _written_field("before", row, optional=True),
            _written_field("after", f"{row['namespace']}.{row['name']}", optional=True),
            _written_field(
                "source",
                _written(source, [_written_field(field, kind, optional=null) for field, kind, null in _SOURCE]),
                optional=False,
            ),
            _written_field("op", "string", optional=False),
            _written_field("ts_ms", "long", optional=False),
        ],
    )
    return _text({**envelope, "connect.version": 1})


def _columns(table: str, fields: Sequence[WrittenField]) -> list[dict[str, Any]]:
    names = [sanitized(field.name) for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise MessageError(f"{table} has two columns that Avro can only call {name!r}")
    return [
        _written_field(field.name, field.schema, optional=True)
        | ({"tidb_type": field.tidb_type} if field.tidb_type else {})
        for field in fields
    ]


def _written(full_name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    *namespace, name = map(sanitized, full_name.split("."))
    return {
        "type": "record",
        "name": name,
        "namespace": ".".join(namespace),
        "connect.name": full_name,
        "fields": fields,
    }


def _written_field(name: str, schema: Any, *, optional: bool) -> dict[str, Any]:
    field = {"connect.field": name, "name": sanitized(name), "type": schema}
    return {**field, "type": ["null", schema], "default": None} if optional else field


def _text(record: dict[str, Any]) -> str:
    return escape_html(msgspec.json.encode(record, order="sorted")).decode()
