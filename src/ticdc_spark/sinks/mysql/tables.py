"""The tables of a MySQL sink, and their stamps."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from uuid import uuid4

import msgspec
import pyarrow as pa

from ticdc_spark.clients.mysql import driver, quoted
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import ColumnChanges, Stamp, TableFound
from ticdc_spark.sinks.mysql.client import HERE, OURS, Client
from ticdc_spark.sinks.mysql.commits import Commits
from ticdc_spark.sinks.mysql.intents import Intents
from ticdc_spark.sinks.mysql.pending import Change
from ticdc_spark.sinks.mysql.types import MysqlTypes, comment_sql, definition, is_indexable, type_of
from ticdc_spark.sinks.staged import digest
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
_READ = 10_000
_DATABASE = "CREATE DATABASE IF NOT EXISTS {} DEFAULT CHARACTER SET utf8mb4"
_PRIMARY = "PRIMARY"


class _Held(msgspec.Struct, frozen=True):
    """A column of the target."""

    kind: str
    """Its type in SQL, as types are compared."""
    plain: str
    """Its type as the server has it, with NULL or NOT NULL. ``""``: it has more, such as a default."""
    comment: str

    @property
    def nullable_sql(self) -> str:
        """Its definition, with NULL."""
        return f"{self.kind} NULL{comment_sql(self.comment)}"


class MysqlTables:
    """Tables by the target's names, each with its row in ``marks``."""

    def __init__(self, client: Client, commits: Commits) -> None:
        self.client, self.commits = client, commits
        self.intents = Intents(client, commits)

    @cached_property
    def types(self) -> MysqlTypes:
        """The types of the server."""
        ((version,),) = self.client.run("SELECT VERSION()")
        return MysqlTypes(str(version), [row[0] for row in self.client.run("SHOW COLLATION")])

    def find(self, table: TableName) -> TableFound | None:
        found = self._stamped(table)
        return None if found is None else msgspec.structs.replace(found, columns=self.columns(table))

    def _stamped(self, table: TableName) -> TableFound | None:
        """A table with its stamp, but without its columns: they are one more query."""
        self.intents.resolve(table)
        comment = self.intents.comment(table)
        if comment is None:
            return None
        found = self.client.ask(
            "SELECT `token`, `number`, `job`, `commit_ts`, `step`, `applied_before`, `about`, `job_applied` "
            f"FROM `{OURS}`.`marks` WHERE {HERE}",
            *table,
        )
        waiting = self.commits.pending.of(table)
        if found and found[0][0] not in ("", comment):
            self.client.run(f"DELETE FROM `{OURS}`.`marks` WHERE {HERE} AND `token` = %s", *table, found[0][0])
            found = []  # another table has replaced it
        if not found and not waiting:
            return TableFound(stamp=None, snapshot=0)
        stamp, number = None, 0
        if found:
            _, number, job, at, step, before, about, applied = found[0]
            stamp = Stamp(job, (at, step), before, about, applied)
        for change in waiting:
            known = "" if stamp is None else stamp.about
            stamp = msgspec.structs.replace(change.stamp, about=change.stamp.about or known, seen=None)
        return TableFound(stamp=stamp, snapshot=number + len(waiting))

    def list_tables(self, job: str) -> list[TableName]:
        names = self.client.ask(f"SELECT `db`, `name` FROM `{OURS}`.`marks` WHERE `job` = %s", job)
        begun = self.client.ask(f"SELECT `db`, `name`, `stamp` FROM `{OURS}`.`intents`")
        names += [row[:2] for row in begun if msgspec.json.decode(row[2], type=Stamp).job == job]
        found = ((name, self._stamped(name)) for name in dict.fromkeys(names))
        return [name for name, one in found if one is not None and one.stamp is not None and one.stamp.job == job]

    def snapshot_id(self, table: TableName) -> int | None:
        found = self._stamped(table)
        if found is None:
            raise SinkFault(f"there is no table {shown(table)}")
        return found.snapshot

    def columns(self, table: TableName) -> dict[str, str]:
        return {name: one.kind for name, one in self._held(table).items()}

    def _held(self, table: TableName) -> dict[str, _Held]:
        found = self.client.run(
            "SELECT `column_name`, `column_type`, `collation_name`, `is_nullable`, `column_comment`, `extra` = '' AND ("
            # MariaDB shows SQL there
            "`column_default` IS NULL OR (`column_default` = 'NULL' AND VERSION() LIKE '%%MariaDB%%')) "
            "FROM `information_schema`.`columns` "
            "WHERE `table_schema` = %s AND `table_name` = %s ORDER BY `ordinal_position`",
            *table,
        )
        held = {}
        for name, sql, collation, nullable, comment, is_plain in found:
            kind, null = _text(sql), "NULL" if _text(nullable) == "YES" else "NOT NULL"
            plain = f"{self.types.as_held(kind, collation)} {null}" if is_plain else ""
            held[name] = _Held(self.types.read(kind, collation), plain, _text(comment))
        return held

    def _checked(self, table: TableName) -> frozenset[str]:
        """The columns with a CHECK of their own, which only MariaDB has."""
        if not self.types.is_mariadb:
            return frozenset()
        found = self.client.run(
            "SELECT `constraint_name` FROM `information_schema`.`check_constraints` "
            "WHERE `constraint_schema` = %s AND `table_name` = %s AND `level` = 'Column'",
            *table,
        )
        return frozenset(_text(name).casefold() for (name,) in found)

    def unique_keys(self, table: TableName) -> dict[str, frozenset[str]]:
        """The columns, in lower case, of each unique key."""
        found = self.client.run(
            "SELECT `index_name`, `column_name` FROM `information_schema`.`statistics` "
            "WHERE `table_schema` = %s AND `table_name` = %s AND `non_unique` = 0",
            *table,
        )
        keys: dict[str, frozenset[str]] = {}
        for index, column in found:
            keys[index] = keys.get(index, frozenset()) | {_text(column).casefold()}
        return keys

    def with_key(self, table: TableName, columns: Sequence[LakeColumn]) -> bool:
        """Give a table the primary key of its source, which may have changed. Returns whether it has one
        and no other unique key."""
        keys = self.unique_keys(table)
        primary, marked = keys.pop(_PRIMARY, frozenset()), [column for column in columns if column.key]
        wanted = frozenset(column.name.casefold() for column in marked if is_indexable(marked))
        if primary != wanted:
            clauses = ["DROP PRIMARY KEY"] if primary else []
            for name, held in self._held(table).items():
                if name.casefold() in primary - wanted:
                    clauses.append(f"MODIFY COLUMN {quoted(name)} {held.nullable_sql}")
            if wanted:
                clauses.append(f"ADD PRIMARY KEY ({', '.join(quoted(column.name) for column in marked)})")
            if table[0] == OURS:  # rows are gathered there, and no one reads the table
                self.client.run(f"ALTER TABLE {sql_name(table)} {', '.join(clauses)}")
            else:
                found = self._stamped(table)
                self._alter(table, clauses, (found and found.stamp) or Stamp("", (0, 0), 0))
        return bool(wanted) and not keys

    def with_nullable(self, table: TableName, columns: Sequence[LakeColumn]) -> None:
        """Let the other columns of a table be NULL, as rows without them need it."""
        found = self.client.run(
            "SELECT `column_name` FROM `information_schema`.`columns` WHERE `table_schema` = %s AND `table_name` = %s "
            "AND `is_nullable` = 'NO' AND `column_default` IS NULL "
            "AND LOWER(`extra`) NOT LIKE '%%generated%%' AND LOWER(`extra`) NOT LIKE '%%auto_increment%%'",
            *table,
        )
        written = {column.name.casefold() for column in columns}
        needy = [name for (name,) in found if name.casefold() not in written]
        if needy:
            held = self._held(table)
            clauses = (f"MODIFY COLUMN {quoted(name)} {held[name].nullable_sql}" for name in needy)
            self.client.run(f"ALTER TABLE {sql_name(table)} {', '.join(clauses)}")

    def sql_name(self, table: TableName) -> str:
        return sql_name(table)

    # ---- rows

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(map(quoted, columns))
        with self.client.connection() as connection, connection.cursor(driver().cursors.SSCursor) as cursor:
            cursor.execute(f"SELECT {listed} FROM {sql_name(table)}")
            while rows := cursor.fetchmany(_READ):
                yield pa.RecordBatch.from_pylist([dict(zip(columns, row, strict=True)) for row in rows])

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        self.commits.do(Change(table, (), stamp))

    # ---- DDL

    def create_database(self, schema: str) -> None:
        self.commits.fence()
        self.client.run(_DATABASE.format(quoted(schema)))

    def drop_database(self, schema: str) -> None:
        self.commits.fence()
        sql = "SELECT COUNT(*) FROM `information_schema`.`tables` WHERE `table_schema` = %s"
        if not self.client.run(sql, schema)[0][0]:
            self.client.run(f"DROP DATABASE IF EXISTS {quoted(schema)}")

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        self._refuse(table, "created")
        token, keys = new_token(), [column for column in columns if column.key]
        parts = [definition(column, self.types) for column in columns]
        if keys and is_indexable(keys):
            parts.append(f"PRIMARY KEY ({', '.join(quoted(column.name) for column in keys)})")
        database = _DATABASE.format(quoted(table[0]))
        made = f"CREATE TABLE {sql_name(table)} ({', '.join(parts)}) COMMENT = '{token}'"
        self.intents.run("create", table, stamp, token, [database, made])

    def drop(self, table: TableName) -> None:
        self.intents.resolve(table)
        self.commits.discard(waiting := self.commits.pending.of(table))
        self.commits.pending.remove(waiting)
        self.commits.flush(table)  # its history stays
        with self.intents.locked(table) as cursor:
            self.commits.fence()
            if self.intents.comment(table) is not None:
                cursor.execute(f"DROP TABLE IF EXISTS {sql_name(table)}")  # a crash here leaves a mark without a table
            cursor.execute(f"DROP TABLE IF EXISTS {sql_name(gathered(table))}")
            for ours in ("marks", "loads"):
                cursor.execute(f"DELETE FROM `{OURS}`.`{ours}` WHERE {HERE}", table)

    def rename(self, old: TableName, new: TableName) -> None:
        self._refuse(new, f"the new name of {shown(old)}")
        found = self._stamped(old)
        if found is None:
            raise SinkFault(f"there is no table {shown(old)} to rename")
        self.commits.flush(old)
        stamp = found.stamp or Stamp("", (0, 0), 0)
        database = _DATABASE.format(quoted(new[0]))
        renamed, other = f"RENAME TABLE {sql_name(old)} TO {sql_name(new)}", gathered(new)
        if self.intents.comment(gathered(old)) is not None:
            renamed += f", {sql_name(gathered(old))} TO {sql_name(other)}"
        self.intents.run("rename", new, stamp, "", [database, f"DROP TABLE IF EXISTS {sql_name(other)}", renamed], old)

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        held = self._held(table)
        comments = {name.casefold(): self.types.comment(text) for name, text in changes.comments}
        clauses = self._clauses(table, changes, held, comments)
        only = [*self._comments(table, changes, held, comments)]
        if changes.moves_values:
            # The gathered rows of a full read have other columns.
            self.client.ask(f"DELETE FROM `{OURS}`.`loads` WHERE {HERE}", *table)
        self._alter(table, clauses, stamp, only)

    def _alter(self, table: TableName, clauses: Sequence[str], stamp: Stamp, comments: Sequence[str] = ()) -> None:
        self.commits.flush(table)
        token = new_token()
        altered = ", ".join([*clauses, f"COMMENT = '{token}'"])
        self.intents.run("alter", table, stamp, token, [f"ALTER TABLE {sql_name(table)} {altered}"], comments=comments)

    def flush(self, table: TableName) -> None:
        self.commits.flush(table)

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        self.swap(table, *self.empty_beside(table), stamp)

    def empty_beside(self, table: TableName) -> tuple[str, str]:
        """Create an empty table like another one; returns its name and its token."""
        place, token = sql_name(gathered(table)), new_token()
        self.client.prepare()
        with self.intents.locked(table) as cursor:
            self.commits.fence()
            cursor.execute(f"DELETE FROM `{OURS}`.`loads` WHERE {HERE}", table)
            cursor.execute(f"DROP TABLE IF EXISTS {place}")
            cursor.execute(f"CREATE TABLE {place} LIKE {sql_name(table)}")
            cursor.execute(f"ALTER TABLE {place} COMMENT = '{token}'")
        return place, token

    def swap(self, table: TableName, place: str, token: str, stamp: Stamp) -> None:
        """Replace a table by another one, whose comment is the token."""
        self.commits.flush(table)
        old = f"`{OURS}`.`old_{digest(*table)}`"
        swapped = f"RENAME TABLE {sql_name(table)} TO {old}, {place} TO {sql_name(table)}"
        self.intents.run("alter", table, stamp, token, [f"DROP TABLE IF EXISTS {old}", swapped])
        self.client.run(f"DROP TABLE IF EXISTS {old}")

    def _refuse(self, table: TableName, what: str) -> None:
        self.intents.resolve(table)
        if self.intents.comment(table) is not None:
            raise SinkFault(f"{shown(table)} already exists, and cannot be {what}")

    def _clauses(
        self, table: TableName, changes: ColumnChanges, held: Mapping[str, _Held], comments: Mapping[str, str]
    ) -> list[str]:
        """The parts of an ALTER TABLE, one per column: MySQL accepts only one for each column."""
        renames = dict(changes.rename)
        promoted = {column.name: column for column in changes.promote}
        kept = {name: renames.get(name, name) for name in held if name not in changes.drop}
        wanted = [name.casefold() for name in [*kept.values(), *(column.name for column in changes.add)]]
        if len(set(wanted)) < len(wanted):
            raise SinkFault(f"the columns of {shown(table)} cannot be changed: two have one name")
        keys = self.unique_keys(table).get(_PRIMARY, frozenset())
        clauses = ["DROP PRIMARY KEY"] if keys & {name.casefold() for name in changes.drop} else []
        clauses += [f"DROP COLUMN {quoted(name)}" for name in changes.drop]
        origin = {new: old for old, new in kept.items()}
        added = {column.name: column for column in changes.add}
        order = [name for name in changes.order if name in origin or name in added]
        for name in order or [*origin, *added]:
            at = order.index(name) if order else -1
            place = "" if at < 0 else f" AFTER {quoted(order[at - 1])}" if at else " FIRST"
            if name in added:
                clauses.append(f"ADD COLUMN {definition(added[name], self.types, key=False)}{place}")
                continue
            old, null = origin[name], "NOT NULL" if origin[name].casefold() in keys else "NULL"
            if name in promoted or place:
                kind = type_of(promoted[name], self.types) if name in promoted else held[old].kind
                comment = comment_sql(comments.get(name.casefold(), held[old].comment))
                clauses.append(f"CHANGE COLUMN {quoted(old)} {quoted(name)} {kind} {null}{comment}{place}")
            elif old != name:
                clauses.append(f"RENAME COLUMN {quoted(old)} TO {quoted(name)}")
        return clauses

    def _comments(
        self, table: TableName, changes: ColumnChanges, held: Mapping[str, _Held], comments: Mapping[str, str]
    ) -> Iterator[str]:
        """The statements that change only the comment of a column, under its former name. A MODIFY would remove what
        else a person gave to the column, such as a default. So that column keeps its comment."""
        renames, with_others = dict(changes.rename), {*(one.name for one in changes.promote), *changes.order}
        checked = self._checked(table) if comments else frozenset[str]()
        for name, one in held.items():
            after = renames.get(name, name)
            comment = comments.get(after.casefold(), one.comment)
            if comment == one.comment or after in with_others or name in changes.drop:
                continue
            if one.plain and name.casefold() not in checked:
                changed = f"MODIFY COLUMN {quoted(name)} {one.plain}{comment_sql(comment)}"
                yield f"ALTER TABLE {sql_name(table)} {changed}"
            else:
                log.info(
                    "%s: column `%s` keeps its comment, as it has options that only the target has", shown(table), name
                )


def sql_name(table: TableName) -> str:
    """The name of a table for SQL."""
    return f"{quoted(table[0])}.{quoted(table[1])}"


def gathered(table: TableName) -> TableName:
    """The table that gathers the rows of a full read."""
    return OURS, f"load_{digest(*table)}"


def new_token() -> str:
    """A unique comment for a table."""
    return f"ticdc-spark {uuid4().hex}"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
