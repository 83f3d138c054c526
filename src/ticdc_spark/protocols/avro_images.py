"""Row images in Avro, each read into a list of cells, put together to columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Table, Value
from ticdc_spark.protocols.base import Columns, RowReader
from ticdc_spark.wire.avro_binary import readable


class _Missing:
    """A cell that an image does not hold."""


MISSING: Final[Any] = _Missing()


def image_reader(table: Table, read_image: Callable[[bytes], Sequence[Any]]) -> RowReader:
    """A reader of images into canonical columns.

    ``read_image`` gives an image's cells in the order of the table's columns, ``MISSING`` where there is none; it
    raises MessageError, IndexError (ends too early) or UnicodeDecodeError.
    """
    width = len(table.columns)
    blank: Sequence[Any] = (None,) * width
    where = f"row of `{table.schema}`.`{table.name}`"

    def read(images: Sequence[bytes | None]) -> Columns:
        bad: dict[int, str] = {}
        rows: Sequence[Sequence[Any]]
        try:
            rows = [blank if image is None else read_image(image) for image in images]
        except (MessageError, IndexError, UnicodeDecodeError):
            rows = [_row(image, at, bad) for at, image in enumerate(images)]
        values: list[list[Value]] = [list(cells) for cells in zip(*rows, strict=True)] or [[] for _ in range(width)]
        absent: dict[str, Sequence[int]] = {}
        for column, cells in zip(table.columns, values, strict=True):
            if MISSING in cells:
                missing = [at for at, cell in enumerate(cells) if cell is MISSING]
                absent[column.name] = range(len(images)) if len(missing) == len(images) else missing
                for at in missing:
                    cells[at] = None
        return Columns(values=values, bad=bad, absent=absent)

    def _row(image: bytes | None, at: int, bad: dict[int, str]) -> Sequence[Any]:
        if image is None:
            return blank
        try:
            with readable():
                return read_image(image)
        except MessageError as error:
            bad[at] = f"{where}: {error}"
            return blank

    return read
