"""DDL that is recognised and finished after a crash.

In MySQL, a DDL cannot be part of a transaction. So an **intent** with a token is committed before it, and the DDL
writes the token into the comment of the table, in the same statement. A process that finds an intent sees by the
comment whether the DDL happened. If it did, the stamp is written; otherwise the intent is deleted, and the job runs the
DDL again. The connection of a DDL holds a lock: a process that looks waits until the server has ended the statement of
a crashed process.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.clients.mysql import driver
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.mysql.client import HERE, OURS, Client
from ticdc_spark.sinks.mysql.commits import Commits
from ticdc_spark.sinks.mysql.pending import put_stamp
from ticdc_spark.sinks.staged import digest

log = logging.getLogger(__name__)
_WAIT = 60
"""Seconds to wait for a DDL of a process that may have crashed."""
_PASSING = frozenset({(1205,), (1213,), (1317,), (2006,), (2013,)})
"""Codes of a lock that others hold, a deadlock, an interrupted statement, and a lost connection."""
Kind = Literal["create", "alter", "rename"]


class Intents:
    """Runs DDL, and finishes what a crashed process began."""

    def __init__(self, client: Client, commits: Commits) -> None:
        self._client, self._commits = client, commits

    def run(
        self,
        kind: Kind,
        table: TableName,
        stamp: Stamp,
        token: str,
        sql: Sequence[str],
        old: TableName | None = None,
        *,
        comments: Sequence[str] = (),
    ) -> None:
        """Run statements between an intent and its stamp. The last statement is the DDL.

        ``comments``: statements that change only comments, before the others. The server may refuse them.
        """
        self.resolve(table)
        with self.locked(table) as cursor:
            with self._client.transaction() as noted:
                self._commits.fenced(noted, stamp.job)
                before = old or (table if kind == "alter" else ("", ""))
                noted.execute(
                    f"REPLACE INTO `{OURS}`.`intents` VALUES (%s, %s, %s, %s, %s, %s)",
                    (*table, *before, token, msgspec.json.encode(stamp).decode()),
                )
            failpoints.point("intent")
            for statement in comments:
                _write_comment(cursor, statement)
                failpoints.point("statement")
            for statement in sql:
                cursor.execute(statement)
                failpoints.point("statement")
            self._record(table, before, token, stamp)
        failpoints.point("recorded")

    def _record(self, table: TableName, before: TableName, token: str, stamp: Stamp) -> None:
        with self._client.transaction() as cursor:
            if before not in (table, ("", "")):
                for ours in ("marks", "loads"):
                    cursor.execute(f"DELETE FROM `{OURS}`.`{ours}` WHERE {HERE}", table)
                    cursor.execute(
                        f"UPDATE `{OURS}`.`{ours}` SET `db` = %s, `name` = %s WHERE {HERE}", (*table, *before)
                    )
            else:
                put_stamp(cursor, table, stamp, None if before == table else token)
                cursor.execute(f"UPDATE `{OURS}`.`marks` SET `token` = %s WHERE {HERE}", (token, *table))
            cursor.execute(f"DELETE FROM `{OURS}`.`intents` WHERE {HERE}", table)

    def resolve(self, table: TableName) -> None:
        """Finish a table's DDLs that were begun, by what the server did. Raises: SinkFault"""
        self._client.prepare()
        asked = f"SELECT * FROM `{OURS}`.`intents` WHERE ({HERE}) OR (`old_db` = %s AND `old_name` = %s)"
        for new in [(row[0], row[1]) for row in self._client.run(asked, *table, *table)]:
            with self.locked(new):
                found = self._client.run(f"SELECT * FROM `{OURS}`.`intents` WHERE {HERE}", *new)
                for _, _, *before, token, stamp in found:
                    old = (before[0], before[1])
                    there = self.comment(new)
                    is_renamed = old not in (new, ("", "")) and there is not None and self.comment(old) is None
                    if is_renamed or (there is not None and there == token):
                        self._record(new, old, token, msgspec.json.decode(stamp, type=Stamp))
                    else:
                        self._client.run(f"DELETE FROM `{OURS}`.`intents` WHERE {HERE}", *new)

    @contextmanager
    def locked(self, table: TableName) -> Iterator[Any]:
        """A cursor whose connection holds the lock of a table's DDL. Closing the connection releases the lock."""
        with self._client.connection() as connection, connection.cursor() as cursor:
            name = f"ticdc:{digest(*table)}"
            cursor.execute("SELECT GET_LOCK(%s, %s)", (name, _WAIT))
            if cursor.fetchone()[0] != 1:
                raise SinkFault(f"a DDL on {shown(table)} that another process began still runs after {_WAIT} seconds")
            yield cursor
            cursor.execute("SELECT RELEASE_LOCK(%s)", (name,))

    def comment(self, table: TableName) -> str | None:
        """The comment of a table; ``None``: there is no table."""
        found = self._client.run(
            "SELECT `table_comment` FROM `information_schema`.`tables` WHERE `table_schema` = %s AND `table_name` = %s",
            *table,
        )
        return str(found[0][0]) if found else None


def _write_comment(cursor: Any, statement: str) -> None:
    """Run a statement that changes a comment. The server may refuse it. A fault that passes by itself is raised, so
    that the job tries again: the intent makes that safe."""
    mysql = driver()
    try:
        cursor.execute(statement)
    except mysql.MySQLError as error:
        if error.args[:1] in _PASSING:
            raise
        log.warning("the target refuses a comment: %s: %s", error.args[-1] if error.args else error, statement[:200])
