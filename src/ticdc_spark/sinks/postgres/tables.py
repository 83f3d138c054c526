"""The tables of a PostgreSQL sink, their stamps, and DDL. All of it happens in the transaction of the batch.

The comment of a job's table holds a token, which is also in the row of its stamp. So another table that takes its
name is recognised.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa

from ticdc_spark.clients.postgres import quoted
from ticdc_spark.config.layout import PLAIN, Layout
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import ColumnChanges, Stamp, TableFound
from ticdc_spark.sinks.postgres.client import OURS, Client
from ticdc_spark.sinks.postgres.types import definition, is_indexable, stop_if_no_column, type_name
from ticdc_spark.sinks.postgres.work import Work
from ticdc_spark.sinks.staged import digest
from ticdc_spark.spark.types import LakeColumn

_READ = 10_000
_HERE = "db = $1 AND name = $2"
_TABLE = (
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1 "
    "WHERE c.relname = $2 AND c.relkind IN ('r', 'p')"
)


class PostgresTables:
    """Tables by the target's names, each with its row in ``marks``."""

    def __init__(self, client: Client, fence: Callable[[], None], job: str | None) -> None:
        """``job``: its commits include what is written; ``None``: each step has its own commit."""
        self.client, self.fence, self.job = client, fence, job
        self.work = Work(client, f"ticdc-spark {digest(job or '')}")

    @contextmanager
    def step(self, *, now: bool = False) -> Iterator[Any]:
        """A cursor for work that is committed with the next state, or now."""
        self.client.prepare()
        if self.job is not None and not now:
            with self.work.step() as cursor:
                yield cursor
        else:
            with self.work.now(self.job or "", self.fence) as cursor:
                yield cursor

    def find(self, table: TableName) -> TableFound | None:
        found = self._stamped(table)
        return None if found is None else msgspec.structs.replace(found, columns=self.columns(table))

    def _stamped(self, table: TableName) -> TableFound | None:
        """A table with its stamp, but without its columns: they are one more query."""
        self.client.prepare()
        with self.work.reading() as cursor:
            cursor.execute(f"SELECT obj_description(c.oid, 'pg_class') {_TABLE}", table)
            there = cursor.fetchone()
            if there is None:
                return None
            cursor.execute(
                "SELECT token, number, job, commit_ts, step, applied_before, about, job_applied "
                f"FROM {OURS}.marks WHERE {_HERE}",
                table,
            )
            found = cursor.fetchone()
        if found is None or found[0] not in ("", there[0]):
            return TableFound(stamp=None, snapshot=0)
        _, number, job, at, step, before, about, applied = found
        return TableFound(stamp=Stamp(job, (at, step), before, about, applied), snapshot=number)

    def list_tables(self, job: str) -> list[TableName]:
        self.client.prepare()
        with self.work.reading() as cursor:
            cursor.execute(f"SELECT db, name FROM {OURS}.marks WHERE job = $1 ORDER BY db, name", (job,))
            names = [(row[0], row[1]) for row in cursor.fetchall()]
        found = ((name, self._stamped(name)) for name in names)
        return [name for name, one in found if one is not None and one.stamp is not None]

    def snapshot_id(self, table: TableName) -> int | None:
        found = self._stamped(table)
        if found is None:
            raise SinkFault(f"there is no table {shown(table)}")
        return found.snapshot

    def is_there(self, table: TableName) -> bool:
        """Whether a table exists."""
        with self.work.reading() as cursor:
            cursor.execute(f"SELECT {_TABLE}", table)
            return cursor.fetchone() is not None

    def columns(self, table: TableName) -> dict[str, str]:
        with self.work.reading() as cursor:
            cursor.execute(
                "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a WHERE a.attrelid = "
                f"(SELECT c.oid {_TABLE}) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
                table,
            )
            return dict(cursor.fetchall())

    def sql_name(self, table: TableName) -> str:
        return sql_name(table)

    def read(self, table: TableName, columns: Sequence[str], as_of: int | None = None) -> Iterator[pa.RecordBatch]:
        with self.work.reading() as cursor:
            cursor.execute(f"SELECT {', '.join(map(quoted, columns))} FROM {sql_name(table)}")
            while rows := cursor.fetchmany(_READ):
                yield pa.RecordBatch.from_pylist([dict(zip(columns, row, strict=True)) for row in rows])

    def stamp(self, table: TableName, stamp: Stamp) -> None:
        with self.step() as cursor:
            put_stamp(cursor, table, stamp)

    def flush(self, table: TableName) -> None:
        """Everything of a batch waits, DDL too."""

    def truncate(self, table: TableName, stamp: Stamp) -> None:
        """Delete the rows. After a TRUNCATE, readers with an older snapshot would find no rows."""
        with self.step() as cursor:
            cursor.execute(f"DELETE FROM {sql_name(table)}")
            put_note(cursor, table, None)
            put_stamp(cursor, table, stamp)

    def unique_keys(self, table: TableName) -> tuple[tuple[str, list[str]] | None, int]:
        """The name and columns of the primary key, and the number of other unique keys."""
        with self.work.reading() as cursor:
            cursor.execute(
                "SELECT i.indisprimary, x.relname, ARRAY(SELECT a.attname FROM unnest(i.indkey) k (number) JOIN "
                "pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number) FROM pg_index i "
                "JOIN pg_class x ON x.oid = i.indexrelid "
                f"WHERE i.indisunique AND i.indrelid = (SELECT c.oid {_TABLE})",
                table,
            )
            found = cursor.fetchall()
        primary = next(((name, list(columns)) for is_primary, name, columns in found if is_primary), None)
        return primary, len(found) - (primary is not None)

    def with_key(self, cursor: Any, table: TableName, columns: Sequence[LakeColumn]) -> tuple[bool, bool]:
        """Give a table the primary key of its source, which may have changed.

        Returns: whether it has one, and whether no other key is unique.
        """
        marked = [column for column in columns if column.key]
        wanted = [column.name for column in marked if is_indexable(marked)]
        others = self.set_key(cursor, table, wanted)
        return bool(wanted), not others

    def set_key(self, cursor: Any, table: TableName, wanted: Sequence[str]) -> int:
        """Give a table a primary key of some columns; none: it gets no primary key. Returns the number of other unique
        keys."""
        primary, others = self.unique_keys(table)
        if sorted(primary[1] if primary else []) != sorted(wanted):
            if primary is not None:
                self._drop_key(cursor, table, primary, wanted)
            if wanted:
                cursor.execute(f"ALTER TABLE {sql_name(table)} ADD {_primary_key(wanted)}")
        return others

    # ---- DDL

    def create_database(self, schema: str) -> None:
        with self.step() as cursor:
            self.make_schema(cursor, schema)

    def drop_database(self, schema: str) -> None:
        with self.step() as cursor:
            cursor.execute(
                "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1 LIMIT 1",
                (schema,),
            )
            if cursor.fetchone() is None:
                cursor.execute(f"DROP SCHEMA IF EXISTS {quoted(schema)}")

    def create(self, table: TableName, columns: Sequence[LakeColumn], stamp: Stamp, layout: Layout = PLAIN) -> None:
        marked = [column for column in columns if column.key]
        parts = [definition(column, key=is_indexable(marked)) for column in columns]
        if marked and is_indexable(marked):
            parts.append(_primary_key([column.name for column in marked]))
        token = f"ticdc-spark {uuid4().hex}"
        with self.step() as cursor:
            self._refuse(table, "created")
            self.make_schema(cursor, table[0])
            cursor.execute(f"CREATE TABLE {sql_name(table)} ({', '.join(parts)})")
            cursor.execute(f"COMMENT ON TABLE {sql_name(table)} IS '{token}'")
            _comment(cursor, table, columns)
            cursor.execute(f"DELETE FROM {OURS}.marks WHERE {_HERE}", table)
            put_stamp(cursor, table, stamp, token)

    def drop(self, table: TableName) -> None:
        with self.step() as cursor:
            for place in (sql_name(table), sql_name(gathered(table))):
                cursor.execute(f"DROP TABLE IF EXISTS {place}")
            for ours in ("marks", "loads"):
                cursor.execute(f"DELETE FROM {OURS}.{ours} WHERE {_HERE}", table)

    def rename(self, old: TableName, new: TableName) -> None:
        with self.step() as cursor:
            self._refuse(new, f"the new name of {shown(old)}")
            if not self.is_there(old):
                raise SinkFault(f"there is no table {shown(old)} to rename")
            self.make_schema(cursor, new[0])
            # Either schema may already have a table with the other name.
            between = f"ticdc_{uuid4().hex}"
            cursor.execute(f"ALTER TABLE {sql_name(old)} RENAME TO {between}")
            cursor.execute(f"ALTER TABLE {quoted(old[0])}.{between} SET SCHEMA {quoted(new[0])}")
            cursor.execute(f"ALTER TABLE {quoted(new[0])}.{between} RENAME TO {quoted(new[1])}")
            cursor.execute(f"DROP TABLE IF EXISTS {sql_name(gathered(new))}")
            cursor.execute(
                f"ALTER TABLE IF EXISTS {sql_name(gathered(old))} RENAME TO {quoted(gathered(new)[1])}",
            )
            for ours in ("marks", "loads"):
                cursor.execute(f"DELETE FROM {OURS}.{ours} WHERE {_HERE}", new)
                cursor.execute(f"UPDATE {OURS}.{ours} SET db = $3, name = $4 WHERE {_HERE}", (*old, *new))

    def change_columns(self, table: TableName, changes: ColumnChanges, stamp: Stamp) -> None:
        with self.step() as cursor:
            target = sql_name(table)
            for clause in self._clauses(cursor, table, changes):
                cursor.execute(f"ALTER TABLE {target} {clause}")
            _comment(cursor, table, changes.add)
            for name, comment in changes.comments:
                cursor.execute(f"COMMENT ON COLUMN {target}.{quoted(name)} IS {_literal(comment)}")
            if changes.moves_values:
                # The gathered rows of a full read have other columns.
                cursor.execute(f"DELETE FROM {OURS}.loads WHERE {_HERE}", table)
            put_stamp(cursor, table, stamp)

    def _clauses(self, cursor: Any, table: TableName, changes: ColumnChanges) -> Iterator[str]:
        renames = dict(changes.rename)
        kept = {name: renames.get(name, name) for name in self.columns(table) if name not in changes.drop}
        wanted = [name.casefold() for name in [*kept.values(), *(column.name for column in changes.add)]]
        if len(set(wanted)) < len(wanted):
            raise SinkFault(f"the columns of {shown(table)} cannot be changed: two have one name")
        for name in renames.values():
            stop_if_no_column(name)
        primary, _ = self.unique_keys(table)
        if primary is not None and set(primary[1]) & set(changes.drop):
            self._drop_key(cursor, table, primary, ())
        yield from (f"DROP COLUMN {quoted(name)}" for name in changes.drop)
        # Columns may swap their names.
        between = {old: f"ticdc_{uuid4().hex}" for old, new in kept.items() if old != new}
        yield from (f"RENAME COLUMN {quoted(old)} TO {name}" for old, name in between.items())
        yield from (f"RENAME COLUMN {name} TO {quoted(kept[old])}" for old, name in between.items())
        for column in changes.promote:
            kind = type_name(column)
            yield f"ALTER COLUMN {quoted(column.name)} TYPE {kind} USING {quoted(column.name)}::{kind}"
        yield from (f"ADD COLUMN {definition(column, key=False)}" for column in changes.add)

    def _drop_key(
        self, cursor: Any, table: TableName, primary: tuple[str, Sequence[str]], stays: Sequence[str]
    ) -> None:
        clauses = [f"DROP CONSTRAINT {quoted(primary[0])}"]
        clauses += [f"ALTER COLUMN {quoted(name)} DROP NOT NULL" for name in primary[1] if name not in stays]
        cursor.execute(f"ALTER TABLE {sql_name(table)} {', '.join(clauses)}")

    def make_schema(self, cursor: Any, name: str) -> None:
        """Create a schema unless it exists. The check needs no right to create one."""
        cursor.execute("SELECT FROM pg_namespace WHERE nspname = $1", (name,))
        if cursor.fetchone() is None:
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(name)}")

    def _refuse(self, table: TableName, what: str) -> None:
        if self.is_there(table):
            raise SinkFault(f"{shown(table)} already exists, and cannot be {what}")


def _comment(cursor: Any, table: TableName, columns: Sequence[LakeColumn]) -> None:
    """Write the comments of new columns."""
    for column in columns:
        if column.comment:
            cursor.execute(f"COMMENT ON COLUMN {sql_name(table)}.{quoted(column.name)} IS {_literal(column.comment)}")


def _literal(text: str) -> str:
    """A text in SQL. PostgreSQL has no U+0000, and COMMENT takes no parameters."""
    plain = text.replace("\0", "").replace("'", "''").replace("\\", "\\\\")
    return f"E'{plain}'"


def put_stamp(cursor: Any, table: TableName, stamp: Stamp, token: str = "") -> None:
    """Write the stamp of a table. ``token``: given if the table is new."""
    cursor.execute(
        f"INSERT INTO {OURS}.marks AS m (db, name, token, number, job, commit_ts, step, applied_before, job_applied, "
        "about) VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8, $9) ON CONFLICT (db, name) DO UPDATE SET "
        "number = m.number + 1, job = EXCLUDED.job, commit_ts = EXCLUDED.commit_ts, step = EXCLUDED.step, "
        "applied_before = EXCLUDED.applied_before, job_applied = EXCLUDED.job_applied, "
        "about = CASE EXCLUDED.about WHEN '' THEN m.about ELSE EXCLUDED.about END, "
        # If another table had this name before, its token is replaced.
        "token = CASE obj_description(to_regclass($10)::oid, 'pg_class') WHEN m.token THEN m.token "
        "ELSE EXCLUDED.token END",
        (*table, token, stamp.job, *stamp.mark, stamp.applied_before, stamp.job_applied, stamp.about, sql_name(table)),
    )


def note_of(cursor: Any, table: TableName) -> Any:
    """The stored note of a table's full read; ``None``: there is none."""
    cursor.execute(f"SELECT note FROM {OURS}.loads WHERE {_HERE}", table)
    found = cursor.fetchone()
    return None if found is None else found[0]


def put_note(cursor: Any, table: TableName, note: msgspec.Struct | None) -> None:
    """Write the progress of a full read; ``None``: delete it."""
    cursor.execute(f"DELETE FROM {OURS}.loads WHERE {_HERE}", table)
    if note is not None:
        text = msgspec.json.encode(note).decode()
        cursor.execute(f"INSERT INTO {OURS}.loads (db, name, note) VALUES ($1, $2, $3)", (*table, text))


def sql_name(table: TableName) -> str:
    """The name of a table for SQL."""
    return f"{quoted(table[0])}.{quoted(table[1])}"


def gathered(table: TableName) -> TableName:
    """The table that gathers the rows of a full read."""
    return OURS, f"load_{digest(*table)}"


def _primary_key(names: Sequence[str]) -> str:
    # An index needs its own name in the schema: one derived from the table may be taken, or stay after a rename.
    return f"CONSTRAINT ticdc_{uuid4().hex} PRIMARY KEY ({', '.join(map(quoted, names))})"
