"""Writes rows to tables of a PostgreSQL sink: tasks stage them, and the transaction of the batch takes them."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from ticdc_spark import failpoints
from ticdc_spark.changes.columns import ALWAYS, COUNT, OP, TIES
from ticdc_spark.changes.counted import copies
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.clients.postgres import quoted
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.postgres.client import OURS, refused_rows
from ticdc_spark.sinks.postgres.staging import EXTRA, stage
from ticdc_spark.sinks.postgres.tables import PostgresTables, put_stamp, sql_name
from ticdc_spark.sinks.postgres.types import definition
from ticdc_spark.sinks.staged import Staged, digest
from ticdc_spark.sinks.staging import tasks_for
from ticdc_spark.spark.tasks import chain
from ticdc_spark.spark.types import LakeColumn

_MANY = 10_000
"""With this many rows or more, the planner needs statistics."""


class PostgresRows:
    """See ``sinks.base.Changes``."""

    def __init__(self, tables: PostgresTables, spark: SparkSession | None) -> None:
        """``spark``: runs the tasks of full reads; ``None``: this process reads."""
        self.tables, self.client, self.spark = tables, tables.client, spark
        self._stages = f"stage_{digest('', tables.job or '')[:16]}_"

    def remove_stages(self) -> None:
        """Remove the staging tables that crashed processes of this job left."""
        listed = "SELECT tablename FROM pg_tables WHERE schemaname = $1 AND starts_with(tablename, $2)"
        for (name,) in self.client.run(listed, OURS, self._stages):
            self.discard(f"{OURS}.{quoted(name)}")

    def new_stage(self, definitions: Sequence[str]) -> str:
        """Create a staging table; returns its name for SQL. A crash of the server empties it."""
        self.client.prepare()
        place = f"{OURS}.{self._stages}{uuid4().hex[:16]}"
        self.client.run(f"CREATE UNLOGGED TABLE {place} ({', '.join(definitions)}) WITH (autovacuum_enabled = false)")
        return place

    def stage_of(self, columns: Sequence[LakeColumn], more: Sequence[str] = ()) -> str:
        """Create a staging table for columns, without a key. ``more``: definitions of further columns."""
        return self.new_stage([*(definition(column, key=False) for column in columns), *EXTRA, *more])

    def discard(self, place: str) -> None:
        """Drop a staging table, if it still exists."""
        self.client.run(f"DROP TABLE IF EXISTS {place}")

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        columns = changes.columns
        self._find_columns(table, columns)
        place = self.stage_of(columns)
        names = [column.name for column in columns]
        try:
            what = stage(self.client.options, place, [*names, OP, TIES, ALWAYS])
            staged = Staged(place).with_answers(changes.write(what, tasks=tasks_for(changes)))
            failpoints.point("write")
            with self.tables.step() as cursor:
                if staged.rows:
                    with refused_rows(sql_name(table)):
                        self._merge(cursor, table, staged, changes)
                put_stamp(cursor, table, stamp)
                cursor.execute(f"DROP TABLE {place}")
        except BaseException:
            self.discard(place)
            raise

    def _merge(self, cursor: Any, table: TableName, staged: Staged, changes: TypedChanges) -> None:
        analyze(cursor, staged)
        has_key, is_only = self.tables.with_key(cursor, table, changes.columns)
        target, place, counts = sql_name(table), staged.place, f"s.{staged.counts}"
        keys = [quoted(column.name) for column in changes.columns if column.key]
        names = [quoted(column.name) for column in changes.columns]
        on = " AND ".join(f"t.{name} = s.{name}" for name in keys)
        if changes.ordered_by is not None:
            new, old = (f"{side}.{quoted(changes.ordered_by.name)}" for side in "st")
            ties = f"s.{TIES} AND {new} = COALESCE({old}, 0)"
            wins = f"{new} > COALESCE({old}, 0) OR ({ties}) OR COALESCE(s.{ALWAYS}, false)"
            cursor.execute(f"DELETE FROM {place} s USING {target} t WHERE {on} AND NOT ({wins})")
        # Rows may swap the values of another unique key. Updating them one by one would violate that key halfway.
        updates = has_key and is_only
        gone = f"{counts} AND s.{OP} = 'd'" if updates else counts
        cursor.execute(f"DELETE FROM {target} t USING {place} s WHERE {on} AND {gone}")
        listed = ", ".join(names)
        insert = f"INSERT INTO {target} ({listed}) SELECT {listed} FROM {place} s WHERE {counts} AND s.{OP} <> 'd'"
        cursor.execute(insert + (on_conflict(keys, names) if updates else ""))

    def _find_columns(self, table: TableName, columns: Sequence[LakeColumn]) -> None:
        """Raises: SinkFault if one of the columns is missing"""
        have = self.tables.columns(table)
        for column in columns:
            if column.name not in have:
                raise SinkFault(f"{shown(table)} has no column {quoted(column.name)}")

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        columns = changes.columns
        self._find_columns(table, columns)
        place = self.stage_of(columns, [f"{COUNT} bigint NOT NULL"])
        try:
            what = chain(copies, stage(self.client.options, place, [*(column.name for column in columns), COUNT]))
            staged = Staged(place).with_answers(changes.write(what, tasks=tasks_for(changes)))
            failpoints.point("write")
            with self.tables.step() as cursor:
                if staged.rows:
                    with refused_rows(sql_name(table)):
                        self._take_counts(cursor, table, staged, columns)
                put_stamp(cursor, table, stamp)
                cursor.execute(f"DROP TABLE {place}")
        except BaseException:
            self.discard(place)
            raise

    def _take_counts(self, cursor: Any, table: TableName, staged: Staged, columns: Sequence[LakeColumn]) -> None:
        """Rows are equal if their texts are: with equal types the result is the same, and a hash join finds them."""
        analyze(cursor, staged)
        self.tables.with_key(cursor, table, columns)
        target, counts = sql_name(table), f"s.{staged.counts}"
        names = [quoted(column.name) for column in columns]
        one, other = (f"ROW({', '.join(f'{side}.{name}' for name in names)})::text" for side in "ts")
        found = (
            f"SELECT t.ctid AS at, row_number() OVER (PARTITION BY s.ctid) AS number, s.{COUNT} AS count "
            f"FROM {staged.place} s JOIN {target} t ON {one} = {other} WHERE {counts} AND s.{COUNT} < 0"
        )
        goes = f"SELECT f.at FROM ({found}) f WHERE f.number <= -f.count"
        cursor.execute(f"DELETE FROM {target} WHERE ctid IN ({goes})")
        listed = ", ".join(names)
        comes = f"SELECT {listed} FROM {staged.place} s WHERE {counts} AND s.{COUNT} > 0"
        cursor.execute(f"INSERT INTO {target} ({listed}) {comes}")


def analyze(cursor: Any, staged: Staged) -> None:
    """Make sure that the staged rows are there, and update their statistics. Raises: SinkFault"""
    cursor.execute(f"SELECT count(*) FROM {staged.place} WHERE {staged.counts}")
    ((rows,),) = cursor.fetchall()
    if rows != staged.rows:
        raise SinkFault(f"{staged.place} has {rows} rows of {staged.rows}: the server lost the rest when it stopped")
    if rows >= _MANY:
        cursor.execute(f"ANALYZE {staged.place}")


def on_conflict(keys: Sequence[str], names: Sequence[str]) -> str:
    """The end of an INSERT for rows whose key exists. Names are quoted."""
    update = ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name not in keys)
    return f" ON CONFLICT ({', '.join(keys)}) DO " + (f"UPDATE SET {update}" if update else "NOTHING")
