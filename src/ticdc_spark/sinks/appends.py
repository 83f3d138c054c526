"""What is appended to a history table. See ``sinks.base.Histories.append``."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from ticdc_spark.changes.events import BEFORE, DELETE, H_OP, H_TIME, H_TS
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.model import Column, ColumnType, Table, TableName
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.type_map import TypeMap
from ticdc_spark.spark.types import LakeColumn, LakeOptions

_TABLE = Table(
    schema="",
    name="",
    columns=(
        Column(name=H_OP, type=ColumnType(name="char", length=1, charset="ascii", collate="ascii_bin")),
        Column(name=H_TS, type=ColumnType(name="bigint")),
        Column(name=H_TIME, type=ColumnType(name="timestamp", decimal=3)),
    ),
)


class Events(msgspec.Struct, frozen=True):
    """Every change of a table above a commit_ts, each once."""

    changes: TypedChanges
    above: int
    unless_there: bool = False
    """Skip the changes that the history already has."""


class Marker(msgspec.Struct, frozen=True):
    """One row that describes all rows of a table."""

    op: str
    commit_ts: int


class RowsOf(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a table, each with an op."""

    op: str
    commit_ts: int
    source: TableName
    gathered: bool = False
    """The rows that a full read has gathered beside the table. Otherwise its current rows."""
    marker: str = ""
    """The op of one row that describes all rows and comes with them; ``""``: there is none."""
    columns: tuple[str, ...]
    """Names of columns that both tables have with the same type."""
    where: Sequence[Sequence[Condition]] | None = None
    """``None``: all of them."""


Appended: TypeAlias = Events | Marker | RowsOf | None
"""``None``: no row."""


def same_change(one: str, other: str, keys: Sequence[str]) -> str:
    """SQL of whether two rows are the same change.

    ``one``, ``other``: the prefixes of their column names, with the dot; ``keys``: for SQL.
    """
    same = [f"{one}{key} = {other}{key}" for key in keys]
    kinds = [f"({one}{H_OP} = '{op}') = ({other}{H_OP} = '{op}')" for op in (DELETE, BEFORE)]
    return " AND ".join([*same, f"{one}{H_TS} = {other}{H_TS}", *kinds])


def history_columns(types: TypeMap) -> tuple[LakeColumn, ...]:
    """The columns of a history table that its table does not have."""
    return types.columns(_TABLE, (), LakeOptions())


def columns_of(changes: TypedChanges, types: TypeMap) -> tuple[LakeColumn, ...]:
    """The columns of a history table that holds these changes. None is a key."""
    return (*history_columns(types), *(replace(column, key=False) for column in changes.columns))
