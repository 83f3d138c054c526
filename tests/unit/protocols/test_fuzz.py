"""Damaged and hostile bytes, for every protocol: each is read or rejected, in bounded time and memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from functools import cache
from resource import RUSAGE_SELF, getrusage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import EVERYTHING, WIRES, Wire, changes_of
from ticdc_spark.model import Bootstrap, Rejected, Row, RowChange, SchemaChange, Watermark
from ticdc_spark.protocols.base import Decoder, Encoded
from ticdc_spark.protocols.open.frames import frame_key, frame_value
from ticdc_spark.wire.compression import compress

KINDS = (RowChange, SchemaChange, Watermark, Bootstrap, Rejected)
NULLS: Row = {column.name: "1" if column.name == "id" else None for column in EVERYTHING.columns}
FUZZED = {
    *("simple", "simple in avro", "open in snappy, in batches", "canal-json"),
    *("debezium", "debezium-avro", "avro, extended"),
}
"""A form of each decoder."""
every_wire = pytest.mark.parametrize("wire", [wire for wire in WIRES if wire.name in FUZZED], ids=str)


@cache
def sent_by(wire: Wire) -> tuple[list[Encoded], Decoder]:
    """Messages of every kind that the protocol has: rows (values, and all NULL), a DDL, a watermark, a schema."""
    to, reads = wire.to()
    rows = [{name: SAMPLES.get(name, value) for name, value in NULLS.items()}, NULLS, NULLS]
    query = "ALTER TABLE `t` ADD COLUMN c INT"
    ddl = SchemaChange(
        commit_ts=9 << 18, query=query, kind="ALTER", schema="s", name="t", table=EVERYTHING, pre_table=EVERYTHING
    )
    others = [to.ddl(ddl), to.watermark(9 << 18), to.bootstrap(EVERYTHING)]
    sent = [*to.rows(changes_of(EVERYTHING, rows, 8 << 18)), *(one for one in others if one is not None)]
    return sent, reads()


SAMPLES = {
    column.name: b"\xff" * 4 if column.type.name == "binary" else b"\0x" if column.type.charset == "binary" else "x"
    for column in EVERYTHING.columns
    if column.type.name in ("varchar", "char", "longtext", "binary", "varbinary", "longblob")
}


def check(wire: Wire, key: bytes | None, value: bytes | None, decoder: Decoder) -> None:
    for change in wire.receive([Encoded(key, value)], decoder, EVERYTHING):
        assert isinstance(change, KINDS)
        if isinstance(change, Rejected):
            assert change.reason
            assert len(change.reason) < 2000


@every_wire
def test_what_is_damaged_here_can_be_read(wire: Wire) -> None:
    sent, decoder = sent_by(wire)
    read = [change for one in sent for change in wire.receive([one], decoder, EVERYTHING)]
    assert not [change for change in read if isinstance(change, Rejected)]
    assert sum(isinstance(change, RowChange) for change in read) == 3


@every_wire
@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=80))
def test_arbitrary_bytes(wire: Wire, key: bytes | None, value: bytes | None) -> None:
    _, decoder = sent_by(wire)
    check(wire, key, value, decoder)


HOSTILE = (b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\xff" * 9 + b"\x01", b"\x00" * 8, b"[" * 9, b'"', b"\\u", b"\x80")
"""Lengths of any kind that are too long, too short or negative; nesting; text that does not end."""


@st.composite
def damage(draw: st.DrawFn, raw: bytes) -> bytes:
    """Bits that flip, stretches that go, come twice or are replaced, and an end that is missing."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(raw) - 1, 0)))
        end = min(at + draw(st.integers(0, 9)), len(raw))
        match draw(st.integers(0, 5)):
            case 0 if raw:
                raw = raw[:at] + bytes([raw[at] ^ 1 << draw(st.integers(0, 7))]) + raw[at + 1 :]
            case 1:
                raw = raw[:at]
            case 2:
                raw = raw[:at] + raw[end:]
            case 3:
                raw = raw[:end] + raw[at:]
            case 4:
                raw = raw[:at] + draw(st.sampled_from(HOSTILE)) + raw[end:]
            case _:
                raw = raw[:at] + draw(st.binary(max_size=9)) + raw[end:]
    return raw


@every_wire
@given(data=st.data())
def test_damaged_messages(wire: Wire, data: st.DataObject) -> None:
    sent, decoder = sent_by(wire)
    one = data.draw(st.sampled_from(sent))
    key, value = one.key, one.value
    if key and (value is None or data.draw(st.booleans())):
        key = data.draw(damage(key))
    else:
        value = data.draw(damage(value or b""))
    check(wire, key, value, decoder)


@every_wire
def test_every_end_that_is_missing(wire: Wire) -> None:
    """No prefix of a row's value is taken for a row; but where values stand behind each other, whole ones are."""
    sent, decoder = sent_by(wire)
    row = sent[1]
    value = row.value if row.value is not None else sent[0].value
    assert value is not None
    step = max(len(value) // 150, 1)
    for end in range(0, len(value), step):
        for change in wire.receive([Encoded(row.key, value[:end])], decoder, EVERYTHING):
            assert isinstance(change, Rejected), end


MEGABYTE = 1 << 20
DEEP = 200_000


def bombs(wire: Wire) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Small messages that claim to be large, are nested deeply, or unpack to much."""
    sent, _ = sent_by(wire)
    key, value = sent[0].key, sent[0].value or b""
    huge = (2**63 - 1).to_bytes(8)
    for start in (b"", b"\x16\2", b"\0\0\0\0\1", b"\0\0\0\0\2", b"\1", b"\2", b"\3", b"\x04\x22\x4d\x18"):
        for tail in (huge, b"\xff" * 9 + b"\1", b"\xfe\xff\xff\xff\x0f" * 4, huge * 100):
            yield key, start + tail
            yield start + tail, value
    for at in range(0, len(value), max(len(value) // 60, 1)):
        yield key, value[:at] + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + value[at:]
    for deep in (b"[" * DEEP, b'{"a":' * DEEP, b'{"payload":' * DEEP):
        for wrapped in (deep, b'{"version":1,"type":"INSERT","data":' + deep, b'{"payload":{"source":' + deep):
            yield key, wrapped
            yield frame_key([b'{"ts":1,"scm":"s","tbl":"t","t":1}']), frame_value([wrapped])
    much = compress(b" " * (64 * MEGABYTE), "lz4")
    yield key, much
    yield key, b"\xff\xff\xff\xff\x0f" + b"\xfe" * 64  # snappy of 4 GiB
    yield frame_key([b'{"ts":1,"scm":"s","tbl":"t","t":1}']), frame_value([much])


@every_wire
def test_bombs_take_neither_time_nor_memory(wire: Wire) -> None:
    _, decoder = sent_by(wire)
    messages, most = list(bombs(wire)), getrusage(RUSAGE_SELF).ru_maxrss
    for key, value in messages:
        size = len(key or b"") + len(value or b"")
        tracemalloc.start()
        started = time.process_time()
        check(wire, key, value, decoder)
        spent, (_, peak) = time.process_time() - started, tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # of a frame of lz4 256 times its size and no more is unpacked, and passed on as a copy
        assert peak < 8 * MEGABYTE + 3 * 256 * size
        assert spent < 2
    # Arrow's memory, which Python does not trace; in KiB
    assert getrusage(RUSAGE_SELF).ru_maxrss - most < 512 * 1024
