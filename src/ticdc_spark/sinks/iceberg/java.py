"""Iceberg's Java API with few calls: each call goes through a socket, and releasing its result is another one.

So a table's metadata is fetched as one JSON text, and each class is looked up once.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from py4j.java_gateway import JavaClass, JavaPackage
from pyspark.sql.types import StructType


class JavaNames:
    """A package or class of the JVM whose members are looked up only once.

    py4j looks up every part of a dotted name each time, with two or three calls per part.
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
    """A snapshot in Iceberg's metadata."""

    snapshot_id: int
    summary: Mapping[str, str] = {}
    """``operation`` is one of its keys."""
    timestamp_ms: int = 0
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    """0 in a table of version 1."""
    manifest_list: str = ""
    """Its path; ``""`` if a table of version 1 lists its manifests instead."""

    @property
    def place(self) -> tuple[int, int]:
        """(id, sequence number)"""
        return self.snapshot_id, self.sequence_number


def to_snapshot(iceberg: Any, snapshot: Any) -> Snapshot | None:
    """A snapshot from Iceberg's Java API, where it may be null."""
    if snapshot is None:
        return None
    return msgspec.json.decode(str(iceberg.SnapshotParser.toJson(snapshot)), type=Snapshot)


def spark_columns(iceberg: Any, schema: Any) -> dict[str, str]:
    """The types in Spark SQL of the columns of a schema of Iceberg's Java API, by their names."""
    struct = StructType.fromJson(json.loads(iceberg.spark.SparkSchemaUtil.convert(schema).json()))
    return {field.name: field.dataType.simpleString() for field in struct.fields}


def to_dict(iceberg: Any, texts: Any) -> dict[str, str]:
    """A Python dictionary from a Java map of strings."""
    mapper = iceberg.util.JsonUtil.mapper()
    return msgspec.json.decode(str(mapper.writeValueAsString(texts)), type=dict[str, str])


class NestedField(msgspec.Struct, frozen=True, rename="kebab"):
    """A column in the JSON of a schema."""

    id: int
    name: str
    type: Any
    """A name or an object."""
    required: bool = False
    """Whether NULL is not allowed."""
    initial_default: Any = None
    """The value in rows of before the column; tables of version 3 may have one."""


class TableSchema(msgspec.Struct, frozen=True, rename="kebab"):
    """A schema from Iceberg's Java API."""

    fields: tuple[NestedField, ...]
    identifier_field_ids: frozenset[int] = frozenset()
    """Ids of the columns of the table's key; each of them is required."""


def to_schema(iceberg: Any, schema: Any) -> TableSchema:
    """Convert a schema of Iceberg's Java API."""
    return msgspec.json.decode(str(iceberg.SchemaParser.toJson(schema)), type=TableSchema)
