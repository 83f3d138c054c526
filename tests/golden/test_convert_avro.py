"""A vector's events, written in Avro, are TiCDC's own messages but for the registry's ids."""

from __future__ import annotations

import pytest

from tests.golden.test_convert import protocol, reader
from tests.support.avro_examples import Registry
from tests.support.vectors import case, needs_vectors
from ticdc_spark.model import Message
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.streams.converter import Converter

pytestmark = needs_vectors

_FRAME = 5
"""Bytes of a schema's id before key and value."""


def bodies(messages: list[Message]) -> list[tuple[bytes | None, bytes | None]]:
    return [(message.key and message.key[_FRAME:], message.value and message.value[_FRAME:]) for message in messages]


def written(name: str, source: str) -> tuple[list[Message], list[Message], Registry]:
    """What is written, what TiCDC sent, and what was registered."""
    config, sent = case("tiflow", name).config(source), case("tiflow", name).config("avro")
    reading, registry = reader(protocol(config), config.zone), Registry()
    options = {"enable-tidb-extension": "false", "time-zone": sent.zone}
    converter = Converter(reading.tables_of, "avro", target_encoder("avro", options, registry))
    messages: list[Message] = []
    for message in config.messages:
        for found in reading.read(message.message):
            messages += converter.convert(found)  # type: ignore[arg-type]
    messages += converter.flush()  # type: ignore[arg-type]
    return messages, [one.message for one in sent.messages], registry


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("smoke", "simple_json"),
        *((name, source) for name in ("smoke", "shop") for source in ("canal_json_ext", "open")),
    ],
)
def test_rows_become_the_avro_of_ticdc(name: str, source: str) -> None:
    messages, sent, registry = written(name, source)
    assert bodies(messages) == bodies(sent)
    schemas = case("tiflow", name).config("avro").schemas
    assert registry.ids.keys() == {(schema["subject"], schema["schema"]) for schema in schemas}


@pytest.mark.parametrize("source", ["simple-json", "simple-avro"])
def test_rows_become_the_debezium_avro_of_ticdc(source: str) -> None:
    config, sent = case("ticdc", "nokey").config(source), case("ticdc", "nokey").config("debezium-avro")
    reading, registry = reader("simple", config.zone), Registry()
    options = {"avro-bigint-unsigned-handling-mode": "string"}
    converter = Converter(reading.tables_of, "debezium-avro", target_encoder("debezium-avro", options, registry))
    written: list[Message] = []
    refused = 0
    for message in config.messages:
        for found in reading.read(message.message):
            for one in converter.convert(found):
                if isinstance(one, Message):
                    written.append(one)
                else:
                    refused += 1
    written += converter.flush()  # type: ignore[arg-type]
    # ``ts_ms``, the clock, is last
    assert [(key, value and value[:-6]) for key, value in bodies(written)] == [
        (key, value and value[:-6]) for key, value in bodies([one.message for one in sent.messages])
    ]
    errors = sent.path.with_suffix(".errors.jsonl").read_bytes().splitlines()
    assert refused == len(errors) > 100
    registered = {(schema["subject"], schema["schema"]) for schema in sent.schemas}
    assert {one for one in registered if one[0].endswith("-value")} <= registry.ids.keys()


def test_simple_has_columns_in_the_order_of_their_making() -> None:
    messages, sent, _ = written("shop", "simple_json")
    different = [(one, other) for one, other in zip(messages, sent, strict=True) if bodies([one]) != bodies([other])]
    assert different
    for one, other in different:
        assert one.value is not None and other.value is not None
        assert sorted(one.value[_FRAME:]) == sorted(other.value[_FRAME:])
