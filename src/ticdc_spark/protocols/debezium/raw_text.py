"""Images with text that is not UTF-8, which TiCDC sends unchanged: they are no JSON, but have every byte.

Such an image is read a second time, with each bad byte replaced by a character that the image does not have. In text
columns these characters become bytes again. Only bad images are read again, so others cost nothing. Source:
``debezium`` in the vectors' notes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ticdc_spark.model import Table, Value
from ticdc_spark.mysql import is_text
from ticdc_spark.protocols.base import Columns, RowReader

_PRIVATE = 0x100000
"""The first of 65,536 characters for private use."""
_BLOCK = 0x80
"""The number of bytes that ASCII does not have."""
_BLOCKS = 512
_ESCAPED = re.compile(r"\\u(d[b-f][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.ASCII | re.IGNORECASE)


def with_raw_text(table: Table, read: RowReader) -> RowReader:
    """A reader that returns text as bytes if it is not UTF-8. With bad bytes elsewhere, a row stays bad."""
    text = [is_text(column.type) for column in table.columns]

    def read_all(images: Sequence[bytes | None]) -> Columns:
        columns = read(images)
        broken = {at: image for at in columns.bad if (image := images[at]) is not None and not _is_utf8(image)}
        rows = {at: row for at, image in broken.items() if (row := _row(image)) is not None}
        return _with_rows(columns, table, rows) if rows else columns

    def _row(image: bytes) -> tuple[list[Value], set[str]] | None:
        """The values, and the names of columns that the image does not have; ``None`` if it is still bad."""
        sent = image.decode("utf-8", "surrogateescape")
        block = _free_block(sent)
        if block is None:
            return None
        marks = {0xDC80 + byte: block + byte for byte in range(_BLOCK)}
        found = read([sent.translate(marks).encode()])
        if found.bad:
            return None
        bytes_of = {mark: surrogate for surrogate, mark in marks.items()}
        values: list[Value] = []
        for (value,), may_be_bytes in zip(found.values, text, strict=True):
            exact = value.translate(bytes_of) if isinstance(value, str) else value
            if exact != value and not may_be_bytes:
                return None
            values.append(value if exact == value else str(exact).encode("utf-8", "surrogateescape"))
        return values, set(found.absent)

    return read_all


def _is_utf8(image: bytes) -> bool:
    try:
        image.decode()
    except UnicodeDecodeError:
        return False
    return True


def _free_block(sent: str) -> int | None:
    """The first of ``_BLOCK`` characters that do not occur in an image, escaped or not."""
    used = {(ord(char) - _PRIVATE) // _BLOCK for char in sent if ord(char) >= _PRIVATE}
    for high, low in _ESCAPED.findall(sent):
        char = 0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00
        used.add((char - _PRIVATE) // _BLOCK)
    return next((_PRIVATE + block * _BLOCK for block in range(_BLOCKS) if block not in used), None)


def _with_rows(columns: Columns, table: Table, rows: dict[int, tuple[list[Value], set[str]]]) -> Columns:
    # columns that no image has may share one list
    values = [list(column) for column in columns.values]
    absent = {name: set(places) for name, places in columns.absent.items()}
    for at, (row, missing) in rows.items():
        for cells, value in zip(values, row, strict=True):
            cells[at] = value
        for name in (column.name for column in table.columns):
            if name in missing:
                absent.setdefault(name, set()).add(at)
            else:
                absent.get(name, set()).discard(at)
    return Columns(
        values=values,
        bad={at: reason for at, reason in columns.bad.items() if at not in rows},
        absent={name: sorted(places) for name, places in absent.items() if places},
    )
