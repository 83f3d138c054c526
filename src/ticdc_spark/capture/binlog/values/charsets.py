"""Character sets: converts bytes to text as the server does."""

from __future__ import annotations

from collections.abc import Callable

from ticdc_spark.clients.mysql_texts import Decode
from ticdc_spark.clients.mysql_texts import decoder as read_decoder
from ticdc_spark.errors import MessageError

_UNICODE = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}
"""Python's codecs that do the same as the server."""
_GB18030_2005 = str.maketrans("\u1e3f\ue7c7", "\ue7c7\u1e3f")
"""Two characters that were swapped in the standard after the version that Python has."""


class Charsets:
    """The server's character sets."""

    def __init__(self, collations: dict[int, tuple[str, str]], ask: Callable[[str], str]) -> None:
        """``collations``: character set and name of each id. ``ask``: gives the only cell of a query."""
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

    def has(self, collation: int) -> bool:
        """Whether the server lists an id."""
        return collation in self._collations

    def decoder(self, charset: str) -> Decode | None:
        """Converts bytes to text; raises UnicodeDecodeError. ``None`` for binary."""
        if charset == "binary":
            return None
        codec = _UNICODE.get(charset)
        if codec is not None:
            return lambda data: data.decode(codec)
        if charset == "gb18030":
            return lambda data: data.decode("gb18030").translate(_GB18030_2005)
        if charset not in self._decoders:
            self._decoders[charset] = read_decoder(charset, self._ask)
        return self._decoders[charset]

    def text(self, data: bytes, collation: int | None) -> str:
        """A text of the server itself, such as SQL or members. Bytes that cannot be decoded become U+FFFD."""
        decode = self.decoder("utf8mb4" if collation is None else self.names(collation)[0])
        try:
            return data.decode() if decode is None else decode(data)
        except UnicodeDecodeError:
            return data.decode("utf-8", "replace")
