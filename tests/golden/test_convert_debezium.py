"""Every vector's events, written in Debezium and read back, are the same events but for what Debezium loses."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from tests.golden.exceptions import Difference, unexplained
from tests.golden.test_convert import CONFIGS, ZONE, comparable, lines, protocol, reader, source_lines
from tests.support.vectors import Case, Config, cases, needs_vectors
from ticdc_spark.model import Message, Rejected, SchemaChange
from ticdc_spark.protocols.debezium.ddl import table_changes
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.streams.converter import Converter

pytestmark = needs_vectors

UNREAD = {"a_back", "a_flash", "no_key"}
"""Tables of ddl1 whose DDL is not sent: RECOVER, FLASHBACK, and CREATE before there was a handle key."""


def converted(config: Config) -> tuple[list[Message], list[Rejected]]:
    reading = reader(protocol(config), config.zone)
    converter = Converter(reading.tables_of, "debezium", target_encoder("debezium", {}))
    messages: list[Message] = []
    rejected: list[Rejected] = []
    for sent in config.messages:
        for found in reading.read(sent.message):
            for one in converter.convert(found):
                (rejected if isinstance(one, Rejected) else messages).append(one)  # type: ignore[arg-type]
    messages += converter.flush()  # type: ignore[arg-type]
    return messages, rejected


def is_sent(line: dict[str, Any]) -> bool:
    """Whether Debezium can encode an event, and its reader has the table."""
    if line["kind"] == "ddl":
        change = SchemaChange(commit_ts=1, query=line["query"], kind="", schema="s", name="t")
        return table_changes(change) is not None
    return not (line["schema"] == "ddl1" and line["table"] in UNREAD) and not has_no_date(line)


def has_no_date(line: dict[str, Any]) -> bool:
    """A DATETIME without a day, which Debezium cannot carry."""
    cells = [cell for image in ("before", "after") for cell in (line[image] or {}).values()]
    return any(str(cell)[:8] == "2024-01-" and str(cell)[8:11] == "00 " for cell in cells)


def differences(config: Config, found: dict[str, Any], expected: dict[str, Any]) -> list[Difference]:
    where = f"{config}/{expected['schema']}.{expected['table']}"
    images = ("before", "after")
    plain = [{name: field for name, field in line.items() if name not in images} for line in (found, expected)]
    different = [] if plain[0] == plain[1] else [Difference("event", where, *plain)]
    for image in images:
        cells, truth = found[image] or {}, expected[image] or {}
        if cells.keys() != truth.keys():
            different.append(Difference("columns", where, [*cells], [*truth]))
        different += [
            Difference("value", f"{where}.{name}", cells.get(name), cell)
            for name, cell in truth.items()
            if cells.get(name) != cell
        ]
    return different


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_events_survive_in_debezium(config: Config) -> None:
    messages, rejected = converted(config)
    upsert = protocol(config) == "open"
    found = [line for line in comparable(lines(reader("debezium", ZONE), messages), upsert) if is_sent(line)]
    expected = [line for line in comparable(source_lines(config), upsert) if is_sent(line)]
    assert all("a DATETIME in Debezium must be one" in one.reason for one in rejected)
    assert len(found) == len(expected)
    different = [one for pair in zip(found, expected, strict=True) for one in differences(config, *pair)]
    assert unexplained("debezium", different) == []


BOTH = [case for case in cases() if {"simple_json", "debezium_ext"} <= {config.name for config in case.configs}]
UNSENT = "t_nulldef_bin"
"""TiCDC's encoder panics at this table's rows."""


def fields(message: Message) -> tuple[Any, ...] | None:
    """What a row or DDL is of, and the order of its columns in images, schema block or ``tableChanges``."""
    sent = msgspec.json.decode(re.sub(rb"[\x80-\xff]+", b"", message.value or b""))
    payload, source = sent["payload"], sent["payload"]["source"]
    if payload.get("op") and source["table"] == UNSENT:
        return None
    if payload.get("op") in ("c", "u", "d"):
        declared = [column["field"] for column in sent["schema"]["fields"][0]["fields"]]
        images = [tuple(payload[image]) for image in ("before", "after") if payload[image]]
        return source["commit_ts"], source["table"], payload["op"], *images, *declared
    tables = [change["table"] for change in payload.get("tableChanges") or () if change["table"]]
    return (source["commit_ts"], *(column["name"] for table in tables for column in table["columns"]))


@pytest.mark.parametrize("case", BOTH, ids=str)
def test_columns_that_simple_sends_by_their_ids_stand_in_the_tables_order(case: Case) -> None:
    messages, _ = converted(case.config("simple_json"))
    ours = sorted(filter(None, map(fields, messages)))
    assert ours == sorted(filter(None, (fields(sent.message) for sent in case.config("debezium_ext").messages)))
