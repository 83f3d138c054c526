"""Changes of tables that wait for the commit of the job's state, which includes all of them."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ticdc_spark.model import TableName
from ticdc_spark.sinks.mysql.client import HERE, OURS, refused_rows

if TYPE_CHECKING:
    from ticdc_spark.sinks.base import Stamp  # status reads the state, and starts faster without these imports

Statement = tuple[str, tuple[Any, ...]]


class Change(msgspec.Struct, frozen=True):
    """The change of one call: statements, and their stamp."""

    table: TableName
    statements: tuple[Statement, ...]
    stamp: "Stamp"
    staged: tuple[str, ...] = ()
    """Staging tables that can be dropped afterwards, for SQL."""
    beside: TableName | None = None
    """If ``table`` is a history: its table. No later change of that table may come before this one."""


class Pending:
    """The waiting changes, in order. Safe to use from several threads."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._lock = threading.Lock()

    def add(self, change: Change) -> None:
        """Add a waiting change."""
        with self._lock:
            self._changes.append(change)

    def of(self, table: TableName | None = None) -> list[Change]:
        """The waiting changes of one table, or of all."""
        with self._lock:
            return [one for one in self._changes if table in (None, one.table)]

    def with_history(self, table: TableName) -> list[Change]:
        """The waiting changes of a table and of its history."""
        with self._lock:
            return [one for one in self._changes if table in (one.table, one.beside)]

    def remove(self, changes: Sequence[Change]) -> None:
        """Remove changes that are done or no longer needed."""
        gone = {id(one) for one in changes}
        with self._lock:
            self._changes = [one for one in self._changes if id(one) not in gone]


def bring_in(cursor: Any, changes: Sequence[Change]) -> None:
    """Apply changes, with their stamps, in the transaction of a cursor."""
    cursor.execute(f"USE `{OURS}`")  # MariaDB needs a current database for a DELETE with an alias
    for change in changes:
        with refused_rows(change.table):
            for sql, values in change.statements:
                cursor.execute(sql, values or None)
        put_stamp(cursor, change.table, change.stamp)


def put_stamp(cursor: Any, table: TableName, stamp: "Stamp", token: str | None = None) -> None:
    """Write the stamp of a table. ``token``: given if the table is new."""
    if token is not None:
        cursor.execute(f"DELETE FROM `{OURS}`.`marks` WHERE {HERE}", table)
    cursor.execute(
        f"INSERT INTO `{OURS}`.`marks` VALUES (%s, %s, %s, 1, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE "
        "`number` = `number` + 1, `job` = VALUES(`job`), `commit_ts` = VALUES(`commit_ts`), `step` = VALUES(`step`), "
        "`applied_before` = VALUES(`applied_before`), `job_applied` = VALUES(`job_applied`), "
        "`about` = IF(VALUES(`about`) = '', `about`, VALUES(`about`))",
        (*table, token or "", stamp.job, *stamp.mark, stamp.applied_before, stamp.job_applied, stamp.about),
    )
