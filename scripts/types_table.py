"""Writes docs/reference/types.md: every MySQL type, how each protocol sends it, and its type in the lake.

The page has a list of types with sample values, which the code encodes. A test runs this and compares, so the page
matches the code. Run it after a change: python scripts/types_table.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ticdc_spark.model import Column, ColumnType, Index, RowChange, Table, Value
from ticdc_spark.mysql import parse_type
from ticdc_spark.protocols.avro.types import wire_type
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json_encoder
from ticdc_spark.protocols.debezium.encode import DebeziumConfig
from ticdc_spark.protocols.debezium.encode import encoder as debezium
from ticdc_spark.protocols.open.encode import OpenConfig
from ticdc_spark.protocols.open.encode import encoder as open_encoder
from ticdc_spark.protocols.open.frames import split_values
from ticdc_spark.protocols.simple.avro.types import BRANCHES
from ticdc_spark.protocols.simple.avro.types import codec_for as avro_codec
from ticdc_spark.protocols.simple.encode import SimpleConfig
from ticdc_spark.protocols.simple.encode import encoder as simple_encoder
from ticdc_spark.sinks.iceberg.types import iceberg_type
from ticdc_spark.spark.types import LakeOptions, lake_type

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "types.md"
ZONE = "Asia/Shanghai"
SAMPLES: dict[str, Value] = {
    "tinyint": "-1", "tinyint(1)": "1", "tinyint unsigned": "255", "smallint": "-1", "smallint unsigned": "65535",
    "mediumint": "-1", "mediumint unsigned": "16777215", "int": "-1", "int unsigned": "4294967295", "bigint": "-1",
    "bigint unsigned": "18446744073709551615", "bit(1)": "1", "bit(10)": "513", "bit(64)": "18446744073709551615",
    "year": "2026", "float": "0.1", "double": "1e308", "decimal(10,2)": "-1.50",
    "decimal(65,30)": "0.000000000000000000000000000001", "date": "2026-01-31", "time(3)": "-12:00:00.500",
    "datetime": "2026-01-31 08:00:00", "datetime(6)": "2026-01-31 08:00:00.000001",
    "timestamp(3)": "2026-01-31 00:00:00.500", "char(9) charset utf8mb4": "é<", "varchar(9) charset utf8mb4": "é<",
    "tinytext charset utf8mb4": "é<", "text charset utf8mb4": "é<", "mediumtext charset utf8mb4": "é<",
    "longtext charset utf8mb4": "é<", "binary(3)": b"a\xff\n", "varbinary(9)": b"a\xff\n", "tinyblob": b"a\xff\n",
    "blob": b"a\xff\n", "mediumblob": b"a\xff\n", "longblob": b"a\xff\n", "enum('a','b')": "2", "set('a','b')": "3",
    "json": '{"a": 1}', "vector": "[1,2.5]",
}  # fmt: skip
"""MySQL type → a value in its normal form."""
_HEAD = f"""# Types

What each protocol sends for a value, and the value's type in the lake. Written by `scripts/types_table.py`,
which encodes the values of the second column; a test keeps the page in step with the code.

- **Value** is the normal form, which every protocol is converted to and from. It is text for everything except
  bytes (hex here); ENUM is its index, SET and BIT their number, TIMESTAMP is in UTC.
- The protocols' columns are for a changefeed whose time zone is {ZONE}, with TiCDC's defaults (Avro:
  `precise` and `long`).
- **Simple**: the JSON value, then the branch of the union in Avro. **Open**: type code and JSON value.
  **canal-json**: the code in `sqlType` (of unsigned types it depends on the value) and the JSON value. **Debezium**:
  the type in the schema block, the last word of its name if it has one, and the JSON value. **Avro**: the schema's
  type and `tidb_type`.
- A DECIMAL of more than 38 digits is a string in the lake. `tinyint(1)` becomes boolean with
  `tinyint1-as-boolean`. ENUM and SET are their names in the lake.
- No protocol of TiCDC carries GEOMETRY. Debezium's own connectors do: it is binary, four bytes of SRID, then WKB.
  No protocol carries virtual generated columns: the job
  [computes them or leaves them NULL](limits.md#virtual-generated-columns).

What a protocol cannot carry is in [protocol-limits.md](protocol-limits.md).

| MySQL | Value | Simple | Simple, Avro | Open | canal-json | Debezium | Avro | Spark | Iceberg |
|---|---|---|---|---|---|---|---|---|---|
"""


def page() -> str:
    """The expected page."""
    return _HEAD + "".join(_row(name, parse_type(name), value) for name, value in SAMPLES.items())


def _row(name: str, kind: ColumnType, value: Value) -> str:
    shown = value.hex() if isinstance(value, bytes) else value or ""
    branch = BRANCHES[avro_codec(kind).write(kind, ZONE, b"")(value)[0] // 2]
    wire = wire_type(kind, decimal_string=False, unsigned_string=False)
    lake = lake_type(kind, LakeOptions())
    cells = [name.removesuffix(" charset utf8mb4"), shown, *_sent(kind, value)]
    cells[3:3] = [branch]
    cells += [f"{wire.avro} {wire.tidb}", lake.spark, "list" if lake.arrow == "list" else iceberg_type(lake)]
    return "| " + " | ".join(f"`{cell.replace('|', chr(92) + '|')}`" for cell in cells) + " |\n"


def _sent(kind: ColumnType, value: Value) -> list[str]:
    """The values that Simple, Open, canal-json and Debezium send."""
    table = Table(
        schema="d",
        name="t",
        columns=(Column(name="c", type=kind, nullable=False),),
        indexes=(Index(name="primary", unique=True, primary=True, nullable=False, columns=("c",)),),
        version=1,
    )
    change = [RowChange(op="insert", table=table, commit_ts=1 << 40, after={"c": value})]
    (of_simple,) = simple_encoder(SimpleConfig(time_zone=ZONE)).rows(change)
    (of_open,) = open_encoder(OpenConfig(time_zone=ZONE)).rows(change)
    (of_canal,) = canal_json_encoder(CanalJsonConfig(time_zone=ZONE)).rows(change)
    (of_debezium,) = debezium(DebeziumConfig()).rows(change)
    in_open = json.loads(split_values(of_open.value or b"")[0], parse_float=_Number, parse_int=_Number)["u"]["c"]
    in_canal = json.loads(of_canal.value or b"")
    in_debezium = json.loads(of_debezium.value or b"", parse_float=_Number, parse_int=_Number)
    field = in_debezium["schema"]["fields"][0]["fields"][0]
    name = field.get("name", "").rpartition(".")[2]
    return [
        _json(json.loads(of_simple.value or b"")["data"]["c"]),
        f"{in_open['t']}: {_json(in_open['v'])}",
        f"{in_canal['sqlType']['c']}: {_json(in_canal['data'][0]['c'])}",
        f"{field['type']}{name and ' ' + name}: {_json(in_debezium['payload']['after']['c'])}",
    ]


class _Number(str):
    """A JSON number, as written."""


def _json(value: Any) -> str:
    text = str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 99 else f"{text[:20]}…{text[-4:]} ({len(text) - 2} digits)"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
