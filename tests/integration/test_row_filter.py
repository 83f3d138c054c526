"""Which rows a condition keeps: a full read of a real MariaDB, a message, and the server itself say the same."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from tests.integration.test_mysql_values import CASES
from tests.support.mariadb_server import Server
from ticdc_spark.capture.snapshot.base import Wanted
from ticdc_spark.capture.snapshot.database import DatabaseReader
from ticdc_spark.changes.given import Counted
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.config.row_filters import row_filter, source_condition
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Row, Table, Value
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.types import LakeOptions, lake_columns

KINDS = [
    (kind.replace("é😀", "é"), value, sql.replace("'é😀'", "'é'"))
    for kind, value, sql in CASES
    if len(str(value)) < 1000 and not kind.startswith("json")
]
"""A value that is as long as a page tells no more than a short one."""


def literal(value: Value) -> str:
    """A value as SQL: without quotes if it is a number."""
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", str(value)):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace("'", "''")
    return f"'{text}'"


@pytest.fixture
def table(server: Server) -> Table:
    """Of each type a value, NULL, and a value that is another one."""
    made = ", ".join(f"c{at} {kind} NULL" for at, (kind, _, _) in enumerate(KINDS)).replace("b\\s", "b\\\\s")
    values = ", ".join(sql for *_, sql in KINDS)
    server.execute(
        f"CREATE TABLE d.t (id INT PRIMARY KEY, {made}, low VARCHAR(9) COLLATE utf8mb4_general_ci) CHARSET utf8mb4",
        "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'",
        f"INSERT INTO d.t VALUES (1, {values}, 'eu'), (2, {', '.join(['NULL'] * len(KINDS))}, NULL), "
        f"(3, {values}, 'EU')",
    )
    reader = DatabaseReader(server.uri)
    found = reader.schema(("d", "t"), None)
    reader.close()
    assert found is not None
    return found


def by_full_read(reader: DatabaseReader, table: Table, where: str) -> list[int]:
    """Of a table that has nothing but its key in the target."""
    every = lake_columns(table, handle_key(table), LakeOptions())
    left_out = frozenset(column.name for column in table.columns if column.name != "id")
    wanted = Wanted(
        name=("d", "t"), columns=every[:1], left_out=left_out, where=where, lake=LakeOptions(), at=None, parts=1
    )
    batches = reader.wave(wanted).read(Counted())([pa.record_batch({"part": [0]})])
    return sorted(one for batch in batches for one in batch.column(0).to_pylist())


def by_rows(table: Table, rows: list[Row], where: str) -> list[int]:
    found = row_filter(where, table)
    bad: dict[int, str] = {}
    cells = [[row[name] for row in rows] for name in found.columns]
    unkept = found.unkept(cells, range(len(rows)), bad)
    assert not bad, bad
    return sorted(int(str(row["id"])) for at, row in enumerate(rows) if at not in unkept)


def test_a_full_read_a_row_and_the_server_keep_the_same_rows(server: Server, table: Table) -> None:
    with Upstream(server.uri) as upstream:
        rows = [row for row in upstream.lookup(table, [{"id": key} for key in "123"], 0) if row is not None]
    conditions = ["low = 'EU'", "low COLLATE utf8mb4_general_ci = 'EU'", "low LIKE 'E%' OR id = 2", "id % 2 = 0"]
    for at, (_, value, _) in enumerate(KINDS):
        conditions.append(f"c{at} {'=' if at % 2 else '<>'} {literal(value)}")
    reader, compared = DatabaseReader(server.uri), 0
    for where in conditions:
        try:
            kept = by_rows(table, rows, where)
        except UsageError:
            continue  # such values are not compared so
        assert by_full_read(reader, table, where) == kept, where
        asked = source_condition(where, table, tidb=False)
        if asked is not None:
            server_says = server.execute("SET time_zone = '+00:00'", f"SELECT id FROM d.t WHERE {asked} ORDER BY id")
            assert [int(key) for (key,) in server_says] == kept, asked
        compared += 1
    reader.close()
    assert compared > len(KINDS) * 2 // 3
