"""Commits row changes: with the next commit of the job's state, or now."""

from collections.abc import Callable, Sequence
from typing import Any

from ticdc_spark import failpoints
from ticdc_spark.model import TableName
from ticdc_spark.sinks.mysql.client import OURS, Client
from ticdc_spark.sinks.mysql.pending import Change, Pending, bring_in


class Commits:
    """Changes of rows, and the fence that every commit passes."""

    def __init__(self, client: Client, fence: Callable[[], None], *, gathers: bool) -> None:
        """``gathers``: row changes wait for the commit of the state."""
        self._client, self.fence, self._gathers = client, fence, gathers
        self.pending = Pending()

    def do(self, change: Change, *, now: bool = False) -> None:
        """Apply row changes: with the next commit of the state, or now, after the table's waiting changes."""
        if self._gathers and not now:
            self._client.prepare()
            self.pending.add(change)
        else:
            self.bring_in([*self.pending.with_history(change.table), change])

    def flush(self, table: TableName) -> None:
        """Commit the waiting changes of a table and its history."""
        if waiting := self.pending.with_history(table):
            self.bring_in(waiting)

    def bring_in(self, changes: Sequence[Change]) -> None:
        """Apply changes in a separate transaction."""
        self._client.prepare()
        try:
            with self._client.transaction() as cursor:
                self.fenced(cursor, changes[-1].stamp.job)
                bring_in(cursor, changes)
                failpoints.point("transaction")
            self.pending.remove(changes)
        finally:
            self.discard(changes)

    def discard(self, changes: Sequence[Change]) -> None:
        """Drop the staging tables of changes."""
        for place in [place for change in changes for place in change.staged]:
            self._client.run(f"DROP TABLE IF EXISTS {place}")

    def fenced(self, cursor: Any, job: str) -> None:
        """Make sure in a transaction that the job is ours. No one can take it before the transaction ends."""
        cursor.execute(f"SELECT `version` FROM `{OURS}`.`states` WHERE `job` = %s FOR UPDATE", (job,))
        self.fence()
