"""Statements that add and remove copies of whole rows.

MySQL has no row number that distinguishes equal rows. So if copies of a row are removed, all its copies are deleted,
and the remaining ones are inserted again.
"""

from collections.abc import Sequence

from ticdc_spark.changes.columns import COUNT
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.sinks.staged import Staged
from ticdc_spark.spark.types import LakeColumn

_NUMBER, _DIGEST, _PLACE = "_ticdc_number", "_ticdc_digest", "_ticdc_place"
COUNTED = (
    f"`{COUNT}` bigint NOT NULL",
    f"`{_NUMBER}` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY",
    f"`{_DIGEST}` binary(32) NULL",
    f"KEY (`{_DIGEST}`)",
)
"""Further columns of a staging table of counts. Rows are looked up by the digest."""


def any_goes(staged: Staged) -> str:
    """A query that returns a row if copies of any row are removed."""
    return f"SELECT 1 FROM {staged.place} s WHERE s.{staged.counts} AND s.`{COUNT}` < 0 LIMIT 1"


def adding(target: str, staged: Staged, columns: Sequence[LakeColumn]) -> str:
    """The statement that adds copies. ``target``: for SQL."""
    names = ", ".join(quoted(column.name) for column in columns)
    comes = f"SELECT {names} FROM {staged.place} s WHERE s.{staged.counts} AND s.`{COUNT}` > 0"
    return f"INSERT INTO {target} ({names}) {comes}"


def removing(target: str, staged: Staged, aside: str, columns: Sequence[LakeColumn], have: Sequence[str]) -> list[str]:
    """The statements that remove copies, for one transaction.

    ``target``, ``aside``: for SQL. ``aside`` is an empty table like ``target``, for the rows that stay. ``have``: the
    names of all columns of the table.
    """
    counts, goes, every = f"s.{staged.counts}", f"s.`{COUNT}` < 0", ", ".join(map(quoted, have))
    # Reads the table once, and looks up each of its rows by the index.
    joined = f"{target} t STRAIGHT_JOIN {staged.place} s ON s.`{_DIGEST}` = {_digest('t', columns)}"
    joined = " AND ".join([joined, *map(_same, columns)])
    numbered = f"ROW_NUMBER() OVER (PARTITION BY s.`{_NUMBER}` ORDER BY s.`{_NUMBER}`) AS `{_PLACE}`"
    mine = ", ".join(f"t.{quoted(name)}" for name in have)
    found = f"SELECT {mine}, s.`{COUNT}`, {numbered} FROM {joined} WHERE {counts} AND {goes}"
    return [
        f"UPDATE {staged.place} s SET s.`{_DIGEST}` = {_digest('s', columns)} WHERE {counts} AND {goes}",
        f"INSERT INTO {aside} ({every}) SELECT {every} FROM ({found}) f WHERE f.`{_PLACE}` > -f.`{COUNT}`",
        f"DELETE t FROM {joined} WHERE {counts} AND {goes}",
        f"INSERT INTO {target} ({every}) SELECT {every} FROM {aside}",
    ]


def _digest(side: str, columns: Sequence[LakeColumn]) -> str:
    cells = (f"IFNULL({_hash(f'CAST({side}.{quoted(column.name)} AS BINARY)')}, '-')" for column in columns)
    joined = f"CONCAT_WS(',', {', '.join(cells)})"
    return f"UNHEX({_hash(joined)})"


def _hash(value: str) -> str:
    """MySQL 9.6 and later have no MD5."""
    return f"SHA2({value}, 256)"


def _same(column: LakeColumn) -> str:
    """Whether two values are equal, regardless of the collation."""
    one, other = (f"{side}.{quoted(column.name)}" for side in "ts")
    if column.type.arrow in {"string", "floats", "binary"}:
        return f"CAST({one} AS BINARY) <=> CAST({other} AS BINARY)"
    return f"{one} <=> {other}"
