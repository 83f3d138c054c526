"""Connections to the server of a MySQL sink. Turns its errors into errors of this package."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ticdc_spark.clients.mysql import driver, opened
from ticdc_spark.clients.reach import unreachable
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import DecisionNeeded, SinkFault, UsageError
from ticdc_spark.model import TableName
from ticdc_spark.sinks.connections import Connections
from ticdc_spark.sinks.mysql.rights import DENIED, cure_of, grants_of, missing_rights

OURS = "_ticdc_spark"
"""The database for what the jobs remember."""
HERE = "`db` = %s AND `name` = %s"
"""SQL of whether a row of our tables is of a table."""
NOT_THERE = (1049, 1146)
"""Error codes for a missing database or table."""
_LOGIN = (1045, 1698)
_NO_SERVER = 2003
_NO_DEFAULT = 1364
"""Error code: a row has no value for a NOT NULL column without a default. To PyMySQL it is no fault of the row."""
_SESSION = (
    "SET SESSION time_zone = '+00:00', "
    # MODIFY rounds fractions of a second at the source. MariaDB needs a mode of its own for that, and cuts them off
    # otherwise. To other servers it is a comment.
    "SESSION sql_mode = CONCAT('STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO' /*M!100401 , ',TIME_ROUND_FRACTIONAL' */), "
    # A DDL waits for transactions that read its table, but not for a day, the default of servers.
    "SESSION lock_wait_timeout = 60"
)
_TABLES = (
    f"CREATE DATABASE IF NOT EXISTS `{OURS}` DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    f"""CREATE TABLE IF NOT EXISTS `{OURS}`.`marks` (
      `db` varchar(64) NOT NULL, `name` varchar(64) NOT NULL, `token` varchar(64) NOT NULL, `number` bigint NOT NULL,
      `job` varchar(255) NOT NULL, `commit_ts` bigint NOT NULL, `step` bigint NOT NULL,
      `applied_before` bigint NOT NULL, `job_applied` bigint NOT NULL, `about` longtext NOT NULL,
      PRIMARY KEY (`db`, `name`))""",
    f"""CREATE TABLE IF NOT EXISTS `{OURS}`.`intents` (
      `db` varchar(64) NOT NULL, `name` varchar(64) NOT NULL, `old_db` varchar(64) NOT NULL,
      `old_name` varchar(64) NOT NULL, `token` varchar(64) NOT NULL, `stamp` longtext NOT NULL,
      PRIMARY KEY (`db`, `name`))""",
    f"""CREATE TABLE IF NOT EXISTS `{OURS}`.`loads` (
      `db` varchar(64) NOT NULL, `name` varchar(64) NOT NULL, `note` longtext NOT NULL, PRIMARY KEY (`db`, `name`))""",
    f"""CREATE TABLE IF NOT EXISTS `{OURS}`.`states` (
      `job` varchar(255) NOT NULL PRIMARY KEY, `version` varchar(64) NOT NULL, `resolved_ts` bigint NOT NULL,
      `parts` longtext NOT NULL)""",
    f"""CREATE TABLE IF NOT EXISTS `{OURS}`.`state_rows` (
      `job` varchar(255) NOT NULL, `part` varchar(64) NOT NULL, `seq` bigint NOT NULL, `kind` varchar(64) NOT NULL,
      `db` varchar(255), `name` varchar(255), `resolved_ts` bigint, `snapshot_id` bigint, `condition` longtext,
      `value` longtext NOT NULL, PRIMARY KEY (`job`, `part`, `seq`))""",
    f"CREATE TABLE IF NOT EXISTS `{OURS}`.`heartbeats` (`job` varchar(255) NOT NULL PRIMARY KEY, `beat` longblob)",
    f"""CREATE TABLE IF NOT EXISTS `{OURS}`.`dead_letters` (
      `job` varchar(255) NOT NULL, `batch` bigint NOT NULL, `stage` varchar(255) NOT NULL,
      `topic` varchar(255) NOT NULL, `partition` bigint NOT NULL, `offset` bigint NOT NULL, `seq` bigint NOT NULL,
      `reason` longtext NOT NULL, `key` longblob, `value` longblob, `at` datetime(6) NOT NULL,
      KEY (`job`, `batch`, `stage`))""",
)


class Client:
    """A server whose connections threads borrow. Raises: SinkFault; DecisionNeeded if a value does not fit"""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """``options``: from ``clients.mysql.connection_options``."""
        self.options = dict(options)
        self.where = f"{options['host']}:{options['port']}"
        self._connections = Connections(lambda: connect(self.options), answers, lambda one: one._force_close())
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
            connection.begin()
            yield cursor
            connection.commit()

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement by itself; returns its rows."""
        with self.connection() as connection, connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return [*cursor.fetchall()]

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of our own tables; none if these do not exist yet."""
        try:
            return self.run(sql, *values)
        except SinkFault as fault:
            if code_of(fault) in NOT_THERE:
                return []
            raise

    def prepare(self) -> None:
        """Create our own tables, if they do not exist."""
        if not self._prepared:
            for statement in _TABLES:
                self.run(statement)
            self._prepared = True

    def stop_without_rights(self, databases: Collection[str]) -> None:
        """Check whether the user may write databases, which need not exist yet. Raises: UsageError"""
        missing = missing_rights([str(line) for (line,) in self.run("SHOW GRANTS")], databases)
        if missing:
            ((account,),) = self.run("SELECT CURRENT_USER()")
            name, _, host = str(account).rpartition("@")
            user = f"'{name}'@'{host}'"
            raise UsageError(f"{self.where}: {user} lacks rights. Cure: {grants_of(missing, user)}")

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.close()


def answers(connection: Any) -> bool:
    """Whether an idle connection is still usable; the server may have closed it after a timeout."""
    try:
        connection.ping(reconnect=False)
    except driver().Error:
        return False
    return True


def connect(options: Mapping[str, Any]) -> Any:
    """A connection whose values the server validates, and whose times are UTC.

    Raises: SinkFault, which names the wrong part of the URI; PyMySQL's errors
    """
    try:
        made = opened(**options, charset="utf8mb4", autocommit=True, init_command=_SESSION, connect_timeout=10)
    except driver().err.OperationalError as error:
        code, where = error.args[0] if error.args else 0, f"{options['host']}:{options['port']}"
        if code in _LOGIN:
            raise SinkFault(f"{where}: {_text(error)}. Look at user and password of `uri` under [sink]") from error
        if code == _NO_SERVER and (why := unreachable(options["host"], options["port"])):
            raise SinkFault(f"{where}: {why}. Look at `uri` under [sink]") from error
        raise
    made.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return made


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn errors of PyMySQL into ours.

    Raises: DecisionNeeded if a value does not fit; UsageError if the user lacks a right; otherwise SinkFault
    """
    mysql = driver()
    try:
        yield
    except (mysql.err.DataError, mysql.err.IntegrityError) as error:
        raise DecisionNeeded(f"{what}: {_text(error)}") from error
    except mysql.Error as error:
        if error.args and error.args[0] in DENIED:
            raise UsageError(f"{what}: {_text(error)}. Cure: {cure_of(_text(error))}") from error
        raise SinkFault(f"{what}: {_text(error)}") from error


@contextmanager
def refused_rows(table: TableName) -> Iterator[None]:
    """Name the table whose rows the server refuses: a value does not fit, or a unique key has its values already.

    Raises: DecisionNeeded; any other error of PyMySQL passes
    """
    mysql = driver()
    try:
        yield
    except (mysql.err.DataError, mysql.err.IntegrityError, mysql.err.OperationalError) as error:
        if isinstance(error, mysql.err.OperationalError) and error.args[:1] != (_NO_DEFAULT,):
            raise
        raise DecisionNeeded(
            f"{shown(table)}: {_text(error)}. Drop a unique key or a constraint that only the target has. If another "
            "writer changed the table, `ticdc-spark rebuild` reads it again"
        ) from error


def code_of(error: BaseException) -> int:
    """The server's number of an error that ``faults`` raised; 0: it has none."""
    arguments = getattr(error.__cause__, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


def _text(error: BaseException) -> str:
    return str(error.args[1]) if len(error.args) > 1 else str(error)
