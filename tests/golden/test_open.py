"""The Open protocol against TiCDC's own messages: decoded values, and the bytes that the encoder writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import pytest

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.vectors import ROOT, Case, Config, Truth, VectorMessage, configs, named, needs_vectors
from ticdc_spark import mysql
from ticdc_spark.model import Envelope, Event, Row, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.protocols.base import ReadOptions, read_envelope
from ticdc_spark.protocols.open import DECODER
from ticdc_spark.protocols.open_images import table_from_row

pytestmark = needs_vectors

CONFIGS = configs("open-protocol")
every_config = pytest.mark.parametrize("config", CONFIGS, ids=str)


@cache
def opened(config: Config) -> list[tuple[int, VectorMessage, Event]]:
    """Every event of the file with its seq."""
    found = []
    for sent in config.messages:
        events = DECODER.open_message(sent.message.key, sent.message.value)
        assert len(events) == len(sent.seqs)
        found += [(seq, sent, event) for seq, event in zip(sent.seqs, events, strict=True)]
    return found


def read(event: Event, table: Table, zone: str) -> RowChange | Event:
    if not isinstance(event, Envelope):
        return event
    return read_envelope(DECODER, event, {(table.schema, table.name, ""): table}, ReadOptions(source_timezone=zone))


@cache
def decode_differences(config: Config) -> list[Difference]:
    return [
        found
        for seq, _, event in opened(config)
        for found in compare(f"{config}/", seq, event, config.truth[seq], config)
    ]


def compare(where: str, seq: int, event: Event, truth: Truth, config: Config) -> Iterator[Difference]:
    if isinstance(truth, Watermark):
        yield from equal("watermark", f"{where}{seq}", event, truth)
    elif isinstance(truth, SchemaChange):
        assert isinstance(event, SchemaChange), event
        actual = (event.commit_ts, event.query, event.kind, event.schema, event.name)
        code = str(config.case.events[seq]["ddl_type"])
        yield from equal("ddl", f"{where}{seq}", actual, (truth.commit_ts, truth.query, code, truth.schema, truth.name))
    else:
        assert isinstance(truth, RowChange)
        yield from compare_row(f"{where}{truth.table.schema}.{truth.table.name}", event, truth, config)


def compare_row(where: str, event: Event, truth: RowChange, config: Config) -> Iterator[Difference]:
    change = read(event, truth.table, config.zone)
    if not isinstance(change, RowChange):
        yield Difference("row", where, change, truth)
        return
    op = "upsert" if truth.op == "insert" or (truth.op == "update" and change.before is None) else truth.op
    yield from equal("row", where, (change.op, change.commit_ts), (op, truth.commit_ts))
    large = any(word in config.name for word in ("claim_check", "handle_key"))
    yield from equal("partial", where, change.partial and not large, False)
    yield from equal("claim check", where, change.claim_check is not None, change.partial and "claim" in config.name)
    if op == "upsert" and truth.op == "update":
        # without old values, or an update that changes nothing and sends no changed column
        unchanged = config.options["only_output_updated_columns"] and truth.before == truth.after
        yield from equal("old value", where, not config.options["open_output_old_value"] or unchanged, True)
    expected = None if op == "upsert" else truth.before
    keys_only = change.partial or (op == "delete" and deletes_keys_only(config))
    keys = handle_keys(config.case)[truth.table.schema, truth.table.name, truth.table.version] if keys_only else None
    for actual, wanted in ((change.before, expected), (change.after, truth.after)):
        yield from compare_image(where, named(truth.table, actual), named(truth.table, wanted), keys)


def deletes_keys_only(config: Config) -> bool:
    options = config.options
    return bool(options.get("delete_only_handle_key_columns") or options.get("delete_only_output_handle_key_columns"))


@cache
def handle_keys(case: Case) -> dict[tuple[str, str, int | None], set[str]]:
    """The handle key columns of each version of a table, as whole images flag them."""
    found = {}
    for seq, _, event in opened(case.config("open")):
        truth = case.config("open").truth[seq]
        if isinstance(event, Envelope) and isinstance(truth, RowChange):
            image = event.after or event.before
            assert image is not None
            keys = {name for name, cell in json.loads(image).items() if cell.get("h")}
            found[truth.table.schema, truth.table.name, truth.table.version] = keys
    return found


def compare_image(where: str, actual: Row | None, expected: Row | None, keys: set[str] | None) -> Iterator[Difference]:
    if actual is None or expected is None:
        yield from equal("image", where, actual, expected)
        return
    yield from equal("columns", where, set(actual), set(expected) if keys is None else keys)
    for name in actual.keys() & expected.keys():
        yield from equal("value", f"{where}.{name}", actual[name], expected[name])


def equal(what: str, where: str, actual: object, expected: object) -> Iterator[Difference]:
    if actual != expected:
        yield Difference(what, where, actual, expected)


@every_config
def test_decoded_messages_equal_the_truth(config: Config) -> None:
    assert config.messages
    assert unexplained("open", decode_differences(config)) == []


def test_every_exception_is_still_needed() -> None:
    assert unneeded("open", [found for config in CONFIGS for found in decode_differences(config)]) == []


def test_every_vector_file_is_read() -> None:
    files = {path for path in ROOT.glob("*/*/open*.jsonl*") if "errors" not in path.name}
    assert files == {config.path for config in CONFIGS}


@pytest.mark.parametrize("config", [c for c in CONFIGS if c.name == "open"], ids=str)
def test_a_row_alone_tells_its_values(config: Config) -> None:
    """Without any schema, the limited table of a row reads the same values."""
    for seq, _, event in opened(config):
        if isinstance(event, Envelope):
            truth = config.truth[seq]
            assert isinstance(truth, RowChange)
            image = event.after or event.before
            assert image is not None
            guessed = table_from_row(event.schema, event.table, image)
            change, known = read(event, guessed, config.zone), read(event, truth.table, config.zone)
            assert isinstance(change, RowChange) and isinstance(known, RowChange)
            assert (change.before, change.after) == (known.before, known.after)
            assert (
                set(mysql.handle_key(guessed))
                == handle_keys(config.case)[truth.table.schema, truth.table.name, truth.table.version]
            )
