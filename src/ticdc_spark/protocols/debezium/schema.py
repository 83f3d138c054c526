"""The schema block of Debezium's messages: Kafka Connect's schema of key and value, as JSON text.

It follows the payload and is the same for all messages of a table version, so it is made once. ``source`` lists the
fields of native Debezium. ``commit_ts`` and ``cluster_id``, which TiCDC adds, are not declared.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.debezium.types import codec_for
from ticdc_spark.protocols.debezium.values import EPOCH, double, quote
from ticdc_spark.protocols.shared.avro_names import sanitized

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._]")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal"))
_WRITTEN = frozenset(("bit", "date", "datetime", "timestamp", "time"))
"""Types whose defaults are written like values."""
_UNSIGNED = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double"))


def _field(kind: str, name: str, *, optional: bool = False) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": name}


def _named(kind: str, name: str, *, optional: bool = False) -> dict[str, Any]:
    return {"field": name, "optional": optional, "type": kind}


_SNAPSHOT = {
    "type": "string",
    "optional": True,
    "name": "io.debezium.data.Enum",
    "version": 1,
    "parameters": {"allowed": "true,last,false,incremental"},
    "default": "false",
    "field": "snapshot",
}
_SOURCE = {
    "type": "struct",
    "fields": [
        _field("string", "version"),
        _field("string", "connector"),
        _field("string", "name"),
        _field("int64", "ts_ms"),
        _SNAPSHOT,
        _field("string", "db"),
        _field("string", "sequence", optional=True),
        _field("string", "table", optional=True),
        _field("int64", "server_id"),
        _field("string", "gtid", optional=True),
        _field("string", "file"),
        _field("int64", "pos"),
        _field("int32", "row"),
        _field("int64", "thread", optional=True),
        _field("string", "query", optional=True),
    ],
    "optional": False,
    "name": "io.debezium.connector.mysql.Source",
    "field": "source",
}
_TRANSACTION = {
    "type": "struct",
    "fields": [_field("string", "id"), _field("int64", "total_order"), _field("int64", "data_collection_order")],
    "optional": True,
    "name": "event.block",
    "version": 1,
    "field": "transaction",
}
_TEXTS = {"type": "array", "items": {"type": "string", "optional": False}}
_CHANGE_COLUMN = {
    "name": "io.debezium.connector.schema.Column",
    "optional": False,
    "type": "struct",
    "version": 1,
    "fields": [
        _named("string", "name"),
        _named("int32", "jdbcType"),
        _named("int32", "nativeType", optional=True),
        _named("string", "typeName"),
        _named("string", "typeExpression", optional=True),
        _named("string", "charsetName", optional=True),
        _named("int32", "length", optional=True),
        _named("int32", "scale", optional=True),
        _named("int32", "position"),
        _named("boolean", "optional", optional=True),
        _named("boolean", "autoIncremented", optional=True),
        _named("boolean", "generated", optional=True),
        _named("string", "comment", optional=True),
        _named("string", "defaultValueExpression", optional=True),
        {"field": "enumValues", "optional": True, **_TEXTS},
    ],
}
_CHANGE = {
    "name": "io.debezium.connector.schema.Change",
    "optional": False,
    "type": "struct",
    "version": 1,
    "fields": [
        _named("string", "type"),
        _named("string", "id"),
        {
            **_named("struct", "table", optional=True),
            "name": "io.debezium.connector.schema.Table",
            "version": 1,
            "fields": [
                _named("string", "defaultCharsetName", optional=True),
                {"field": "primaryKeyColumnNames", "optional": True, **_TEXTS},
                {"field": "columns", "optional": False, "type": "array", "items": _CHANGE_COLUMN},
                _named("string", "comment", optional=True),
            ],
        },
    ],
}


def _text(schema: Any) -> str:
    return msgspec.json.encode(schema).decode()


DDL_KEY_SCHEMA = _text(
    {
        "type": "struct",
        "name": "io.debezium.connector.mysql.SchemaChangeKey",
        "optional": False,
        "version": 1,
        "fields": [_named("string", "databaseName")],
    }
)
DDL_SCHEMA = _text(
    {
        "optional": False,
        "type": "struct",
        "version": 1,
        "name": "io.debezium.connector.mysql.SchemaChangeValue",
        "fields": [
            _SOURCE,
            _named("int64", "ts_ms"),
            _named("string", "databaseName", optional=True),
            _named("string", "schemaName", optional=True),
            _named("string", "ddl", optional=True),
            {"field": "tableChanges", "optional": False, "type": "array", "items": _CHANGE},
        ],
    }
)
_BEHIND_IMAGES = ",".join(
    map(_text, (_SOURCE, _field("string", "op"), _field("int64", "ts_ms", optional=True), _TRANSACTION))
)


def watermark_schemas(cluster: str) -> tuple[str, str]:
    """The schemas of a watermark's key and value."""
    name = f"{sanitized(cluster)}.watermark"
    return _key(name, ""), _envelope(name, "")


def schema_name(cluster: str, table: Table) -> str:
    """The prefix of the names of a table's schemas."""
    return ".".join((sanitized(cluster), sanitized(table.schema), _NOT_IN_NAME.sub("_", table.name)))


def row_schemas(cluster: str, table: Table, extension: bool) -> tuple[str, str]:
    """The schemas of a row's key and value. Virtual columns, which rows never have, are declared last.

    Raises: MessageError for a type that Debezium cannot carry.
    """
    name = schema_name(cluster, table)
    columns = sorted(table.columns, key=lambda column: bool(column.virtual))
    fields = {column.name: _column(column, extension) for column in columns}
    keys = {*handle_key(table)}
    images = "".join(
        f'{{"type":"struct","optional":true,"name":"{name}.Value","field":"{which}","fields":[{",".join(fields.values())}]}},'
        for which in ("before", "after")
    )
    return _key(name, ",".join(fields[column.name] for column in table.columns if column.name in keys)), _envelope(
        name, images
    )


def _key(name: str, fields: str) -> str:
    return f'{{"type":"struct","name":"{name}.Key","optional":false,"fields":[{fields}]}}'


def _envelope(name: str, images: str) -> str:
    return (
        f'{{"type":"struct","optional":false,"name":"{name}.Envelope","version":1,"fields":[{images}{_BEHIND_IMAGES}]}}'
    )


def _column(column: Column, extension: bool) -> str:
    connect = codec_for(column.type).connect(column.type)
    parts = []
    if extension:
        parts.append(f'"tidb_type":"{tidb_type(column.type)}"')
    parts.append(f'"type":"{connect.type}","optional":{"true" if column.nullable else "false"}')
    if connect.name:
        parts.append(f'"name":"{connect.name}"')
        if connect.version is not None:
            parts.append(f'"version":{connect.version}')
    if connect.parameter is not None:
        parameter, value = connect.parameter
        parts.append(f'"parameters":{{"{parameter}":{quote(value)}}}')
    parts.append(f'"field":{quote(column.name)}')
    default = _default(column)
    if default is not None:
        parts.append(f'"default":{default}')
    return "{" + ",".join(parts) + "}"


def tidb_type(column_type: ColumnType) -> str:
    """A type's name in TiDB's extension."""
    name = column_type.name
    return f"{name} unsigned" if column_type.unsigned and name in _UNSIGNED else name


def _default(column: Column) -> str | None:
    """The default as JSON; ``None``: none, or an expression for a type that requires a constant."""
    try:
        return _constant(column)
    except (MessageError, ValueError):
        return None


def _constant(column: Column) -> str | None:
    default, column_type = column.default, column.type
    if default is None:
        return None
    text, name = str(default), column_type.name
    if name in _NUMBERS:
        return double(text)
    if name == "year":
        return text if int(text) else "2000"
    if name not in _WRITTEN:
        return quote(text)
    if name in ("datetime", "timestamp") and not _MOMENT.match(text):
        return _unknown_moment(column, text)
    written = codec_for(column_type).write(column_type, column.nullable)(text)
    return None if written == "null" or (written == EPOCH and column.nullable) else written


def _unknown_moment(column: Column, text: str) -> str | None:
    """The default that TiCDC writes for an expression of a DATETIME or TIMESTAMP; ``None``: it writes none."""
    if column.type.name == "datetime" or not text.upper().startswith("CURRENT_TIMESTAMP"):
        return "0"
    return None if column.nullable else EPOCH
