"""Appends rows to a history table, with the next commit of the state."""

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.changes.events import HISTORY, marker
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.model import TableName
from ticdc_spark.sinks.appends import Appended, Events, Marker, RowsOf, columns_of, same_change
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.mysql.pending import Change
from ticdc_spark.sinks.mysql.rewrites import where_sql
from ticdc_spark.sinks.mysql.rows import MysqlRows
from ticdc_spark.sinks.mysql.staging import literals, stage
from ticdc_spark.sinks.mysql.tables import gathered, sql_name
from ticdc_spark.sinks.staged import Staged
from ticdc_spark.sinks.staging import tasks_for


class MysqlAppends:
    """See ``sinks.base.Histories``."""

    def __init__(self, rows: MysqlRows) -> None:
        self._rows, self._tables, self._client = rows, rows.tables, rows.client

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        if isinstance(what, Events):
            self._append_events(table, what, stamp, beside)
            return
        if what is None:
            self._tables.commits.do(Change(table, (), stamp, beside=beside))
            return
        head, told = ", ".join(map(quoted, HISTORY)), what.op if isinstance(what, Marker) else what.marker
        statements = [f"INSERT INTO {sql_name(table)} ({head}) VALUES ({_head(told, what)})"] if told else []
        if isinstance(what, RowsOf):
            names = "".join(f", {quoted(name)}" for name in what.columns)
            met = "TRUE" if what.where is None else where_sql(what.where)
            source = sql_name(gathered(what.source) if what.gathered else what.source)
            taken = f"SELECT {_head(what.op, what)}{names} FROM {source} WHERE {met}"
            statements.append(f"INSERT INTO {sql_name(table)} ({head}{names}) {taken}")
        self._tables.commits.do(Change(table, tuple((sql, ()) for sql in statements), stamp, beside=beside))

    def _append_events(self, table: TableName, what: Events, stamp: Stamp, beside: TableName) -> None:
        columns = columns_of(what.changes, self._tables.types)
        place, names = self._rows.new_stage(columns), [column.name for column in columns]
        change = Change(table, (), stamp, (place,), beside)
        try:
            task = stage(self._client.options, place, names)
            done = what.changes.write_events(task, what.above, tasks=tasks_for(what.changes))
        except BaseException:
            self._tables.commits.discard([change])
            raise
        failpoints.point("write")
        staged = Staged(place).with_answers(done)
        if staged.rows:
            listed = ", ".join(map(quoted, names))
            sql = f"INSERT INTO {sql_name(table)} ({listed}) SELECT {listed} FROM {place} s WHERE s.{staged.counts}"
            if what.unless_there:
                same = same_change("t.", "s.", [quoted(column.name) for column in what.changes.columns if column.key])
                sql += f" AND NOT EXISTS (SELECT 1 FROM {sql_name(table)} t WHERE {same})"
            change = msgspec.structs.replace(change, statements=((sql, ()),))
        self._tables.commits.do(change)


def _head(op: str, of: Marker | RowsOf) -> str:
    """The values of ``HISTORY``, for SQL."""
    return ", ".join(literals(cells)[0] for cells in marker(op, of.commit_ts).columns)
