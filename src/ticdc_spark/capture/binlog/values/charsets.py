"""Character sets: from the bytes of a text to the text, as the server converts them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ticdc_spark.errors import MessageError

Decode = Callable[[bytes], str]

_WIDE = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "gb18030": "gb18030",
    "big5": "big5",
    "sjis": "cp932",
    "cp932": "cp932",
    "ujis": "euc_jp",
    "eucjpms": "euc_jp",
    "euckr": "cp949",
}
"""Python's codecs for those with more than one byte a character; the others are tables of 256."""


class Charsets:
    """The server's character sets."""

    def __init__(self, collations: dict[int, tuple[str, str]], all_bytes: Callable[[str], str]) -> None:
        """``collations``: character set and name of each id. ``all_bytes``: 0 to 255 of a set, converted."""
        self._collations = collations
        self._all_bytes = lru_cache(None)(all_bytes)

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
        codec = _WIDE.get(charset)
        if codec is not None:
            return lambda data: data.decode(codec)
        encoded = self._all_bytes(charset)
        if len(encoded) != 256:
            raise MessageError(f"binlog: character set {charset} is not read")
        return lambda data: "".join([encoded[byte] for byte in data])

    def text(self, data: bytes, collation: int | None) -> str:
        """A text of the server itself: SQL, members; bytes that fit nothing become U+FFFD."""
        decode = self.decoder("utf8mb4" if collation is None else self.names(collation)[0])
        try:
            return data.decode() if decode is None else decode(data)
        except UnicodeDecodeError:
            return data.decode("utf-8", "replace")


def all_bytes_sql(charset: str) -> str:
    """The query that gives ``all_bytes`` for a character set with one byte a character."""
    return f"SELECT CONVERT(_{charset} X'{bytes(range(256)).hex()}' USING utf8mb4)"
