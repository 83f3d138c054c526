"""Reads many images of Simple in Avro at once into columns: converts what ``simple.avro.scan`` found to values.

A value is read by the same reader as in a single image. Common values of a column are read together, which is faster
and gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Value
from ticdc_spark.mysql import float_text
from ticdc_spark.protocols.shared.avro_images import MISSING, Many, ReadMany
from ticdc_spark.protocols.shared.avro_reads import read_double, read_float, read_unsigned
from ticdc_spark.protocols.simple.avro.scan import Bytes, Names, Places, Scan, scan
from ticdc_spark.protocols.simple.avro.types import NULL
from ticdc_spark.wire.avro_binary import Reader, read_bytes, read_number, read_text, read_text_or_bytes

_CHUNK = 4096
"""How many images take a step together. They fit into the processor's cache."""
Reads: TypeAlias = Mapping[int, Reader[Value]] | None
_Cells: TypeAlias = list[Any]


def columns_reader(names: Sequence[bytes], reads: Sequence[Reads], *, strict: bool) -> ReadMany:
    """Compile a reader of many images. ``reads``: each column's readers by branch; ``None``: it is not wanted."""
    known = Names(names)

    def read_many(images: Sequence[bytes]) -> Many:
        columns: list[_Cells] = [[] for _ in names]
        lacking: set[int] = set()
        others: list[int] = []
        for first in range(0, len(images), _CHUNK):
            found = Bytes(images[first : first + _CHUNK])
            places = scan(found, known, len(names), strict=strict)
            for at, (cells, read) in enumerate(zip(columns, reads, strict=True)):
                cells.extend(_nothing(places) if read is None else _column(found, places, at, read))
                if read is not None and (places.at[at] < 0).any():
                    lacking.add(at)
            others.extend((np.flatnonzero(~places.good) + first).tolist())
        return Many(columns, lacking, others)

    return read_many


def _nothing(places: Scan) -> _Cells:
    return [None] * len(places.good)


def _column(found: Bytes, places: Scan, column: int, reads: Mapping[int, Reader[Value]]) -> _Cells:
    """The cells of a column; images whose cell cannot be read are no longer good."""
    at, ends, branches = places.at[column], places.ends[column], places.branches[column]
    if (at >= 0).all() and (branches == branches[0]).all() and int(branches[0]) in reads:
        whole = _read(found, at, ends, reads[int(branches[0])])
        if whole is not None:
            return whole
    cells: _Cells = [MISSING] * len(at)
    read_so_far = 0
    for code in (NULL, *reads):
        (chosen,) = np.nonzero((at >= 0) & (branches == code))
        if not len(chosen):
            continue
        read_so_far += len(chosen)
        if code == NULL:
            some: _Cells = [None] * len(chosen)
        else:
            read = reads[code]
            some = _read(found, at[chosen], ends[chosen], read) or _read_singly(found, places, column, chosen, read)
        for place, cell in zip(chosen.tolist(), some, strict=True):
            cells[place] = cell
    if read_so_far < np.count_nonzero(at >= 0):
        places.good[(at >= 0) & ~np.isin(branches, [NULL, *reads])] = False
    return cells


def _read(found: Bytes, at: Places, ends: Places, read: Reader[Value]) -> _Cells | None:
    """The values at some places; ``None`` if one of them cannot be read in the usual way."""
    quick = _QUICK.get(read)
    try:
        if quick is not None:
            return quick(found, at, ends)
        data = found.data
        return [read(data, place)[0] for place in at.tolist()]
    except (MessageError, UnicodeDecodeError):
        return None


def _read_singly(found: Bytes, places: Scan, column: int, chosen: Places, read: Reader[Value]) -> _Cells:
    cells: _Cells = []
    for image in chosen.tolist():
        try:
            cells.append(read(found.data, int(places.at[column, image]))[0])
        except (MessageError, UnicodeDecodeError):
            cells.append(None)
            places.good[image] = False
    return cells


def _texts(found: Bytes, at: Places, ends: Places) -> _Cells:
    begins, _ = found.lengths(at)
    data = found.data
    return [str(data[begin:end], "utf-8") for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def _raws(found: Bytes, at: Places, ends: Places) -> _Cells:
    begins, _ = found.lengths(at)
    data = found.data
    return [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def _numbers(found: Bytes, at: Places, _: Places) -> _Cells:
    return [*map(str, found.numbers(at)[0].tolist())]


def _unsigned(found: Bytes, at: Places, _: Places) -> _Cells:
    return [*map(str, found.numbers(at)[0].view(np.uint64).tolist())]


def _floats(found: Bytes, at: Places, _: Places) -> _Cells:
    numbers = found.words(at).astype(np.uint32).view(np.float32).astype(np.float64)
    return [float_text(number, 32) for number in numbers.tolist()]


def _doubles(found: Bytes, at: Places, _: Places) -> _Cells:
    return [float_text(number, 64) for number in found.words(at).view(np.float64).tolist()]


_QUICK: Mapping[Reader[Any], Callable[[Bytes, Places, Places], _Cells]] = {
    read_text: _texts,
    read_text_or_bytes: _texts,
    read_bytes: _raws,
    read_number: _numbers,
    read_unsigned: _unsigned,
    read_float: _floats,
    read_double: _doubles,
}
