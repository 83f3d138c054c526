"""What the tests of Avro share: a registry, messages of another writer, and a table of every type."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import fastavro

from ticdc_spark.ddl import parse_create
from ticdc_spark.model import (
    RowChange,
    Table,
    Value,
)
from ticdc_spark.protocols.avro.decode import AvroDecoder
from ticdc_spark.protocols.avro.schema import table_from_schemas
from ticdc_spark.protocols.base import Columns, ReadOptions
from ticdc_spark.wire.confluent import frame

TS = 470606137174523905
SHANGHAI = ReadOptions(source_timezone="Asia/Shanghai")
EXTENSION = [
    {"name": "_tidb_op", "type": "string"},
    {"name": "_tidb_commit_ts", "type": "long"},
    {"name": "_tidb_commit_physical_time", "type": "long"},
]

CHECKSUM_FIELDS = [
    {"name": "_tidb_row_level_checksum", "type": "string"},
    {"name": "_tidb_corrupted", "type": "boolean"},
    {"name": "_tidb_checksum_version", "type": "int"},
]


@dataclass
class Registry:
    """Gives each subject's schema an id, in order."""

    ids: dict[tuple[str, str], int] = field(default_factory=dict)

    def register(self, subject: str, schema: str) -> int:
        return self.ids.setdefault((subject, schema), len(self.ids) + 1)

    @property
    def schemas(self) -> dict[int, str]:
        return {number: schema for (_, schema), number in self.ids.items()}


def record(*fields: dict[str, Any], name: str = "t") -> str:
    return json.dumps({"name": name, "namespace": "default.s", "type": "record", "fields": [*fields]})


def document(avro: str, tidb: str, nullable: bool = False, **more: Any) -> dict[str, Any]:
    """A column as the document has it; ``connect.parameters`` besides the type are strings, the rest is Avro's."""
    parameters = {name: value for name, value in more.items() if name in ("length", "allowed")}
    kind = {"connect.parameters": {"tidb_type": tidb, **parameters}, "type": avro}
    kind |= {name: value for name, value in more.items() if name not in parameters}
    return {"default": None, "name": "c", "type": ["null", kind]} if nullable else {"name": "c", "type": kind}


def framed(schema: str, row: dict[str, Any], number: int = 1) -> bytes:
    """A message as another writer makes it."""
    to = BytesIO()
    fastavro.schemaless_writer(to, fastavro.parse_schema(json.loads(schema)), row)
    return frame(number) + to.getvalue()


def read(schema: str, value: bytes, options: ReadOptions = SHANGHAI, only: frozenset[str] | None = None) -> Columns:
    reader = AvroDecoder({1: schema}).row_reader(table_from_schemas(None, schema), options, only)
    return reader([value])


EVERYTHING = parse_create(
    """CREATE TABLE `a.b`.`7 days` (
    `id` BIGINT UNSIGNED NOT NULL, `k` VARBINARY(9) NOT NULL, `ti` TINYINT UNSIGNED DEFAULT 3,
    `i` INT UNSIGNED, `m` MEDIUMINT,
    `f` FLOAT DEFAULT 1e30, `d` DOUBLE NOT NULL DEFAULT -2.5, `n` DECIMAL(20,5) DEFAULT 1.5,
    `bit` BIT(10) DEFAULT b'101',
    `v` VARCHAR(9) NOT NULL DEFAULT '<é>', `b` BLOB, `ts` TIMESTAMP(3) NULL, `dt` DATETIME(2), `t` TIME,
    `da` DATE, `y` YEAR,
    `e` ENUM('a,b','','c'), `s` SET('x','y') DEFAULT 'x,y', `j` JSON, `g` INT AS (`id` + 1) VIRTUAL,
    `vb` VARBINARY(4) DEFAULT 'vb', PRIMARY KEY (`id`, `k`))""",
    "a.b",
)
ROW: dict[str, Value] = {
    "id": str(2**64 - 1),
    "k": b"\xff",
    "ti": "255",
    "i": "4294967295",
    "m": "-8388608",
    "f": "0.1",
    "d": "-0",
    "n": "-123456789012345.00001",
    "bit": "1023",
    "v": "世<>&",
    "b": b"",
    "ts": "2024-01-01 19:04:05.678",
    "dt": "2024-01-02 03:04:05.10",
    "t": "-838:59:59",
    "da": "0000-00-00",
    "y": "2024",
    "e": "1",
    "s": "3",
    "j": "{}",
    "vb": None,
}


def change(op: Any, row: dict[str, Value] | None, table: Table = EVERYTHING, **more: Any) -> RowChange:
    images = {"before": row} if op == "delete" else {"after": row}
    return RowChange(op=op, table=table, commit_ts=TS, **images, **more)  # type: ignore[arg-type]
