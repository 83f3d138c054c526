"""MySQL's bytes of a VECTOR, as text."""

from __future__ import annotations

import struct

import pytest

from ticdc_spark.errors import MessageError
from ticdc_spark.mysql.vectors import vector_text


def test_numbers_are_the_shortest_that_read_back() -> None:
    assert vector_text(struct.pack("<4f", 1, 0.1, -3e10, 1e-40)) == "[1,0.1,-30000000000,1e-40]"
    assert vector_text(b"") == "[]"


@pytest.mark.parametrize("data", [b"\0\0\0", b"\0\0\x80\x7f", b"\0\0\xc0\x7f"])
def test_bytes_that_are_no_numbers_are_refused(data: bytes) -> None:
    with pytest.raises(MessageError):
        vector_text(data)
