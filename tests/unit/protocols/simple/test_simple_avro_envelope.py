"""Simple in Avro: row messages read in one step are read as by the careful way, and what is unusual still is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.simple_examples import BUILD_TS, ROW, USER, change, one_column, read, reason
from ticdc_spark import mysql
from ticdc_spark.model import Checksum, Envelope
from ticdc_spark.protocols.base import decode
from ticdc_spark.protocols.simple.avro.decode import read_message
from ticdc_spark.protocols.simple.avro.envelope import read_envelope
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.protocols.simple.message import read_checksum
from ticdc_spark.wire.avro_binary import read_long, write_long, write_text

TO = encoder(SimpleConfig(encoding_format="avro", enable_row_checksum=True, build_ts=lambda: BUILD_TS))
SUMS = Checksum(version=1, corrupted=True, current=2**32 - 1, previous=3)
CHANGES = [
    change("insert", 447987408682614795, None, ROW),
    change("update", 6, ROW, {**ROW, "name": None}),
    replace(change("delete", 7, ROW), checksum=SUMS),
    replace(change("delete", 8, ROW), partial=True),
]
MESSAGES = [sent.value or b"" for sent in TO.rows(CHANGES)]


def carefully(value: bytes) -> Any:
    """What ``open_message`` makes of the careful way's message, or its error."""
    message = read_message(value)
    return (
        message.version,
        message.type.lower(),
        message.database,
        message.table,
        message.commit_ts,
        None if message.type == "INSERT" else bytes(message.old),
        None if message.type == "DELETE" else bytes(message.data),
        message.table_id or None,
        str(message.schema_version),
        message.handle_key_only,
        read_checksum(message.checksum),
        message.claim_check_location or None,
    )


def fields(event: Envelope) -> Any:
    return (
        1,
        event.op,
        event.schema,
        event.table,
        event.commit_ts,
        event.before,
        event.after,
        event.table_id,
        event.schema_key,
        event.partial,
        event.checksum,
        event.claim_check,
    )


@pytest.mark.parametrize("value", MESSAGES)
def test_usual_messages_are_read_in_one_step_as_by_the_careful_way(value: bytes) -> None:
    event = read_envelope(value)
    assert event is not None
    assert fields(event) == carefully(value)


@given(st.sampled_from(MESSAGES), st.data())
def test_what_is_read_in_one_step_is_read_the_same_by_the_careful_way(raw: bytes, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 2))):
        start = data.draw(st.integers(3, min(len(raw) - 1, 50)))
        raw = raw[:start] + data.draw(st.binary(max_size=2)) + raw[start + data.draw(st.integers(0, 2)) :]
    event = read_envelope(raw)
    if event is not None:
        assert fields(event) == carefully(raw)


@pytest.mark.parametrize("name", ["x" * 63, "x" * 64, "数" * 64])
def test_names_of_any_length(name: str) -> None:
    table = replace(USER, schema=name, name=name[::-1] + "y")
    row = replace(CHANGES[1], table=table)
    (sent,) = TO.rows([row])
    key = (table.schema, table.name, str(table.version))
    assert decode(DECODER, None, sent.value, {key: table}) == [row]


def test_a_length_of_more_bytes_than_it_needs_hides_no_names() -> None:
    # taken for one of a byte, 0x82 would reach to the fields behind the filling
    names = b"\x82\0s\2t"
    filling = b"x" * (1 + 65 - len(names))
    assert read_envelope(b"\x16\6\6\2" + names + filling + b"\2y" + b"\2\0\2\2\2\0\0\0\2\0\0") is None


def test_numbers_of_ten_bytes() -> None:
    row = replace(CHANGES[0], commit_ts=2**63 - 1, table_id=2**62)
    (sent,) = TO.rows([row])
    (event,) = DECODER.open_message(None, sent.value)
    assert isinstance(event, Envelope)
    assert (event.commit_ts, event.table_id) == (2**63 - 1, 2**62)


HEAD = b"\x16\6\6\2\2s\2t\2"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (HEAD + b"\0\1\2\2\0\0\0\2\0\0", "a timestamp or version of -1"),
        (HEAD + b"\0\2\2\1\0\0\0\2\0\0", "a timestamp or version of -1"),
        (HEAD + b"\0\2\2\0\0\0\0\2\0\0", "without field `schemaVersion`"),
        (HEAD + b"\0\2\2\2\0\0\2\2\0\1\0\2\0\0", "a checksum of -1 and 0"),
        (HEAD + b"\0\2\2\2\0\0\0\2\0\2", "INSERT with an image that it should not have"),
        (HEAD + b"\4\2\2\2\0\0\0\2\0", "DELETE with an image that it should not have"),
        (HEAD + b"\4\2\2\2\0\0\0\2\2\4id\2\2\0\0", "DELETE with an image that it should not have"),
        (HEAD + b"\2\2\2\2\0\0\0\2\0\0", "without field `old`"),
        (HEAD + b"\2\2\2\2\0\0\0\2\2\2a\x08" + write_long(2**40), "an Avro length of"),
        (HEAD + b"\2\2\2\2\0\0\0\2\2\2a\x08\x7e", "ends too early"),
        (b"\x16\6\6\2\2\xff\2t\2\0\2\2\2\0\0\0\2\0\0", "not UTF-8"),
        (b"\x16\6\6\2\0\2t\2\0\2\2\2\0\0\0\2\0\0", "without field `database`"),
        (b"\x16\6\6\4\2s\2t\2\0\2\2\2\0\0\0\2\0\0", "field `version` is 2"),
    ],
)
def test_what_is_wrong_is_reported(message: bytes, expected: str) -> None:
    assert expected in reason(message)


@pytest.mark.parametrize("text", ["", "x" * 63, "x" * 64, "é" * 31 + "x", "é" * 32, b"\xff" * 63, b"\xff" * 64])
def test_text_of_any_length_both_ways(text: str | bytes) -> None:
    table = one_column(mysql.parse_type("text charset utf8mb4"))
    (sent,) = TO.rows([replace(CHANGES[0], table=table, after={"c": text})])
    (event,) = DECODER.open_message(None, sent.value)
    assert isinstance(event, Envelope) and event.after is not None
    raw = text if isinstance(text, bytes) else text.encode()
    assert event.after == b"\2\2" + write_text("c") + b"\x08" + write_long(len(raw)) + raw + b"\0"
    assert read([event.after], table).values == [[text]]


@pytest.mark.parametrize("end", [b"\x7e", b"\x7ex", b"\x04x\0"])
def test_short_text_that_reaches_beyond_the_image_is_bad(end: bytes) -> None:
    table = one_column(mysql.parse_type("text charset utf8mb4"))
    assert "ends too early" in read([b"\2\2" + write_text("c") + b"\x08" + end], table).bad[0]


def test_text_of_a_negative_length_is_bad() -> None:
    table = one_column(mysql.parse_type("text charset utf8mb4"))
    assert "an Avro length of -2" in read([b"\2\2" + write_text("c") + b"\x08\3x\0"], table).bad[0]


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**30), 2**30))
def test_numbers_are_written_as_they_are_read(number: int) -> None:
    written = write_long(number)
    assert read_long(written, 0) == (number, len(written))
    assert len(written) == max(1, -(-((number << 1) ^ (number >> 63)).bit_length() // 7))
