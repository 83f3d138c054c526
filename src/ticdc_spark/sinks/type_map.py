"""How a sink stores the source's columns: their types, their names, and how type changes affect values."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from ticdc_spark.model import Table, Value
from ticdc_spark.mysql import Ambiguous
from ticdc_spark.spark.types import LakeColumn, LakeOptions


class ColumnConversion(msgspec.Struct, frozen=True, kw_only=True):
    """How the values of a column become values of another type, if the target does not convert them by itself."""

    expression: str
    """Spark SQL over ``{old}``, for ``str.format``."""
    before: LakeColumn | None = None
    """The column before the change; ``None``: only its type in the target is known."""
    convert: Callable[[Value], Value] | None = None
    """The same for a canonical value of ``before``. Raises: MessageError for a value that the source would refuse"""
    inexact: str = ""
    """Why the new values may differ from the source's, as ``inexact: …``; ``""`` when they are exact."""
    lake: LakeOptions = LakeOptions()


class NameRule(Protocol):
    """Which names a target can store. It does not distinguish names that differ only by case."""

    def held(self, name: str) -> str:
        """The target's name for a database, table or column of the source."""

    def source(self, held: str) -> str:
        """The source's name for a name in the target."""

    def fits(self, name: str) -> bool:
        """Whether a name is short enough for a table."""


class TypeMap(Protocol):
    """The source's types in a target."""

    def columns(self, table: Table, key: tuple[str, ...], options: LakeOptions) -> tuple[LakeColumn, ...]:
        """The columns of a table in the target, without TiDB's hidden ones, with ``key`` marked.

        Raises: MessageError naming the column whose type is unknown; UsageError for two names that the target cannot
        distinguish
        """

    def promotes(self, old: str, new: str) -> bool:
        """Whether the target itself can change a column from one of its types (``LakeType.name``) to another, with its
        values, by ``ColumnChanges.promote``."""

    def widens(self, old: str, new: str) -> bool:
        """Whether the target can do so without changing any values, also old ones that the source no longer has."""

    def conversion(
        self, old: LakeColumn, new: LakeColumn, zone: str | None, ambiguous: Ambiguous
    ) -> ColumnConversion | None:
        """How the values of a column follow a change of its source type; ``None``: they stay the same.

        ``zone``: the session time zone of the DDL, for TIMESTAMP; without it these conversions are inexact.
        """

    def add_columns(self, columns: Sequence[LakeColumn]) -> str:
        """The clause of ALTER TABLE with which a person adds columns."""

    def cast(self, old: str, new: LakeColumn) -> ColumnConversion:
        """The same if only the target's type of the old column is known."""
