"""The Open protocol against TiCDC's own messages: decoded values, and the bytes that the encoder writes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby

import pytest
from msgspec.structs import replace

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.support.vectors import ROOT, Case, Config, Truth, VectorMessage, configs, named, needs_vectors
from ticdc_spark import mysql
from ticdc_spark.model import Bootstrap, Envelope, Event, Row, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.protocols.base import Encoded, Encoder, ReadOptions, read_envelope
from ticdc_spark.protocols.open.decode import DECODER
from ticdc_spark.protocols.open.encode import OpenConfig, encoder
from ticdc_spark.protocols.open.frames import split_keys, split_values
from ticdc_spark.protocols.open.images import table_from_row
from ticdc_spark.protocols.shared.tidb_ddl_codes import ddl_type_code
from ticdc_spark.protocols.simple import decode as simple
from ticdc_spark.wire.compression import unpack

pytestmark = needs_vectors

CONFIGS = configs("open-protocol")
ENCODED = [config for config in CONFIGS if config.case.producer == "tiflow"]
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


@cache
def tables(case: Case) -> dict[tuple[str, str, int | None], Table]:
    """Whole schemas, with their indexes: from the case's Simple messages."""
    found: dict[tuple[str, str, int | None], Table] = {}
    for sent in case.config("simple_json").messages:
        for event in simple.DECODER.open_message(sent.message.key, sent.message.value):
            change = event.table if isinstance(event, SchemaChange | Bootstrap) else None
            if change is not None:
                found[change.schema, change.name, change.version] = change
    return found


@cache
def encode_differences(config: Config) -> list[Difference]:
    found: list[Difference] = []
    for kind, run in groupby(config.messages, key=lambda sent: sent.kind):
        sent = list(run)
        to = encoder(open_config(config, sent))
        if kind == "row":
            changes = [source(config, seq) for message in sent for seq in message.seqs]
            encoded: list[Encoded | None] = list(to.rows(changes))
        else:
            encoded = [send(to, config, message.seqs[0]) for message in sent]
        where = f"{config}/{sent[0].seqs[0]}"
        found += equal(
            "messages", where, [e.rows if e else None for e in encoded], [len(m.seqs) * (kind == "row") for m in sent]
        )
        found += event_differences(config, sent, [message for message in encoded if message is not None])
    return found


def event_differences(config: Config, sent: list[VectorMessage], ours: list[Encoded]) -> Iterator[Difference]:
    seqs = [seq for message in sent for seq in message.seqs]
    for what, mine, theirs in (
        ("key", [m.key for m in ours], [m.message.key for m in sent]),
        ("bytes", [m.value for m in ours], [m.message.value for m in sent]),
    ):
        for seq, actual, expected in zip(seqs, split(what, mine), split(what, theirs), strict=True):
            event = config.case.events[seq]
            yield from equal(what, f"{config}/{event.get('schema')}.{event.get('table')}", actual, expected)


def split(what: str, framed: Iterable[bytes | None]) -> list[bytes]:
    """The events' keys or values of messages. Values are unpacked: another library packs other bytes."""
    if what == "key":
        return [key for frame in framed for key in split_keys(frame or b"")]
    return [unpack(value) for frame in framed for value in split_values(frame)]


def source(config: Config, seq: int) -> RowChange:
    """What was to be sent: the truth, with ENUM and SET as sent; index 0 and a member ``''`` are one there."""
    truth = config.truth[seq]
    assert isinstance(truth, RowChange)
    table = tables(config.case)[truth.table.schema, truth.table.name, truth.table.version]
    change = read(events(config.case.config("open"))[seq], truth.table, config.zone)
    assert isinstance(change, RowChange)
    stored = {column.name: column.stored for column in truth.table.columns}  # which Simple does not have
    columns = tuple(replace(column, stored=stored.get(column.name)) for column in table.columns)
    return replace(
        truth,
        table=replace(table, columns=columns, table_id=truth.table.table_id),
        before=exact(table, truth.before, change.before),
        after=exact(table, truth.after, change.after),
    )


def exact(table: Table, truth: Row | None, sent: Row | None) -> Row | None:
    if truth is None or sent is None:
        return truth
    numbers = {column.name for column in table.columns if column.type.name in ("enum", "set")}
    return {name: sent[name] if name in numbers else value for name, value in truth.items()}


@cache
def events(config: Config) -> dict[int, Event]:
    return {seq: event for seq, _, event in opened(config)}


def send(to: Encoder, config: Config, seq: int) -> Encoded | None:
    truth = config.truth[seq]
    if isinstance(truth, Watermark):
        return to.watermark(truth.commit_ts)
    assert isinstance(truth, SchemaChange)
    return to.ddl(truth)


def open_config(config: Config, sent: list[VectorMessage]) -> OpenConfig:
    options = config.options
    large = options["large_message_handle"]
    locations = iter(
        [
            found["ccl"]
            for message in sent
            for found in map(json.loads, split_keys(message.message.key or b""))
            if "ccl" in found
        ]
    )
    return OpenConfig(
        time_zone=config.zone,
        max_batch_size=options["max_batch_size"],
        max_message_bytes=options["max_message_bytes" if sent[0].kind == "row" else "max_message_bytes_ddl_encoder"],
        output_old_value=options["open_output_old_value"],
        only_output_updated_columns=options["only_output_updated_columns"],
        delete_only_output_handle_key_columns=options["delete_only_handle_key_columns"],
        large_message_handle=large["option"],
        store=lambda key, value: next(locations, "not kept by the original"),
        compression=large["compression"],
    )


@pytest.mark.parametrize("config", ENCODED, ids=str)
def test_encoded_messages_equal_the_bytes_sent(config: Config) -> None:
    assert unexplained("open", encode_differences(config)) == []


@pytest.mark.parametrize("config", [c for c in ENCODED if "claim_check" in c.name], ids=str)
def test_messages_kept_elsewhere_are_whole(config: Config) -> None:
    """What the original stored decodes to the truth, and what we would store holds the same events."""
    kept: list[tuple[bytes, bytes]] = []
    rows = [sent for sent in config.messages if sent.kind == "row"]
    large = replace(open_config(config, rows), store=lambda key, value: kept.append((key, value)) or "elsewhere")
    list(encoder(large).rows([source(config, seq) for sent in rows for seq in sent.seqs]))
    located = [(seq, event) for seq, _, event in opened(config) if isinstance(event, Envelope) and event.claim_check]
    assert len(kept) == len(located) == len(list(config.claim_check.glob("*")))
    found: list[Difference] = []
    for (seq, event), (key, value) in zip(located, kept, strict=True):
        stored = json.loads((config.claim_check / (event.claim_check or "").rpartition("/")[2]).read_bytes())
        for pair in ((base64.b64decode(stored["key"]), base64.b64decode(stored["value"])), (key, value)):
            (whole,) = DECODER.open_message(*pair)
            found += compare(f"{config}/", seq, whole, config.truth[seq], config.case.config("open"))
    assert unexplained("open", found) == []


@pytest.mark.parametrize("case", sorted({config.case for config in CONFIGS}, key=str), ids=str)
def test_type_codes_of_ddl_come_from_the_sql(case: Case) -> None:
    ddl = [event for event in case.events if event["kind"] == "ddl"]
    assert ddl
    assert [(e["query"], ddl_type_code(e["query"])) for e in ddl] == [(e["query"], e["ddl_type"]) for e in ddl]


def test_every_exception_is_still_needed() -> None:
    found = [found for config in CONFIGS for found in decode_differences(config)]
    found += [found for config in ENCODED for found in encode_differences(config)]
    assert unneeded("open", found) == []


def test_every_vector_file_is_read() -> None:
    files = {path for path in ROOT.glob("*/*/open*.jsonl*") if "errors" not in path.name}
    assert files == {config.path for config in CONFIGS}


@pytest.mark.parametrize("config", [c for c in CONFIGS if c.name == "open"], ids=str)
def test_a_row_alone_has_its_values(config: Config) -> None:
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
