"""Values that replace the source's in masked columns."""

import hmac
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa


def hashes(array: pa.Array, salt: bytes) -> list[str | None]:
    """HMAC-SHA256 of each value's text, in hexadecimal; NULL stays NULL.

    The target's values are hashed, not what messages or servers send: a full read and the feed give the same hash.
    """
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit))
    values, text = array.to_pylist(), _text(array.type)
    return [None if value is None else hmac.digest(salt, text(value), "sha256").hex() for value in values]


def constant_of(text: str, kind: pa.DataType) -> pa.Scalar:
    """A constant as a value of a type. Raises: ValueError (including pa.ArrowInvalid), NotImplementedError"""
    if pa.types.is_binary(kind):
        return pa.scalar(text.encode(), kind)
    if pa.types.is_timestamp(kind):  # canonical text is in UTC
        return pa.scalar(text, pa.string()).cast(pa.timestamp(kind.unit)).cast(kind)
    return pa.scalar(text, pa.string()).cast(kind)


def salt_mark(salt: str | None) -> str:
    """A value derived from a salt that may be stored, to see whether the salt is still the same."""
    return "" if salt is None else hmac.digest(salt.encode(), b"ticdc-spark mask-salt", "sha256").hex()[:16]


def _text(kind: pa.DataType) -> Callable[[Any], bytes]:
    if pa.types.is_binary(kind):
        return bytes
    if pa.types.is_list(kind):
        return msgspec.json.encode
    return _plain


def _plain(value: Any) -> bytes:
    match value:
        case bool():
            return str(int(value)).encode()
        case Decimal():
            return f"{value:f}".encode()
        case date() | datetime():
            return value.isoformat().encode()
    return str(value).encode()
