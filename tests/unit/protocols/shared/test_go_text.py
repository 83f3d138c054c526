"""Text and floats as Go writes them, there and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.errors import MessageError
from ticdc_spark.protocols.shared.go_text import (
    escape_html,
    escape_html_text,
    go_float,
    go_quote,
    go_unquote,
    quote,
    quote_long,
)


@given(st.binary(max_size=40))
def test_quoted_bytes_come_back(raw: bytes) -> None:
    assert go_unquote(go_quote(raw)) == raw


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        (r"\\x41\x41", rb"\x41A"),  # a backslash of its own, not an escape of two digits
        (r"\xff\u00e9é\"\n", b"\xff" + 'éé"\n'.encode()),
        (r"é\xc3\xa9\"\n", 'éé"\n'.encode()),
        (r"\377\000", b"\xff\0"),
        (r"\U0001f600", "😀".encode()),
    ],
)
def test_escapes_are_read_as_go_means_them(text: str, raw: bytes) -> None:
    assert go_unquote(text) == raw


@pytest.mark.parametrize(
    "text", ["\\", "\\x4", "a\\q", "\\'", "\\N{DIGIT ONE}", "\\\n", "\\777", "\\7", r"\ud800", r"\U00110000"]
)
def test_a_backslash_that_begins_no_escape_is_refused(text: str) -> None:
    with pytest.raises(MessageError, match="bad escape"):
        go_unquote(text)


def test_bytes_are_quoted_as_go_quotes_them() -> None:
    assert go_quote(b'a"\\\n\x00\x7f\xff' + "é\u200b\U000e0001你".encode()) == (
        'a\\"\\\\\\n\\x00\\x7f\\xffé\\u200b\\U000e0001你'
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("-0", "-0"),
        ("12.5", "12.5"),
        ("1e16", "10000000000000000"),
        ("1e-5", "0.00001"),
        ("-1.5e-7", "-1.5e-7"),
        ("1e21", "1e+21"),
        ("1.25e300", "1.25e+300"),
    ],
)
def test_floats_have_gos_exponents(text: str, written: str) -> None:
    assert go_float(text) == written


@given(st.text(st.sampled_from('<>&\u2028\u2029"\\\b\x7fé😀')))
def test_html_is_escaped_in_text_as_in_bytes(text: str) -> None:
    escaped = escape_html_text(quote(text))
    assert escaped.encode() == escape_html(quote(text).encode())
    assert json.loads(escaped) == text
    assert not set(escaped) & set("<>&\u2028\u2029")


def test_bad_bytes_are_distinguished_from_the_character_that_stands_for_them() -> None:
    assert quote('"\ufffd'.encode() + b"\xff") == r'"\"' + "\ufffd" + r'\ufffd"'


def test_the_short_forms_of_two_characters_are_not_everyones() -> None:
    assert quote_long("\b\f\n\\b") == r'"\u0008\u000c\n\\b"'
    assert quote("\b\f\n\\b") == r'"\b\f\n\\b"'
