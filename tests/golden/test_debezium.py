"""Debezium against TiCDC's own messages: decoded values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.golden.test_open import compare_image, equal
from tests.support.vectors import ROOT, Config, Truth, configs, named, needs_vectors
from ticdc_spark.model import Envelope, Event, RowChange, SchemaChange, Watermark
from ticdc_spark.protocols.base import ReadOptions, read_envelope
from ticdc_spark.protocols.debezium.decode import DECODER

pytestmark = needs_vectors

CONFIGS = configs("debezium")


@cache
def decode_differences(config: Config) -> list[Difference]:
    found: list[Difference] = []
    for sent in config.messages:
        (event,) = DECODER.open_message(sent.message.key, sent.message.value)
        (seq,) = sent.seqs
        found += compare(config, event, config.truth[seq])
    return found


def compare(config: Config, event: Event, truth: Truth) -> Iterator[Difference]:
    where = f"{config}/"
    if isinstance(truth, Watermark):
        yield from equal("watermark", where, event, truth)
        return
    if isinstance(truth, SchemaChange):
        assert isinstance(event, SchemaChange), event
        actual = (event.commit_ts, event.query, event.schema, event.name)
        yield from equal("ddl", where, actual, (truth.commit_ts, truth.query, truth.schema, truth.name))
        return
    assert isinstance(truth, RowChange)
    table = truth.table
    where += f"{table.schema}.{table.name}"
    tables = {(table.schema, table.name, ""): table}
    change = read_envelope(DECODER, event, tables, ReadOptions()) if isinstance(event, Envelope) else event
    if not isinstance(change, RowChange):
        yield Difference("row", where, change, truth)
        return
    has_old = config.options["debezium_output_old_value"] or truth.op != "update"
    yield from equal("row", where, (change.op, change.commit_ts), (truth.op if has_old else "upsert", truth.commit_ts))
    images = [(change.before, truth.before if has_old else None), (change.after, truth.after)]
    for image, expected in images:
        yield from compare_image(where, named(table, image), named(table, expected), None)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_decoded_messages_equal_the_truth(config: Config) -> None:
    assert config.messages
    assert unexplained("debezium", decode_differences(config)) == []


def test_every_exception_is_still_needed() -> None:
    found = [found for config in CONFIGS for found in decode_differences(config)]
    assert unneeded("debezium", found) == []


def test_every_vector_file_is_read() -> None:
    assert set(ROOT.glob("*/*/debezium*.jsonl*")) - set(ROOT.glob("*/*/debezium*avro*")) == {
        config.path for config in CONFIGS
    }
