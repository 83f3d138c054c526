"""Reads rows of a query directly from the server's bytes.

PyMySQL makes an object of each packet and three calls for each cell. Here the stream is read in large pieces, and one
function, compiled for the query's columns, makes a row from a packet. PyMySQL reads everything else (the end, an
error).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Cut: TypeAlias = Callable[[bytes, str, int], Any]
"""(bytes, the same as Latin-1 text, begin of a row) → the row."""
_PIECE = 1 << 18
_WHOLE = 0xFFFFFF
"""The size of a packet that continues in the next one."""
_NULL = 251
_WIDTHS = {252: 2, 253: 3, 254: 8}
"""First byte of a longer length → number of bytes of the length, which follow it."""
_END, _ERROR = 254, 255


class RowStream:
    """The rows of an unbuffered query that was sent. Nothing else may read from its cursor before their end."""

    def __init__(
        self, cursor: Any, names: Sequence[str] | None = None, reads: Mapping[int, Callable[[Any], Any]] | None = None
    ) -> None:
        """``cursor``: of a connection that does not convert cells: they are text or bytes, by the column's character
        set.

        ``names``: of the columns; a row is then a dict, without them a tuple. ``reads``: convert the cells of some
        columns, if not NULL.
        """
        result = cursor._result
        encodings = [encoding for encoding, converter in result.converters if converter is None]
        assert len(encodings) == len(result.converters), "the connection was made without decoders"
        self._cut = compiled(encodings, names, reads or {})
        self._cursor = cursor
        self._connection = cursor.connection
        file = self._connection._rfile
        self._file = self._connection._rfile = file if isinstance(file, _File) else _File(file)
        self._data, self._text, self._at = b"", "", 0
        self._over = False

    def some(self, most: int) -> list[Any]:
        """The next rows; fewer than ``most`` only at the end, then none.

        Raises: PyMySQL's errors; UnicodeDecodeError for invalid text
        """
        rows: list[Any] = []
        cut, data, text, at = self._cut, self._data, self._text, self._at
        number, had = self._connection._next_seq_id, 0
        while len(rows) < most and not self._over:
            lacks = 5
            if at + 5 <= len(data):
                size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
                end, first = at + 4 + size, data[at + 4]
                plain = size != _WHOLE and first != _ERROR and (first != _END or size >= 9)
                if not plain or data[at + 3] != (number + had) & 255:
                    self._connection._next_seq_id = (number + had) & 255
                    self._data, self._text, self._at = data, text, at
                    self._exotic(rows)
                    data, text, at = self._data, self._text, self._at
                    number, had = self._connection._next_seq_id, 0
                    continue
                if end <= len(data):
                    rows.append(cut(data, text, at + 4))
                    at = end
                    had += 1
                    continue
                lacks = end - len(data)
            more = self._file.piece(lacks)
            if not more:  # PyMySQL finds out why
                self._connection._next_seq_id = (number + had) & 255
                self._file.give_back(data[at:])
                self._over = True
                try:
                    self._cursor.fetchone()
                finally:
                    self._cursor._result.unbuffered_active = False  # do not wait for its end
                break
            data = data[at:] + more
            text, at = data.decode("latin-1"), 0
        self._connection._next_seq_id = (number + had) & 255
        self._data, self._text, self._at = data, text, at
        return rows

    def _exotic(self, rows: list[Any]) -> None:
        """A packet that PyMySQL reads: the end, an error, or a row of 16 MiB and more."""
        self._file.give_back(self._data[self._at :])
        self._data, self._text, self._at = b"", "", 0
        result = self._cursor._result
        result._read_row_from_packet = lambda packet: (packet.get_all_data(),)
        row = self._cursor.fetchone()
        if row is None:
            self._over = True
        else:
            rows.append(self._cut(row[0], row[0].decode("latin-1"), 0))


class _File:
    """A file for a connection. Bytes that were read too far are put back."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._back = b""

    def piece(self, wanted: int) -> bytes:
        """The available bytes, or all that are ``wanted`` if these are many; none at the end, or after an error."""
        if self._back:
            back, self._back = self._back, b""
            return back
        try:
            # for a large row, so that its begin is not copied again with each piece
            return bytes(self._file.read(wanted) if wanted > _PIECE else self._file.read1(_PIECE))
        except OSError:
            return b""

    def give_back(self, data: bytes) -> None:
        self._back = data + self._back

    def read(self, size: int) -> bytes:
        """``read`` of a file."""
        if not self._back:
            return bytes(self._file.read(size))
        found, self._back = self._back[:size], self._back[size:]
        return found if len(found) == size else found + self._file.read(size - len(found))

    def close(self) -> None:
        self._file.close()


def compiled(
    encodings: Sequence[str | None], names: Sequence[str] | None, reads: Mapping[int, Callable[[Any], Any]]
) -> Cut:
    """The function that cuts a row. Names and functions are variables, never part of the source."""
    given: dict[str, Any] = {"long": _long}
    lines, items = [], []
    for at, encoding in enumerate(encodings):
        # the place alternates between p and q, which saves an assignment for each cell
        p, q = ("p", "q") if at % 2 == 0 else ("q", "p")
        given[f"e{at}"] = encoding
        cell = {
            None: f"b[{p} + 1:{q}]",
            "ascii": f"s[{p} + 1:{q}]",  # numbers and times: one object, where a decoded slice is two
            "utf8": f"b[{p} + 1:{q}].decode()",
        }.get(encoding, f"b[{p} + 1:{q}].decode(e{at})")
        lines += [
            f"n = b[{p}]",
            f"if n < {_NULL}: {q} = {p} + 1 + n; x{at} = {cell}",
            f"elif n == {_NULL}: {q} = {p} + 1; x{at} = None",
            f"else: x{at}, {q} = long(b, {p}, e{at})",
        ]
        item = f"x{at}"
        if at in reads:
            given[f"f{at}"] = reads[at]
            item = f"None if x{at} is None else f{at}(x{at})"
        if names is not None:
            given[f"n{at}"] = names[at]
            item = f"n{at}: {item}"
        items.append(item)
    row = f"({''.join(f'{item}, ' for item in items)})" if names is None else f"{{{', '.join(items)}}}"
    source = "def cut(b, s, p):\n" + "".join(f"    {line}\n" for line in [*lines, f"return {row}"])
    exec(source, given)
    found: Cut = given["cut"]
    return found


def _long(data: bytes, at: int, encoding: str | None) -> tuple[str | bytes, int]:
    """A cell whose length takes more than a byte, and where the next one begins."""
    width = _WIDTHS[data[at]]
    begin = at + 1 + width
    end = begin + int.from_bytes(data[at + 1 : begin], "little")
    cell = data[begin:end]
    return (cell if encoding is None else cell.decode(encoding)), end
