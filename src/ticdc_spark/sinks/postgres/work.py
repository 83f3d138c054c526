"""The transaction of a batch: one connection for everything that becomes visible at once.

Rows, DDL and stamps are written as they arrive, and the commit of the job's state ends the transaction. Each step has
a savepoint: a step that fails does not undo earlier ones.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ticdc_spark import failpoints
from ticdc_spark.clients.postgres import connect, driver
from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.postgres.client import OURS, Client, answers, faults

_MILLISECONDS = 10_000
"""Time to wait for the end of another session."""


class Work:
    """Uncommitted writes. Safe to use from several threads, which wait for each other.

    Raises: SinkFault; DecisionNeeded if a value does not fit
    """

    def __init__(self, client: Client, name: str) -> None:
        """``name``: of the session; every process of a job uses the same one."""
        self._client, self._name = client, name
        self._lock = threading.RLock()
        self._connection: Any = None
        self._begun = self._lost = False

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """A cursor that also sees uncommitted writes."""
        with self._lock:
            if self._begun:
                with self.step() as cursor:
                    yield cursor
            else:
                with faults(self._client.where), self._open().cursor() as cursor:
                    yield cursor

    @contextmanager
    def step(self) -> Iterator[Any]:
        """A cursor. What it does is committed with everything else, or undone if an error occurs."""
        with self._lock, faults(self._client.where):
            connection, had_begun = self._open(), self._begun
            with connection.cursor() as cursor:
                try:
                    cursor.execute("SAVEPOINT step" if had_begun else "BEGIN")
                    self._begun = True
                    yield cursor
                    if had_begun:
                        cursor.execute("RELEASE SAVEPOINT step")
                except BaseException:
                    self._undo(connection, all_of_it=not had_begun)
                    raise

    @contextmanager
    def now(self, job: str, fence: Callable[[], None]) -> Iterator[Any]:
        """A step that is committed at once, with all waiting steps. No one can take the job before it ends."""
        with self._lock:
            with self.step() as cursor:
                cursor.execute(f"SELECT version FROM {OURS}.states WHERE job = $1 FOR UPDATE", (job,))
                fence()
                yield cursor
            self.commit()

    def commit(self) -> None:
        """Commit every step."""
        with self._lock, faults(self._client.where):
            if not self._begun:
                return
            failpoints.point("transaction")
            try:
                self._connection.execute("COMMIT")
            except BaseException:
                self._undo(self._connection, all_of_it=True)
                self._lost = True  # it may have been committed; that is not known here
                raise
            self._begun = False

    def give_up(self) -> None:
        """Undo uncommitted steps. No step can follow, because the earlier ones are missing."""
        with self._lock:
            if self._begun:
                self._undo(self._connection, all_of_it=True)
                self._lost = True

    def end_others(self) -> None:
        """End the transactions of processes that had the job before, which releases their locks."""
        with self.reading() as cursor:
            cursor.execute(
                f"SELECT pg_terminate_backend(pid, {_MILLISECONDS}) FROM pg_stat_activity WHERE application_name = $1 "
                "AND datname = current_database() AND pid <> pg_backend_pid()",
                (self._name,),
            )

    def close(self) -> None:
        """Undo uncommitted steps, and close the connection."""
        with self._lock:
            self.give_up()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> Any:
        if self._lost:
            raise SinkFault(f"{self._client.where}: the transaction of the batch was lost; the batch is applied again")
        if self._connection is not None and (self._begun or answers(self._connection)):
            return self._connection
        if self._connection is not None:
            self._connection.close()
        self._connection = connect(self._client.options, self._name)
        return self._connection

    def _undo(self, connection: Any, *, all_of_it: bool) -> None:
        """Undo the last step, or everything. A lost connection undoes everything."""
        try:
            connection.execute("ROLLBACK" if all_of_it else "ROLLBACK TO SAVEPOINT step")
            if not all_of_it:
                connection.execute("RELEASE SAVEPOINT step")
        except driver().Error:  # the original error is raised
            connection.close()
            self._connection, self._lost = None, self._lost or not all_of_it
            all_of_it = True
        self._begun = not all_of_it
