"""Iceberg's Java API with few calls: each of them goes through a socket, and another one gives its result back.

So what a table is made of is fetched as one JSON text, and the classes that are used are looked up once.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from py4j.java_gateway import JavaClass, JavaPackage


class JavaNames:
    """A package or class of the JVM of which each member is looked up once.

    py4j looks up every part of a dotted name anew, by two or three calls a part.
    """

    def __init__(self, names: Any) -> None:
        self._names = names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._names, name)
        if isinstance(found, JavaPackage | JavaClass):
            found = JavaNames(found)
        setattr(self, name, found)
        return found

    def __call__(self, *arguments: Any) -> Any:
        """Construct an object of the class."""
        return self._names(*arguments)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A snapshot, as Iceberg's metadata has it."""

    snapshot_id: int
    summary: Mapping[str, str] = {}
    """``operation`` is one of its keys."""
    timestamp_ms: int = 0
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    """0 in a table of version 1."""
    manifest_list: str = ""
    """Its path; ``""`` where a table of version 1 lists its manifests."""

    @property
    def place(self) -> tuple[int, int]:
        """(id, sequence number)"""
        return self.snapshot_id, self.sequence_number


def to_snapshot(iceberg: Any, snapshot: Any) -> Snapshot | None:
    """A snapshot of Iceberg's Java API, which may be null."""
    if snapshot is None:
        return None
    return msgspec.json.decode(str(iceberg.SnapshotParser.toJson(snapshot)), type=Snapshot)


def to_dict(iceberg: Any, texts: Any) -> dict[str, str]:
    """A map of texts to texts."""
    mapper = iceberg.util.JsonUtil.mapper()
    return msgspec.json.decode(str(mapper.writeValueAsString(texts)), type=dict[str, str])


class NestedField(msgspec.Struct, frozen=True):
    """A column, as the JSON of a schema has it."""

    id: int
    name: str
    type: Any
    """A name, or an object."""
    required: bool = False
    """Whether it holds no NULL."""


class TableSchema(msgspec.Struct, frozen=True, rename="kebab"):
    """A schema of Iceberg's Java API."""

    fields: tuple[NestedField, ...]
    identifier_field_ids: frozenset[int] = frozenset()
    """Ids of the columns that make up the table's key; each of them is required."""


def to_schema(iceberg: Any, schema: Any) -> TableSchema:
    """A schema of Iceberg's Java API."""
    return msgspec.json.decode(str(iceberg.SchemaParser.toJson(schema)), type=TableSchema)
