"""The source's types and names in PostgreSQL."""

import re
from collections.abc import Sequence

import msgspec

from ticdc_spark.clients.postgres import quoted
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import ColumnType, Table
from ticdc_spark.mysql import Ambiguous, fsp
from ticdc_spark.sinks.conversions import conversion
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.types import LakeColumn, LakeOptions, LakeType, lake_columns

_LONGEST = 63
"""Bytes of a name. PostgreSQL truncates longer ones."""
_SYSTEM = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
"""Columns that every table has."""
_WHOLE = ("smallint", "integer", "bigint")
_OWN = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "year": "smallint",
    "json": "json",  # jsonb would reorder keys and refuse U+0000
}
_OF_ARROW = {
    "int32": "integer",
    "int64": "bigint",
    "bool": "boolean",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "floats": "real[]",
}
_KEY_BYTES = 2600
"""Largest size of an index entry in bytes."""


class PostgresNames:
    """See ``sinks.type_map.NameRule``: every name of the source is valid here and keeps its case."""

    def held(self, name: str) -> str:
        return name

    def source(self, held: str) -> str:
        return held

    def fits(self, name: str) -> bool:
        return not why_no_name(name)


def why_no_name(name: str) -> str:
    """Why PostgreSQL cannot have a name; ``""``: it can."""
    size = len(name.encode())
    return f"has {size} bytes, and PostgreSQL's names have {_LONGEST} at most" if size > _LONGEST else ""


def stop_if_no_column(name: str) -> None:
    """Raises: DecisionNeeded if no column can have the name"""
    why = why_no_name(name)
    if name in _SYSTEM:
        why = "is the name of a column that PostgreSQL gives every table"
    if why:
        raise DecisionNeeded(
            f"column `{name}`: its name {why}. Give it another one with `rename-columns` under [[route]], or at the "
            "source, or exclude the table with `tables` under [job]"
        )


class PostgresTypes:
    """See ``sinks.type_map.TypeMap``. Types have the names of the server's ``format_type``."""

    def columns(self, table: Table, key: tuple[str, ...], options: LakeOptions) -> tuple[LakeColumn, ...]:
        found = lake_columns(table, key, options)
        return tuple(msgspec.structs.replace(one, name=one.source, type=_own(one)) for one in found)

    def promotes(self, old: str, new: str) -> bool:
        """Conversions where ``ALTER COLUMN … TYPE`` equals MySQL's: wider numbers, more digits of a second."""
        if old in _WHOLE and new in _WHOLE:
            return _WHOLE.index(old) < _WHOLE.index(new)
        if (old, new) == ("real", "double precision"):
            return True
        before, after = re.findall(r"\d+", old), re.findall(r"\d+", new)
        if re.sub(r"\d+", "", old) != re.sub(r"\d+", "", new) or len(before) != len(after):
            return False
        if old.startswith("timestamp"):
            return int(before[0]) < int(after[0])
        return old.startswith("numeric") and before[1] == after[1] and int(before[0]) < int(after[0])

    def widens(self, old: str, new: str) -> bool:
        return self.promotes(old, new)

    def conversion(
        self, old: LakeColumn, new: LakeColumn, zone: str | None, ambiguous: Ambiguous
    ) -> ColumnConversion | None:
        found = conversion(old, new, zone, ambiguous)
        if found.keeps_lake and old.type == new.type:
            return None
        source = msgspec.structs.replace(new.column, type=old.column.type)
        before = msgspec.structs.replace(new, type=old.type, column=source)
        return ColumnConversion(expression="{old}", before=before, convert=found.python, inexact=found.reason)

    def add_columns(self, columns: Sequence[LakeColumn]) -> str:
        return ", ".join(f"ADD COLUMN {definition(column, key=False)}" for column in columns)

    def cast(self, old: str, new: LakeColumn) -> ColumnConversion:
        return ColumnConversion(expression="{old}")


def _own(column: LakeColumn) -> LakeType:
    name = type_name(column)
    return msgspec.structs.replace(column.type, own=name, refuses_nul=name == "text")


def type_name(column: LakeColumn) -> str:
    """The type of a column in SQL."""
    if column.mask is not None:
        return column.type.name
    kind, lake = column.column.type, column.type
    if kind.name == "decimal":
        return f"numeric({10 if kind.length is None else kind.length},{kind.decimal or 0})"
    if lake.arrow == "decimal":
        return f"numeric({lake.precision},{lake.scale})"
    if lake.arrow in ("local", "instant"):
        return f"timestamp({fsp(kind)}) with{'out' if lake.arrow == 'local' else ''} time zone"
    own = _OWN.get(kind.name)
    if own is None or lake.arrow == "bool" or (kind.name == "smallint" and kind.unsigned):
        return _OF_ARROW[lake.arrow]
    return own


def definition(column: LakeColumn, *, key: bool = True) -> str:
    """A column definition for CREATE and ALTER. All columns except the key may be NULL. Raises: DecisionNeeded"""
    stop_if_no_column(column.name)
    return f"{quoted(column.name)} {type_name(column)}{' NOT NULL' if key and column.key else ''}"


def is_indexable(columns: Sequence[LakeColumn]) -> bool:
    """Whether every value of the columns fits into an index."""
    kinds = [one.column.type for one in columns if one.mask is None]  # a hash is short
    if any(kind.name.endswith(("text", "blob")) for kind in kinds):
        return False
    long = ("char", "varchar", "binary", "varbinary")
    return sum(_bytes(kind) for kind in kinds if kind.name in long) <= _KEY_BYTES


def _bytes(kind: ColumnType) -> int:
    return (1 if kind.charset in ("binary", "ascii") else 4) * (kind.length or 1)
