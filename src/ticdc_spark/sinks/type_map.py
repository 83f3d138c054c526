"""How a sink holds the source's columns: their types, their names, and what a change of a type does to values."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from ticdc_spark.model import Table, Value
from ticdc_spark.mysql import Ambiguous
from ticdc_spark.spark.types import LakeColumn, LakeOptions


class ColumnConversion(msgspec.Struct, frozen=True, kw_only=True):
    """How the values of a column become those of another type, where the target does not convert them by itself."""

    expression: str
    """Spark SQL over ``{old}``, for ``str.format``."""
    before: LakeColumn | None = None
    """The column as it was; ``None``: only its type in the target is known."""
    convert: Callable[[Value], Value] | None = None
    """The same of a canonical value of ``before``. Raises: MessageError for one that the source would refuse"""
    inexact: str = ""
    """Why the new values may differ from the source's, as ``inexact: …``; ``""`` when they are exact."""
    lake: LakeOptions = LakeOptions()


class NameRule(Protocol):
    """Which names a target can hold. It does not distinguish names that differ by case alone."""

    def held(self, name: str) -> str:
        """The name in the target of a database, table or column of the source."""

    def source(self, held: str) -> str:
        """The source's name of one in the target."""


class TypeMap(Protocol):
    """The source's types in a target."""

    def columns(self, table: Table, key: tuple[str, ...], options: LakeOptions) -> tuple[LakeColumn, ...]:
        """The columns of a table as the target holds them, TiDB's hidden ones left out, ``key`` marked.

        Raises: MessageError naming the column whose type is not known; UsageError for two names that the target does
        not distinguish
        """

    def promotes(self, old: str, new: str) -> bool:
        """Whether the target itself changes a column of one of its types (``LakeType.name``) to another, values and
        all, by ``ColumnChanges.promote``."""

    def widens(self, old: str, new: str) -> bool:
        """Whether it does so for any values, also those that the source has no more, and changes none."""

    def conversion(
        self, old: LakeColumn, new: LakeColumn, zone: str | None, ambiguous: Ambiguous
    ) -> ColumnConversion | None:
        """How values of a column follow a change of its source type; ``None``: they stay as they are.

        ``zone``: the time zone of the session in which the DDL ran, for TIMESTAMP; without it these are inexact.
        """

    def add_columns(self, columns: Sequence[LakeColumn]) -> str:
        """The clause of ALTER TABLE by which a person adds columns."""

    def cast(self, old: str, new: LakeColumn) -> ColumnConversion:
        """The same where only the type in the target is known of the old column."""
