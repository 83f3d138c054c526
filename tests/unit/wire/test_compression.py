"""Compressed values are distinguished from JSON by their first bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.errors import MessageError
from ticdc_spark.wire.compression import Compression, compress, is_json, unpack

SPACES = st.text(" \t\r\n", max_size=5).map(str.encode)


@given(before=SPACES, within=SPACES, rest=st.binary(max_size=40))
def test_json_may_have_whitespace_before_its_first_key(before: bytes, within: bytes, rest: bytes) -> None:
    value = before + b"{" + within + b'"u":1}' + rest
    assert is_json(value) and unpack(value) == value


@pytest.mark.parametrize("compression", ["snappy", "lz4"])
@pytest.mark.parametrize("name", ["", "i", "id", "ids", "i" * 8, "i" * 90, "i" * 99])
def test_a_compressed_value_is_never_taken_for_json_with_whitespace(compression: Compression, name: str) -> None:
    for field in "upd":
        value = f'{{"{field}":{{"{name}":{{"t":1,"f":1,"v":1}}}}}}'.encode()
        assert not is_json(compress(value, compression))
        assert unpack(compress(value, compression)) == value


def test_a_snappy_value_that_begins_like_json_with_whitespace_is_unpacked() -> None:
    # 32 bytes, of which 9 are unchanged, as Go's snappy packs it: then four bytes from 9 bytes before, and the rest
    value = b'{"u":{"id":{"t":1,"f":1,"v":1}}}'
    packed = b'\x20\x20{"u":{"id' + bytes([0x01, 6]) + bytes([(19 - 1) << 2]) + value[13:]
    assert unpack(packed) == value


@pytest.mark.parametrize("value", [b"  [1]", b"\n", b"{x", b" { {", b"\xef\xbb\xbf{}"])
def test_what_is_neither_has_a_reason(value: bytes) -> None:
    with pytest.raises(MessageError, match="neither JSON nor snappy nor lz4"):
        unpack(value)
