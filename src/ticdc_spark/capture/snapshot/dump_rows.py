"""Rows in Dumpling's data files: INSERT statements, or its default CSV. A file may be compressed.

A value is ``None``, the text of a number, or the unescaped bytes between its quotes. Its column has its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from ticdc_spark.errors import MessageError

Cell = bytes | None
Rows = tuple[tuple[str, ...], list[list[Cell]]]
"""Names of columns (empty: the table's, without generated ones), and rows."""

_BLOCK = 4 << 20
_BATCH = 20_000
_HEAD = re.compile(rb"INSERT\s+INTO\s+`(?:[^`]|``)+`\s*(\((?:\s*`(?:[^`]|``)+`\s*,?)+\))?\s*VALUES\s*", re.IGNORECASE)
_NAME = re.compile(rb"`((?:[^`]|``)+)`")
_VALUE = re.compile(
    rb"\s*(?:(NULL)|[xX]'([0-9a-fA-F]*)'|(?:_binary\s*)?'((?:[^'\\]|\\.|'')*)'|([-+0-9.eE]+))\s*([,)])", re.DOTALL
)
_FIELD = re.compile(rb'(?:"((?:[^"\\]|\\.|"")*)"|([^",\r\n]*))(,|\r?\n|$)', re.DOTALL)
_ESCAPED = re.compile(rb"\\(.)|''|\"\"", re.DOTALL)
_ESCAPES = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"Z": b"\x1a"}
_CSV_NULL = rb"\N"


def read_file(path: Path) -> Iterator[Rows]:
    """The rows of a data file, some at a time. Raises: MessageError for what Dumpling does not write; OSError"""
    plain = path.name.lower()
    compression = next((kind for end, kind in _COMPRESSED.items() if plain.endswith(end)), None)
    with pa.OSFile(str(path)) as raw:
        opened = cast(IO[bytes], raw if compression is None else pa.CompressedInputStream(raw, compression))
        yield from (_csv if ".csv" in path.suffixes[-2:] else _sql)(opened, path)


_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}


class _Buffer:
    """The unread part of a file. A pattern that reaches the end of the buffer is tried again with more bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.data, self.at, self.ended = file, b"", 0, False

    def more(self) -> bool:
        """Read more; ``False``: the file has ended."""
        if self.ended:
            return False
        block = bytes(self.file.read(_BLOCK))
        self.ended = not block
        self.data, self.at = self.data[self.at :] + block, 0
        return not self.ended

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Match at the current place, and move past the match."""
        found = pattern.match(self.data, self.at)
        while (found is None or found.end() >= len(self.data)) and self.more():
            found = pattern.match(self.data, self.at)
        if found is not None:
            self.at = found.end()
        return found


def _sql(file: IO[bytes], path: Path) -> Iterator[Rows]:
    buffer, number = _Buffer(file), 0
    comment, rest = re.compile(rb"\s*(?:/\*.*?\*/\s*;?|SET [^;]*;|--[^\n]*\n)", re.DOTALL), re.compile(rb"\s*")
    while True:
        if buffer.match(comment) is not None:
            continue
        buffer.match(rest)
        if buffer.at >= len(buffer.data) and not buffer.more():
            return
        head = buffer.match(_HEAD)
        if head is None:
            raise MessageError(f"{path}: no INSERT after row {number}: {buffer.data[buffer.at : buffer.at + 60]!r}")
        names = tuple(one.replace(b"``", b"`").decode() for one in _NAME.findall(head[1] or b""))
        rows: list[list[Cell]] = []
        while True:
            if buffer.match(_OPEN) is None:
                raise MessageError(f"{path}: no row after row {number}: {buffer.data[buffer.at : buffer.at + 60]!r}")
            rows.append(_row(buffer, path, number))
            number += 1
            if len(rows) >= _BATCH:
                yield names, rows
                rows = []
            sign = buffer.match(_NEXT)
            if sign is None or sign[1] == b";":
                break
        if rows:
            yield names, rows


_OPEN = re.compile(rb"\s*\(")
_NEXT = re.compile(rb"\s*([,;])")


def _row(buffer: _Buffer, path: Path, number: int) -> list[Cell]:
    row: list[Cell] = []
    while True:
        found = buffer.match(_VALUE)
        if found is None:
            raise MessageError(f"{path}: row {number + 1}: no value: {buffer.data[buffer.at : buffer.at + 60]!r}")
        null, digits, quoted, plain, end = found.groups()
        if null is not None:
            row.append(None)
        elif digits is not None:
            row.append(bytes.fromhex(digits.decode()))
        else:
            row.append(plain if quoted is None else _plain(quoted))
        if end == b")":
            return row


def _csv(file: IO[bytes], path: Path) -> Iterator[Rows]:
    buffer = _Buffer(file)
    names: tuple[str, ...] = ()
    rows: list[list[Cell]] = []
    row: list[Cell] = []
    while True:
        if buffer.at >= len(buffer.data) and not buffer.more():
            break
        found = buffer.match(_FIELD)
        if found is None:
            text = buffer.data[buffer.at : buffer.at + 60]
            raise MessageError(f"{path}: row {len(rows) + 1}: no field: {text!r}")
        quoted, plain, end = found.groups()
        row.append(None if plain == _CSV_NULL else plain if quoted is None else _plain(quoted))
        if end == b",":
            continue
        if not names:
            names = tuple((cell or b"").decode() for cell in row)
        else:
            rows.append(row)
        row = []
        if len(rows) >= _BATCH:
            yield names, rows
            rows = []
    if rows:
        yield names, rows


def _plain(quoted: bytes) -> bytes:
    return _ESCAPED.sub(_unescaped, quoted) if b"\\" in quoted or b"''" in quoted or b'""' in quoted else quoted


def _unescaped(found: re.Match[bytes]) -> Any:
    letter = found[1]
    return found[0][:1] if letter is None else _ESCAPES.get(letter, letter)
