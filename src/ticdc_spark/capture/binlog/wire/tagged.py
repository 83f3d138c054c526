"""GTID events with a tag, which MySQL 8.3 and later write for ``gtid_next = 'AUTOMATIC:tag'``.

Unlike other events, they are fields with numbers before them, in the form of ``libs/mysql/serialization`` of MySQL's
source. Compared with what a MySQL 9.7 writes.
"""

from __future__ import annotations

from ticdc_spark.capture.binlog.wire.events import Event, Gtid
from ticdc_spark.capture.binlog.wire.parts import uint
from ticdc_spark.errors import MessageError

_FLAGS, _UUID, _NUMBER, _TAG, _LAST_COMMITTED, _SEQUENCE, _COMMITTED = range(7)
_ONE_NUMBER = (_FLAGS, _NUMBER, _LAST_COMMITTED, _SEQUENCE, _COMMITTED)


def tagged_gtid(event: Event) -> Gtid:
    """Read one. Raises: MessageError for another version of the form, or without a field that is needed"""
    body = event.body
    version, at = _packed(body, 0)
    if version != 1:
        raise MessageError(f"a GTID event with a tag is of version {version}; 1 is read")
    _, at = _packed(body, at)  # its size
    _, at = _packed(body, at)  # the last field that a reader must know
    numbers, uuid, tag = dict[int, int](), b"", b""
    while at < len(body):
        field, at = _packed(body, at)
        if field in _ONE_NUMBER:
            numbers[field], at = _packed(body, at)
        elif field == _UUID:
            for _ in range(16):
                byte, at = _packed(body, at)
                uuid += bytes((byte & 255,))
        elif field == _TAG:
            size, at = _packed(body, at)
            tag, at = body[at : at + size], at + size
        else:
            break  # the fields are in order, and no later one is needed
    if _NUMBER not in numbers or not uuid:
        raise MessageError("a GTID event with a tag has no GTID")
    text = uuid.hex()
    source = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    number = numbers[_NUMBER]  # a signed one, whose lowest bit is its sign; it is never negative
    return Gtid(
        f"{source}:{tag.decode()}:{number >> 1}" if tag else f"{source}:{number >> 1}",
        False,
        numbers.get(_COMMITTED, 0),
    )


def _packed(body: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends. The ones at the low end of its first byte count the bytes behind it."""
    first = uint(body, at, 1)
    more = (~first & (first + 1)).bit_length() - 1
    if more == 8:
        return uint(body, at + 1, 8), at + 9
    return uint(body, at, more + 1) >> more + 1, at + more + 1
