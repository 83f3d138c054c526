"""How the files of a new table are laid out: ``partition-by``, ``sort-by`` and ``properties`` of a ``[[route]]``."""

from __future__ import annotations

import re
from typing import Literal

import msgspec


class PartitionBy(msgspec.Struct, frozen=True):
    """A field of a table's partitions."""

    transform: Literal["identity", "year", "month", "day", "hour", "bucket", "truncate"]
    column: str
    width: int = 0
    """The argument of ``bucket`` and ``truncate``."""


class SortBy(msgspec.Struct, frozen=True):
    """A column by which the rows of a file are sorted."""

    column: str
    descending: bool = False
    nulls_last: bool = False


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How a table is created. Columns have the names that the rule, or the target, uses."""

    partition_by: tuple[PartitionBy, ...] = ()
    sort_by: tuple[SortBy, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    comment: str = ""
    """Of the source's table. A target that cannot store it creates the table without it."""

    def __bool__(self) -> bool:
        return bool(self.partition_by or self.sort_by or self.properties)


PLAIN = Layout()
_COLUMN = r"(?:(?P<name>[^\s(),`]+)|`(?P<quoted>(?:[^`]|``)+)`)"
_PARTITION = re.compile(
    rf"(?:(?P<transform>[a-z]+)\(\s*(?:(?P<width>[0-9]{{1,9}})\s*,\s*)?)?{_COLUMN}\s*(?P<end>\)?)", re.IGNORECASE
)
_SORT = re.compile(rf"{_COLUMN}(?:\s+(?P<order>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE)
_OF_TIME: dict[str, Literal["year", "month", "day", "hour"]] = {
    "year": "year",
    "month": "month",
    "day": "day",
    "hour": "hour",
    "years": "year",
    "months": "month",
    "days": "day",
    "hours": "hour",
}


def parse_partition(text: str) -> PartitionBy:
    """``days(created_at)``, ``bucket(16, id)``, ``truncate(4, name)`` or a column. Raises: ValueError"""
    found = _PARTITION.fullmatch(text.strip())
    if found is None or bool(found["transform"]) != bool(found["end"]):
        raise ValueError(text)
    column, name, width = _name(found), (found["transform"] or "identity").lower(), int(found["width"] or 0)
    if name in ("bucket", "truncate"):
        if not 0 < width < 2**31:
            raise ValueError(text)
        return PartitionBy("bucket" if name == "bucket" else "truncate", column, width)
    if found["width"] is not None or name not in (*_OF_TIME, "identity"):
        raise ValueError(text)
    return PartitionBy(_OF_TIME.get(name, "identity"), column)


def parse_sort(text: str) -> SortBy:
    """``created_at desc nulls last``. Without ``nulls``, NULL comes first, and last in descending order.

    Raises: ValueError
    """
    found = _SORT.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    descending = (found["order"] or "").lower() == "desc"
    nulls = (found["nulls"] or ("last" if descending else "first")).lower()
    return SortBy(_name(found), descending, nulls == "last")


def _name(found: re.Match[str]) -> str:
    return found["name"] or found["quoted"].replace("``", "`")
