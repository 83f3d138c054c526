"""The CSV of a storage sink: records, and the fields of one. Source: TiCDC's ``codec/csv``.

With a quote, text is quoted, and a quote in it is doubled. It may have line breaks. Without one, ``\\``, line breaks
and the delimiter are escaped by ``\\``. Numbers and NULL are never quoted.
"""

import re
from functools import cached_property
from typing import Literal

import msgspec

from ticdc_spark.errors import MessageError

HEADER = b"ticdc-meta$operation"
"""First bytes of the header."""
_OF_TICDC = ("ticdc-meta$operation", "ticdc-meta$table", "ticdc-meta$schema", "ticdc-meta$commit-ts")
_OF_UPDATE = "ticdc-meta$is-update"
_BARE = re.compile(rb"-?\d[\d.e+-]*|NaN|[+-]Inf|true|false")
"""With a quote, TiCDC writes only these without it."""
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r"}
TERMINATOR_DIFFERS = (
    "`terminator` under [source] is not that of the changefeed, which has it under [sink], not [sink.csv]"
)
_QUOTE_DIFFERS = "quote under [source.csv] is not that of the changefeed"


class CsvFormat(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """``[sink.csv]`` of the changefeed."""

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    terminator: str = "\r\n"
    binary: Literal["base64", "hex"] = "base64"
    old_values: bool = False
    """Whether there is a field that says if the row is part of an update."""

    @cached_property
    def _field(self) -> re.Pattern[bytes]:
        quote, delimiter = re.escape(self.quote.encode()), re.escape(self.delimiter.encode())
        end = rb"(?:(" + delimiter + rb")|\Z)"
        bare = rb"((?:(?!" + delimiter + rb").)*)"
        if len(self.delimiter) == 1:
            bare = rb"([^" + delimiter + quote + rb"]*)"
        if not self.quote:
            escaped = rb"((?:\\.|(?!" + delimiter + rb")[^\\\r\n])*)"
            return re.compile(rb"()" + escaped + end, re.DOTALL)
        quoted = quote + rb"((?:[^" + quote + rb"]|" + quote + quote + rb")*)" + quote
        return re.compile(rb"(?:" + quoted + rb"|" + bare + rb")" + end, re.DOTALL)

    def records(self, content: bytes) -> list[bytes]:
        """The records of a file, without the header. A header that has no end is a record, which cannot be read."""
        if content.startswith(HEADER):
            line, end, rest = content.partition(self.terminator.encode())
            if not end or _has_line_break(line):
                return [content]
            content = rest
        pieces = content.split(self.terminator.encode())
        if pieces and not pieces[-1]:
            pieces.pop()
        found = pieces
        if self.quote:
            found, quote = [], self.quote.encode()
            begun: list[bytes] = []
            for piece in pieces:
                is_whole = piece.count(quote) % 2 == 0
                if begun or not is_whole:
                    begun.append(piece)
                    if begun[1:] and not is_whole:
                        found.append(self.terminator.encode().join(begun))
                        begun = []
                else:
                    found.append(piece)
            found += [self.terminator.encode().join(begun)] if begun else []
        return found

    def is_cut_off(self, content: bytes) -> bool:
        """Whether the last record of a file has no end."""
        return bool(content) and not content.endswith(self.terminator.encode())

    def header(self, content: bytes) -> tuple[str, ...] | None:
        """The names of the columns, if a file has a header. Raises: MessageError"""
        if not content.startswith(HEADER):
            return None
        line, end, _ = content.partition(self.terminator.encode())
        if not end or _has_line_break(line):
            raise MessageError(f"the header does not end with {self.terminator!r}: {TERMINATOR_DIFFERS}")
        names = line.decode("utf-8", "replace").split(self.delimiter)
        first = (*_OF_TICDC, _OF_UPDATE) if self.old_values else _OF_TICDC
        if tuple(names[: len(first)]) != first or (not self.old_values and _OF_UPDATE in names):
            raise MessageError(
                f"the header is {line[:200]!r}; by the job file it begins with {self.delimiter.join(first)!r}: "
                "delimiter, output-old-value or include-commit-ts under [source.csv] is not that of the changefeed"
            )
        return tuple(names[self.first_column :])

    @property
    def first_column(self) -> int:
        """Number of fields before the columns: operation, table, schema, commitTs, and whether it is of an update."""
        return 5 if self.old_values else 4

    def fields(self, record: bytes) -> list[bytes | None]:
        """The fields of a record; ``None`` for NULL. Raises: MessageError"""
        found: list[bytes | None] = []
        at, null, quote = 0, self.null.encode(), self.quote.encode()
        if quote and not record.startswith(quote):
            raise MessageError(f"field 1 is not quoted in {record[:40]!r}: {_QUOTE_DIFFERS}")
        while True:
            match = self._field.match(record, at)
            if match is None:
                raise MessageError(f"field {len(found) + 1} cannot be read at {record[at : at + 40]!r}")
            text, bare, delimiter = match.groups()
            if self.quote and text is not None:
                found.append(text.replace(quote + quote, quote))
            elif bare == null:
                found.append(None)
            elif quote and not _BARE.fullmatch(bare):
                raise MessageError(
                    f"field {len(found) + 1} is {bare[:40]!r}, neither quoted, nor a number, nor {self.null!r}: "
                    "null or quote under [source.csv] is not that of the changefeed"
                )
            else:
                found.append(bare if self.quote else _ESCAPED.sub(_unescaped, bare))
            at = match.end()
            if delimiter is None:
                return found


def _has_line_break(line: bytes) -> bool:
    return b"\n" in line or b"\r" in line


def _unescaped(match: re.Match[bytes]) -> bytes:
    return _ESCAPES.get(match[1], match[1])
