"""Writes rows to tables of a MySQL sink: tasks stage them, and a transaction of the driver takes them."""

from collections.abc import Sequence
from uuid import uuid4

import msgspec
from pyspark.sql import SparkSession

from ticdc_spark import failpoints
from ticdc_spark.changes.columns import ALWAYS, COUNT, OP, TIES
from ticdc_spark.changes.counted import copies
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.mysql.client import OURS
from ticdc_spark.sinks.mysql.counts import COUNTED, adding, any_goes, removing
from ticdc_spark.sinks.mysql.pending import Change
from ticdc_spark.sinks.mysql.staging import EXTRA, stage
from ticdc_spark.sinks.mysql.tables import MysqlTables, sql_name
from ticdc_spark.sinks.mysql.types import definition
from ticdc_spark.sinks.staged import Staged, digest
from ticdc_spark.sinks.staging import tasks_for
from ticdc_spark.spark.tasks import chain
from ticdc_spark.spark.types import LakeColumn


class MysqlRows:
    """See ``sinks.base.Changes``."""

    def __init__(self, tables: MysqlTables, spark: SparkSession | None, job: str) -> None:
        """``spark``: runs the tasks of full reads; ``None``: this process reads. ``job``: the job that writes."""
        self.tables, self.client, self.spark = tables, tables.client, spark
        self.job = job
        self._stages = f"stage_{digest('', job)[:16]}_"

    def remove_stages(self) -> None:
        """Remove the staging tables that crashed processes of this job left."""
        self.tables.commits.fence()
        listed = "SELECT `table_name` FROM `information_schema`.`tables` WHERE `table_schema` = %s"
        for (name,) in self.client.run(f"{listed} AND `table_name` LIKE %s", OURS, f"{self._stages}%"):
            self.client.run(f"DROP TABLE IF EXISTS `{OURS}`.{quoted(name)}")

    def _new_place(self) -> str:
        return f"`{OURS}`.`{self._stages}{uuid4().hex[:16]}`"

    def new_stage(self, columns: Sequence[LakeColumn], more: Sequence[str] = ()) -> str:
        """Create a staging table; returns its name for SQL. ``more``: definitions of further columns."""
        self.client.prepare()
        place = self._new_place()
        parts = [definition(column, self.tables.types, key=False) for column in columns]
        self.client.run(f"CREATE TABLE {place} ({', '.join([*parts, *EXTRA, *more])})")
        return place

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp, appended: Stamp | None = None) -> None:
        columns = changes.columns
        self._find_columns(table, columns)
        is_only = self.tables.with_key(table, columns)
        place = self.new_stage(columns)
        names = [column.name for column in columns]
        change = Change(table, (), stamp, (place,))
        try:
            done = changes.write(
                stage(self.client.options, place, [*names, OP, TIES, ALWAYS]), tasks=tasks_for(changes)
            )
        except BaseException:
            self.tables.commits.discard([change])
            raise
        failpoints.point("write")
        staged = Staged(place).with_answers(done)
        if staged.rows:
            statements = self._merge(table, staged, changes, is_only=is_only)
            change = msgspec.structs.replace(change, statements=tuple((sql, ()) for sql in statements))
        self.tables.commits.do(change)

    def _find_columns(self, table: TableName, columns: Sequence[LakeColumn]) -> list[str]:
        """The names of all columns of a table. Raises: SinkFault if one of ``columns`` is missing"""
        names = list(self.tables.columns(table))
        have = {name.casefold() for name in names}
        for column in columns:
            if column.name.casefold() not in have:
                raise SinkFault(f"{shown(table)} has no column {quoted(column.name)}")
        return names

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        columns = changes.columns
        have = self._find_columns(table, columns)
        self.tables.with_key(table, columns)
        place, aside = self.new_stage(columns, COUNTED), self._new_place()
        change = Change(table, (), stamp, (place, aside))
        try:
            what = chain(copies, stage(self.client.options, place, [*(column.name for column in columns), COUNT]))
            staged = Staged(place).with_answers(changes.write(what, tasks=tasks_for(changes)))
            statements = [adding(sql_name(table), staged, columns)] if staged.rows else []
            if statements and self.client.run(any_goes(staged)):
                self.client.run(f"CREATE TABLE {aside} LIKE {sql_name(table)}")
                statements = [*removing(sql_name(table), staged, aside, columns, have), *statements]
        except BaseException:
            self.tables.commits.discard([change])
            raise
        failpoints.point("write")
        self.tables.commits.do(msgspec.structs.replace(change, statements=tuple((sql, ()) for sql in statements)))

    def _merge(self, table: TableName, staged: Staged, changes: TypedChanges, *, is_only: bool) -> list[str]:
        """``is_only``: the key of the changes is the table's only unique key."""
        target, place, found = sql_name(table), staged.place, []
        keys = [column.name for column in changes.columns if column.key]
        names = [quoted(column.name) for column in changes.columns]
        on = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in keys)
        if changes.ordered_by is not None:
            new, old = (f"{side}.{quoted(changes.ordered_by.name)}" for side in "st")
            wins = f"{new} > COALESCE({old}, 0) OR (s.{TIES} AND {new} = COALESCE({old}, 0)) OR COALESCE(s.{ALWAYS}, 0)"
            found.append(f"DELETE s FROM {place} s JOIN {target} t ON {on} WHERE NOT ({wins})")
        # If the table has another unique key, an upsert would overwrite the row that has it; it must be refused
        # instead.
        gone = f"s.{staged.counts}" + (f" AND s.{OP} = 'd'" if is_only else "")
        found.append(f"DELETE t FROM {target} t JOIN {place} s ON {on} WHERE {gone}")
        listed = ", ".join(names)
        insert = f"INSERT INTO {target} ({listed}) SELECT {listed} FROM {place} WHERE {staged.counts} AND {OP} <> 'd'"
        update = ", ".join(f"{name} = VALUES({name})" for name in names)
        found.append(f"{insert} ON DUPLICATE KEY UPDATE {update}" if is_only else insert)
        return found
