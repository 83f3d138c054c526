"""Appends rows to a history table, in the transaction of the batch."""

from ticdc_spark import failpoints
from ticdc_spark.changes.events import HISTORY, marker
from ticdc_spark.clients.postgres import quoted
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended, Events, Marker, RowsOf, columns_of, same_change
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.postgres.rewrites import where_sql
from ticdc_spark.sinks.postgres.rows import PostgresRows, analyze
from ticdc_spark.sinks.postgres.staging import stage, texts
from ticdc_spark.sinks.postgres.tables import gathered, put_stamp, sql_name
from ticdc_spark.sinks.postgres.types import PostgresTypes
from ticdc_spark.sinks.staged import Staged
from ticdc_spark.sinks.staging import tasks_for

_KINDS = ("text", "bigint", "timestamptz")
"""The types of ``HISTORY``."""


class PostgresAppends:
    """See ``sinks.base.Histories``."""

    def __init__(self, rows: PostgresRows) -> None:
        self._rows = rows

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        if isinstance(what, Events):
            self._append_events(table, what, stamp)
            return
        if what is None:
            with self._rows.tables.step() as cursor:
                put_stamp(cursor, table, stamp)
            return
        head, told = ", ".join(HISTORY), what.op if isinstance(what, Marker) else what.marker
        with self._rows.tables.step() as cursor:
            if told:
                cursor.execute(f"INSERT INTO {sql_name(table)} ({head}) SELECT {_head(told, what)}")
            if isinstance(what, RowsOf):
                names = "".join(f", {quoted(name)}" for name in what.columns)
                met, values = ("TRUE", None) if what.where is None else where_sql(what.where)
                source = sql_name(gathered(what.source) if what.gathered else what.source)
                taken = f"SELECT {_head(what.op, what)}{names} FROM {source} WHERE {met}"
                cursor.execute(f"INSERT INTO {sql_name(table)} ({head}{names}) {taken}", values)
            put_stamp(cursor, table, stamp)

    def _append_events(self, table: TableName, what: Events, stamp: Stamp) -> None:
        columns = columns_of(what.changes, PostgresTypes())
        place, names = self._rows.stage_of(columns), [column.name for column in columns]
        try:
            task = stage(self._rows.client.options, place, names)
            done = what.changes.write_events(task, what.above, tasks=tasks_for(what.changes))
            staged = Staged(place).with_answers(done)
            failpoints.point("write")
            with self._rows.tables.step() as cursor:
                if staged.rows:
                    analyze(cursor, staged)
                    listed = ", ".join(map(quoted, names))
                    taken = f"SELECT {listed} FROM {place} s WHERE s.{staged.counts}"
                    if what.unless_there:
                        keys = [quoted(column.name) for column in what.changes.columns if column.key]
                        same = same_change("t.", "s.", keys)
                        taken += f" AND NOT EXISTS (SELECT FROM {sql_name(table)} t WHERE {same})"
                    cursor.execute(f"INSERT INTO {sql_name(table)} ({listed}) {taken}")
                put_stamp(cursor, table, stamp)
                cursor.execute(f"DROP TABLE {place}")
        except BaseException:
            self._rows.discard(place)
            raise


def _head(op: str, of: Marker | RowsOf) -> str:
    """The values of ``HISTORY``, for SQL."""
    cells = [texts(cells)[0].as_py() for cells in marker(op, of.commit_ts).columns]
    literals = ["NULL" if cell is None else f"'{cell}'" for cell in cells]
    return ", ".join(f"{cell}::{kind}" for cell, kind in zip(literals, _KINDS, strict=True))
