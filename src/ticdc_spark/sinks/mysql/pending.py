"""Changes of tables that wait for the commit of the job's state, which brings in all of them at once."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ticdc_spark.model import TableName
from ticdc_spark.sinks.mysql.client import OURS

if TYPE_CHECKING:
    from ticdc_spark.sinks.base import Stamp  # status reads the state, and is quick without what this imports

Statement = tuple[str, tuple[Any, ...]]


class Change(msgspec.Struct, frozen=True):
    """What one call changes: statements, and the stamp that goes with them."""

    table: TableName
    statements: tuple[Statement, ...]
    stamp: "Stamp"
    staged: tuple[str, ...] = ()
    """Tables that are of no use afterwards, for SQL."""
    beside: TableName | None = None
    """The table that no later change of may come before it: it is one of that one's history."""


class Pending:
    """What waits, in its order. Safe to use from several threads."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._lock = threading.Lock()

    def add(self, change: Change) -> None:
        """Let a change wait."""
        with self._lock:
            self._changes.append(change)

    def of(self, table: TableName | None = None) -> list[Change]:
        """What waits, of one table or of all."""
        with self._lock:
            return [one for one in self._changes if table in (None, one.table)]

    def with_history(self, table: TableName) -> list[Change]:
        """What waits of one table, and of its history."""
        with self._lock:
            return [one for one in self._changes if table in (one.table, one.beside)]

    def remove(self, changes: Sequence[Change]) -> None:
        """Let changes go that are done, or not wanted any more."""
        gone = {id(one) for one in changes}
        with self._lock:
            self._changes = [one for one in self._changes if id(one) not in gone]


def bring_in(cursor: Any, changes: Sequence[Change]) -> None:
    """Do changes, with their stamps, in the transaction of a cursor."""
    cursor.execute(f"USE `{OURS}`")  # MariaDB deletes by an alias only where a database is chosen
    for change in changes:
        for sql, values in change.statements:
            cursor.execute(sql, values or None)
        put_stamp(cursor, change.table, change.stamp)


def put_stamp(cursor: Any, table: TableName, stamp: "Stamp", token: str | None = None) -> None:
    """Write the stamp of a table. ``token``: of a table that is a new one."""
    if token is not None:
        cursor.execute(f"DELETE FROM `{OURS}`.`marks` WHERE `db` = %s AND `name` = %s", table)
    cursor.execute(
        f"INSERT INTO `{OURS}`.`marks` VALUES (%s, %s, %s, 1, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE "
        "`number` = `number` + 1, `job` = VALUES(`job`), `commit_ts` = VALUES(`commit_ts`), `step` = VALUES(`step`), "
        "`applied_before` = VALUES(`applied_before`), `job_applied` = VALUES(`job_applied`), "
        "`about` = IF(VALUES(`about`) = '', `about`, VALUES(`about`))",
        (*table, token or "", stamp.job, *stamp.mark, stamp.applied_before, stamp.job_applied, stamp.about),
    )
