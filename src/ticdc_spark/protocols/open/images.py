"""Images of the Open protocol without a schema: whole before images, and the table that a single row shows."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import msgspec

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Index, Table
from ticdc_spark.protocols.open.types import BINARY, CODECS, GENERATED, HANDLE, NULLABLE, PRIMARY, UNSIGNED


class _Object(msgspec.Struct, gc=False):
    """Any JSON object. Its fields are dropped."""


_CELLS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NAMED = msgspec.json.Decoder(dict[str, _Object])


def whole_before(after: bytes, changed: bytes) -> bytes:
    """The before image of an update: ``after`` overlaid with the columns of ``changed``; whole if that is.

    The new architecture sends a column that became NULL without its name: ``{"p": {"t":3,"f":65,"v":7}}``. If type code
    and flags identify the column, its value is restored. Otherwise all possible columns are omitted.
    Raises: msgspec's errors if an image is no JSON object.
    """
    try:
        if _NAMED.decode(changed).keys() >= _NAMED.decode(after).keys():
            return changed
        old = _CELLS.decode(changed)
        doubtful = set[str]()
    except msgspec.ValidationError:
        old, doubtful = _named(after, changed)
    new = {name: cell for name, cell in _CELLS.decode(after).items() if name not in doubtful}
    return msgspec.json.encode({**new, **old})


class _Pairs(list[tuple[str, Any]]):
    """A JSON object, to distinguish it from an array."""


def _pairs(image: bytes) -> _Pairs:
    # msgspec does not keep repeated keys
    found: _Pairs = json.loads(image, object_pairs_hook=_Pairs, parse_float=_number, parse_int=_number)
    return found


def _number(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def _named(after: bytes, changed: bytes) -> tuple[dict[str, msgspec.Raw], set[str]]:
    """Columns of ``changed`` by name, and columns of ``after`` whose old value is unknown."""
    named: dict[str, msgspec.Raw] = {}
    nameless: list[dict[str, Any]] = []
    for name, cell in _pairs(changed):
        if isinstance(cell, _Pairs):
            named[name] = _raw(_fields(cell))
        elif isinstance(cell, list):
            raise msgspec.ValidationError(f"Expected `object`, got `array` - at `$.{name}`")
        elif name == "t" or not nameless:
            nameless.append({name: cell})
        else:
            nameless[-1][name] = cell
    # the possible columns, in the table's order, which the nameless ones have too
    candidates = [
        (name, _sort(fields))
        for name, cell in _pairs(after)
        if name not in named and isinstance(cell, _Pairs) and (fields := _fields(cell)).get("v", "") is None
    ]
    doubtful: set[str] = set()
    for sort, group in groupby(sorted(nameless, key=_sort), key=_sort):
        cells, names = list(group), [name for name, found in candidates if found == sort]
        if len(cells) == len(names):
            named.update(zip(names, map(_raw, cells), strict=True))
        else:
            doubtful.update(names)
    return named, doubtful


def _fields(cell: _Pairs) -> dict[str, Any]:
    fields = dict(cell)
    for name, value in fields.items():
        if isinstance(value, list):
            raise msgspec.ValidationError(f"field `{name}` of a column is neither text nor number")
    return fields


def _sort(cell: dict[str, Any]) -> tuple[bytes, bytes]:
    return msgspec.json.encode(cell.get("t")), msgspec.json.encode(cell.get("f"))


def _raw(cell: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(cell))


class _Typed(msgspec.Struct, gc=False):
    t: int
    f: int = 0


_IMAGE = msgspec.json.Decoder(dict[str, _Typed])
_BINARY_NAMES = {"varchar": "varbinary", "char": "binary", "text": "blob"}
_NAMES = {found.code: name for name, found in CODECS.items()} | {
    0: "decimal",
    14: "date",
    253: "varchar",
    249: "tinytext",
    250: "mediumtext",
    251: "longtext",
    252: "text",
    15: "varchar",
    254: "char",
}
_OF_CHARSET = frozenset((15, 249, 250, 251, 252, 253, 254))


def table_from_row(schema: str, table: str, image: bytes) -> Table:
    """The table that one of its rows shows. ``image``: a raw image of an envelope.

    Known are names (in the order sent; the classic architecture sorts them), types, UNSIGNED, NULL or NOT NULL, stored
    generated columns, and the handle key. Unknown are lengths, scales, ENUM and SET members, character sets other than
    binary, defaults, the handle key's column order, other indexes, and virtual columns. A partial image has only its
    own columns. A column whose type code is NULL's (6) has no type and is refused.

    Raises: MessageError if the image cannot be read or has an unknown type code.
    """
    try:
        cells = _IMAGE.decode(image)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"row of `{schema}`.`{table}`: {error}") from error
    columns = tuple(
        Column(name=name, type=_type(name, cell), nullable=bool(cell.f & NULLABLE), stored=bool(cell.f & GENERATED))
        for name, cell in cells.items()
    )
    return Table(schema=schema, name=table, columns=columns, indexes=_indexes(cells))


def _type(name: str, cell: _Typed) -> ColumnType:
    kind = _NAMES.get(cell.t)
    if kind is None:
        raise MessageError(f"column `{name}`: type code {cell.t} is no type")
    binary = bool(cell.f & BINARY)
    if cell.t in _OF_CHARSET and binary:
        kind = _BINARY_NAMES.get(kind) or kind.replace("text", "blob")
    charset = None if cell.t in _OF_CHARSET and not binary else "binary"
    return ColumnType(name=kind, unsigned=bool(cell.f & UNSIGNED), charset=charset, collate=charset)


def _indexes(cells: dict[str, _Typed]) -> tuple[Index, ...]:
    for flag, primary in ((PRIMARY, True), (HANDLE, False)):
        names = tuple(name for name, cell in cells.items() if cell.f & flag)
        if names:
            index = Index(
                name="primary" if primary else "handle", unique=True, primary=primary, nullable=False, columns=names
            )
            return (index,)
    return ()
