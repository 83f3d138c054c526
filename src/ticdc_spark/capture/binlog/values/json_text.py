"""MySQL's binary JSON as the text that MySQL prints. MariaDB has none: its JSON is LONGTEXT.

Written from the format's description, without a MySQL server to compare with.
"""

from __future__ import annotations

import base64
import struct
from decimal import Decimal

from ticdc_spark.capture.binlog.values.numbers import decimal_text
from ticdc_spark.errors import MessageError

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_DOUBLE, _STRING, _OPAQUE = 11, 12, 15
_INTEGERS = {5: ("<h", 2), 6: ("<H", 2), 7: ("<i", 4), 8: ("<I", 4), 9: ("<q", 8), 10: ("<Q", 8)}
_LITERALS = {0: "null", 1: "true", 2: "false"}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES |= {chr(code): f"\\u{code:04x}" for code in range(32) if chr(code) not in _ESCAPES}
_TABLE = str.maketrans(_ESCAPES)
_DATE, _TIMESTAMP, _TIME, _DATETIME, _DECIMAL = 10, 7, 11, 12, 246
_FIXED_FROM, _FIXED_TO = -14, 15
"""If the point is between these places, a number is written without an exponent."""


def json_text(data: bytes) -> str:
    """The text of a JSON value.

    Raises: MessageError for bytes that are no JSON value.
    """
    if not data:
        return "null"
    try:
        return _value(data[0], data, 1)
    except (struct.error, IndexError, UnicodeDecodeError, KeyError) as error:
        raise MessageError(f"binlog: binary JSON of {len(data)} bytes cannot be read: {error}") from error


def _value(kind: int, data: bytes, at: int) -> str:
    if kind <= _LARGE_ARRAY:
        return _container(kind, data, at)
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind in _INTEGERS:
        return str(struct.unpack_from(_INTEGERS[kind][0], data, at)[0])
    if kind == _DOUBLE:
        return _double(struct.unpack_from("<d", data, at)[0])
    if kind == _STRING:
        size, at = _length(data, at)
        return _quoted(_slice(data, at, size).decode())
    if kind == _OPAQUE:
        size, begin = _length(data, at + 1)
        return _opaque(data[at], _slice(data, begin, size))
    raise MessageError(f"binlog: binary JSON has a value of type {kind}")


def _container(kind: int, data: bytes, at: int) -> str:
    """Offsets count from the container's own begin. Its entries are 2 or 4 bytes wide."""
    large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    width, form = (4, "<I") if large else (2, "<H")
    count = struct.unpack_from(form, data, at)[0]
    entry = at + 2 * width
    keys = None
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
        keys = []
        for number in range(count):
            place = entry + number * (width + 2)
            offset, size = struct.unpack_from(form, data, place)[0], struct.unpack_from("<H", data, place + width)[0]
            keys.append(_slice(data, at + offset, size).decode())
        entry += count * (width + 2)
    values = []
    for number in range(count):
        place = entry + number * (width + 1)
        of = data[place]
        inline = of == _LITERAL or (of in _INTEGERS and _INTEGERS[of][1] <= width)
        values.append(_value(of, data, place + 1 if inline else at + struct.unpack_from(form, data, place + 1)[0]))
    if keys is None:
        return f"[{', '.join(values)}]"
    return "{" + ", ".join(f"{_quoted(key)}: {value}" for key, value in zip(keys, values, strict=True)) + "}"


def _slice(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise MessageError(f"binlog: binary JSON of {len(data)} bytes ends in a text of {size} bytes at {at}")
    return data[at : at + size]


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first."""
    size = shift = 0
    for place in range(at, at + 5):
        size |= (data[place] & 127) << shift
        shift += 7
        if data[place] < 128:
            return size, place + 1
    raise MessageError("binlog: binary JSON has a length of more than five bytes")


def _quoted(text: str) -> str:
    return f'"{text.translate(_TABLE)}"'


def _double(number: float) -> str:
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    if not isinstance(exponent, int):
        raise MessageError(f"binlog: binary JSON has the number {number!r}")
    text, minus = "".join(map(str, digits)), "-" if sign else ""
    point = len(text) + exponent
    if text == "0":
        return f"{minus}0.0"
    if not _FIXED_FROM <= point <= _FIXED_TO:
        rest = f".{text[1:]}" if len(text) > 1 else ""
        return f"{minus}{text[0]}{rest}e{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"


def _opaque(kind: int, data: bytes) -> str:
    if kind == _DECIMAL:
        return decimal_text(data[0], data[1])(data[2:])
    if kind in (_DATE, _TIMESTAMP, _TIME, _DATETIME):
        return f'"{_time(kind, struct.unpack("<q", data)[0])}"'
    return f'"base64:type{kind}:{base64.b64encode(data).decode()}"'


def _time(kind: int, packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    micros, whole = packed & 0xFFFFFF, packed >> 24
    clock = f"{whole >> 6 & 63:02}:{whole & 63:02}.{micros:06}"
    if kind == _TIME:
        return f"{sign}{whole >> 12 & 1023:02}:{clock}"
    year, month = divmod(whole >> 22, 13)
    day = f"{year:04}-{month:02}-{whole >> 17 & 31:02}"
    return day if kind == _DATE else f"{day} {whole >> 12 & 31:02}:{clock}"
