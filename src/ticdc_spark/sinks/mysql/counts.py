"""The statements by which copies of whole rows come and go.

MySQL has no number that tells equal rows apart. So a row of which copies go is deleted with all its equals, and the
copies that stay are inserted again.
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
    f"`{_DIGEST}` binary(16) NULL",
    f"KEY (`{_DIGEST}`)",
)
"""What a staging table of counts has besides: a digest, by which rows are looked up."""


def any_goes(staged: Staged) -> str:
    """A query that gives a row if copies of any row go."""
    return f"SELECT 1 FROM {staged.place} s WHERE s.{staged.counts} AND s.`{COUNT}` < 0 LIMIT 1"


def adding(target: str, staged: Staged, columns: Sequence[LakeColumn]) -> str:
    """The statement that adds copies. ``target``: for SQL."""
    names = ", ".join(quoted(column.name) for column in columns)
    comes = f"SELECT {names} FROM {staged.place} s WHERE s.{staged.counts} AND s.`{COUNT}` > 0"
    return f"INSERT INTO {target} ({names}) {comes}"


def removing(target: str, staged: Staged, aside: str, columns: Sequence[LakeColumn], have: Sequence[str]) -> list[str]:
    """The statements that remove copies, for one transaction.

    ``target``, ``aside``: for SQL, the second one an empty table like the first, for the rows that stay. ``have``: the
    names of all columns of the table.
    """
    counts, goes, every = f"s.{staged.counts}", f"s.`{COUNT}` < 0", ", ".join(map(quoted, have))
    # The table is read once, and each of its rows looked up by the index.
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
    cells = (f"IFNULL(MD5(CAST({side}.{quoted(column.name)} AS BINARY)), '-')" for column in columns)
    return f"UNHEX(MD5(CONCAT_WS(',', {', '.join(cells)})))"


def _same(column: LakeColumn) -> str:
    """Whether two values are equal, whatever the collation says of them."""
    one, other = (f"{side}.{quoted(column.name)}" for side in "ts")
    if column.type.arrow in {"string", "floats", "binary"}:
        return f"CAST({one} AS BINARY) <=> CAST({other} AS BINARY)"
    return f"{one} <=> {other}"
