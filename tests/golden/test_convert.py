"""Every vector's events, written in each other protocol and read back, are the same events."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

import msgspec
import pytest

from tests.golden.exceptions import with_replacement
from tests.support.vectors import Config, cases, needs_vectors
from ticdc_spark.model import Message, Rejected
from ticdc_spark.protocols import PROTOCOLS, decoder
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.streams.converter import Converter
from ticdc_spark.streams.event_lines import EventLine, event_line
from ticdc_spark.streams.reader import EventReader

pytestmark = needs_vectors

NAMES = ("open", "simple_json", "simple_avro", "canal_json_ext")
CONFIGS = [config for case in cases() for config in case.configs if config.name in NAMES]
ZONE = "Asia/Kolkata"  # no summer time: every local time happens once


def reader(protocol: str, zone: str) -> EventReader:
    return EventReader(decoder(protocol), ReadOptions(source_timezone=zone))


def lines(reading: EventReader, messages: list[Message]) -> list[EventLine]:
    found = [event_line(found) for message in messages for found in reading.read(message)]
    return found + [event_line(found) for found in reading.finish()]


@cache
def source_lines(config: Config) -> list[EventLine]:
    return lines(reader(protocol(config), config.zone), [sent.message for sent in config.messages])


def protocol(config: Config) -> str:
    return config.protocol.removesuffix("-protocol")


def comparable(found: list[EventLine], upsert: bool) -> list[dict[str, Any]]:
    kept = []
    for line in found:
        fields = msgspec.structs.asdict(line) | {"offset": 0, "seq": 0}
        if upsert and line.kind == "insert":
            fields["kind"] = "upsert"
        if (line.schema, line.table) == ("odd db.1", "vals"):
            fields |= {image: _as_text(fields[image]) for image in ("before", "after")}
        if line.kind == "ddl":  # Simple names a DDL's table by its schema only
            fields |= {"schema": None, "table": None}
        if line.kind != "bootstrap":
            kept.append(fields)
    return kept


def _as_text(image: dict[str, Any] | None) -> dict[str, Any] | None:
    """Text that is not UTF-8 is lost in JSON: each bad byte is U+FFFD there."""
    return image and {
        name: with_replacement(base64.b64decode(cell["base64"])) if name in "vt" and isinstance(cell, dict) else cell
        for name, cell in image.items()
    }


LOSSLESS = [name for name in PROTOCOLS if "avro" not in name and name != "debezium"]
"""What the others lose: tests/golden/test_convert_debezium.py; Avro has neither DDL nor old values."""


@pytest.mark.parametrize("target", LOSSLESS)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_events_survive(config: Config, target: str) -> None:
    reading = reader(protocol(config), config.zone)
    converter = Converter(reading.tables_of, target, target_encoder(target, {"time-zone": ZONE}))
    written: list[Message] = []
    rejected: list[str] = []
    for sent in config.messages:
        for found in reading.read(sent.message):
            for one in converter.convert(found):
                (rejected if isinstance(one, Rejected) else written).append(one)  # type: ignore[arg-type]
    written += converter.flush()  # type: ignore[arg-type]
    assert rejected == []
    assert [message.offset for message in written] == list(range(len(written)))
    upsert = "open" in (target, protocol(config))
    assert comparable(lines(reader(target, ZONE), written), upsert) == comparable(source_lines(config), upsert)
