"""Text as Go writes it: ``strconv.Quote`` for bytes, and ``encoding/json``'s escapes and floats."""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec

from ticdc_spark.errors import MessageError

_HTML = [(char.encode(), rb"\u%04x" % ord(char)) for char in "<>&\u2028\u2029"]
_BAD_BYTE = re.compile("[\udc80-\udcff]")
_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))?", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
_SHORT = {ord(char): "\\" + letter for letter, char in _LETTERS.items()}


def escape_html(json: bytes) -> bytes:
    """JSON with ``<``, ``>``, ``&``, U+2028 and U+2029, which stand only inside strings, escaped."""
    for char, escape in _HTML:
        if char in json:
            json = json.replace(char, escape)
    return json


def json_text(value: str | bytes) -> str | msgspec.Raw:
    """Text for a JSON encoder; of bytes that are not UTF-8, each bad byte becomes ``\\ufffd``."""
    if isinstance(value, str):
        return value
    # Go writes the escape for a bad byte, but the plain character where the text itself holds U+FFFD
    pieces = (msgspec.json.encode(piece)[1:-1] for piece in _BAD_BYTE.split(value.decode("utf-8", "surrogateescape")))
    return msgspec.Raw(b'"' + rb"\ufffd".join(pieces) + b'"')


def go_quote(value: bytes) -> str:
    """Bytes as ``strconv.Quote`` prints them, without the quotes around them."""
    text = value.decode("utf-8", "surrogateescape")
    if text.isascii() and text.isprintable() and "\\" not in text and '"' not in text:
        return text
    return "".join(map(_quoted, text))


def _quoted(char: str) -> str:
    code = ord(char)
    if code in _SHORT:
        return _SHORT[code]
    if "\udc80" <= char <= "\udcff":
        return f"\\x{code - 0xDC00:02x}"
    if char.isprintable():
        return char
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_unquote(text: str) -> bytes:
    """The bytes of what ``go_quote`` gives.

    Raises: MessageError for a backslash that begins no escape.
    """
    if "\\" not in text:
        return text.encode()
    parts, at = [], 0
    for found in _ESCAPED.finditer(text):
        parts.append(text[at : found.start()].encode())
        parts.append(_unquoted(found))
        at = found.end()
    parts.append(text[at:].encode())
    return b"".join(parts)


def _unquoted(found: re.Match[str]) -> bytes:
    byte, short, long, octal, letter = found.groups()
    if letter in _LETTERS:
        return _LETTERS[letter].encode()
    code = int(byte or octal or "100", 16 if byte else 8)
    if (byte or octal) and code < 256:
        return bytes((code,))
    code = int(short or long or "110000", 16)
    if code >= 0x110000 or 0xD800 <= code < 0xE000:
        raise MessageError(f"binary text with a bad escape: {found.group(0)!r}")
    return chr(code).encode()


def go_float(text: str) -> msgspec.Raw:
    """As Go's ``encoding/json`` writes a float: an exponent below 1e-6 and from 1e21 on."""
    number = Decimal(text)
    if number == 0 or Decimal("1e-6") <= abs(number) < Decimal("1e21"):
        return msgspec.Raw(format(number, "f").encode())
    sign, digits, _ = number.as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    mantissa = shown[0] + ("." + shown[1:] if len(shown) > 1 else "")
    power = number.adjusted()
    exponent = f"e-{-power}" if power < 0 else f"e+{power:02d}"
    return msgspec.Raw(("-" * sign + mantissa + exponent).encode())
