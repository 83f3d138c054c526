"""Writes rows to tables of a MySQL sink: tasks stage them, and a transaction of the driver takes them."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import msgspec
from pyspark.sql import SparkSession

from ticdc_spark import failpoints
from ticdc_spark.changes.columns import ALWAYS, COUNT, OP, TIES
from ticdc_spark.changes.counted import copies
from ticdc_spark.changes.events import HISTORY, marker
from ticdc_spark.changes.net import rows_left
from ticdc_spark.changes.typed import TypedChanges
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import DecisionNeeded, MessageError, SinkFault
from ticdc_spark.model import TableName, Value
from ticdc_spark.sinks.appends import Appended, Events, Marker, RowsOf, columns_of, same_change
from ticdc_spark.sinks.base import Fill, Stamp, unconverted
from ticdc_spark.sinks.conditions import Condition
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mysql.client import OURS, refused_rows
from ticdc_spark.sinks.mysql.counts import COUNTED, adding, any_goes, removing
from ticdc_spark.sinks.mysql.pending import Change, Statement
from ticdc_spark.sinks.mysql.staging import EXTRA, literals, stage, text_literal
from ticdc_spark.sinks.mysql.tables import MysqlTables, gathered, new_token, sql_name
from ticdc_spark.sinks.mysql.types import definition
from ticdc_spark.sinks.staged import Staged, digest
from ticdc_spark.sinks.staging import stage_parts, tasks_for
from ticdc_spark.sinks.type_map import ColumnConversion
from ticdc_spark.spark.tasks import ReadParts, chain
from ticdc_spark.spark.types import LakeColumn, to_arrow


class MysqlRows:
    """Net changes, conversions and full reads."""

    def __init__(self, tables: MysqlTables, spark: SparkSession | None, job: str) -> None:
        """``spark``: runs the tasks of full reads; ``None``: this process reads. ``job``: the job that writes."""
        self._tables, self._client, self._spark = tables, tables.client, spark
        self._job = job
        self._stages = f"stage_{digest('', job)[:16]}_"

    def remove_stages(self) -> None:
        """Remove the staging tables that crashed processes of this job left."""
        self._tables.fence()
        listed = "SELECT `table_name` FROM `information_schema`.`tables` WHERE `table_schema` = %s"
        for (name,) in self._client.run(f"{listed} AND `table_name` LIKE %s", OURS, f"{self._stages}%"):
            self._client.run(f"DROP TABLE IF EXISTS `{OURS}`.{quoted(name)}")

    def _new_place(self) -> str:
        return f"`{OURS}`.`{self._stages}{uuid4().hex[:16]}`"

    def _new_stage(self, columns: Sequence[LakeColumn], more: Sequence[str] = ()) -> str:
        """Create a staging table; returns its name for SQL. ``more``: definitions of further columns."""
        self._client.prepare()
        place = self._new_place()
        parts = [definition(column, self._tables.types, key=False) for column in columns]
        self._client.run(f"CREATE TABLE {place} ({', '.join([*parts, *EXTRA, *more])})")
        return place

    def upsert(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        """See ``sinks.base.Changes.upsert``."""
        columns = changes.columns
        self._find_columns(table, columns)
        is_only = self._tables.with_key(table, columns)
        place = self._new_stage(columns)
        names = [column.name for column in columns]
        change = Change(table, (), stamp, (place,))
        try:
            done = changes.write(
                stage(self._client.options, place, [*names, OP, TIES, ALWAYS]), tasks=tasks_for(changes)
            )
        except BaseException:
            self._tables.discard([change])
            raise
        failpoints.point("write")
        staged = Staged(place).with_answers(done)
        if staged.rows:
            statements = self._merge(table, staged, changes, is_only=is_only)
            change = msgspec.structs.replace(change, statements=tuple((sql, ()) for sql in statements))
        self._tables.do(change)

    def _find_columns(self, table: TableName, columns: Sequence[LakeColumn]) -> list[str]:
        """The names of all columns of a table. Raises: SinkFault if one of ``columns`` is missing"""
        names = list(self._tables.columns(table))
        have = {name.casefold() for name in names}
        for column in columns:
            if column.name.casefold() not in have:
                raise SinkFault(f"{shown(table)} has no column {quoted(column.name)}")
        return names

    def change_counts(self, table: TableName, changes: TypedChanges, stamp: Stamp) -> None:
        """See ``sinks.base.Changes``."""
        columns = changes.columns
        have = self._find_columns(table, columns)
        self._tables.with_key(table, columns)
        place, aside = self._new_stage(columns, COUNTED), self._new_place()
        change = Change(table, (), stamp, (place, aside))
        try:
            what = chain(copies, stage(self._client.options, place, [*(column.name for column in columns), COUNT]))
            staged = Staged(place).with_answers(changes.write(what, tasks=tasks_for(changes)))
            statements = [adding(sql_name(table), staged, columns)] if staged.rows else []
            if statements and self._client.run(any_goes(staged)):
                self._client.run(f"CREATE TABLE {aside} LIKE {sql_name(table)}")
                statements = [*removing(sql_name(table), staged, aside, columns, have), *statements]
        except BaseException:
            self._tables.discard([change])
            raise
        failpoints.point("write")
        self._tables.do(msgspec.structs.replace(change, statements=tuple((sql, ()) for sql in statements)))

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

    def delete_where(self, table: TableName, where: Sequence[Sequence[Condition]], stamp: Stamp) -> None:
        sql = f"DELETE FROM {sql_name(table)} WHERE {_where_sql(where)}"
        self._tables.do(Change(table, ((sql, ()),), stamp))

    def append(self, table: TableName, what: Appended, stamp: Stamp, beside: TableName) -> None:
        """See ``sinks.base.Changes.append``."""
        if isinstance(what, Events):
            self._append_events(table, what, stamp, beside)
            return
        if what is None:
            self._tables.do(Change(table, (), stamp, beside=beside))
            return
        head, told = ", ".join(map(quoted, HISTORY)), what.op if isinstance(what, Marker) else what.marker
        statements = [f"INSERT INTO {sql_name(table)} ({head}) VALUES ({_head(told, what)})"] if told else []
        if isinstance(what, RowsOf):
            names = "".join(f", {quoted(name)}" for name in what.columns)
            met = "TRUE" if what.where is None else _where_sql(what.where)
            source = sql_name(gathered(what.source) if what.gathered else what.source)
            taken = f"SELECT {_head(what.op, what)}{names} FROM {source} WHERE {met}"
            statements.append(f"INSERT INTO {sql_name(table)} ({head}{names}) {taken}")
        self._tables.do(Change(table, tuple((sql, ()) for sql in statements), stamp, beside=beside))

    def _append_events(self, table: TableName, what: Events, stamp: Stamp, beside: TableName) -> None:
        columns = columns_of(what.changes, self._tables.types)
        place, names = self._new_stage(columns), [column.name for column in columns]
        change = Change(table, (), stamp, (place,), beside)
        try:
            task = stage(self._client.options, place, names)
            done = what.changes.write_events(task, what.above, tasks=tasks_for(what.changes))
        except BaseException:
            self._tables.discard([change])
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
        self._tables.do(change)

    def take_rows(self, table: TableName, columns: Sequence[LakeColumn], source: TableName, stamp: Stamp) -> None:
        """See ``sinks.base.Changes``. Applied at once, because the other table may change later."""
        self._tables.flush(source)
        listed = ", ".join(quoted(column.name) for column in columns)
        insert = f"INSERT INTO {sql_name(table)} ({listed}) SELECT {listed} FROM {sql_name(source)}"
        if self._tables.with_key(table, columns):
            update = ", ".join(f"{quoted(one.name)} = VALUES({quoted(one.name)})" for one in columns)
            insert = f"{insert} ON DUPLICATE KEY UPDATE {update}"
        self._tables.do(Change(table, ((insert, ()),), stamp), now=True)

    def fill(self, table: TableName, column: LakeColumn, fill: Fill, stamp: Stamp) -> None:
        array, bad, _ = to_arrow(column, fill.lake)([fill.value])
        if bad:
            raise DecisionNeeded(f"the default of the new column `{column.source}` cannot be read: {bad[0]}")
        sql = f"UPDATE {sql_name(table)} SET {quoted(column.name)} = {literals(array)[0]}"
        self._tables.do(Change(table, ((sql, ()),), stamp), now=True)

    def convert(
        self, table: TableName, old: str, column: LakeColumn, conversion: ColumnConversion, stamp: Stamp
    ) -> None:
        target, new, was = sql_name(table), quoted(column.name), quoted(old)
        statements: list[Statement] = [(f"UPDATE {target} SET {new} = {was}", ())]
        try:
            if conversion.convert is not None:
                self._tables.flush(table)
                self._client.prepare()
                found = self._client.run(f"SELECT DISTINCT CAST({was} AS CHAR) FROM {target} WHERE {was} IS NOT NULL")
                values = [str(row[0]) for row in found]
                pairs = [(value, conversion.convert(value)) for value in values]
                statements = [
                    (f"UPDATE {target} SET {new} = {text_literal(str(after))} WHERE {was} = {text_literal(value)}", ())
                    for value, after in pairs
                ]
            self._tables.do(Change(table, tuple(statements), stamp), now=True)
        except (DecisionNeeded, MessageError) as error:
            if isinstance(error, DecisionNeeded) and error.__cause__ is None:
                raise  # an error of the fence
            raise DecisionNeeded(unconverted(column, str(error))) from error

    # ---- full reads

    def empty_beside(self, table: TableName) -> tuple[str, str]:
        """Create an empty table like another one; returns its name and its token."""
        place, token = sql_name(gathered(table)), new_token()
        self._client.prepare()
        with self._tables.locked(table) as cursor:
            self._tables.fence()
            cursor.execute(f"DELETE FROM `{OURS}`.`loads` WHERE `db` = %s AND `name` = %s", table)
            cursor.execute(f"DROP TABLE IF EXISTS {place}")
            cursor.execute(f"CREATE TABLE {place} LIKE {sql_name(table)}")
            cursor.execute(f"ALTER TABLE {place} COMMENT = '{token}'")
        return place, token

    def load_note(self, table: TableName) -> LoadNote | None:
        sql = f"SELECT `note` FROM `{OURS}`.`loads` WHERE `db` = %s AND `name` = %s"
        found = self._client.ask(sql, *table)
        return msgspec.json.decode(found[0][0], type=LoadNote) if found else None

    def begin_load(self, table: TableName, note: LoadNote) -> None:
        self._tables.flush(table)
        self.empty_beside(table)
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
        place, names = self._new_stage(columns), [column.name for column in columns]
        try:
            what = stage(self._client.options, place, names)
            staged, zeros = stage_parts(self._spark, read, parts, what, place)
            return self._take(table, columns, staged, note(staged.rows, zeros))
        finally:
            self._client.run(f"DROP TABLE IF EXISTS {place}")

    def load_changes(self, table: TableName, changes: TypedChanges, note: Callable[[int, int], LoadNote]) -> LoadNote:
        place, names = self._new_stage(changes.columns), [column.name for column in changes.columns]
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
        self._tables.flush(source)
        listed, place = ", ".join(quoted(column.name) for column in columns), sql_name(gathered(table))
        self._tables.with_nullable(gathered(table), columns)
        with self._client.transaction() as cursor, refused_rows(table):
            self._tables.fenced(cursor, self._job)
            taken = f"SELECT {listed} FROM {sql_name(source)} WHERE {_where_sql(where)}"
            cursor.execute(f"INSERT INTO {place} ({listed}) {taken}")
            self._put_note(cursor, table, note)
            failpoints.point("gather")

    def _put_note(self, cursor: Any, table: TableName, note: LoadNote) -> None:
        sql = f"UPDATE `{OURS}`.`loads` SET `note` = %s WHERE `db` = %s AND `name` = %s"
        cursor.execute(sql, (msgspec.json.encode(note).decode(), *table))

    def _take(self, table: TableName, columns: Sequence[LakeColumn], staged: Staged, note: LoadNote) -> LoadNote:
        """Add staged rows to the gathered ones, with the note."""
        listed = ", ".join(quoted(column.name) for column in columns)
        verb = "REPLACE" if self._tables.with_key(gathered(table), columns) else "INSERT"
        self._tables.with_nullable(gathered(table), columns)  # columns of a table that had the name before
        with self._client.transaction() as cursor, refused_rows(table):
            self._tables.fenced(cursor, self._job)
            if staged.rows:
                taken = f"SELECT {listed} FROM {staged.place} WHERE {staged.counts}"
                cursor.execute(f"{verb} INTO {sql_name(gathered(table))} ({listed}) {taken}")
            self._put_note(cursor, table, note)
            failpoints.point("gather")
        return note

    def finish_load(self, table: TableName, stamp: Stamp) -> None:
        token = self._tables.comment(gathered(table))
        if token is None:
            raise SinkFault(f"the rows that were gathered for {shown(table)} are gone: read the table again")
        self._tables.swap(table, sql_name(gathered(table)), token, stamp)
        self._client.run(f"DELETE FROM `{OURS}`.`loads` WHERE `db` = %s AND `name` = %s", *table)


def _head(op: str, of: Marker | RowsOf) -> str:
    """The values of ``HISTORY``, for SQL."""
    return ", ".join(literals(cells)[0] for cells in marker(op, of.commit_ts).columns)


def _where_sql(where: Sequence[Sequence[Condition]]) -> str:
    return " OR ".join(f"({' AND '.join(map(_test_of, tests)) or 'TRUE'})" for tests in where) or "FALSE"


def _test_of(condition: Condition) -> str:
    """A condition for SQL."""
    name, convert = quoted(condition.column.name), to_arrow(condition.column, condition.lake)

    def literal(value: Value) -> str:
        array, bad, _ = convert([value])
        if bad:
            raise SinkFault(bad[0])
        return literals(array)[0]

    listed = f"RTRIM({name})" if condition.rtrim else name
    tests = [] if condition.at_least is None else [f"{name} >= {literal(condition.at_least)}"]
    tests += [] if condition.below is None else [f"{name} < {literal(condition.below)}"]
    if condition.any_of is not None:
        values = ", ".join(map(literal, condition.any_of))
        tests.append(f"{listed} IN ({values})" if values else "FALSE")
    if condition.none_of:
        tests.append(f"{listed} NOT IN ({', '.join(map(literal, condition.none_of))})")
    if condition.remainder is not None:
        tests.append("ABS({} MOD {}) = {}".format(name, *condition.remainder))
    met = " AND ".join(tests) or f"{name} IS NOT NULL"
    return f"({met} OR {name} IS NULL)" if condition.or_null else f"({met})"
