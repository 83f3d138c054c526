"""Values that Debezium's own connectors write differently from TiCDC, or in more than one form.

A connector's configuration decides how decimals, BIGINT UNSIGNED, binary values and times are sent. The schema block
shows most of it for each column, but not the text form of binary values. ``NativeModes`` has the rest, and all of it
for messages without a block. The result is put before each image of a connector as a head, ``!{…}`` and a line's end,
so a reader needs nothing else. TiCDC's images have no head.

Source: the documentation of Debezium's connector for MySQL, "How MySQL data types are mapped".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import ColumnType, Table, Value
from ticdc_spark.mysql import canonical_decimal, fsp, is_bytes
from ticdc_spark.protocols.base import Columns, RowReader
from ticdc_spark.protocols.debezium import reads
from ticdc_spark.protocols.debezium.blocks import Block, WireField, columns_of
from ticdc_spark.protocols.debezium.raw_text import with_raw_text
from ticdc_spark.protocols.debezium.types import cell
from ticdc_spark.protocols.shared.json_rows import Cell, image_reader

HEAD = b"!"
_END = b"\n"
_READERS_KEPT = 64


class NativeModes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A connector's configuration, in its own terms. For a message with a schema block, only the first field counts."""

    binary_handling_mode: Literal["bytes", "base64", "base64-url-safe", "hex"] = "bytes"
    """``bytes`` are base64 in JSON."""
    decimal_handling_mode: Literal["precise", "string", "double"] | None = None
    """``None``: detected from the value, which is bad if it is digits that may be a number or base64."""
    bigint_unsigned_handling_mode: Literal["long", "precise"] = "long"
    time_precision_mode: Literal["adaptive_time_microseconds", "adaptive", "connect"] = "adaptive_time_microseconds"


def read_modes(options: Mapping[str, str]) -> NativeModes:
    """The configuration in Debezium's own properties, with ``.`` or ``-`` in their names.

    Raises: UsageError for another property, or another value.
    """
    known = {field.name: field for field in msgspec.structs.fields(NativeModes)}
    read = {}
    for key, value in options.items():
        field = known.get(re.sub("[.-]", "_", key))
        if field is None:
            allowed = ", ".join(name.replace("_", ".") for name in known)
            raise UsageError(f"debezium has no property {key!r} that matters here; allowed: {allowed}")
        try:
            read[field.name] = msgspec.convert(value, field.type)
        except msgspec.ValidationError as error:
            allowed = ", ".join(re.findall(r"'([^']+)'", str(field.type)))
            raise UsageError(f"debezium's {key} is {value!r}; allowed: {allowed}") from error
    return NativeModes(**read)


class Forms(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a head."""

    columns: dict[str, str] | None = None
    """Column → mark, from a schema block: ``b`` boolean, ``t3`` or ``t9`` ticks of a time, ``d`` and a scale a decimal
    in base64. Other columns have no mark."""
    modes: NativeModes = NativeModes()


_FORMS = msgspec.json.Decoder(Forms)
_TICKS = {
    "org.apache.kafka.connect.data.Time": "t3",
    "org.apache.kafka.connect.data.Timestamp": "t3",
    "io.debezium.time.Time": "t3",
    "io.debezium.time.Timestamp": "t3",
    "io.debezium.time.MicroTimestamp": "t6",
    "io.debezium.time.NanoTime": "t9",
    "io.debezium.time.NanoTimestamp": "t9",
}
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def forms_of(block: Block | None, modes: NativeModes) -> bytes:
    """The head of a connector's images; empty if the table is enough to read them."""
    return _head_of_modes(modes) if block is None else _head_of_block(block, modes.binary_handling_mode == "hex")


@lru_cache(64)
def _head_of_modes(modes: NativeModes) -> bytes:
    return b"" if modes == NativeModes() else _head(Forms(None, modes))


def _head_of_block(block: Block, hexadecimal: bool) -> bytes:
    head = block.heads.get(hexadecimal)
    if head is None:
        marks = {field.field: mark for field in columns_of(block) if (mark := _mark(field))}
        modes = NativeModes(binary_handling_mode="hex") if hexadecimal else NativeModes()
        head = block.heads[hexadecimal] = _head(Forms(marks, modes))
    return head


def _head(forms: Forms) -> bytes:
    return HEAD + msgspec.json.encode(forms) + _END


def _mark(field: WireField) -> str:
    if field.name == DECIMAL:
        scale = (field.parameters or {}).get("scale", "0")
        if not (scale.isascii() and scale.isdecimal() and len(scale) <= 2):
            raise MessageError(f"field `{field.field}` has the scale {scale!r}")
        return f"d{scale}"
    if field.name is None:
        return "b" if field.type == "boolean" else ""
    return _TICKS.get(field.name, "")


def row_reader(table: Table, only: frozenset[str] | None = None) -> RowReader:
    """Compile a reader of images with and without heads.

    Raises: MessageError if the table has a column type that Debezium cannot carry.
    """
    cells = {column.name: cell(column.type) for column in table.columns}
    plain = with_raw_text(table, image_reader(table, cells, only, in_order=True))

    @lru_cache(_READERS_KEPT)
    def reader(head: bytes) -> RowReader:
        forms = _FORMS.decode(head)
        return image_reader(
            table,
            {column.name: _cell(column.name, column.type, forms) for column in table.columns},
            only,
            in_order=True,
        )

    def read(images: Sequence[bytes | None]) -> Columns:
        columns = plain(images)
        # an image with a head is no JSON
        return _by_heads(images, plain, reader) if columns.bad and _has_heads(images, columns.bad) else columns

    return read


def _has_heads(images: Sequence[bytes | None], places: Mapping[int, str]) -> bool:
    return any((images[at] or b"")[:1] == HEAD for at in places)


def _by_heads(images: Sequence[bytes | None], plain: RowReader, reader: Callable[[bytes], RowReader]) -> Columns:
    """Read images head by head."""
    groups: dict[bytes, list[int]] = {}
    bodies: list[bytes | None] = list(images)
    for at, image in enumerate(images):
        head = b""
        if image is not None and image[:1] == HEAD:
            head, _, bodies[at] = image[1:].partition(_END)
        groups.setdefault(head, []).append(at)
    values: list[list[Value]] = []
    bad: dict[int, str] = {}
    absent: dict[str, list[int]] = {}
    for head, places in groups.items():
        try:
            read = reader(head) if head else plain
        except msgspec.MsgspecError as error:
            bad |= dict.fromkeys(places, f"an image's head: {error}")
            continue
        found = read([bodies[at] for at in places])
        values = values or [[None] * len(images) for _ in found.values]
        for column, cells in zip(values, found.values, strict=True):
            for at, value in zip(places, cells, strict=True):
                column[at] = value
        bad |= {places[at]: reason for at, reason in found.bad.items()}
        for name, missing in found.absent.items():
            absent.setdefault(name, []).extend(places[at] for at in missing)
    values = values or plain([None] * len(images)).values
    return Columns(values=values, bad=bad, absent={name: sorted(places) for name, places in absent.items()})


def cell_of_field(column_type: ColumnType, field: WireField) -> Cell:
    """The cell of a column that a schema declares as ``field``."""
    return _cell(field.field, column_type, Forms({field.field: _mark(field)}))


def _cell(name: str, column_type: ColumnType, forms: Forms) -> Cell:
    modes = forms.modes
    if is_bytes(column_type) and modes.binary_handling_mode == "hex":
        return Cell(str | None, _unhex)
    mark = _mode_mark(column_type, modes) if forms.columns is None else forms.columns.get(name, "")
    kind = column_type.name
    if kind == "decimal" and (mark or forms.columns is not None or modes.decimal_handling_mode is not None):
        return _unscaled(column_type, mark) if mark[:1] == "d" else _decimal(column_type)
    match mark[:1]:
        case "d" if kind in _INTEGERS:
            return _unscaled(column_type, mark)
        case "b" if kind in _INTEGERS:
            return Cell(bool | int | None, lambda number: str(int(number)))
        case "t" if kind == "datetime":
            return reads.datetime_of(column_type, int(mark[1:]))
        case "t" if kind == "time":
            return reads.time_of(column_type, int(mark[1:]))
    return cell(column_type)


_INTEGERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))
_MILLIS_FSP = 3


def _mode_mark(column_type: ColumnType, modes: NativeModes) -> str:
    """The mark that a block would have given."""
    match column_type.name:
        case "decimal" if modes.decimal_handling_mode == "precise":
            return f"d{column_type.decimal or 0}"
        case "bigint" if column_type.unsigned and modes.bigint_unsigned_handling_mode == "precise":
            return "d0"
        case "datetime" if modes.time_precision_mode == "connect":
            return "t3"
        case "time" if modes.time_precision_mode == "connect":
            return "t3"
        case "time" if modes.time_precision_mode == "adaptive" and fsp(column_type) <= _MILLIS_FSP:
            return "t3"
    return ""


def _decimal(column_type: ColumnType) -> Cell:
    from_number = reads.decimal_of_number(column_type)
    scale = column_type.decimal or 0

    def read(sent: float | str) -> Value:
        return from_number(sent) if isinstance(sent, float) else canonical_decimal(sent, scale)

    return Cell(float | str | None, read)


def _unscaled(column_type: ColumnType, mark: str) -> Cell:
    sent, scale = int(mark[1:]), column_type.decimal or 0 if column_type.name == "decimal" else 0
    return Cell(str | None, lambda text: reads.unscaled_decimal(text, sent, scale))


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise MessageError(f"{text[:40]!r} is not hexadecimal") from error
