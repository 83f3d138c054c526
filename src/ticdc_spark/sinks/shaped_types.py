"""Columns that ``[[route]]`` drops, masks or renames, for the types of any sink."""

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from ticdc_spark.config.routes import Routes
from ticdc_spark.config.shapes import CONSTANT, HASH, NULL, Shape, shape_of, stop_if_wrong
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Column, ColumnType, Table
from ticdc_spark.mysql import Ambiguous
from ticdc_spark.mysql.kept_text import keeps_text
from ticdc_spark.sinks.type_map import ColumnConversion, NameRule, TypeMap
from ticdc_spark.spark.masks import constant_of
from ticdc_spark.spark.types import LakeColumn, LakeOptions, LakeType, Mask, arrow_type

HASHES = ColumnType(name="char", length=64, charset="ascii", collate="ascii_bin")
"""The source type that can hold a hash."""


class ShapedTypes:
    """See ``sinks.type_map.TypeMap``."""

    def __init__(self, types: TypeMap, names: NameRule, routes: Routes, salt: str | None) -> None:
        self._types, self._names, self._routes = types, names, routes
        self._salt = (salt or "").encode()

    def columns(self, table: Table, key: tuple[str, ...], options: LakeOptions) -> tuple[LakeColumn, ...]:
        found = self._types.columns(table, key, options)
        shape = shape_of(self._routes.rule(table.full_name), table)
        if not shape:
            return found
        stop_if_wrong(shape, table)
        return tuple(
            self._shaped(column, shape, table, options) for column in found if column.source not in shape.dropped
        )

    def promotes(self, old: str, new: str) -> bool:
        return self._types.promotes(old, new)

    def widens(self, old: str, new: str) -> bool:
        return self._types.widens(old, new)

    def conversion(
        self, old: LakeColumn, new: LakeColumn, zone: str | None, ambiguous: Ambiguous
    ) -> ColumnConversion | None:
        mask = new.mask
        if mask is None:
            return self._types.conversion(old, new, zone, ambiguous)
        if mask.how == "hash":
            same = keeps_text(old.column.type, new.column.type)
            return None if same else ColumnConversion(expression="{old}", inexact=_UNKNOWN)
        if old.type == new.type:
            return None
        return ColumnConversion(expression=_constant(mask, new.type))

    def add_columns(self, columns: Sequence[LakeColumn]) -> str:
        return self._types.add_columns(columns)

    def cast(self, old: str, new: LakeColumn) -> ColumnConversion:
        mask = new.mask
        if mask is None:
            return self._types.cast(old, new)
        if mask.how == "hash":
            return msgspec.structs.replace(self._types.cast(old, new), inexact=_UNKNOWN)
        return ColumnConversion(expression=_constant(mask, new.type))

    def _shaped(self, column: LakeColumn, shape: Shape, table: Table, options: LakeOptions) -> LakeColumn:
        name, how = dict(shape.renamed).get(column.source), dict(shape.masked).get(column.source)
        if name is not None:
            column = msgspec.structs.replace(column, name=self._names.held(name))
        if how == HASH:
            mask = Mask(how="hash", type=column.type, salt=self._salt)
            return msgspec.structs.replace(column, type=self._text(column.source, table, options), mask=mask)
        if how == NULL:
            return msgspec.structs.replace(column, mask=Mask(how="null", type=column.type))
        if how is not None:
            value = how.removeprefix(CONSTANT)
            _stop_if_no_value(value, column, table)
            return msgspec.structs.replace(column, mask=Mask(how="constant", type=column.type, value=value))
        return column

    def _text(self, name: str, table: Table, options: LakeOptions) -> LakeType:
        """The type of hashes in the target."""
        alone = msgspec.structs.replace(table, columns=(Column(name=name, type=HASHES),), indexes=(), partitioning=None)
        return self._types.columns(alone, (), options)[0].type


_UNKNOWN = "inexact: it has hashes of the values from before its type changed; only a full read makes new ones"


def _constant(mask: Mask, kind: LakeType) -> str:
    """The value of a masked column in Spark SQL, for ``ColumnConversion.expression``."""
    text = mask.value.replace("\\", "\\\\").replace("'", "\\'").replace("{", "{{").replace("}", "}}")
    value = "NULL" if mask.how == "null" else f"'{text}'"
    return f"CAST({value} AS {kind.spark})"


def _stop_if_no_value(value: str, column: LakeColumn, table: Table) -> None:
    try:
        constant_of(value, arrow_type(column.type))
    except (ValueError, NotImplementedError, pa.ArrowException) as error:
        raise UsageError(
            f"`{table.schema}`.`{table.name}`: [[route]] mask-columns: {value!r} is no value of column "
            f'`{column.source}`, which is {column.column.type.name} ({column.type.name} in the target); use "{NULL}". '
            "If the target already has the column with this mask, exclude the table with `tables` under [job]"
        ) from error
