"""The schemas that TiCDC registers for a table's keys and values: reads and writes them, and converts them to a table.

A column's field is ``{"default", "name", "type": {"type", "connect.parameters": {"tidb_type"}}}``. A nullable column is
``["null", type]``, or ``[type, "null"]`` if it has a default, as Avro requires the default's branch first. TiDB's
extension fields follow the columns; their types have no parameters. Each character of a name that Avro does not allow
is ``_``, so a schema does not have the real names of its table and columns.
Source: the Avro protocol document, "Key data format" to "Column data format"; the vectors' schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, Index, Table
from ticdc_spark.protocols.avro.types import WireType, codec_for, raw_default
from ticdc_spark.protocols.shared.avro_names import sanitized
from ticdc_spark.protocols.shared.go_text import escape_html

OP, COMMIT_TS, PHYSICAL = "_tidb_op", "_tidb_commit_ts", "_tidb_commit_physical_time"
CHECKSUM, CORRUPTED, CHECKSUM_VERSION = "_tidb_row_level_checksum", "_tidb_corrupted", "_tidb_checksum_version"
BEFORE = "_ticdc_before"
EXTENSION = ((OP, "string", ""), (COMMIT_TS, "long", 0), (PHYSICAL, "long", 0))
CHECKSUMS = ((CHECKSUM, "string", ""), (CORRUPTED, "boolean", False), (CHECKSUM_VERSION, "int", 0))
_EXTRA_NAMES = (OP, COMMIT_TS, PHYSICAL, CHECKSUM, CORRUPTED, CHECKSUM_VERSION)
_EXTRA_COUNTS = (0, 1, 3, 6)
"""Possible numbers of extension fields. Without the extension, ``avro-include-before-value`` sends only the first."""
_EXTRA_TYPES = {name: avro for name, avro, _ in EXTENSION + CHECKSUMS}


class Field(NamedTuple):
    """A column in a schema."""

    name: str
    type: WireType
    nullable: bool
    null_last: bool
    """Whether null is the union's last branch. Such a field has a default other than null."""
    default: Any
    """The default as the schema's JSON; ``None``: none, or null."""


class Schema(NamedTuple):
    """A registered schema."""

    database: str
    table: str
    fields: tuple[Field, ...]
    extra: tuple[str, ...] = ()
    """Names of the extension fields after the columns."""
    before: tuple[Field, ...] | None = None
    """The columns of ``_ticdc_before``, which is between the columns and the extension fields."""


@lru_cache(maxsize=4096)
def read_schema(text: str) -> Schema:
    """Read a registered schema.

    Raises: MessageError if TiCDC does not register such a schema.
    """
    try:
        record = msgspec.json.decode(text, type=dict[str, Any])
        return _record(record)
    except KeyError as error:
        raise MessageError(
            f"no schema that TiCDC registers: field `{error.args[0]}` is missing; {text[:200]}"
        ) from error
    except msgspec.MsgspecError as error:
        raise MessageError(f"no schema that TiCDC registers: {error}; {text[:200]}") from error
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise MessageError(f"no schema that TiCDC registers: {text[:200]}") from error


def _record(record: Mapping[str, Any]) -> Schema:
    if record["type"] != "record":
        raise MessageError(f"a schema of Avro type {record['type']!r}; TiCDC registers records")
    fields: list[Field] = []
    extra: list[str] = []
    before: tuple[Field, ...] | None = None
    for sent in record["fields"]:
        name, sent_type = sent["name"], sent["type"]
        if name == BEFORE and isinstance(sent_type, list):
            before = _record(sent_type[1]).fields
        elif name in _EXTRA_NAMES and sent_type == _EXTRA_TYPES[name]:
            extra.append(name)
        elif extra or before is not None:
            raise MessageError(f"field {name!r} behind the extension fields")
        else:
            fields.append(_field(name, sent_type, sent.get("default")))
    if len(extra) not in _EXTRA_COUNTS or extra != list(_EXTRA_NAMES[: len(extra)]):
        raise MessageError(f"extension fields {extra}; expected {_EXTRA_NAMES}")
    return Schema(record["namespace"].rpartition(".")[2], record["name"], tuple(fields), tuple(extra), before)


def _field(name: str, sent: Any, default: Any) -> Field:
    nullable = isinstance(sent, list)
    null_last = nullable and sent[-1] == "null"
    if nullable:
        if len(sent) != 2 or "null" not in sent:
            raise MessageError(f"field {name!r} with the union {sent}; expected a type and null")
        sent = sent[0] if null_last else sent[1]
    if not isinstance(sent, Mapping) or "connect.parameters" not in sent:
        raise MessageError(
            f"no schema that TiCDC registers: field {name!r} has no `connect.parameters` (its MySQL type)"
        )
    parameters = sent["connect.parameters"]
    length = parameters.get("length")
    wire = WireType(
        tidb=parameters["tidb_type"],
        avro=sent["type"],
        length=None if length is None else int(length),
        allowed=parameters.get("allowed"),
        precision=sent.get("precision"),
        scale=sent.get("scale"),
    )
    codec_for(wire)
    return Field(name, wire, nullable, null_last, default)


def table_from_schemas(key: str | None, value: str | None) -> Table:
    """The table that a key's and a value's schema describe.

    Without the value's schema (a delete), the table has only the key's columns. Names are the schema's. Types are the
    widest that the schema allows. The key is an index called ``primary``.

    Raises: MessageError if TiCDC does not register such a schema, or both are missing.
    """
    keys = read_schema(key) if key is not None else None
    schema = read_schema(value) if value is not None else keys
    if schema is None:
        raise MessageError("neither a schema of keys nor one of values")
    columns = tuple(field.name for field in keys.fields) if keys else ()
    primary = Index(name="primary", unique=True, primary=True, nullable=False, columns=columns)
    return Table(
        schema=schema.database,
        name=schema.table,
        columns=tuple(map(_column, schema.fields)),
        indexes=(primary,) if columns else (),
    )


def _column(field: Field) -> Column:
    found = codec_for(field.type)
    default = None if field.default is None else found.read_default(field.default)
    return Column(name=field.name, type=found.column(field.type), nullable=field.nullable, default=default)


def write_schema(keyspace: str, table: Table, fields: Sequence[Field], extra: Iterable[tuple[str, str, Any]]) -> str:
    """The text that TiCDC registers.

    Raises: MessageError for names that become equal when sanitised.
    """
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise MessageError(f"`{table.schema}`.`{table.name}` has two columns that Avro can only call {name!r}")
    written = [_written(field) for field in fields]
    written += [{"default": default, "name": name, "type": avro} for name, avro, default in extra]
    record = {
        "type": "record",
        "name": sanitized(table.name),
        "namespace": f"{sanitized(keyspace)}.{sanitized(table.schema)}",
        "fields": written,
    }
    return escape_html(msgspec.json.encode(record)).decode()


def _written(field: Field) -> dict[str, Any]:
    wire = field.type
    parameters = {"allowed": wire.allowed, "length": None if wire.length is None else str(wire.length)}
    kind: dict[str, Any] = {
        "type": wire.avro,
        "connect.parameters": {
            **{name: value for name, value in parameters.items() if value is not None},
            "tidb_type": wire.tidb,
        },
    }
    if wire.precision is not None:
        kind |= {"logicalType": "decimal", "precision": wire.precision, "scale": wire.scale}
    if not field.nullable:
        default = {} if field.default is None else {"default": raw_default(field.default)}
        return {**default, "name": field.name, "type": kind}
    branches = [kind, "null"] if field.null_last else ["null", kind]
    return {"default": raw_default(field.default), "name": field.name, "type": branches}
