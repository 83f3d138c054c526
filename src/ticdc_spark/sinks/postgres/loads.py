"""Full reads: rows are gathered in a table of ours, wave by wave, and finally replace the table's rows."""

from collections.abc import Callable, Sequence

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.changes.net import rows_left
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.clients.postgres import quoted
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.postgres.client import refused_rows
from ticdc_spark.sinks.postgres.rewrites import where_sql
from ticdc_spark.sinks.postgres.rows import PostgresRows, analyze, on_conflict
from ticdc_spark.sinks.postgres.staging import stage
from ticdc_spark.sinks.postgres.tables import gathered, note_of, put_note, put_stamp, sql_name
from ticdc_spark.sinks.staged import Staged
from ticdc_spark.sinks.staging import stage_parts, tasks_for
from ticdc_spark.spark.tasks import ReadParts, chain
from ticdc_spark.spark.types import LakeColumn


class PostgresLoads:
    """See ``sinks.base.Loads``. Each wave of rows from elsewhere is committed."""

    def __init__(self, rows: PostgresRows) -> None:
        self._rows, self._tables, self._client = rows, rows.tables, rows.client

    def load_note(self, table: TableName) -> LoadNote | None:
        self._client.prepare()
        with self._tables.work.reading() as cursor:
            found = note_of(cursor, table)
        return None if found is None else msgspec.json.decode(found, type=LoadNote)

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        place = sql_name(gathered(table))
        with self._tables.step() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {place}")
            cursor.execute(f"CREATE TABLE {place} (LIKE {sql_name(table)})")
            # The table may be an older one of the name, with another key. `_take` sets the key of the source.
            cursor.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnotnull AND attnum > 0", (place,)
            )
            for (name,) in cursor.fetchall():
                cursor.execute(f"ALTER TABLE {place} ALTER COLUMN {quoted(name)} DROP NOT NULL")
            put_note(cursor, table, note)
        failpoints.point("base")

    def load(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        read: ReadParts,
        parts: int,
        note: Callable[[int, int], LoadNote],
    ) -> LoadNote:
        place, names = self._rows.stage_of(columns), [column.name for column in columns]
        try:
            what = stage(self._client.options, place, names)
            staged, zeros = stage_parts(self._rows.spark, read, parts, what, place)
            return self._take(table, columns, staged, note(staged.rows, zeros))
        finally:
            self._rows.discard(place)

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        place, names = self._rows.stage_of(changes.columns), [column.name for column in changes.columns]
        try:
            what = chain(rows_left(names), stage(self._client.options, place, names))
            staged = Staged(place).with_answers(changes.write(what, tasks=tasks_for(changes)))
            return self._take(table, changes.columns, staged, note(staged.rows, changes.counts.zero_dates))
        finally:
            self._rows.discard(place)

    def load_rows(
        self,
        table: TableName,
        columns: Sequence[LakeColumn],
        source: TableName,
        where: Sequence[Sequence[Condition]],
        note: LoadNote,
    ) -> None:
        listed, (met, values) = ", ".join(quoted(column.name) for column in columns), where_sql(where)
        with self._tables.step() as cursor:
            taken = f"SELECT {listed} FROM {sql_name(source)} WHERE {met}"
            cursor.execute(f"INSERT INTO {sql_name(gathered(table))} ({listed}) {taken}", values)
            put_note(cursor, table, note)
            failpoints.point("gather")

    def _take(self, table: TableName, columns: Sequence[LakeColumn], staged: Staged, note: LoadNote) -> LoadNote:
        """Add staged rows to the gathered ones, with the note. A row replaces a gathered one with the same key."""
        other, names = gathered(table), [quoted(column.name) for column in columns]
        with self._tables.step(now=True) as cursor:
            if staged.rows:
                analyze(cursor, staged)
                has_key, _ = self._tables.with_key(cursor, other, columns)
                listed, keys = ", ".join(names), [quoted(column.name) for column in columns if column.key]
                taken = f"SELECT {listed} FROM {staged.place} WHERE {staged.counts}"
                end = on_conflict(keys, names) if has_key else ""
                cursor.execute(f"INSERT INTO {sql_name(other)} ({listed}) {taken}{end}")
            put_note(cursor, table, note)
            failpoints.point("gather")
        return note

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        """Replace the rows and keep the table: a reader sees either the old or the new rows."""
        other = gathered(table)
        with self._tables.step() as cursor:
            if not self._tables.is_there(other):
                raise SinkFault(f"the rows that were gathered for {shown(table)} are gone: read the table again")
            listed = ", ".join(map(quoted, self._tables.columns(other)))
            key, _ = self._tables.unique_keys(other)
            cursor.execute(f"DELETE FROM {sql_name(table)}")
            if key is not None:
                self._tables.set_key(cursor, table, key[1])  # the table may have another one, of older rows
            with refused_rows(sql_name(table)):
                cursor.execute(f"INSERT INTO {sql_name(table)} ({listed}) SELECT {listed} FROM {sql_name(other)}")
            cursor.execute(f"DROP TABLE {sql_name(other)}")
            put_note(cursor, table, None)
            put_stamp(cursor, table, stamp)
