"""How Simple JSON writes a value of each MySQL type, both ways, and readers and writers of row images.

Every value is a JSON string or null, numbers too. Only these differ from the canonical form: binary types (base64),
FLOAT and DOUBLE (never with an exponent), TIMESTAMP (``{"location", "value"}``, local time), and text that is not
UTF-8 (each bad byte becomes ``\\ufffd``: lost). Source: ``simple`` in the vectors' notes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType, Row, Table, Value
from ticdc_spark.mysql import canonical_float, fsp, is_bytes, local_timestamp, utc_timestamp
from ticdc_spark.protocols.base import Columns, ReadOptions, RowReader

Read: TypeAlias = Callable[[Any], Value]
Write: TypeAlias = Callable[[Any], Any]
RowWriter: TypeAlias = Callable[[Row], msgspec.Raw]


class Timestamp(msgspec.Struct, gc=False):
    """A TIMESTAMP as sent: local text and the changefeed's time zone."""

    location: str
    value: str


class Form(NamedTuple):
    """A type's JSON type, and its way to and from the canonical value; ``None``: they are the same."""

    wire: Any
    read: Callable[[ColumnType, ReadOptions], Read] | None = None
    write: Callable[[str], Write] | None = None


def _read_timestamp(column_type: ColumnType, options: ReadOptions) -> Read:
    digits, ambiguous = fsp(column_type), options.ambiguous_timestamp
    return lambda sent: utc_timestamp(sent.value, sent.location, digits, ambiguous)


def _write_timestamp(zone: str) -> Write:
    return lambda text: {"location": zone, "value": local_timestamp(text, zone)}


def _write_float(text: str) -> str:
    return format(Decimal(text), "f") if "e" in text else text


_BAD_BYTE = re.compile("[\udc80-\udcff]")


def _write_text(value: str | bytes) -> str | msgspec.Raw:
    if isinstance(value, str):
        return value
    # Go writes the escape for a bad byte, but the plain character where the text itself holds U+FFFD
    pieces = (msgspec.json.encode(piece)[1:-1] for piece in _BAD_BYTE.split(value.decode("utf-8", "surrogateescape")))
    return msgspec.Raw(b'"' + rb"\ufffd".join(pieces) + b'"')


_PLAIN = Form(str)
_TEXT = Form(str, None, lambda _: _write_text)
_BYTES = Form(bytes, None, lambda _: lambda raw: base64.b64encode(raw).decode())
_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit", "enum", "set"), _PLAIN),
    **dict.fromkeys(("decimal", "date", "datetime", "time", "json", "vector"), _PLAIN),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "var_string"), _TEXT),
    "float": Form(str, lambda *_: lambda text: canonical_float(text, 32), lambda _: _write_float),
    "double": Form(str, lambda *_: lambda text: canonical_float(text, 64), lambda _: _write_float),
    "timestamp": Form(Timestamp, _read_timestamp, _write_timestamp),
}


def form(column_type: ColumnType) -> Form:
    """How values of a type are sent.

    Raises: MessageError for a type that rows never carry.
    """
    if is_bytes(column_type):
        return _BYTES
    found = _FORMS.get(column_type.name)
    if found is None:
        raise MessageError(f"Simple carries no values of type {column_type.name!r}")
    return found


def row_writer(table: Table, zone: str, only: Iterable[str] | None = None) -> RowWriter:
    """Compile a writer of images: the columns of ``table`` (or of ``only`` these), names sorted as Go sorts them.

    A column that a row does not hold (a virtual one) is left out. The writer raises MessageError for a row with a
    column that the table has not.
    """
    forms = {column.name: form(column.type).write for column in table.columns}
    chosen = sorted(forms if only is None else only)
    writers = [(name, write(zone) if (write := forms[name]) else None) for name in chosen]

    def write_row(row: Row) -> msgspec.Raw:
        if not row.keys() <= forms.keys():
            raise MessageError(f"`{table.schema}`.`{table.name}` has no column {sorted(row.keys() - forms.keys())}")
        image = {
            name: value if write is None or value is None else write(value)
            for name, write in writers
            if (value := row.get(name, UNSET)) is not UNSET
        }
        return msgspec.Raw(msgspec.json.encode(image))

    return write_row


def row_reader(table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
    """Compile a reader of images (raw JSON objects, as ``open_message`` gives them) into canonical columns.

    With ``only``, the other columns of an image are skipped unread and are ``None``.

    A wrong JSON type, a column that the table has not (the schema is the wrong one), base64 or a FLOAT that cannot be
    read, and an impossible TIMESTAMP make a row bad. Whether other text suits its type (INT ``abc``) is not looked
    at here; that shows when the text is typed.

    Raises: MessageError if the table has a column type that Simple cannot carry.
    """
    decoder = _ImageDecoder(table, only)
    names = [column.name for column in table.columns]
    getters = [attrgetter(field) if only is None or name in only else None for name, field in decoder.fields.items()]
    reads = [make(column.type, options) if (make := form(column.type).read) else None for column in table.columns]

    def read(images: Sequence[bytes | None]) -> Columns:
        bad: dict[int, str] = {}
        rows, places = decoder.rows(images, bad)
        values: list[list[Value]] = []
        absent: dict[str, Sequence[int]] = {}
        nothing: list[Value] = [None] * len(images) if None in getters else []
        for name, getter, convert in zip(names, getters, reads, strict=True):
            if getter is None:
                values.append(nothing)
                continue
            cells = list(map(getter, rows))
            if UNSET in cells:
                missing = [at for at, cell in zip(places, cells, strict=True) if cell is UNSET]
                absent[name] = range(len(images)) if len(missing) == len(rows) == len(images) else missing
                cells = [None if cell is UNSET else cell for cell in cells]
            if convert is not None:
                cells = _convert(cells, convert, name, places, bad)
            values.append(cells if len(cells) == len(images) else _scatter(cells, places, len(images)))
        for column in values if bad else ():
            if column is not nothing:
                for at in bad:
                    column[at] = None
        return Columns(values=values, bad=bad, absent=absent)

    return read


_FIELD = re.compile(r"\$\.(c\d+)")


class _ImageDecoder:
    """Decodes images of one table, all at once, and one by one only to find the bad ones."""

    def __init__(self, table: Table, only: frozenset[str] | None) -> None:
        self.fields = {column.name: f"c{at}" for at, column in enumerate(table.columns)}
        columns = [column for column in table.columns if only is None or column.name in only]
        names = [column.name for column in columns]
        # msgspec cannot match a name with a quote, a backslash or a control character: those tables take a detour
        self._renamed = {name: self.fields[name] for name in names}
        self._odd = any(msgspec.json.encode(name)[1:-1] != name.encode() for name in names)
        row = msgspec.defstruct(
            "Row",
            [(self.fields[column.name], form(column.type).wire | None | UnsetType, UNSET) for column in columns],
            rename=None if self._odd else {self.fields[name]: name for name in names},
            forbid_unknown_fields=only is None,
            gc=False,
        )
        self._where = f"row of `{table.schema}`.`{table.name}`"
        self._all = msgspec.json.Decoder(list[row])  # type: ignore[valid-type]
        self._one = msgspec.json.Decoder(row)

    def rows(self, images: Sequence[bytes | None], bad: dict[int, str]) -> tuple[list[Any], Sequence[int]]:
        """Structs of the images that are there and good, and their places; reasons of the others into ``bad``."""
        places: Sequence[int] = range(len(images))
        present: Sequence[Any] = images
        if None in images:
            places = [at for at, image in enumerate(images) if image is not None]
            present = [images[at] for at in places]
        if not self._odd:
            try:
                rows: list[Any] = self._all.decode(b"[" + b",".join(present) + b"]")
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                rows = []
            if len(rows) == len(present):
                return rows, places
        good: list[Any] = []
        kept: list[int] = []
        for at, image in zip(places, present, strict=True):
            try:
                good.append(self._one.decode(self._rename(image) if self._odd else image))
                kept.append(at)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                bad[at] = f"{self._where}: {self._named(str(error)) if self._odd else error}"
        return good, kept

    def _rename(self, image: bytes) -> bytes:
        cells = msgspec.json.decode(image, type=dict[str, msgspec.Raw])
        for name in cells.keys() - self._renamed.keys():
            raise msgspec.ValidationError(f"Object contains unknown field `{name}`")
        return msgspec.json.encode({self._renamed[name]: cell for name, cell in cells.items()})

    def _named(self, reason: str) -> str:
        names = {field: name for name, field in self._renamed.items()}
        return _FIELD.sub(lambda found: "$." + names[found.group(1)], reason)


def _convert(cells: list[Any], convert: Read, name: str, places: Sequence[int], bad: dict[int, str]) -> list[Any]:
    try:
        return [None if cell is None else convert(cell) for cell in cells]
    except MessageError:
        pass  # look for the bad ones
    converted: list[Value] = []
    for at, cell in zip(places, cells, strict=True):
        try:
            converted.append(None if cell is None else convert(cell))
        except MessageError as error:
            converted.append(None)
            bad.setdefault(at, f"column `{name}`: {error}")
    return converted


def _scatter(cells: list[Value], places: Sequence[int], length: int) -> list[Value]:
    column: list[Value] = [None] * length
    for at, cell in zip(places, cells, strict=True):
        column[at] = cell
    return column
