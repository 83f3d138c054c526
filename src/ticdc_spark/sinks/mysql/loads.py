"""Full reads: rows are gathered in a table of ours, wave by wave, and finally replace the table's rows."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.changes.net import rows_left
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mysql.client import HERE, OURS, refused_rows
from ticdc_spark.sinks.mysql.rewrites import where_sql
from ticdc_spark.sinks.mysql.rows import MysqlRows
from ticdc_spark.sinks.mysql.staging import stage
from ticdc_spark.sinks.mysql.tables import gathered, sql_name
from ticdc_spark.sinks.staged import Staged
from ticdc_spark.sinks.staging import stage_parts, tasks_for
from ticdc_spark.spark.tasks import ReadParts, chain
from ticdc_spark.spark.types import LakeColumn


class MysqlLoads:
    """See ``sinks.base.Loads``. Each wave of rows from elsewhere is committed."""

    def __init__(self, rows: MysqlRows) -> None:
        self._rows, self._tables, self._client = rows, rows.tables, rows.client

    def load_note(self, table: TableName) -> LoadNote | None:
        sql = f"SELECT `note` FROM `{OURS}`.`loads` WHERE {HERE}"
        found = self._client.ask(sql, *table)
        return msgspec.json.decode(found[0][0], type=LoadNote) if found else None

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        self._tables.commits.flush(table)
        self._tables.empty_beside(table)
        self._client.run(
            f"REPLACE INTO `{OURS}`.`loads` VALUES (%s, %s, %s)", *table, msgspec.json.encode(note).decode()
        )
        failpoints.point("base")

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        place, names = self._rows.new_stage(columns), [column.name for column in columns]
        try:
            what = stage(self._client.options, place, names)
            staged, zeros = stage_parts(self._rows.spark, read, parts, what, place)
            return self._take(table, columns, staged, note(staged.rows, zeros))
        finally:
            self._client.run(f"DROP TABLE IF EXISTS {place}")

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        place, names = self._rows.new_stage(changes.columns), [column.name for column in changes.columns]
        try:
            what = chain(rows_left(names), stage(self._client.options, place, names))
            staged = Staged(place).with_answers(changes.write(what, tasks=tasks_for(changes)))
            return self._take(table, changes.columns, staged, note(staged.rows, changes.counts.zero_dates))
        finally:
            self._client.run(f"DROP TABLE IF EXISTS {place}")

    def load_rows(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        source: TableName,
        where: Sequence[Sequence[Condition]],
        note: LoadNote,
    ) -> None:
        self._tables.commits.flush(source)
        listed, place = ", ".join(quoted(column.name) for column in columns), sql_name(gathered(table))
        self._tables.with_nullable(gathered(table), columns)
        with self._client.transaction() as cursor, refused_rows(table):
            self._tables.commits.fenced(cursor, self._rows.job)
            taken = f"SELECT {listed} FROM {sql_name(source)} WHERE {where_sql(where)}"
            cursor.execute(f"INSERT INTO {place} ({listed}) {taken}")
            self._put_note(cursor, table, note)
            failpoints.point("gather")

    def _put_note(self, cursor: Any, table: TableName, note: LoadNote) -> None:
        sql = f"UPDATE `{OURS}`.`loads` SET `note` = %s WHERE {HERE}"
        cursor.execute(sql, (msgspec.json.encode(note).decode(), *table))

    def _take(self, table: TableName, columns: Sequence[LakeColumn], staged: Staged, note: LoadNote) -> LoadNote:
        """Add staged rows to the gathered ones, with the note."""
        listed = ", ".join(quoted(column.name) for column in columns)
        verb = "REPLACE" if self._tables.with_key(gathered(table), columns) else "INSERT"
        self._tables.with_nullable(gathered(table), columns)  # columns of a table that had the name before
        with self._client.transaction() as cursor, refused_rows(table):
            self._tables.commits.fenced(cursor, self._rows.job)
            if staged.rows:
                taken = f"SELECT {listed} FROM {staged.place} WHERE {staged.counts}"
                cursor.execute(f"{verb} INTO {sql_name(gathered(table))} ({listed}) {taken}")
            self._put_note(cursor, table, note)
            failpoints.point("gather")
        return note

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        token = self._tables.intents.comment(gathered(table))
        if token is None:
            raise SinkFault(f"the rows that were gathered for {shown(table)} are gone: read the table again")
        self._tables.swap(table, sql_name(gathered(table)), token, stamp)
        self._client.run(f"DELETE FROM `{OURS}`.`loads` WHERE {HERE}", *table)
