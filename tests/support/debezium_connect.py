"""Messages as Debezium's own connectors make them, with Kafka Connect's JSON converter: the schema comes first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

SOURCE: dict[str, Any] = {
    "version": "2.7.3.Final",
    "connector": "mysql",
    "name": "shop1",
    "ts_ms": 1465581029000,
    "snapshot": "false",
    "db": "inventory",
    "sequence": None,
    "table": "items",
    "server_id": 223344,
    "gtid": "24da167-0c0c-11e8-8442-00059a3c7b00:19",
    "file": "mysql-bin.000003",
    "pos": 484,
    "row": 0,
    "thread": 7,
    "query": None,
}


def field(name: str, kind: str, semantic: str | None = None, **parameters: str) -> dict[str, Any]:
    """A field of a schema; it may be null."""
    found: dict[str, Any] = {"type": kind, "optional": True, "field": name}
    if semantic:
        found |= {"name": semantic, "version": 1}
    if parameters:
        found["parameters"] = parameters
    return found


def text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def envelope(payload: Any, fields: Sequence[Mapping[str, Any]] = (), *, name: str = "shop1.inventory.items") -> bytes:
    """A row's message."""
    image = {"type": "struct", "optional": True, "name": f"{name}.Value", "fields": list(fields)}
    schema = {
        "type": "struct",
        "fields": [
            {**image, "field": "before"},
            {**image, "field": "after"},
            {"type": "struct", "fields": [field("db", "string")], "optional": False, "field": "source"},
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
        "optional": False,
        "name": f"{name}.Envelope",
    }
    return text({"schema": schema, "payload": payload})


def key(payload: Any, *fields: Mapping[str, Any], name: str = "shop1.inventory.items") -> bytes:
    """A row's key."""
    schema = {"type": "struct", "fields": list(fields), "optional": False, "name": f"{name}.Key"}
    return text({"schema": schema, "payload": payload})


def change(
    op: str, before: Any, after: Any, fields: Sequence[Mapping[str, Any]] = (), source: Mapping[str, Any] = SOURCE
) -> bytes:
    """A row change, with the fields that a connector has."""
    payload = {
        "before": before,
        "after": after,
        "source": dict(source),
        "op": op,
        "ts_ms": 1465581029999,
        "transaction": None,
    }
    return envelope(payload, fields) if fields else text(payload)
