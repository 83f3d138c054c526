"""Connections to the database of a PostgreSQL sink. Turns its errors into errors of this package."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ticdc_spark.clients.postgres import connect, driver
from ticdc_spark.clients.reach import unreachable
from ticdc_spark.errors import DecisionNeeded, SinkFault, TicdcSparkError, UsageError
from ticdc_spark.model import TableName
from ticdc_spark.sinks.connections import Connections

OURS = "_ticdc_spark"
"""The schema for what the jobs remember."""
NOT_THERE = ("3F000", "42P01")
"""Error codes for a missing schema or table."""
_OF_A_PERSON = ("0A000", "2BP01", "54000")
"""Errors that only a person can fix: unsupported features, dependent objects, exceeded limits."""
_LOCK = 0x7469636463
"""The lock for creating our own tables."""
_DENIED = "42501"
"""Error code: the user lacks a right."""
_CURE = """SELECT CASE
  WHEN NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text) THEN
    CASE WHEN has_database_privilege(current_database(), 'CREATE') THEN NULL
    ELSE format('GRANT CREATE ON DATABASE %I TO %I', current_database(), current_user) END
  WHEN has_schema_privilege($1::text, 'CREATE') AND has_schema_privilege($1::text, 'USAGE') THEN NULL
  ELSE format('GRANT USAGE, CREATE ON SCHEMA %I TO %I', $1::text, current_user) END"""
"""The GRANT for missing rights on a schema; NULL: none is missing."""
_OWNER_CURES = """SELECT format('ALTER TABLE %I.%I OWNER TO %I', n.nspname, c.relname, current_user)
  FROM unnest($1::text[], $2::text[]) AS t (db, name)
  JOIN pg_namespace n ON n.nspname = t.db JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name
  WHERE c.relkind IN ('r', 'p') AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1"""
"""The statements for tables whose owner the user is not, nor a member of that role."""
_TABLES = (
    f"CREATE SCHEMA IF NOT EXISTS {OURS}",
    f"""CREATE TABLE IF NOT EXISTS {OURS}.marks (
      db text NOT NULL, name text NOT NULL, token text NOT NULL, number bigint NOT NULL, job text NOT NULL,
      commit_ts bigint NOT NULL, step bigint NOT NULL, applied_before bigint NOT NULL, job_applied bigint NOT NULL,
      about text NOT NULL, PRIMARY KEY (db, name))""",
    f"""CREATE TABLE IF NOT EXISTS {OURS}.loads (
      db text NOT NULL, name text NOT NULL, note text NOT NULL, PRIMARY KEY (db, name))""",
    f"""CREATE TABLE IF NOT EXISTS {OURS}.states (
      job text NOT NULL PRIMARY KEY, version text NOT NULL, resolved_ts bigint NOT NULL, parts text NOT NULL)""",
    f"""CREATE TABLE IF NOT EXISTS {OURS}.state_rows (
      job text NOT NULL, part text NOT NULL, seq bigint NOT NULL, kind text NOT NULL, db text, name text,
      resolved_ts bigint, snapshot_id bigint, condition text, value text NOT NULL, PRIMARY KEY (job, part, seq))""",
    f"CREATE TABLE IF NOT EXISTS {OURS}.heartbeats (job text NOT NULL PRIMARY KEY, beat bytea)",
    f"""CREATE TABLE IF NOT EXISTS {OURS}.dead_letters (
      job text NOT NULL, batch bigint NOT NULL, stage text NOT NULL, topic text NOT NULL, partition bigint NOT NULL,
      "offset" bigint NOT NULL, seq bigint NOT NULL, reason text NOT NULL, key bytea, value bytea,
      at timestamptz NOT NULL)""",
    f"CREATE INDEX IF NOT EXISTS dead_letters_of_jobs ON {OURS}.dead_letters (job, batch, stage)",
)


class Client:
    """A database whose connections threads borrow. Raises: SinkFault; DecisionNeeded if a value does not fit"""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """``options``: from ``clients.postgres.connection_options``."""
        self.options = dict(options)
        self.where = f"{options['host']}:{options['port']}/{options['dbname']}"
        self._connections = Connections(lambda: opened(self.options), answers, lambda one: one.close())
        self._prepared = False

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection that commits each statement. After an error it is closed, which releases its locks."""
        with faults(self.where), self._connections.borrow() as connection:
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor in a transaction, which is committed unless an error occurs."""
        with self.connection() as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            yield cursor
            cursor.execute("COMMIT")

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement by itself; returns its rows."""
        with self.connection() as connection, connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return [] if cursor.description is None else [*cursor.fetchall()]

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of our own tables; none if these do not exist yet."""
        try:
            return self.run(sql, *values)
        except SinkFault as fault:
            if code_of(fault) in NOT_THERE:
                return []
            raise

    def prepare(self) -> None:
        """Create our own tables, if they do not exist. Raises: DecisionNeeded if the database cannot store every
        text"""
        if self._prepared:
            return
        ((encoding,),) = self.run("SELECT current_setting('server_encoding')")
        if encoding != "UTF8":
            raise DecisionNeeded(
                f"{self.where}: the encoding of the database is {encoding}, which cannot store every text: create one "
                "with ENCODING 'UTF8', and name it with `uri` under [sink]"
            )
        if not self.run("SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'dead_letters'", OURS):
            self.stop_without_grant()
            with self.transaction() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock($1)", (_LOCK,))
                for statement in _TABLES:
                    cursor.execute(statement)
        self._prepared = True

    def stop_without_grant(self) -> None:
        """Check whether the user may create schemas, if ours does not exist. Raises: UsageError"""
        ((user, database, may, there),) = self.run(
            "SELECT quote_ident(current_user), quote_ident(current_database()), "
            "has_database_privilege(current_database(), 'CREATE'), "
            "EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)",
            OURS,
        )
        if not may and not there:
            raise UsageError(
                f"{self.where}: the user {user} may not create schemas. Cure: "
                f"GRANT CREATE ON DATABASE {database} TO {user}"
            )

    def stop_without_rights(self, schemas: Collection[str], tables: Collection[TableName]) -> None:
        """Check whether the user may create tables in schemas, create schemas that do not exist, and alter tables that
        exist. Raises: UsageError"""
        rows = [self.run(_CURE, schema) for schema in schemas]
        cures = dict.fromkeys(str(cure) for ((cure,),) in rows if cure is not None)
        owned = self.run(_OWNER_CURES, [schema for schema, _ in tables], [name for _, name in tables])
        cures |= dict.fromkeys(str(cure) for (cure,) in owned)
        if cures:
            raise UsageError(f"{self.where}: the user lacks rights. Cure: {'; '.join(cures)}")

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.close()


def opened(options: Mapping[str, Any]) -> Any:
    """A connection. Raises: SinkFault, which names the wrong part of the URI; psycopg's errors"""
    try:
        return connect(dict(options))
    except driver().OperationalError as error:
        host, port, database, user = (options[key] for key in ("host", "port", "dbname", "user"))
        where = f"{host}:{port}/{database}"
        if why := unreachable(host, port):
            raise SinkFault(f"{where}: {why}. Look at `uri` under [sink]") from error
        # The error has no code. In each language it quotes what it refuses.
        text = str(error).replace(f'server at "{host}"', "")
        named = [part for part, name in (("user and password", user), ("database", database)) if f'"{name}"' in text]
        part = f"{', '.join(named)} of " if named else ""
        raise SinkFault(f"{where}: {_text(error)}. Look at {part}`uri` under [sink]") from error


def answers(connection: Any) -> bool:
    """Whether an idle connection is still usable."""
    try:
        connection.execute("SELECT 1")
    except driver().Error:
        return False
    return True


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn errors of psycopg into ours.

    Raises: DecisionNeeded if a value does not fit; UsageError if the user lacks a right; otherwise SinkFault
    """
    postgres = driver()
    try:
        yield
    except postgres.Error as error:
        is_value = isinstance(error, postgres.DataError | postgres.IntegrityError)
        kind: type[TicdcSparkError] = DecisionNeeded if is_value or error.sqlstate in _OF_A_PERSON else SinkFault
        if error.sqlstate == _DENIED:
            cure = "The user must own the tables of the job, and needs USAGE and CREATE on its schemas"
            raise UsageError(f"{what}: {_text(error)}. {cure}") from error
        raise kind(f"{what}: {_text(error)}") from error


@contextmanager
def refused_rows(name: str) -> Iterator[None]:
    """Name the table whose rows the server refuses: a value does not fit, a unique key has its values already, or the
    user does not own it. ``name``: of the table in SQL.

    Raises: DecisionNeeded, UsageError; any other error of psycopg passes
    """
    postgres = driver()
    try:
        yield
    except (postgres.DataError, postgres.IntegrityError) as error:
        raise DecisionNeeded(
            f"{name}: {_text(error)}. Drop a unique key or a constraint that only the target has, and widen a column "
            "whose type is not the job's. If another writer changed the table, `ticdc-spark rebuild` reads it again"
        ) from error
    except postgres.errors.InsufficientPrivilege as error:
        raise UsageError(
            f"{name}: {_text(error)}. The user of the job must own it: ALTER TABLE {name} OWNER TO that user"
        ) from error


def code_of(error: BaseException) -> str:
    """The server's code of an error that ``faults`` raised; ``""``: it has none."""
    return str(getattr(error.__cause__, "sqlstate", None) or "")


def _text(error: Any) -> str:
    said = error.diag
    if not said.message_primary:
        return "; ".join(line.strip() for line in str(error).splitlines())
    context = [] if not said.context else said.context.splitlines()[:1]
    return "; ".join(part for part in (said.message_primary, said.message_detail, *context) if part)
