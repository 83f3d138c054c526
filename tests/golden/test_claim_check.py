"""Rows too large for Kafka, fetched from where TiCDC kept them, against the truth; and files written as it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden.exceptions import Difference, unexplained
from tests.golden.test_inspect import compare
from tests.support.vectors import ROOT, Config, cases, needs_vectors
from ticdc_spark.clients.claim_check import ClaimCheckStorage, read_stored, write_stored
from ticdc_spark.model import RowChange
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.streams.event_lines import event_line
from ticdc_spark.streams.reader import EventReader, Found

pytestmark = needs_vectors

CONFIGS = [config for case in cases() for config in case.configs if config.claim_check.is_dir()]
"""Where no row was too large, there is no folder."""
every_config = pytest.mark.parametrize("config", CONFIGS, ids=str)


def events(config: Config) -> list[Found]:
    storage = ClaimCheckStorage(config.claim_check.as_uri())
    reader = EventReader(
        decoder(config.protocol.removesuffix("-protocol")),
        ReadOptions(source_timezone=config.zone),
        fetch=storage.fetch,
    )
    found = [found for sent in config.messages for found in reader.read(sent.message)]
    return [*found, *reader.finish()]


@every_config
def test_rows_kept_elsewhere_equal_the_truth(config: Config) -> None:
    found = events(config)
    assert sum(isinstance(one.event, RowChange) for one in found) == sum(
        len(sent.seqs) for sent in config.messages if sent.kind == "row"
    )
    whole = [one for one in found if one.message.value != config.messages[one.message.offset].message.value]
    assert len(whole) == len([*config.claim_check.iterdir()]) > 0
    differences = [difference for one in found for difference in compare(config, one, event_line(one))]
    assert unexplained(config.protocol.removesuffix("-protocol"), differences) == []


@every_config
def test_files_are_written_as_they_were(config: Config) -> None:
    assert list(different_files(config)) == []


def different_files(config: Config) -> Iterator[Difference]:
    raw = config.options["large_message_handle"]["claim_check_raw_value"]
    for path in config.claim_check.iterdir():
        content = path.read_bytes()
        key, value = read_stored(content)
        assert (value == content) == raw
        written = value if raw else write_stored(key, value)
        if written != content:
            yield Difference("file", f"{config}/{path.name}", written, content)


def test_every_kept_message_is_read() -> None:
    files: set[Path] = set(ROOT.glob("*/*/*.claim_check/*"))
    assert files == {path for config in CONFIGS for path in config.claim_check.iterdir()}
    assert len(files) > 100
    protocols = {(config.protocol, config.options["encoding_format"]) for config in CONFIGS}
    assert protocols == {("open-protocol", "json"), ("simple", "json"), ("simple", "avro")}
