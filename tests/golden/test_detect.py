"""The protocol of every vector file, from its messages alone."""

from __future__ import annotations

import pytest

from tests.support.vectors import ROOT, Config, cases, needs_vectors
from ticdc_spark.errors import UsageError
from ticdc_spark.streams.detect import detect

pytestmark = needs_vectors

CONFIGS = [config for case in cases() for config in case.configs]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_any_few_messages_show_the_protocol(config: Config) -> None:
    expected = config.protocol.removesuffix("-protocol")
    pairs = [(sent.message.key, sent.message.value) for sent in config.messages]
    assert detect(pairs) == expected
    for few in (pairs[at : at + 4] for at in range(0, len(pairs), 4)):
        if any(value for _, value in few):
            found = detect(few)
            # a DDL or watermark of debezium-avro alone may look like avro's
            assert found == expected or (expected, found) == ("debezium-avro", "avro")


def test_every_protocol_and_vector_file_is_tried() -> None:
    assert {config.protocol for config in CONFIGS} == {
        "avro",
        "canal-json",
        "debezium",
        "debezium-avro",
        "open-protocol",
        "simple",
    }
    files = {path for path in ROOT.glob("*/*/*.jsonl*") if path.name.split(".")[1] == "jsonl"}
    assert files - {path for path in files if path.name.startswith("events.")} == {config.path for config in CONFIGS}


@pytest.mark.parametrize("other", CONFIGS[:60:7], ids=str)
def test_two_protocols_are_not_decidable(other: Config) -> None:
    first = next(config for config in CONFIGS if config.protocol != other.protocol)
    pairs = [(sent.message.key, sent.message.value) for config in (first, other) for sent in config.messages]
    with pytest.raises(UsageError, match="look like"):
        detect(pairs)
