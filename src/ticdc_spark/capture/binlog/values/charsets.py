"""Character sets: from the bytes of a text to the text, as the server converts them."""

from __future__ import annotations

import re
from collections.abc import Callable

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Value

Decode = Callable[[bytes], str]

_UNICODE = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "gb18030": "gb18030",
}
"""Python's codecs, where they are what the server does."""
MULTI_BYTE = frozenset(("big5", "cp932", "eucjpms", "euckr", "gb2312", "gbk", "sjis", "ujis"))
"""With one, two or three bytes a character. Python's codecs differ in some of them, so they are read from the server.
All others are tables of 256."""
_LINE = b"\n"
"""Stands between characters that are converted together: it is no second byte of any."""
_THREE = {charset: bytes((0x8F,)) for charset in ("ujis", "eucjpms")}


class Charsets:
    """The server's character sets."""

    def __init__(self, collations: dict[int, tuple[str, str]], ask: Callable[[str], str]) -> None:
        """``collations``: character set and name of each id. ``ask``: the one cell of a query."""
        self._collations = collations
        self._ask = ask
        self._decoders: dict[str, Decode] = {}

    def names(self, collation: int) -> tuple[str, str]:
        """Character set and collation of an id.

        Raises: MessageError for an id that the server does not list.
        """
        found = self._collations.get(collation)
        if found is None:
            raise MessageError(f"binlog: collation {collation} is not among the server's")
        return found

    def decoder(self, charset: str) -> Decode | None:
        """From bytes to text; raises UnicodeDecodeError. ``None`` for binary."""
        if charset == "binary":
            return None
        codec = _UNICODE.get(charset)
        if codec is not None:
            return lambda data: data.decode(codec)
        if charset not in self._decoders:
            self._decoders[charset] = (multi_byte if charset in MULTI_BYTE else _one_byte)(charset, self._ask)
        return self._decoders[charset]

    def text(self, data: bytes, collation: int | None) -> str:
        """A text of the server itself: SQL, members; bytes that fit nothing become U+FFFD."""
        decode = self.decoder("utf8mb4" if collation is None else self.names(collation)[0])
        try:
            return data.decode() if decode is None else decode(data)
        except UnicodeDecodeError:
            return data.decode("utf-8", "replace")


def or_bytes(decode: Callable[[bytes], str]) -> Callable[[bytes], Value]:
    """Text, or the bytes where it is none."""

    def read(data: bytes) -> Value:
        try:
            text: Value = decode(data)
        except UnicodeDecodeError:
            return data
        return text

    return read


def _one_byte(charset: str, ask: Callable[[str], str]) -> Decode:
    encoded = ask(f"SELECT CONVERT(_{charset} X'{bytes(range(256)).hex()}' USING utf8mb4)")
    if len(encoded) != 256:
        raise MessageError(f"binlog: character set {charset} is not read")
    return lambda data: "".join([encoded[byte] for byte in data])


def multi_byte(charset: str, ask: Callable[[str], str]) -> Decode:
    """The decoder of one of ``MULTI_BYTE``, by the server's conversion of everything that may be a character.

    What the server has no character for raises UnicodeDecodeError.
    """
    wanted = [bytes((byte,)) for byte in range(256) if byte != _LINE[0]]
    wanted += [bytes((first, second)) for first in range(0x80, 256) for second in range(0x30, 256)]
    if charset in _THREE:
        high = range(0xA1, 0xFF)
        wanted += [_THREE[charset] + bytes((second, third)) for second in high for third in high]
    # as bytes that are converted to the set first: what is none of its characters becomes ?, and is no error
    found = ask(f"SELECT CONVERT(CONVERT(X'{_LINE.join(wanted).hex()}' USING {charset}) USING utf8mb4)").split("\n")
    if len(found) != len(wanted):
        raise MessageError(f"binlog: character set {charset} is not read")
    known = _Characters(
        (raw, text) for raw, text in zip(wanted, found, strict=True) if len(text) == 1 and (text != "?" or raw == b"?")
    )
    known.charset = charset
    if any(known.get(bytes((byte,)), chr(byte)) != chr(byte) for byte in range(128)):
        raise MessageError(f"binlog: character set {charset} is not read, as the server's has other letters than ASCII")
    split = _characters(known, _THREE.get(charset)).findall
    return lambda data: "".join(map(known.__getitem__, split(data)))


class _Characters(dict[bytes, str]):
    """Characters by their bytes, and runs of ASCII."""

    charset = ""

    def __missing__(self, raw: bytes) -> str:
        if raw.isascii():
            return raw.decode()
        raise UnicodeDecodeError(self.charset, raw, 0, len(raw), "no character of the server's")


def _characters(known: dict[bytes, str], three: bytes | None) -> re.Pattern[bytes]:
    """Splits a text into characters, and runs of ASCII, as the server does."""
    alone = b"".join(re.escape(raw) for raw in known if len(raw) == 1 and raw >= b"\x80")
    begins = b"".join(re.escape(bytes((byte,))) for byte in range(0x80, 256) if bytes((byte,)) not in known)
    parts = [rb"[\x00-\x7f]+", b"[" + alone + b"]" if alone else b"", three + b"[\x80-\xff]{2}" if three else b""]
    return re.compile(b"|".join(filter(None, [*parts, b"[" + begins + b"].", b"."])), re.DOTALL)
