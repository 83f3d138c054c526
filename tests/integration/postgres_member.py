"""A PostgreSQL sink under test, on a real server."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import count
from typing import Any

from pyspark.sql import SparkSession

from tests.contract.member import OPENING, Guard, Member, Rows
from tests.contract.plain_topic import PlainTopic
from tests.memory_sink.rows import MemoryRows
from tests.support.postgres_server import PostgresServer
from ticdc_spark.changes.spark_topic import SparkTopicRows
from ticdc_spark.clients.postgres import quoted
from ticdc_spark.config.job import PostgresConfig
from ticdc_spark.model import TableName
from ticdc_spark.sinks.postgres.kind import PostgresLetters
from ticdc_spark.sinks.postgres.sink import PostgresSink
from ticdc_spark.sinks.postgres.tables import sql_name
from ticdc_spark.sinks.postgres.types import definition
from ticdc_spark.spark.types import LakeColumn

NUMBERS = count(1)


class PostgresOthers:
    """See ``member.Others``: another session. Nothing compacts, expires or rolls back here."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server

    def insert(self, table: TableName, row: dict[str, Any]) -> None:
        names = ", ".join(map(quoted, row))
        values = ", ".join("NULL" if value is None else repr(value) for value in row.values())
        self.server.execute(f"INSERT INTO {sql_name(table)} ({names}) VALUES ({values})")

    def delete(self, table: TableName, key: int) -> None:
        self.server.execute(f"DELETE FROM {sql_name(table)} WHERE id = {key}")

    def update(self, table: TableName, key: int, column: str, value: Any) -> None:
        self.server.execute(f"UPDATE {sql_name(table)} SET {quoted(column)} = {value!r} WHERE id = {key}")

    def compact(self, table: TableName) -> None:
        raise AssertionError

    rewrite_manifests = rewrite_deletes = expire = compact

    def roll_back(self, table: TableName, snapshot: int) -> None:
        raise AssertionError

    set_current = roll_back

    def comments(self, table: TableName) -> dict[str, str]:
        found = self.server.execute(
            "SELECT attname, col_description(attrelid, attnum) FROM pg_attribute "
            f"WHERE attrelid = '{sql_name(table)}'::regclass AND attnum > 0 AND NOT attisdropped"
        )
        return {name: comment for name, comment in found if comment is not None}

    def comment(self, table: TableName) -> None:
        """None of the source: it holds the token of the table."""

    def create(self, table: TableName, columns: Sequence[LakeColumn], rows: Rows) -> None:
        made = ", ".join(definition(column) for column in columns)
        self.server.execute(
            f"CREATE SCHEMA IF NOT EXISTS {quoted(table[0])}",
            f"CREATE TABLE {sql_name(table)} ({made}, PRIMARY KEY (id))",
        )
        for row in rows:
            self.insert(table, row)


def read_table(server: PostgresServer, table: TableName) -> Rows:
    names = [
        row[0]
        for row in server.execute(
            "SELECT column_name FROM information_schema.columns "
            f"WHERE table_schema = '{table[0]}' AND table_name = '{table[1]}' ORDER BY ordinal_position"
        )
    ]
    rows = server.execute(f"SELECT * FROM {sql_name(table)}")
    return [dict(zip(names, map(_plain, row), strict=True)) for row in rows]


def _plain(value: Any) -> Any:
    return (
        int(value) if isinstance(value, Decimal) and value == int(value) and value.as_tuple().exponent == 0 else value
    )


def postgres_member(server: PostgresServer, spark: SparkSession | None, **how: Any) -> Member:
    """A sink with schemas of its own. ``spark``: ``None``: rows are read without it."""
    number, guard = next(NUMBERS), Guard()
    sink = PostgresSink(PostgresConfig(uri=server.uri), guard, **how)
    letters = PostgresLetters(sink.client, f"contract{number}", guard)
    return Member(
        sink=sink,
        rows_of=lambda topic: (
            MemoryRows(topic, OPENING) if spark is None else SparkTopicRows(spark, topic, OPENING)  # type: ignore[arg-type]
        ),
        letters=letters,
        kept=lambda: sorted((one["batch"], one["stage"], one["offset"], one["reason"]) for one in letters.read()),
        guard=guard,
        others=PostgresOthers(server),
        read=lambda table: read_table(server, table),
        schema=f"s{number}",
        source=PlainTopic(),
    )
