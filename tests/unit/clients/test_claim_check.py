"""Messages kept outside Kafka: what a file may hold, where it is looked for, and what goes wrong."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.simple_examples import ROW, TABLES, UPDATE, USER, change, opened
from ticdc_spark.clients.claim_check import ClaimCheckStorage, read_stored, write_stored
from ticdc_spark.errors import MessageError, SinkFault, SourceFault, UsageError
from ticdc_spark.model import Envelope, Message, Rejected, RowChange
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import Decoder, decode
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.streams.claim_check import resolve
from ticdc_spark.streams.reader import EventReader

LARGE = change("update", 447984099186180098, ROW, {**ROW, "name": "x" * 900})
"""Too large for 800 bytes; its keys are not."""


@pytest.fixture
def storage() -> ClaimCheckStorage:
    return ClaimCheckStorage(f"memory://{uuid.uuid4()}/kept")


def test_a_file_holds_key_and_value_or_the_bare_value() -> None:
    assert write_stored(None, b"<\xff>") == b'{"key":null,"value":"PP8+"}'
    for pair in ((None, b"v"), (b"", b""), (b"k", b"{}")):
        assert read_stored(write_stored(*pair)) == pair
    for bare in (UPDATE.encode(), b"", b"\xff", b'{"key":null,"value":1}', b'{"key":null,"value":"","more":1}'):
        assert read_stored(bare) == (None, bare)


def test_a_file_is_found_by_the_last_part_of_its_location(tmp_path: Path) -> None:
    (tmp_path / "a-1.json").write_bytes(b"content")
    for uri in (str(tmp_path), f"{tmp_path}/", tmp_path.as_uri()):
        here = ClaimCheckStorage(uri)
        assert here.fetch("s3://elsewhere/and/deeper/a-1.json") == here.fetch("a-1.json") == b"content"


@pytest.mark.parametrize("location", ["", "s3://bucket/", "a/..", "a/.", "a/.hidden", "a/x%2Fy", "x\\y", "a/b\n"])
def test_a_message_cannot_name_just_any_file(storage: ClaimCheckStorage, location: str) -> None:
    with pytest.raises(MessageError, match="names no file"):
        storage.fetch(location)


def test_what_was_stored_is_there_under_its_location(storage: ClaimCheckStorage, tmp_path: Path) -> None:
    for here in (storage, ClaimCheckStorage(f"{tmp_path}/made/new/")):
        first, second = here.store_message(b"k", b"v"), here.store(b"bare")
        assert first != second and first.rpartition("/")[0] == here.uri and first.endswith(".json")
        assert (here.fetch(first), here.fetch(second)) == (write_stored(b"k", b"v"), b"bare")


def test_a_broken_storage_stops_the_job(storage: ClaimCheckStorage, tmp_path: Path) -> None:
    with pytest.raises(SourceFault, match=r"kept at s3://b/gone\.json is not in the claim check storage memory://"):
        storage.fetch("s3://b/gone.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(SourceFault, match=r"cannot read folder\.json"):
        ClaimCheckStorage(str(tmp_path)).fetch("folder.json")
    (tmp_path / "file").touch()
    with pytest.raises(SinkFault, match="cannot write to the claim check storage"):
        ClaimCheckStorage(f"{tmp_path}/file/in").store(b"")


@pytest.mark.parametrize("uri", ["nothing://x", "s3://bucket/folder?region=x"])
def test_a_storage_that_is_not_known_is_refused(uri: str) -> None:
    with pytest.raises(UsageError, match="claim check storage"):
        ClaimCheckStorage(uri)


def located(storage: ClaimCheckStorage, **config: Any) -> Envelope:
    to = encoder(SimpleConfig(large_message_handle="claim-check", max_message_bytes=800, store=storage.store, **config))
    (encoded,) = to.rows([LARGE])
    event = opened(encoded.value or b"")
    assert isinstance(event, Envelope) and event.partial and event.claim_check
    return event


@pytest.mark.parametrize("config", [{}, {"encoding_format": "avro"}])
def test_a_row_is_whole_again(storage: ClaimCheckStorage, config: dict[str, Any]) -> None:
    whole = resolve(DECODER, located(storage, **config), storage.fetch)
    assert decode(DECODER, whole.key, whole.value, TABLES) == [replace(LARGE, table=USER)]
    assert isinstance(whole.event, Envelope) and whole.event.claim_check is None and not whole.event.partial


def test_a_file_that_does_not_hold_the_row_rejects_it(storage: ClaimCheckStorage) -> None:
    event = located(storage)

    def reason(content: bytes) -> str:
        found = resolve(DECODER, event, lambda _: content).event
        assert isinstance(found, Rejected)
        return found.reason

    assert "not Simple JSON: begins with" in reason(b"nonsense")
    assert reason(b"").startswith(f"claim check {event.claim_check}: a Simple message has a value")
    assert "the file holds another event" in reason(UPDATE.replace("447984099186180098", "5").encode())
    assert "the file holds another event" in reason(b'{"version":1,"type":"WATERMARK","commitTs":5}')
    nameless = resolve(DECODER, replace(event, claim_check="/"), storage.fetch).event
    assert isinstance(nameless, Rejected) and "names no file" in nameless.reason


def test_a_file_of_several_events_is_none_of_ours(storage: ClaimCheckStorage) -> None:
    to = target_encoder("open", {})
    (both,) = to.rows([LARGE, LARGE])
    event = replace(located(storage), schema_key="")
    found = resolve(decoder("open"), event, lambda _: write_stored(both.key, both.value or b"")).event
    assert isinstance(found, Rejected) and "2 events in a file, which holds one" in found.reason


@pytest.mark.parametrize("protocol", ["open", "canal-json", "simple"])
@pytest.mark.parametrize("compression", ["none", "lz4", "snappy"])
def test_every_protocol_keeps_and_finds_large_rows(storage: ClaimCheckStorage, protocol: str, compression: str) -> None:
    options = {
        "large-message-handle-option": "claim-check",
        "large-message-handle-compression": compression,
        "claim-check-storage-uri": storage.uri,
        "max-message-bytes": "1000" if protocol == "canal-json" else "500",
    }
    noise = os.urandom(900).hex()  # so that it stays large when compressed
    large = replace(LARGE, after={**ROW, "name": noise})
    boot = [] if protocol != "simple" else [encoder(SimpleConfig()).bootstrap(USER)]
    for raw in [{}] if protocol == "open" else [{}, {"claim-check-raw-value": "true"}]:
        (sent,) = target_encoder(protocol, {**options, **raw}).rows([large])
        (whole,) = read([*boot, sent], decoder(protocol), storage)
        assert whole.after == large.after and not whole.partial
        (keys,) = read([*boot, sent], decoder(protocol), None)
        assert keys.after == {"id": "1"} and keys.partial


def read(sent: list[Any], protocol: Decoder, storage: ClaimCheckStorage | None) -> list[RowChange]:
    reader = EventReader(protocol, fetch=storage.fetch if storage else None)
    messages = [Message(topic="t", partition=0, offset=at, key=o.key, value=o.value) for at, o in enumerate(sent)]
    found = [one for message in messages for one in reader.read(message)]
    assert [one.message.offset for one in found] == [*range(len(sent))]
    return [one.event for one in found if isinstance(one.event, RowChange)]


@pytest.mark.parametrize(
    ("protocol", "options", "message"),
    [
        ("simple", {"claim-check-storage-uri": "/x"}, "needs large-message-handle-option=claim-check"),
        ("simple", {"large-message-handle-option": "claim-check"}, "needs claim-check-storage-uri"),
        ("open", {"claim-check-raw-value": "true"}, "no option claim-check-raw-value"),
        ("simple", {"claim-check-raw-value": "yes"}, "allowed: true, false"),
    ],
)
def test_options_of_large_messages_that_do_not_go_together(
    protocol: str, options: dict[str, str], message: str, tmp_path: Path
) -> None:
    if "claim-check-raw-value" in options:
        options |= {"large-message-handle-option": "claim-check", "claim-check-storage-uri": str(tmp_path)}
    with pytest.raises(UsageError, match=message):
        target_encoder(protocol, options)


@pytest.mark.parametrize("protocol", ["open", "canal-json", "simple"])
def test_a_large_row_that_cannot_be_sent_names_table_size_and_limit(protocol: str) -> None:
    with pytest.raises(MessageError, match=r"`simple`\.`user` takes \d+ bytes; max-message-bytes is 400"):
        list(target_encoder(protocol, {"max-message-bytes": "400"}).rows([LARGE]))
    keyless = replace(LARGE, table=replace(USER, indexes=()))
    small = {"max-message-bytes": "400", "large-message-handle-option": "handle-key-only"}
    with pytest.raises(MessageError, match="has no handle key"):
        list(target_encoder(protocol, small).rows([keyless]))
