"""Compares the tables of a MySQL target with the truth of a workload."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from tests.support.mariadb_server import Server
from tests.workload import Truth
from tests.workload.compare import expected
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.model import TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.types import LakeColumn, LakeOptions, lake_columns

_OF_THE_SERVER = {"information_schema", "performance_schema", "mysql", "sys", "test"}


def databases(server: Server) -> list[str]:
    """Those that are neither the server's own nor the job's."""
    return [name for (name,) in server.execute("SHOW DATABASES") if name not in {*_OF_THE_SERVER, "_ticdc_spark"}]


def compare_with(server: Server, truth: Truth) -> dict[TableName, str]:
    """By table, what is not as in the truth; nothing if all is."""
    found = {(one, name) for one in databases(server) for (name,) in server.execute(f"SHOW TABLES IN {quoted(one)}")}
    wrong = dict.fromkeys(found - truth.keys(), "should not be there")
    for name, (table, rows) in truth.items():
        if name not in found:
            wrong[name] = "is not there"
            continue
        held, every = [*rows.values()], lake_columns(table, handle_key(table), LakeOptions())
        columns = [column for column in every if not held or column.source in held[0]]
        wanted = [tuple(_plain(row[one.name], one) for one in columns) for row in expected(table, held).to_pylist()]
        there = [tuple(map(_plain, row, columns)) for row in _read(server, name, columns)]
        if sorted(wanted, key=repr) != sorted(there, key=repr):
            more, less = ([row for row in one if row not in other] for one, other in ((there, wanted), (wanted, there)))
            wrong[name] = f"has {more[:3]} and lacks {less[:3]}"
        names = [row[0] for row in server.execute(f"SHOW COLUMNS IN {quoted(name[0])}.{quoted(name[1])}")]
        if names != [column.source for column in every]:
            wrong[name] = f"has columns {names}"
    return wrong


def _read(server: Server, name: TableName, columns: list[LakeColumn]) -> list[tuple[Any, ...]]:
    cells = {"float": "CAST({} AS DOUBLE)", "time": "CAST({} AS CHAR)", "bit": "{} + 0"}
    listed = ", ".join(cells.get(one.column.type.name, "{}").format(quoted(one.source)) for one in columns)
    return server.execute("SET time_zone = '+00:00'", f"SELECT {listed} FROM {quoted(name[0])}.{quoted(name[1])}")


def _plain(value: Any, column: LakeColumn) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if value is not None and column.column.type.name == "decimal":
        return Decimal(value)
    return int(value) if isinstance(value, bool) else value
