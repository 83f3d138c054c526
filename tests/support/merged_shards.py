"""A story of three tables that are merged, with what the target has in the end."""

from __future__ import annotations

from collections.abc import Sequence

from tests.spark.simple_topic import INT, ddl, insert, table
from ticdc_spark.model import Change, Column, ColumnType, RowChange, SchemaChange, Table, Watermark

RULE = """
[[route]]
tables = ["s.o_*"]
target-table = "o"
origin = ["_schema", "_table"]
"""
NAME = ("merged:s", "o")
LONG = ColumnType(name="bigint", length=20, charset="binary", collate="binary")
COLUMNS = ("_schema", "_table", "id", "v", "w", "x")
ROWS = [
    ("s", "o_1", 9, 9, 9, None),
    ("s", "o_2", 2, 21, 5, None),
    ("s", "o_2", 3, 2**40, 1, None),
    ("s", "o_3", 1, 30, 5, 7),
]


def events() -> list[Change]:
    """Rows of equal keys, new and wider columns, and a TRUNCATE, a DROP and a CREATE."""
    v, long, w = Column(name="v", type=INT), Column(name="v", type=LONG), Column(name="w", type=INT, default="5")
    one, two, gone = (_of(10, name, v) for name in ("o_1", "o_2", "o_4"))
    one_w, two_long, two_w = _of(40, "o_1", v, w), _of(50, "o_2", long), _of(60, "o_2", long, w)
    three, again = _of(80, "o_3", v, Column(name="x", type=INT)), _of(75, "o_1", v, w)
    return [
        *(_create(one, 10), _create(two, 11), _create(gone, 12)),
        *(insert(of, 20, id=key, v=f"{at}{key}") for at, of in enumerate((one, two, gone), 1) for key in "12"),
        Watermark(40),
        _ddl(40, "ALTER TABLE `o_1` ADD COLUMN `w` INT DEFAULT 5", one_w, one),
        RowChange(op="update", table=one_w, commit_ts=45, before=_row("1", "11", "5"), after=_row("1", "7", "8")),
        RowChange(op="delete", table=two, commit_ts=46, before={"id": "1", "v": "21"}, after=None),
        _ddl(50, "ALTER TABLE `o_2` MODIFY `v` BIGINT", two_long, two),
        _ddl(60, "ALTER TABLE `o_2` ADD COLUMN `w` INT DEFAULT 5", two_w, two_long),
        RowChange(op="update", table=two_w, commit_ts=64, before=_row("2", "22", "5"), after=_row("2", "21", "5")),
        insert(two_w, 65, id="3", v=str(2**40), w="1"),
        Watermark(70),
        _ddl(75, "TRUNCATE TABLE `o_1`", again, one_w),
        insert(again, 76, id="9", v="9", w="9"),
        SchemaChange(commit_ts=77, query="DROP TABLE `o_4`", kind="DROP", schema="s", name="o_4", pre_table=gone),
        _create(three, 80),
        insert(three, 85, id="1", v="30", x="7"),
        Watermark(90),
    ]


def _of(version: int, name: str, *columns: Column) -> Table:
    return table(version, *columns, name=name)


def _row(key: str, v: str, w: str) -> dict[str, str | None]:
    return {"id": key, "v": v, "w": w}


def _create(of: Table, ts: int) -> SchemaChange:
    return ddl("CREATE", ts, f"CREATE TABLE `{of.name}` (`id` INT PRIMARY KEY)", of)


def _ddl(ts: int, query: str, after: Table, before: Table) -> SchemaChange:
    return ddl("ALTER", ts, query, after, before)


def sorted_rows(rows: Sequence[Sequence[object]]) -> list[tuple[object, ...]]:
    """Rows to compare with ``ROWS``."""
    return sorted((tuple(row) for row in rows), key=repr)
