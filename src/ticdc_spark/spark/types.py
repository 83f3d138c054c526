"""MySQL types in the lake: maps column types to lake types, for Spark and Arrow.

``docs/reference/types.md`` lists the lake types. ``to_arrow`` turns a list of canonical values (``mysql.values``) into
an Arrow array of the lake type, and returns the rows that could not be read. A failed cast is a reject, never a NULL.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_spark.errors import MessageError
from ticdc_spark.model import Column, ColumnType, Table, Value
from ticdc_spark.mysql import SPATIAL_TYPES
from ticdc_spark.names import escape_all
from ticdc_spark.spark.masks import constant_of, hashes

Cells: TypeAlias = list[Value]
Bad: TypeAlias = dict[int, str]
Typed: TypeAlias = tuple[pa.Array, Bad, int]
"""An array, the rows that could not be read with their reasons, and the number of dates that became NULL."""

NUL = "has the character U+0000, which no text of the target can hold"
HIDDEN_PREFIX = "_V$_"
"""Prefix of TiDB's hidden columns for expression indexes; they hold no data of the table."""


class LakeType(msgspec.Struct, frozen=True):
    """A type of the lake: its form in Spark's tasks, and its name in the sink."""

    spark: str
    """The name in Spark SQL."""
    arrow: Literal[
        "int32", "int64", "decimal", "bool", "float", "double", "string", "binary", "date", "local", "instant", "floats"
    ]
    precision: int = 0
    scale: int = 0
    own: str = ""
    """The sink's own name of the type; ``""``: the same as Spark's."""
    refuses_nul: bool = False
    """Whether the sink's text cannot store the character U+0000."""

    @property
    def name(self) -> str:
        """The name in ``sinks.base.Columns.columns``."""
        return self.own or self.spark


class LakeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A user's choices about types."""

    tinyint1_as_boolean: bool = False
    zero_dates: Literal["null", "error"] = "null"


class Mask(msgspec.Struct, frozen=True, kw_only=True):
    """What replaces a column's values."""

    how: Literal["hash", "null", "constant"]
    type: LakeType
    """The type of the column without the mask."""
    value: str = ""
    """The constant, as text."""
    salt: bytes = b""
    """The salt of a hash."""

    def __repr__(self) -> str:
        return f"Mask(how={self.how!r})"


class LakeColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a lake table."""

    source: str
    name: str
    """Escaped."""
    type: LakeType
    key: bool = False
    column: Column
    """The column at the source."""
    mask: Mask | None = None
    """``None``: the column has the source's values."""
    comment: str = ""
    """For people. Known only while a DDL that writes it is applied."""

    @property
    def plain(self) -> "LakeColumn":
        """The column without its mask."""
        return self if self.mask is None else msgspec.structs.replace(self, type=self.mask.type, mask=None)


def without_values(column: LakeColumn) -> LakeColumn:
    """A column that is NULL in every written row."""
    return msgspec.structs.replace(column, mask=Mask(how="null", type=column.type))


def is_exact_key(column: LakeColumn) -> bool:
    """Whether a database finds a row by the target's value of a key column. It compares FLOAT and DOUBLE approximately,
    and a flag may be any number there."""
    kind = column.column.type.name
    return kind not in ("float", "double") and (column.type.arrow != "bool" or kind == "bit")


def commented(columns: Iterable[LakeColumn], comments: Mapping[str, str]) -> tuple[LakeColumn, ...]:
    """Columns with their comments, which have the names of the source's columns."""
    if not comments:
        return tuple(columns)
    texts = {name.casefold(): text for name, text in comments.items()}
    return tuple(msgspec.structs.replace(one, comment=texts.get(one.source.casefold(), "")) for one in columns)


_INT = LakeType("int", "int32")
_LONG = LakeType("bigint", "int64")
_STRING = LakeType("string", "string")
_BINARY = LakeType("binary", "binary")
_BOOLEAN = LakeType("boolean", "bool")


def decimal_type(precision: int, scale: int) -> LakeType:
    """The lake's decimal type. Beyond 38 digits it is a string, because Spark has no wider decimal."""
    if precision > 38:
        return _STRING
    return LakeType(f"decimal({precision},{scale})", "decimal", precision, scale)


_UNSIGNED_LONG = decimal_type(20, 0)
_FIXED: dict[str, LakeType] = {
    "smallint": _INT,
    "mediumint": _INT,
    "year": _INT,
    "float": LakeType("float", "float"),
    "double": LakeType("double", "double"),
    "enum": _STRING,
    "set": _STRING,
    "json": _STRING,
    "date": LakeType("date", "date"),
    "newdate": LakeType("date", "date"),
    "datetime": LakeType("timestamp_ntz", "local"),
    "timestamp": LakeType("timestamp", "instant"),
    "time": _STRING,
    "vector": LakeType("array<float>", "floats"),
    "null": _STRING,
    **dict.fromkeys(SPATIAL_TYPES, _BINARY),
}
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


def lake_type(column: ColumnType, options: LakeOptions) -> LakeType:
    """The lake type of a MySQL type.

    Raises: MessageError if the type is unknown.
    """
    name = column.name
    if name in _FIXED:
        return _FIXED[name]
    if name in _TEXTS or name in _BYTES:
        return _BINARY if name in _BYTES or column.charset == "binary" else _STRING
    match name:
        case "tinyint":
            boolean = options.tinyint1_as_boolean and column.length == 1 and not column.unsigned
            return _BOOLEAN if boolean else _INT
        case "int":
            return _LONG if column.unsigned else _INT
        case "bigint":
            return _UNSIGNED_LONG if column.unsigned else _LONG
        case "bit":
            bits = column.length or 1
            return _BOOLEAN if bits == 1 else _LONG if bits < 64 else _UNSIGNED_LONG
        case "decimal":
            return decimal_type(10 if column.length is None else column.length, column.decimal or 0)
    message = f"the type {name!r} has no counterpart in the lake"
    raise MessageError(message)


@lru_cache(256)
def lake_columns(table: Table, key: tuple[str, ...], options: LakeOptions) -> tuple[LakeColumn, ...]:
    """The lake's columns of a table, without hidden ones, with ``key`` marked.

    Raises: MessageError naming the column whose type is unknown.
    """
    visible = [column for column in table.columns if not column.name.startswith(HIDDEN_PREFIX)]
    names = escape_all((column.name for column in visible), f"columns of `{table.schema}`.`{table.name}`")
    found = []
    for column in visible:
        try:
            kind = lake_type(column.type, options)
        except MessageError as error:
            message = f"column `{column.name}` of `{table.schema}`.`{table.name}`: {error}"
            raise MessageError(message) from error
        found.append(
            LakeColumn(source=column.name, name=names[column.name], type=kind, key=column.name in key, column=column)
        )
    return tuple(found)


_ARROW: dict[str, pa.DataType] = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "local": pa.timestamp("us"),
    "instant": pa.timestamp("us", tz="UTC"),
    "floats": pa.list_(pa.float32()),
}


def arrow_type(kind: LakeType) -> pa.DataType:
    """The Arrow type that Spark maps to ``kind.spark``."""
    return pa.decimal128(kind.precision, kind.scale) if kind.arrow == "decimal" else _ARROW[kind.arrow]


def to_arrow(column: LakeColumn, options: LakeOptions) -> Callable[[Cells], Typed]:
    """Compile the conversion of canonical values of one column to an Arrow array of its lake type."""
    return _to_arrow(column, options) if column.mask is None else _masked(column, column.mask, options)


def _masked(column: LakeColumn, mask: Mask, options: LakeOptions) -> Callable[[Cells], Typed]:
    """The same for a masked column. Its values must stay hidden, also in the reasons of unreadable ones."""
    kind, plain = arrow_type(column.type), _to_arrow(column.plain, options)
    if mask.how == "hash":

        def hashed(cells: Cells) -> Typed:
            array, bad, nulled = plain(cells)
            why = f"column `{column.source}`: a value, which is masked, is no {column.column.type.name}"
            return pa.array(hashes(array, mask.salt), kind), dict.fromkeys(bad, why), nulled

        return hashed
    constant = pa.scalar(None, kind) if mask.how == "null" else constant_of(mask.value, kind)
    return lambda cells: (pa.repeat(constant, len(cells)), {}, 0)


def _to_arrow(column: LakeColumn, options: LakeOptions) -> Callable[[Cells], Typed]:
    kind = arrow_type(column.type)
    prepare = _preparation(column.column.type, column.type)
    is_date = column.type.arrow in {"date", "local", "instant"}
    zero_is_null = is_date and options.zero_dates == "null"

    def fast(cells: Cells) -> pa.Array:
        cells = cells if prepare is None else [None if cell is None else prepare(cell) for cell in cells]  # type: ignore[misc]
        if column.type.arrow in {"string", "binary", "floats"}:
            array = pa.array(cells, kind)
            if column.type.refuses_nul and pc.any(pc.match_substring(array, "\0"), min_count=0).as_py():
                raise ValueError(NUL)
            return array
        array = pa.array(cells, pa.string())
        if column.type.arrow == "instant":
            array = array.cast(pa.timestamp("us"))  # canonical text is in UTC, without a zone
        array = array.cast(kind)
        if column.type.arrow in {"float", "double"} and not pc.all(pc.is_finite(array), min_count=0).as_py():
            message = "MySQL has no such number"
            raise ValueError(message)
        return array

    def slow(cells: Cells) -> Typed:
        bad: Bad = {}
        nulled = 0
        kept: Cells = []
        for index, cell in enumerate(cells):
            try:
                fast([cell])
                kept.append(cell)
            except (pa.ArrowException, KeyError, TypeError, ValueError, msgspec.DecodeError):
                kept.append(None)
                if zero_is_null and isinstance(cell, str) and _is_impossible_date(cell):
                    nulled += 1
                else:
                    bad[index] = f"column `{column.source}`: {cell!r:.200} {_why(cell, column)}"
        return fast(kept), bad, nulled

    def convert(cells: Cells) -> Typed:
        try:
            return fast(cells), {}, 0
        except (pa.ArrowException, KeyError, TypeError, ValueError, msgspec.DecodeError):
            return slow(cells)

    return convert


def _why(cell: Value, column: LakeColumn) -> str:
    """Why a value cannot be read."""
    if column.type.refuses_nul and isinstance(cell, str) and "\0" in cell:
        return NUL
    return f"is no {column.column.type.name}"


def _preparation(source: ColumnType, lake: LakeType) -> Callable[[str | bytes], object] | None:
    """What a canonical value needs before Arrow's cast; ``None`` if the cast suffices."""
    match source.name:
        case "enum":
            names = {str(index): name for index, name in enumerate(source.elements, 1)} | {"0": ""}
            return lambda cell: names[cell]  # type: ignore[index]
        case "set":
            return _set_names(source.elements)
        case "vector":
            return lambda cell: msgspec.json.decode(cell, type=list[float])
        case "bit" if lake.arrow == "bool":
            return _flag
        case "tinyint" if lake.arrow == "bool":
            return lambda cell: "false" if cell == "0" else "true"
    return None


def _flag(cell: str | bytes) -> str | bytes:
    if cell not in {"0", "1"}:
        message = "BIT(1) is 0 or 1"
        raise ValueError(message)
    return cell


def _set_names(elements: tuple[str, ...]) -> Callable[[str | bytes], str]:
    known: dict[str | bytes, str] = {"0": ""}

    def names(cell: str | bytes) -> str:
        found = known.get(cell)
        if found is None:
            mask = int(cell)
            if not 0 <= mask < 1 << len(elements):
                message = f"the SET has {len(elements)} members"
                raise ValueError(message)
            found = ",".join(name for bit, name in enumerate(elements) if mask >> bit & 1)
            if len(known) < 4096:
                known[cell] = found
        return found

    return names


def _is_impossible_date(text: str) -> bool:
    """Zero dates, and days that only MySQL's looser modes accept (2024-02-30, 2024-00-10)."""
    try:
        year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    except ValueError:
        return False
    try:
        date(year, month, day)
    except ValueError:
        return 0 <= month <= 12 and 0 <= day <= 31
    return False
