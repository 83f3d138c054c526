"""Texts in character sets that the server cannot convert completely to utf8mb4.

A server sends ``?`` for bytes of such a set that have no Unicode character, which changes the text. So these columns
are selected as bytes and converted here, with the server's own tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from ticdc_spark.clients.mysql import quoted, selected
from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Value
from ticdc_spark.mysql import is_text
from ticdc_spark.mysql.vectors import vector_text

Decode: TypeAlias = Callable[[bytes], str]
Ask: TypeAlias = Callable[[str], str]
"""Gives the only cell of a query."""

MULTI_BYTE = frozenset(("big5", "cp932", "eucjpms", "euckr", "gb2312", "gbk", "sjis", "ujis"))
"""Sets with one, two or three bytes a character. Python's codecs differ in some characters, so they are read from the
server. All other sets, except Unicode's, are tables of 256."""
_GAPS = frozenset(
    ("ascii", "cp1250", "cp1251", "cp1256", "cp1257", "dec8", "geostd8", "greek", "hebrew", "hp8", "swe7")
)
"""Tables of 256 in which not every byte has a Unicode character, while a column accepts every byte."""
_LINE = b"\n"
"""Separates characters that are converted together, as it is never a second byte."""
_THREE = {charset: bytes((0x8F,)) for charset in ("ujis", "eucjpms")}
_NONE = "no character of the server's"


def is_raw(kind: ColumnType) -> bool:
    """Whether values are texts for which a server may lack characters."""
    return is_text(kind) and (kind.charset in MULTI_BYTE or kind.charset in _GAPS)


def is_sent_raw(kind: ColumnType) -> bool:
    """Whether values are read as bytes: such texts, and a VECTOR, which MySQL would only send as rounded text."""
    return is_raw(kind) or kind.name == "vector"


def selected_raw(name: str, kind: ColumnType) -> str:
    """The SELECT expression for a column of a server other than TiDB, which has all text in UTF-8."""
    return f"CAST({quoted(name)} AS BINARY)" if is_sent_raw(kind) else selected(name, kind)


def raw_literal(kind: ColumnType, value: bytes) -> str:
    """A text from ``selected_raw``, as SQL. It compares like the column, also by its index."""
    return f"_{kind.charset} X'{value.hex()}'"


def asks(cursor: Any) -> Ask:
    """Queries by a cursor of PyMySQL."""

    def ask(query: str) -> str:
        cursor.execute(query)
        return str(cursor.fetchone()[0])

    return ask


def raw_readers(
    kinds: Sequence[ColumnType], ask: Ask, known: dict[str, Decode] | None = None
) -> dict[int, Callable[[Any], Value]]:
    """Converters for the cells of ``selected_raw``, by place, where ``is_sent_raw``. They give text, or bytes if the
    server has no character for some of them. ``known``: keeps decoders of one server."""
    decoders = {} if known is None else known
    for charset in sorted({kind.charset or "" for kind in kinds if is_raw(kind)} - decoders.keys()):
        decoders[charset] = decoder(charset, ask)
    texts = {at: or_bytes(decoders[kind.charset or ""]) for at, kind in enumerate(kinds) if is_raw(kind)}
    return {**texts, **{at: vector_text for at, kind in enumerate(kinds) if kind.name == "vector"}}


def decoder(charset: str, ask: Ask) -> Decode:
    """A converter of bytes to text, for a set that is not Unicode's.

    It raises UnicodeDecodeError for bytes without a character. Raises: MessageError for a set that is not read
    """
    if charset == "ascii":
        return lambda data: data.decode("ascii")
    return multi_byte(charset, ask) if charset in MULTI_BYTE else _one_byte(charset, ask)


def or_bytes(decode: Decode) -> Callable[[bytes], Value]:
    """A converter to text, or to the same bytes if they are no text."""

    def read(data: bytes) -> Value:
        try:
            text: Value = decode(data)
        except UnicodeDecodeError:
            return data
        return text

    return read


def _one_byte(charset: str, ask: Ask) -> Decode:
    encoded = ask(f"SELECT CONVERT(_{charset} X'{bytes(range(256)).hex()}' USING utf8mb4)")
    if len(encoded) != 256:
        raise MessageError(f"character set {charset} is not read")
    gaps = bytes(byte for byte, char in enumerate(encoded) if char == "?" and byte != ord("?"))
    find = re.compile(b"[" + re.escape(gaps) + b"]").search if gaps else None

    def decode(data: bytes) -> str:
        if find is not None and (gap := find(data)) is not None:
            raise UnicodeDecodeError(charset, data, gap.start(), gap.end(), _NONE)
        return "".join([encoded[byte] for byte in data])

    return decode


def multi_byte(charset: str, ask: Ask) -> Decode:
    """The decoder of one of ``MULTI_BYTE``, from the server's conversion of all possible characters.

    It raises UnicodeDecodeError for bytes without a character.
    """
    wanted = [bytes((byte,)) for byte in range(256) if byte != _LINE[0]]
    wanted += [bytes((first, second)) for first in range(0x80, 256) for second in range(0x30, 256)]
    if charset in _THREE:
        high = range(0xA1, 0xFF)
        wanted += [_THREE[charset] + bytes((second, third)) for second in high for third in high]
    found = _converted(wanted, charset, ask)
    known = _Characters((raw, text) for raw, text in found if len(text) == 1 and (text != "?" or raw == b"?"))
    known.charset = charset
    if any(known.get(bytes((byte,)), chr(byte)) != chr(byte) for byte in range(128)):
        raise MessageError(f"character set {charset} is not read, as the server's has other letters than ASCII")
    split = _characters(known, _THREE.get(charset)).findall
    return lambda data: "".join(map(known.__getitem__, split(data)))


def _converted(wanted: Sequence[bytes], charset: str, ask: Ask) -> Iterable[tuple[bytes, str]]:
    """The server's conversion of each. Bytes that are no character of the set become ``?``, or are omitted."""
    # bytes are converted to the set first: an invalid character becomes ?, and is no error
    whole = ask(f"SELECT CONVERT(CONVERT(X'{_LINE.join(wanted).hex()}' USING {charset}) USING utf8mb4)").split("\n")
    if len(whole) == len(wanted):
        return zip(wanted, whole, strict=True)
    # MySQL gives NULL for a text with an invalid character, so each is converted alone
    given = msgspec.json.encode([raw.hex() for raw in wanted]).decode()
    each = ask(
        f"SELECT JSON_OBJECTAGG(raw, CONVERT(CONVERT(UNHEX(raw) USING {charset}) USING utf8mb4)) "
        f"FROM JSON_TABLE('{given}', '$[*]' COLUMNS (raw VARCHAR(6) PATH '$')) AS texts"
    )
    try:
        read = msgspec.json.decode(each, type=dict[str, str | None])
    except msgspec.DecodeError as error:
        raise MessageError(f"character set {charset} is not read") from error
    return ((bytes.fromhex(raw), text) for raw, text in read.items() if text is not None)


class _Characters(dict[bytes, str]):
    """Characters by their bytes, and runs of ASCII."""

    charset = ""

    def __missing__(self, raw: bytes) -> str:
        if raw.isascii():
            return raw.decode()
        raise UnicodeDecodeError(self.charset, raw, 0, len(raw), _NONE)


def _characters(known: dict[bytes, str], three: bytes | None) -> re.Pattern[bytes]:
    """Splits a text into characters, and runs of ASCII, as the server does."""
    alone = b"".join(re.escape(raw) for raw in known if len(raw) == 1 and raw >= b"\x80")
    begins = b"".join(re.escape(bytes((byte,))) for byte in range(0x80, 256) if bytes((byte,)) not in known)
    parts = [rb"[\x00-\x7f]+", b"[" + alone + b"]" if alone else b"", three + b"[\x80-\xff]{2}" if three else b""]
    return re.compile(b"|".join(filter(None, [*parts, b"[" + begins + b"].", b"."])), re.DOTALL)
