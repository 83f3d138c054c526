"""Every vector case through the reference applier to the tables that the database had at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.reference.applier import Applier, run
from tests.reference.faults import interleaved, replayed, split
from tests.reference.told import Told, schema_changes
from tests.vectors import Config, _column_type, _value, cases, named, needs_vectors
from ticdc_spark.model import Column, Message, Row, Table, Value
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import Decoder, ReadOptions

pytestmark = needs_vectors

PROTOCOL = {"simple_json": "simple", "simple-json": "simple", "open": "open"}
NEVER_CREATED = {"no_key"}
"""Tables that TiCDC ignored when they were created, as they had no handle key yet."""
CONFIGS = [config for case in cases() for config in case.configs if config.name in PROTOCOL]
every_config = pytest.mark.parametrize("config", CONFIGS, ids=str)


def apply(config: Config, messages: Sequence[Message] | None = None, batch_size: int | None = None) -> Applier:
    options = ReadOptions(source_timezone=config.zone)
    messages = [sent.message for sent in config.messages] if messages is None else messages
    return run(messages, of(config), options, batch_size=batch_size)


@cache
def of(config: Config) -> Decoder:
    """The decoder. Open is told the schema of the tables that no SQL of theirs tells."""
    found = decoder(PROTOCOL[config.name])
    if config.name != "open":
        return found
    simple = next(other for other in config.case.configs if PROTOCOL.get(other.name) == "simple")
    changes = schema_changes((sent.message for sent in simple.messages), decoder("simple"))
    return Told(found, [change for change in changes if change.name in NEVER_CREATED])


def final_tables(config: Config) -> dict[tuple[str, str], tuple[Table, list[Row]]]:
    """The database's tables that TiCDC replicates, without virtual columns, in normal form."""
    state: Any = json.loads((config.case.path / "final_state.json").read_text())
    tables: dict[tuple[str, str], tuple[Table, list[Row]]] = {}
    # the new architecture's file is a bare list, and tells apart the hexadecimal columns
    for table in state if isinstance(state, list) else state["tables"]:
        if not table.get("replicated", True):
            continue
        virtual = re.compile(r"^\s*`((?:[^`]|``)*)` .*\bVIRTUAL\b", re.MULTILINE)
        hidden = {name.replace("``", "`") for name in virtual.findall(table.get("show_create", ""))}
        hidden |= {column["name"] for column in table["columns"] if column.get("generated") == "virtual"}
        columns = [column for column in table["columns"] if not column["name"].startswith("_V$_")]
        if "hex" in table:
            columns = [{**column, "hex": is_hex} for column, is_hex in zip(columns, table["hex"], strict=True)]
        kinds = tuple(Column(name=column["name"], type=_column_type(column)) for column in columns)
        rows: list[Row] = [
            {
                column["name"]: cell(column, value, config.zone)
                for column, value in zip(columns, cells, strict=True)
                if column["name"] not in hidden
            }
            for cells in table["rows"]
        ]
        tables[table["schema"], table["table"]] = (
            Table(schema=table["schema"], name=table["table"], columns=kinds),
            rows,
        )
    return tables


def cell(column: dict[str, Any], value: Any, zone: str) -> Value:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else _value({**column, "value": value}, zone)


def differences(config: Config, applier: Applier) -> Iterator[Difference]:
    """Table by table, row by row: rows are matched by handle key."""
    where, expected = f"{config}/", final_tables(config)
    for name in applier.lake.tables.keys() | expected.keys():
        place = f"{where}{name[0]}.{name[1]}"
        if name not in expected or name not in applier.lake.tables:
            yield Difference("table", place, name in applier.lake.tables, name in expected)
            continue
        table, rows = applier.lake.tables[name]
        truth, wanted = expected[name]
        key = handle_key(table) or tuple(column.name for column in truth.columns)
        visible = set(wanted[0]) if wanted else {column.name for column in truth.columns}
        actual = {
            tuple(row[column] for column in key): {column: row[column] for column in row if column in visible}
            for row in (named(table, row) or {} for row in rows.values())
        }
        matched: list[Row] = []
        for row in (named(truth, row) or {} for row in wanted):
            found = actual.pop(tuple(row[column] for column in key), None)
            if found is None and row in matched:
                row = {**row, "twice": None}
            matched.append(row)
            if found != row:
                yield Difference("row", place, found, row)
        for row in actual.values():
            yield Difference("row", place, row, None)


@every_config
def test_messages_lead_to_the_final_tables(config: Config) -> None:
    assert not unexplained("reference", differences(config, apply(config)))


@every_config
@pytest.mark.parametrize("seed", range(2))
def test_partitions_duplicates_replays_and_batches_change_nothing(config: Config, seed: int) -> None:
    once = apply(config)
    partitions = split([sent.message for sent in config.messages], of(config), 3)
    messages = interleaved(replayed(partitions, seed), seed)
    again = apply(config, messages, batch_size=max(len(messages) // (5 + seed), 1))
    assert once.lake.tables == again.lake.tables


def test_every_exception_is_needed() -> None:
    found = [difference for config in CONFIGS for difference in differences(config, apply(config))]
    assert unneeded("reference", found) == []
