"""Row images of the Simple protocol: reads raw JSON objects into canonical columns, and writes rows as JSON objects.

Both are compiled once per table from ``simple.types``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Row, Table
from ticdc_spark.protocols.base import ReadOptions, RowReader
from ticdc_spark.protocols.shared.json_rows import Cell, image_reader
from ticdc_spark.protocols.simple.types import codec_for

_ENCODER = msgspec.json.Encoder()
RowWriter: TypeAlias = Callable[[Row], msgspec.Raw]


def row_writer(table: Table, zone: str, only: Iterable[str] | None = None) -> RowWriter:
    """Compile a writer of images: the columns of ``table`` (or only the ones in ``only``), sorted by name as in Go.

    A column that a row does not have (a virtual one) is omitted. The writer raises MessageError for a row with a column
    that the table does not have.
    """
    writers = {column.name: codec_for(column.type).write for column in table.columns}
    names = sorted(writers if only is None else only)
    writes = [(name, write(zone)) for name in names if (write := writers[name])]
    every: Any = itemgetter(*names) if len(names) > 1 else None  # a single name gives no tuple

    def some(row: Row) -> dict[str, Any]:
        image: dict[str, Any] = {name: row[name] for name in names if name in row}
        if len(image) != len(row) and not row.keys() <= writers.keys():
            raise MessageError(f"`{table.schema}`.`{table.name}` has no column {sorted(row.keys() - writers.keys())}")
        return image

    def write_row(row: Row) -> msgspec.Raw:
        if every is None or len(row) != len(names):
            image = some(row)
        else:
            try:
                image = dict(zip(names, every(row)))  # noqa: B905  quicker, and of one length
            except KeyError:
                image = some(row)
        for name, write in writes:
            if (value := image.get(name)) is not None:
                image[name] = write(value)
        return msgspec.Raw(_ENCODER.encode(image))

    return write_row


def row_reader(table: Table, options: ReadOptions, only: frozenset[str] | None = None) -> RowReader:
    """Compile a reader of images (raw JSON objects from ``open_message``) into canonical columns.

    With ``only``, everything else in an image is skipped unread, and the other columns are ``None``.

    A row is bad if it has a wrong JSON type, a column that the table does not have (the schema is the wrong one),
    base64 or a FLOAT that cannot be read, or an impossible TIMESTAMP. Whether other text fits its type (INT ``abc``) is
    not checked here, but when the text is typed.

    Raises: MessageError if the table has a column type that Simple cannot carry.
    """
    cells = {}
    for column in table.columns:
        found = codec_for(column.type)
        read = found.read(column.type, options) if found.read else None
        cells[column.name] = Cell(found.wire | None, read, found.are_read)
    return image_reader(table, cells, only)
