"""Reads row images that are JSON objects (column name → cell) into canonical columns.

The protocol defines the cells and how to read them. Readers are compiled once per table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table, Value
from ticdc_spark.protocols.base import Columns, RowReader

_BAD_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_CHUNK = 1024
"""How many images are decoded at once. They fit into the processor's cache, and a bad one is found quickly."""


class Cell(NamedTuple):
    """The content of a column in an image: the type for msgspec (with ``None`` if allowed), and how to read it."""

    wire: Any
    read: Callable[[Any], Value] | None = None
    """Converts msgspec's value (never ``None``) to the canonical one; raises MessageError. ``None``: no conversion."""
    are_read: Callable[[list[Any]], bool] | None = None
    """Whether ``read`` surely returns all of these values unchanged. Faster than ``read``; ``None``: not known."""


def image_reader(
    table: Table, cells: Mapping[str, Cell], only: frozenset[str] | None = None, *, in_order: bool = False
) -> RowReader:
    """Compile a reader of images into canonical columns. ``cells``: one for every column of ``table``.

    ``in_order``: an image has its columns in the table's order, not sorted by name. Only the speed depends on it.
    ``only``: everything else in an image is skipped unread, and the other columns are ``None``. A row is bad if a cell
    cannot be read, or the table does not have a column (the schema is the wrong one).
    """
    decoder = _ImageDecoder(table, cells, only, in_order=in_order)
    reads = [(column.name, cells[column.name]) for column in table.columns]

    def read(images: Sequence[bytes | None]) -> Columns:
        bad: dict[int, str] = {}
        sent, places, complete = decoder.columns(images, bad)
        nothing: list[Value] = [None] * len(images)
        values: list[list[Value]] = []
        absent: dict[str, Sequence[int]] = {}
        for name, cell in reads:
            found = sent.get(name)
            if found is None:
                values.append(nothing)
                continue
            if not complete and UNSET in found:
                missing = [at for at, one in zip(places, found, strict=True) if one is UNSET]
                absent[name] = range(len(images)) if len(missing) == len(images) else missing
                found = [None if one is UNSET else one for one in found]
            if cell.read is not None and not (cell.are_read is not None and cell.are_read(found)):
                found = _convert(found, cell.read, name, places, bad)
            values.append(found if len(found) == len(images) else _scatter(found, places, len(images)))
        for column in values if bad else ():
            for at in bad:
                column[at] = None
        return Columns(values=values, bad=bad, absent=absent)

    return read


_FIELD = re.compile(r"\$\.(c\d+)")


class _ImageDecoder:
    """Decodes images of one table all at once, and one by one only to find bad ones."""

    def __init__(self, table: Table, cells: Mapping[str, Cell], only: frozenset[str] | None, *, in_order: bool) -> None:
        columns = [column for column in table.columns if only is None or column.name in only]
        if not in_order:
            columns.sort(key=lambda column: column.name)  # in the order of the wire, which is fastest for msgspec
        self._names = [column.name for column in columns]
        self._fields = {name: f"c{at}" for at, name in enumerate(self._names)}
        self._known = {column.name for column in table.columns}
        self._whole = only is None
        # msgspec cannot match a name with a quote, a backslash or a control character: such tables are read differently
        self._odd = any(msgspec.json.encode(name)[1:-1] != name.encode() for name in self._names)
        self._where = f"row of `{table.schema}`.`{table.name}`"
        self._wires = [(self._fields[column.name], cells[column.name].wire) for column in columns]

    @cached_property
    def _complete(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(list[self._row(self._wires)])  # type: ignore[misc]

    @cached_property
    def _loose(self) -> type[msgspec.Struct]:
        """The type of a row in which any column may be missing. That is rare, so the type is made when needed."""
        return self._row([(field, wire | UnsetType, UNSET) for field, wire in self._wires])

    @cached_property
    def _all(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(list[self._loose])  # type: ignore[name-defined]

    @cached_property
    def _one(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self._loose)

    def _row(self, fields: list[Any]) -> type[msgspec.Struct]:
        rename = None if self._odd else {field: name for name, field in self._fields.items()}
        return msgspec.defstruct("Row", fields, rename=rename, forbid_unknown_fields=self._whole, gc=False)

    def columns(
        self, images: Sequence[bytes | None], bad: dict[int, str]
    ) -> tuple[dict[str, list[Any]], Sequence[int], bool]:
        """Read the images that are not ``None``.

        Returns: name → cells of the good images, as sent, with UNSET for a missing column; the places of these images;
        whether no cell is missing. ``bad`` gets the reasons of bad images.
        """
        places: Sequence[int] = range(len(images))
        present: Sequence[Any] = images
        if None in images:
            places = [at for at, image in enumerate(images) if image is not None]
            present = [images[at] for at in places]
        columns: dict[str, list[Any]] = {name: [] for name in self._names}
        kept: list[int] = []
        complete = True
        for start in range(0, len(present), _CHUNK):
            stop = start + _CHUNK
            rows, good, whole = self._rows(present[start:stop], places[start:stop], bad)
            complete = complete and whole
            kept.extend(good)
            for cells, more in zip(
                columns.values(), zip(*map(msgspec.structs.astuple, rows), strict=True), strict=False
            ):
                cells.extend(more)
        return columns, kept, complete

    def _rows(
        self, images: Sequence[bytes], places: Sequence[int], bad: dict[int, str]
    ) -> tuple[list[Any], Sequence[int], bool]:
        if not self._odd:
            joined = b"[" + b",".join(images) + b"]"
            for whole in (True, False):
                rows = _decoded(self._complete if whole else self._all, joined)
                if len(rows) == len(images):
                    return rows, places, whole
        good: list[Any] = []
        kept: list[int] = []
        for at, image in zip(places, images, strict=True):
            try:
                good.append(self._one.decode(self._rename(image) if self._odd else image))
                kept.append(at)
            except _BAD_JSON as error:
                bad[at] = f"{self._where}: {self._named(str(error)) if self._odd else error}"
        return good, kept, False

    def _rename(self, image: bytes) -> bytes:
        cells = msgspec.json.decode(image, type=dict[str, msgspec.Raw])
        for name in cells.keys() - self._known if self._whole else ():
            raise msgspec.ValidationError(f"Object contains unknown field `{name}`")
        return msgspec.json.encode({self._fields[name]: cell for name, cell in cells.items() if name in self._fields})

    def _named(self, reason: str) -> str:
        return _FIELD.sub(lambda found: "$." + self._names[int(found.group(1)[1:])], reason)


def _decoded(decoder: msgspec.json.Decoder[Any], joined: bytes) -> list[Any]:
    try:
        rows: list[Any] = decoder.decode(joined)
    except _BAD_JSON:
        return []
    return rows


def _convert(
    cells: list[Any], convert: Callable[[Any], Value], name: str, places: Sequence[int], bad: dict[int, str]
) -> list[Any]:
    try:
        return [None if cell is None else convert(cell) for cell in cells]
    except MessageError:
        pass  # find the bad ones
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
