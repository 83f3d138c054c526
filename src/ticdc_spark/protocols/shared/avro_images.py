"""Reads row images in Avro: each into a list of cells, and all of them into columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table
from ticdc_spark.protocols.base import Columns, RowReader
from ticdc_spark.wire.avro_binary import readable


class _Missing:
    """A cell that an image does not have."""


MISSING: Final[Any] = _Missing()


_Cells: TypeAlias = list[list[Any]]


class Many(NamedTuple):
    """Images read together."""

    columns: _Cells
    """Cells; ``MISSING`` if an image has none."""
    lacking: set[int]
    """Columns that some image lacks."""
    others: list[int]
    """Images that must be read one by one."""


ReadMany: TypeAlias = Callable[[Sequence[bytes]], Many]
_MANY = 32
"""Fewer images are read one by one."""


def image_reader(
    table: Table, read_image: Callable[[bytes], Sequence[Any]], read_many: ReadMany | None = None
) -> RowReader:
    """A reader of images into canonical columns.

    ``read_image`` gives an image's cells in the order of the table's columns, with ``MISSING`` for missing ones. It
    raises MessageError, IndexError (ends too early) or UnicodeDecodeError. ``read_many`` does the same faster for many
    images.
    """
    reader = _Reader(table, read_image)

    def read(images: Sequence[bytes | None]) -> Columns:
        bad: dict[int, str] = {}
        if read_many is None or len(images) < _MANY:
            return reader.columns(reader.each(images, bad), bad)
        values, lacking = reader.many(read_many, images, bad)
        return reader.columns(values, bad, lacking)

    return read


class _Reader:
    """Reads images of one table."""

    def __init__(self, table: Table, read_image: Callable[[bytes], Sequence[Any]]) -> None:
        self._names = [column.name for column in table.columns]
        self._blank: Sequence[Any] = (None,) * len(self._names)
        self._where = f"row of `{table.schema}`.`{table.name}`"
        self._read = read_image

    def each(self, images: Sequence[bytes | None], bad: dict[int, str]) -> _Cells:
        """Columns of images that are read one by one. ``bad`` gets the reasons."""
        rows: Sequence[Sequence[Any]]
        try:
            rows = [self._blank if image is None else self._read(image) for image in images]
        except (MessageError, IndexError, UnicodeDecodeError):
            rows = [self._row(image, at, bad) for at, image in enumerate(images)]
        return [list(cells) for cells in zip(*rows, strict=True)] or [[] for _ in self._names]

    def many(
        self, read_many: ReadMany, images: Sequence[bytes | None], bad: dict[int, str]
    ) -> tuple[_Cells, Collection[int]]:
        """Columns of images that are read together, and the columns that some image lacks."""
        places: Sequence[int] = range(len(images))
        if None in images:
            places = [at for at, image in enumerate(images) if image is not None]
        values, lacking, others = read_many([image for image in images if image is not None])
        if len(places) < len(images):
            values = [_scattered(cells, places, len(images)) for cells in values]
        for place in (places[at] for at in others):
            for at, cell in enumerate(self._row(images[place], place, bad)):
                values[at][place] = cell
        return values, sorted(lacking)

    def columns(self, values: _Cells, bad: dict[int, str], lacking: Collection[int] | None = None) -> Columns:
        """Canonical columns. ``lacking``: columns with MISSING cells; ``None``: find them."""
        absent: dict[str, Sequence[int]] = {}
        for at in range(len(values)) if lacking is None else lacking:
            cells = values[at]
            if MISSING in cells:
                missing = [place for place, cell in enumerate(cells) if cell is MISSING]
                absent[self._names[at]] = range(len(cells)) if len(missing) == len(cells) else missing
                for place in missing:
                    cells[place] = None
        return Columns(values=values, bad=bad, absent=absent)

    def _row(self, image: bytes | None, at: int, bad: dict[int, str]) -> Sequence[Any]:
        if image is None:
            return self._blank
        try:
            with readable():
                return self._read(image)
        except MessageError as error:
            bad[at] = f"{self._where}: {error}"
            return self._blank


def _scattered(cells: list[Any], places: Sequence[int], length: int) -> list[Any]:
    column: list[Any] = [None] * length
    for at, cell in zip(places, cells, strict=True):
        column[at] = cell
    return column
