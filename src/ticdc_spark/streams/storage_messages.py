"""The files of a storage sink as messages, so that code for topics can read them.

A line of the protocol's own JSON, a schema file and a checkpoint are messages, unchanged. Records of CSV become rows of
the protocol. The key of each message is its place: the file, and the number of the line.
"""

from collections.abc import Iterator

import msgspec

from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.protocols.base import Encoder
from ticdc_spark.topics.storage.csv_lines import TERMINATOR_DIFFERS, CsvFormat
from ticdc_spark.topics.storage.csv_rows import CsvRows
from ticdc_spark.topics.storage.layout import key_of
from ticdc_spark.topics.storage.other_files import unreadable
from ticdc_spark.topics.storage.schema_file import read_schema_file

KeyValue = tuple[bytes, bytes]
PROTOCOL = next(name for name, found in PROTOCOLS.items() if found.traits.in_storage)
"""The protocol whose messages the sink writes, besides CSV."""
JSON, CSV = ".json", ".csv"
_COMMIT_TS = b'"_tidb"'


class _Extension(msgspec.Struct):
    commit_ts: int = msgspec.field(name="commitTs")


class _Row(msgspec.Struct):
    extension: _Extension | None = msgspec.field(default=None, name="_tidb")


_ROW = msgspec.json.Decoder(_Row)


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """The format of the files. It is sent to tasks."""

    csv: CsvFormat | None = None
    """``None``: rows are messages of ``PROTOCOL``, one a line."""

    @property
    def extension(self) -> str:
        """The extension of files with rows."""
        return JSON if self.csv is None else CSV

    def count(self, path: str, content: bytes) -> int:
        """How many messages a file with rows has.

        Raises: UsageError for rows without commitTs, which the changefeed must be configured to send
        """
        lines = self._lines(content)
        if self.csv is None and lines and b'"mysqlType"' in lines[0] and _COMMIT_TS not in lines[0]:
            raise UsageError(
                f"{path}: its rows have no commitTs. Add enable-tidb-extension=true to the sink-uri of the changefeed, "
                "and send everything again to an empty folder"
            )
        return len(lines)

    def rows(self, path: str, content: bytes, schema: bytes | None) -> Iterator[KeyValue]:
        """The messages of a file with rows. ``schema``: the schema file of its version."""
        read = None if self.csv is None else _CsvMessages(self.csv, content, schema)
        lines = self._lines(content)
        cut_off = len(lines) if self.csv is not None and self.csv.is_cut_off(content) else 0
        end = self.csv.terminator if self.csv is not None else ""
        for number, line in enumerate(lines, 1):
            if number == cut_off:
                value = unreadable(f"the file ends without {end!r}: it is cut off, or {TERMINATOR_DIFFERS}", line)
            else:
                value = line if read is None else read.message(line)
            yield key_of(path, number), value

    def first_commit_ts(self, path: str, content: bytes) -> int:
        """The commitTs of the first row of a file, which may not be complete; 0: it cannot be read.

        Raises: UsageError as ``count``
        """
        lines = self._lines(content)
        try:
            if self.csv is not None:
                fields = self.csv.fields(lines[0]) if lines else []
                found = int(fields[3] or b"0") if len(fields) > self.csv.first_column else 0
            else:
                row = _ROW.decode(lines[0] if lines else b"")
                if row.extension is None:
                    self.count(path, content)
                found = 0 if row.extension is None else row.extension.commit_ts
        except (MessageError, msgspec.MsgspecError, ValueError, RecursionError):
            return 0
        return found if 0 < found < 1 << 63 else 0

    def _lines(self, content: bytes) -> list[bytes]:
        if self.csv is not None:
            return self.csv.records(content)
        lines = content.split(b"\n")
        if not lines[-1]:
            lines.pop()
        return [line.removesuffix(b"\r") for line in lines]


class _CsvMessages:
    """Writes records of one file as messages."""

    def __init__(self, form: CsvFormat, content: bytes, schema: bytes | None) -> None:
        self._encoder = _encoder()
        self._rows: CsvRows | MessageError
        try:
            if schema is None:
                raise MessageError("there is no schema file of this version")
            self._rows = CsvRows(read_schema_file(schema).described(), form, form.header(content))
        except MessageError as error:
            self._rows = error

    def message(self, record: bytes) -> bytes:
        try:
            if isinstance(self._rows, MessageError):
                raise self._rows
            (encoded,) = self._encoder.rows([self._rows.change(record)])
        except MessageError as error:
            return unreadable(str(error), record)
        assert encoded.value is not None, "a row has a value"
        return encoded.value


def _encoder() -> Encoder:
    config = PROTOCOLS[PROTOCOL].config_type()
    # TIMESTAMP is passed on unchanged: the reader of the messages knows the zone.
    return PROTOCOLS[PROTOCOL].encoder(config(enable_tidb_extension=True, content_compatible=True, time_zone="UTC"))
