"""Reads the golden vectors: messages made by TiCDC's own encoders, with the truth beside them.

The folder is ``$TICDC_SPARK_VECTORS``, else ``../shared/vectors`` beside the repository. Its README and the two
NOTES.md describe what the files hold. Tests that use it skip when there is no such folder, and only then.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from ticdc_spark import mysql
from ticdc_spark.model import (
    Bootstrap,
    Checksum,
    Column,
    ColumnType,
    Index,
    Message,
    Row,
    RowChange,
    SchemaChange,
    Table,
    Value,
    Watermark,
)

ROOT = Path(os.environ.get("TICDC_SPARK_VECTORS") or Path(__file__).parents[3] / "shared" / "vectors").resolve()
PRODUCERS = ("tiflow", "ticdc")
"""TiCDC's classic architecture, and the new one."""

needs_vectors = pytest.mark.skipif(not ROOT.is_dir(), reason="no vectors: set TICDC_SPARK_VECTORS")
Truth: TypeAlias = RowChange | SchemaChange | Watermark | Bootstrap


@dataclass(frozen=True)
class VectorMessage:
    """One message as it was sent."""

    message: Message
    kind: str
    """row, ddl, watermark or bootstrap."""
    seqs: tuple[int, ...]
    """The events that it carries, by their number in events.jsonl."""


@dataclass(frozen=True)
class Config:
    """One configuration of a protocol, run over a case."""

    case: Case
    name: str

    def __str__(self) -> str:
        return f"{self.case}-{self.name}"

    @cached_property
    def options(self) -> Mapping[str, Any]:
        """The configuration of the changefeed and its encoder; the encoder's options of both producers at the top."""
        read: dict[str, Any] = json.loads((self.case.path / f"{self.name}.config.json").read_text())
        return {**read, **read.get("codec_config", {})}

    @property
    def protocol(self) -> str:
        return str(self.options["protocol"])

    @property
    def zone(self) -> str:
        return str(self.options["time_zone"])

    @property
    def path(self) -> Path:
        """The messages' file."""
        return _existing(self.case.path / f"{self.name}.jsonl")

    @property
    def claim_check(self) -> Path:
        """The folder of the externally stored messages."""
        return self.case.path / f"{self.name}.claim_check"

    @cached_property
    def schemas(self) -> Any:
        """What the schema registry held (Avro)."""
        return json.loads((self.case.path / f"{self.name}.schemas.json").read_text())

    @cached_property
    def messages(self) -> tuple[VectorMessage, ...]:
        return tuple(
            VectorMessage(
                message=Message(
                    topic=line["topic"],
                    partition=line["partition"],
                    offset=offset,
                    key=_unbase64(line["key"]),
                    value=_unbase64(line["value"]),
                ),
                kind=line["type"],
                seqs=tuple(line["seq"]),
            )
            for offset, line in enumerate(_lines(self.path))
        )

    @cached_property
    def truth(self) -> Mapping[int, Truth]:
        """The case's events in canonical form; TIMESTAMP read in this configuration's time zone."""
        return {event["seq"]: _truth(event, self.zone) for event in self.case.events if event["kind"] != "ddl_skipped"}


@dataclass(frozen=True)
class Case:
    """A script that was run against a database, and everything that came of it."""

    producer: str
    name: str

    def __str__(self) -> str:
        return f"{self.producer}-{self.name}"

    @property
    def path(self) -> Path:
        return ROOT / self.producer / self.name

    @cached_property
    def events(self) -> tuple[dict[str, Any], ...]:
        """events.jsonl as it is."""
        return tuple(_lines(_existing(self.path / "events.jsonl")))

    @cached_property
    def final_state(self) -> dict[str, Any]:
        """The tables at the end, as it is."""
        return dict(json.loads((self.path / "final_state.json").read_text()))

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        names = sorted(path.name.removesuffix(".config.json") for path in self.path.glob("*.config.json"))
        return tuple(Config(self, name) for name in names)

    def config(self, name: str) -> Config:
        return next(config for config in self.configs if config.name == name)


@lru_cache
def cases() -> tuple[Case, ...]:
    """Every case of both producers; ``()`` without a vectors folder."""
    return tuple(
        Case(producer, path.name)
        for producer in PRODUCERS
        for path in sorted((ROOT / producer).glob("*"))
        if (path / "case.sql").exists()
    )


def case(producer: str, name: str) -> Case:
    return next(found for found in cases() if (found.producer, found.name) == (producer, name))


def configs(protocol: str, **options: object) -> list[Config]:
    """Every configuration of a protocol (as in ``config.json``) whose options have these values."""
    return [
        config
        for found in cases()
        for config in found.configs
        if config.protocol == protocol and all(config.options.get(name) == value for name, value in options.items())
    ]


def same_row(table: Table, left: Row | None, right: Row | None) -> bool:
    """Whether two images are equal. ENUM and SET compare by name: in the truth index 0 is as a member ''."""
    return named(table, left) == named(table, right)


def named(table: Table, row: Row | None) -> Row | None:
    """An image with the names of ENUM and SET values."""
    if row is None:
        return None
    types = {column.name: column.type for column in table.columns}
    return {name: _named(types[name], value) for name, value in row.items()}


def _named(column_type: ColumnType, value: Value) -> Value:
    if not isinstance(value, str) or column_type.name not in ("enum", "set"):
        return value
    names = mysql.enum_name if column_type.name == "enum" else mysql.set_names
    return names(column_type, value)


def truth_table(event: Mapping[str, Any], columns: list[dict[str, Any]]) -> Table:
    """The table of an event, as far as the event has it: of the indexes only the primary key."""
    key = tuple(column["name"] for column in columns if column["pk"])
    primary = Index(name="primary", unique=True, primary=True, nullable=False, columns=key)
    return Table(
        schema=event["schema"],
        name=event.get("table", ""),
        columns=tuple(map(_column, columns)),
        indexes=(primary,) if key else (),
        table_id=event.get("table_id"),
        version=event.get("table_version", event.get("schema_version")),
    )


def _column(column: Mapping[str, Any]) -> Column:
    return Column(
        name=column["name"],
        type=_column_type(column),
        nullable=column["nullable"],
        default=_default(column),
        virtual=column.get("generated") == "virtual",
        stored=column.get("generated") == "stored",
    )


def _default(column: Mapping[str, Any]) -> str | int | None:
    default: str | None = column.get("default")
    if default is not None and column["mysql_type"].startswith("bit"):
        return int.from_bytes(default.encode("latin-1"), "big")
    return default


@lru_cache
def _parsed(text: str) -> ColumnType:
    if text == "unspecified":  # a view's columns
        return ColumnType(name=text)
    return mysql.parse_type(text)


def _column_type(column: Mapping[str, Any]) -> ColumnType:
    parsed = _parsed(column["mysql_type"])
    charset, collate = (column.get(name, getattr(parsed, name)) or None for name in ("charset", "collate"))
    return msgspec.structs.replace(parsed, charset=charset, collate=collate)


def _truth(event: Mapping[str, Any], zone: str) -> Truth:
    kind, commit_ts = event["kind"], event["commit_ts"]
    if kind == "watermark":
        return Watermark(commit_ts)
    if kind == "bootstrap":
        return Bootstrap(truth_table(event, event["table_columns"]))
    if kind == "ddl":
        columns = event.get("table_columns")
        return SchemaChange(
            commit_ts=commit_ts,
            query=event["query"],
            kind=event["ddl_type_name"],
            schema=event["schema"],
            name=event.get("table", ""),
            table=truth_table(event, columns) if columns else None,
        )
    after, before = event.get("columns"), event.get("pre_columns")
    checksum = None
    if "checksum" in event:
        checksum = Checksum(version=0, corrupted=False, current=event["checksum"], previous=event["pre_checksum"])
    return RowChange(
        op=kind,
        table=truth_table(event, after or before or []),
        commit_ts=commit_ts,
        before=None if before is None else _row(before, zone),
        after=None if after is None else _row(after, zone),
        table_id=event.get("physical_table_id", event["table_id"]),
        checksum=checksum,
    )


def _row(columns: list[dict[str, Any]], zone: str) -> Row:
    return {column["name"]: _value(column, zone) for column in columns}


def _value(column: Mapping[str, Any], zone: str) -> Value:
    text, column_type = column["value"], _column_type(column)
    if text is None:
        return None
    match column_type.name:
        case "bit":
            return str(int(text, 16))
        case _ if column.get("hex"):
            return bytes.fromhex(text)
        case "year":
            return mysql.canonical_integer(text)
        case "float" | "double" as name:
            return mysql.canonical_float(text, 32 if name == "float" else 64)
        case "timestamp":
            return mysql.utc_timestamp(text, zone, mysql.fsp(column_type))
        case "enum":
            return mysql.enum_index(column_type, text)
        case "set":
            return mysql.set_mask(column_type, text)
        case _:
            return str(text)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    raw = path.read_bytes()
    yield from map(json.loads, (gzip.decompress(raw) if path.suffix == ".gz" else raw).splitlines())


def _existing(path: Path) -> Path:
    return path if path.exists() else path.with_name(path.name + ".gz")


def _unbase64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
