"""Simple, in JSON and in Avro, against every vector: decoded values against the truth, encoded bytes against bytes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from functools import cache

import msgspec
import pytest

from tests.golden.exceptions import Difference, unexplained, unneeded
from tests.support.vectors import ROOT, Config, VectorMessage, configs, named, needs_vectors
from ticdc_spark import mysql
from ticdc_spark.changes.opening import Opener, Opening, of_messages
from ticdc_spark.model import Bootstrap, Change, Envelope, Rejected, Row, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.protocols.base import Encoded, Encoder, ReadOptions, read_envelope
from ticdc_spark.protocols.simple.avro.decode import MARK, read_message, write_message
from ticdc_spark.protocols.simple.avro.rows import skip_value
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.protocols.simple.message import WireMessage
from ticdc_spark.streams.claim_check import whole_messages
from ticdc_spark.wire.avro_binary import read_block, read_bytes
from ticdc_spark.wire.compression import unpack

pytestmark = needs_vectors

CONFIGS = configs("simple")
ENCODED = [config for config in CONFIGS if config.case.producer == "tiflow"]
every_config = pytest.mark.parametrize("config", CONFIGS, ids=str)

# schema, name, version; a RENAME keeps the version, so the name is part of the key
Tables = dict[tuple[str, str, str], Table]


@cache
def changes(config: Config) -> list[tuple[VectorMessage, Change | Rejected]]:
    """Every message decoded; rows with the schemas found anywhere in the file, for a row may come first."""
    opened = [(sent, DECODER.open_message(sent.message.key, sent.message.value)) for sent in config.messages]
    assert all(len(events) == 1 for _, events in opened)
    tables: Tables = {}
    for _, (event,) in opened:
        found = [event.table, event.pre_table] if isinstance(event, SchemaChange) else []
        found += [event.table] if isinstance(event, Bootstrap) else []
        tables |= {(table.schema, table.name, str(table.version)): table for table in found if table}
    return [
        (sent, read_envelope(DECODER, event, tables, ReadOptions()) if isinstance(event, Envelope) else event)
        for sent, (event,) in opened
    ]


@every_config
def test_messages_opened_together_are_what_they_are_one_by_one(config: Config) -> None:
    messages = of_messages([sent.message for sent in config.messages])
    found = Opener(Opening(protocol="simple")).open(messages)
    events = {at: event for at, _, event in found.others} | dict(zip(found.origin, found.rows, strict=True))
    one_by_one = [DECODER.open_message(None, value) for value in messages.values]
    whole = whole_messages(DECODER, one_by_one, None)
    assert [[events[at]] for at in range(len(messages.values))] == [[*one] for one in whole]


@cache
def decode_differences(config: Config) -> list[Difference]:
    return [found for sent, change in changes(config) for found in compare(f"{config}/", sent, change, config)]


def compare(where: str, sent: VectorMessage, change: Change | Rejected, config: Config) -> Iterator[Difference]:
    (seq,) = sent.seqs
    truth = config.truth[seq]
    if isinstance(change, Rejected):
        yield Difference("message", f"{where}{seq}", change.reason, truth)
    elif type(change) is not type(truth):
        yield Difference("kind", f"{where}{seq}", change, truth)
    elif isinstance(change, Watermark):
        assert isinstance(truth, Watermark)
        yield from equal("commit_ts", f"{where}{seq}", change.commit_ts, truth.commit_ts)
    elif isinstance(change, Bootstrap):
        assert isinstance(truth, Bootstrap)
        yield from compare_table(where, change.table, truth.table)
    elif isinstance(change, SchemaChange):
        assert isinstance(truth, SchemaChange)
        yield from compare_ddl(where, change, truth)
    else:
        assert isinstance(truth, RowChange)
        yield from compare_row(where, change, truth, config)


def equal(what: str, where: str, actual: object, expected: object) -> Iterator[Difference]:
    if actual != expected:
        yield Difference(what, where, actual, expected)


def compare_ddl(where: str, change: SchemaChange, truth: SchemaChange) -> Iterator[Difference]:
    yield from equal("ddl", where, (change.commit_ts, change.query), (truth.commit_ts, truth.query))
    if change.table and truth.table:
        yield from compare_table(where, change.table, truth.table)
        if change.kind != "RENAME":
            yield from equal("name", where, (change.schema, change.name), (truth.schema, truth.name))
    else:
        # a database's DDL has no table; its SQL names what it is about
        yield from equal("table", where, change.table, truth.table)
        yield from equal("name", where, (change.schema, change.name), ("", ""))


def compare_table(where: str, table: Table, truth: Table) -> Iterator[Difference]:
    where = f"{where}{table.schema}.{table.name}"
    ids = (table.schema, table.name, table.table_id, table.version)
    yield from equal("table", where, ids, (truth.schema, truth.name, truth.table_id, truth.version))
    # the classic architecture sorts columns by id
    actual, expected = ({column.name: column for column in found.columns} for found in (table, truth))
    yield from equal("columns", where, actual.keys(), expected.keys())
    for name in actual.keys() & expected.keys():
        ours, theirs = actual[name], expected[name]
        place = f"{where}.{name}"
        if ours.type != theirs.type:
            yield Difference("type", place, mysql.format_type(ours.type), mysql.format_type(theirs.type))
        yield from equal("nullable", place, ours.nullable, theirs.nullable)
        yield from equal("default", place, ours.default, theirs.default)
    if truth.indexes:
        yield from equal("key", where, set(mysql.handle_key(table)), set(truth.indexes[0].columns))


def compare_row(where: str, change: RowChange, truth: RowChange, config: Config) -> Iterator[Difference]:
    table = change.table
    where = f"{where}{table.schema}.{table.name}"
    about = (change.op, change.commit_ts, change.table_id, table.schema, table.name, table.version)
    other = truth.table
    yield from equal(
        "row", where, about, (truth.op, truth.commit_ts, truth.table_id, other.schema, other.name, other.version)
    )
    for actual, expected in ((change.before, truth.before), (change.after, truth.after)):
        yield from compare_image(where, change, named(table, actual), named(table, expected))
    yield from equal("claim check", where, change.claim_check is not None, change.partial and "claim" in config.name)
    if config.options["enable_row_checksum"] and truth.checksum and (truth.checksum.current or truth.checksum.previous):
        assert change.checksum
        yield from equal(
            "checksum",
            where,
            (change.checksum.current, change.checksum.previous),
            (truth.checksum.current, truth.checksum.previous),
        )
    else:
        yield from equal(
            "checksum",
            where,
            change.checksum and (change.checksum.current, change.checksum.previous),
            (0, 0) if change.checksum else None,
        )


def compare_image(where: str, change: RowChange, actual: Row | None, expected: Row | None) -> Iterator[Difference]:
    if actual is None or expected is None:
        yield from equal("image", where, actual, expected)
        return
    columns = mysql.handle_key(change.table) if change.partial else expected.keys()
    yield from equal("columns", where, actual.keys(), set(columns))
    for name in actual.keys() & expected.keys():
        yield from equal("value", f"{where}.{name}", actual[name], expected[name])


@every_config
def test_decoded_messages_equal_the_truth(config: Config) -> None:
    assert config.messages
    assert unexplained("simple", decode_differences(config)) == []


@pytest.mark.parametrize("config", [c for c in CONFIGS if "claim_check" in c.name], ids=str)
def test_messages_kept_elsewhere_equal_the_truth(config: Config) -> None:
    whole = {sent.seqs: change for sent, change in changes(config.case.config("simple_json"))}
    kept = 0
    for sent, change in changes(config):
        if isinstance(change, RowChange) and change.claim_check:
            kept += 1
            (event,) = DECODER.open_message(None, stored(config, change.claim_check))
            assert isinstance(event, Envelope)
            key = (change.table.schema, change.table.name, event.schema_key)
            assert read_envelope(DECODER, event, {key: change.table}, ReadOptions()) == whole[sent.seqs]
    assert kept == len(list(config.claim_check.glob("*")))


def stored(config: Config, location: str) -> bytes:
    raw = (config.claim_check / location.rpartition("/")[2]).read_bytes()
    if config.options["large_message_handle"]["claim_check_raw_value"]:
        return raw
    return base64.b64decode(json.loads(raw)["value"])


@cache
def encode_differences(config: Config) -> list[Difference]:
    whole = {} if "checksum" in config.case.name else dict(sources(config))
    found: list[Difference] = []
    for sent, decoded in changes(config):
        assert not isinstance(decoded, Rejected)
        assert sent.message.value is not None
        original = sent.message.value if sent.message.value[:1] == MARK else unpack(sent.message.value)
        source = whole.get(sent.seqs, decoded)
        kept: list[bytes] = []
        location = decoded.claim_check if isinstance(decoded, RowChange) else None
        if isinstance(source, RowChange) and isinstance(decoded, RowChange):
            source = msgspec.structs.replace(source, checksum=decoded.checksum)
        encoded = encode(encoder(simple_config(config, original, location, kept)), source)
        assert encoded is not None
        where = f"{config}/{sent.seqs[0]}"
        found += equal("key", where, encoded.key, sent.message.key)
        if config.options["encoding_format"] == "avro":
            assert encoded.value is not None
            found += equal("bytes", where, ordered(encoded.value), ordered(sent.message.value))
            expected = [ordered(with_build_ts(stored(config, location), sent))] if location else []
            found += equal("kept", where, [*map(ordered, kept)], expected)
            continue
        found += equal("bytes", where, encoded.value, sent.message.value)
        found += equal("kept", where, kept, [with_build_ts(stored(config, location), sent)] if location else [])
    return found


def ordered(value: bytes) -> tuple[int, bytes, list[bytes], list[bytes]]:
    """An Avro message with the entries of its maps, whose order is random, apart and sorted; and its length."""
    message = read_message(value)
    bare = msgspec.structs.replace(message, data=msgspec.Raw(b""), old=msgspec.Raw(b""))
    return len(value), write_message(bare), sorted(entries(bytes(message.data))), sorted(entries(bytes(message.old)))


def entries(image: bytes) -> Iterator[bytes]:
    if image:
        count, at = read_block(image, 1)
        for _ in range(count):
            start = at
            at = skip_value(image, read_bytes(image, at)[1])
            yield image[start:at]
        assert image[at:] == b"\0"


def sources(config: Config) -> Iterator[tuple[tuple[int, ...], Change]]:
    """What was to be sent: the decoded changes, with the bytes that the wire lost put back from the truth."""
    plain = config.case.config("simple_json")
    for sent, change in changes(plain):
        assert not isinstance(change, Rejected)
        truth = plain.truth[sent.seqs[0]]
        if isinstance(change, RowChange) and isinstance(truth, RowChange):
            change = msgspec.structs.replace(
                change, before=restored(change.before, truth.before), after=restored(change.after, truth.after)
            )
        yield sent.seqs, change


def restored(row: Row | None, truth: Row | None) -> Row | None:
    if row is None or truth is None:
        return None
    return {name: truth[name] if isinstance(truth[name], bytes) else value for name, value in row.items()}


BUILD_TS = re.compile(rb'"buildTs":(\d+)')


def with_build_ts(value: bytes, sent: VectorMessage) -> bytes:
    """A stored message with the buildTs of the message that points to it: the clock ran on between them."""
    assert sent.message.value is not None
    if value[:1] == MARK:
        build_ts = read_message(sent.message.value).build_ts
        return write_message(msgspec.structs.replace(read_message(value), build_ts=build_ts))
    now = BUILD_TS.search(sent.message.value)
    assert now
    return BUILD_TS.sub(now.group(0), value, count=1)


def simple_config(config: Config, value: bytes, location: str | None, kept: list[bytes]) -> SimpleConfig:
    message = read_message(value) if value[:1] == MARK else msgspec.json.decode(value, type=WireMessage)

    def store(whole: bytes) -> str:
        kept.append(whole)
        return location or "not kept by the original"

    options = config.options
    # the DDL and watermark encoder kept the default limit
    small = message.type in ("INSERT", "UPDATE", "DELETE")
    return SimpleConfig(
        encoding_format=options["encoding_format"],
        time_zone=config.zone,
        enable_row_checksum=options["enable_row_checksum"],
        compression=options["large_message_handle"]["compression"],
        max_message_bytes=options["max_message_bytes" if small else "max_message_bytes_ddl_encoder"],
        large_message_handle=options["large_message_handle"]["option"],
        store=store,
        build_ts=lambda: message.build_ts or 0,
    )


def encode(to: Encoder, change: Change) -> Encoded | None:
    if isinstance(change, RowChange):
        (encoded,) = to.rows([change])
        return encoded
    if isinstance(change, SchemaChange):
        return to.ddl(change)
    return to.watermark(change.commit_ts) if isinstance(change, Watermark) else to.bootstrap(change.table)


@pytest.mark.parametrize("config", ENCODED, ids=str)
def test_encoded_messages_equal_the_bytes_sent(config: Config) -> None:
    assert unexplained("simple", encode_differences(config)) == []


def test_every_exception_is_still_needed() -> None:
    found = [difference for config in CONFIGS for difference in decode_differences(config)]
    found += [difference for config in ENCODED for difference in encode_differences(config)]
    assert unneeded("simple", found) == []


def test_every_vector_file_is_read() -> None:
    files = {path for path in ROOT.glob("*/*/simple*.jsonl*") if "errors" not in path.name}
    assert files == {config.path for config in CONFIGS}
    assert sum(len(config.messages) for config in CONFIGS) == sum(len(changes(config)) for config in CONFIGS)
