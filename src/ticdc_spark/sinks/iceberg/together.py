"""Changes of several tables that a REST catalog accepts in one commit: their transactions stay open until then.

Each transaction starts from its loaded table. The catalog refuses all of them if one of the tables has moved since.
They are not rebuilt then: the batch is applied again, and the marks of the tables say what is already there.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException

from ticdc_spark import failpoints
from ticdc_spark.config.routes import shown
from ticdc_spark.errors import UsageError
from ticdc_spark.model import TableName
from ticdc_spark.sinks.capabilities import SinkConflict
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.commits import is_refused
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.storage import remove
from ticdc_spark.sinks.iceberg.stamps import place_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A change of a table that is not committed yet."""

    table: TableName
    transaction: Any
    """A transaction of Iceberg's Java API. Its table already includes the change."""
    files: tuple[str, ...] = ()
    """Locations of the files with the change's rows."""
    beside: TableName | None = None
    """If the table is a history: its table. No later commit of that table may come before this one."""

    @property
    def snapshot_id(self) -> int:
        """The snapshot that the table will be at."""
        return int(self.transaction.table().currentSnapshot().snapshotId())


class Together:
    """The open changes, one for each table. Safe to use from several threads for different tables."""

    def __init__(self, catalog: IcebergCatalog, *, gathers: bool) -> None:
        """``gathers``: rows of tables wait for one another; otherwise nothing is ever open."""
        self._catalog, self.gathers = catalog, gathers
        self._open: dict[TableName, Open] = {}
        self._lock = threading.Lock()
        self._alone: set[TableName] = set()
        if gathers:
            check_commit(catalog)

    def of(self, table: TableName) -> Open | None:
        """The open change of a table; ``None``: there is none."""
        with self._lock:
            return self._open.get(table)

    def add(self, change: Open) -> None:
        """Keep a change open. The table must not have an open one."""
        with self._lock:
            assert change.table not in self._open, "it was committed before"
            self._open[change.table] = change

    def end(self, table: TableName) -> None:
        """Commit the open changes of a table and of its history, before the table is read. Raises: as ``commit``"""
        if self.of(table) is not None:
            self.make_way(table)

    def make_way(self, table: TableName) -> None:
        """Commit the open changes of a table or of its history, before a separate commit of the table.

        Raises: as ``commit``
        """
        with self._lock:
            named = [one for one in self._open.values() if table in (one.table, one.beside)]
        self._commit(named)

    def commit(self) -> None:
        """Commit everything that is open. Raises: SinkFault; SinkConflict if nothing was committed"""
        with self._lock:
            named = list(self._open.values())
        self._commit(named)

    def note_alone(self, table: TableName) -> None:
        """Log, once for each table, that its rows have their own commit."""
        if self.gathers and table not in self._alone:
            self._alone.add(table)
            log.info("%s.%s: its changes have their own commit, because Spark writes them", *table)

    def _commit(self, changes: Sequence[Open]) -> None:
        if not changes:
            return
        listed = ", ".join(shown(one.table) for one in changes[:5]) + (" …" if len(changes) > 5 else "")
        with faults(f"{listed} cannot be committed together"):
            commits = self._catalog.java.util.ArrayList()
            for one in changes:
                at, identifier = one.transaction, self._catalog.identifier(one.table)
                made = self._catalog.iceberg.catalog.TableCommit.create(
                    identifier, at.startMetadata(), at.currentMetadata()
                )
                commits.add(made)
            failpoints.point("begun")
            # The tables were loaded before the fence: a later commit to one of them is a conflict.
            self._catalog.fence()
            try:
                self._catalog.java_catalog.commitTransaction(commits)
            except Py4JJavaError as error:
                self._stop_unless_there(changes, error)
        failpoints.point("together")
        with self._lock:
            for one in changes:
                self._open.pop(one.table, None)

    def _stop_unless_there(self, changes: Sequence[Open], error: Py4JJavaError) -> None:
        """Check whether the catalog accepted a commit that it did not confirm.

        Raises: SinkConflict if it refused the commit and will never accept it; ``error`` if that is not known
        """
        now = {one.table: self._catalog.find_table(one.table) for one in changes}
        there = [now[one.table] is not None and now[one.table].snapshot(one.snapshot_id) is not None for one in changes]
        if all(there):
            log.warning("the catalog has committed %d tables but did not confirm it", len(changes))
            return
        moved = [one.table for one in changes if not _is_at_start(one, now[one.table])]
        refused = is_refused(error)
        # If no table has moved, an earlier attempt of the same request may still be running.
        if any(there) or not moved or not refused:
            raise error
        for one in changes:
            remove(one.transaction.table().io(), one.files)
        why = f"another writer changed {', '.join(map(shown, moved))} while a batch was applied"
        raise SinkConflict(f"{why}: nothing of it is committed, and the batch is applied again") from error


def check_commit(catalog: IcebergCatalog) -> None:
    """Raises: UsageError if a catalog can only commit one table at a time"""
    # Nothing is sent: Iceberg first checks that the server offers the endpoint, then refuses an empty list of tables.
    nothing = catalog.java.util.ArrayList()
    try:
        catalog.java_catalog.commitTransaction(nothing)
    except IllegalArgumentException:
        return
    except PySparkException as error:
        raise UsageError(_cannot(str(error))) from error
    except Py4JError as error:
        raise UsageError(_cannot("it is not a REST catalog, or its option cache-enabled is true")) from error


def _is_at_start(change: Open, loaded: Any) -> bool:
    """Whether a table is still in the state from which a change of it starts. ``loaded``: its current state."""
    start = change.transaction.startMetadata().currentSnapshot()
    place = None if loaded is None else place_of(loaded)
    return (None if place is None else place[0]) == (None if start is None else int(start.snapshotId()))


def _cannot(why: str) -> str:
    return (
        f'[sink] commit = "batch": the catalog cannot commit several tables at once ({why}). It needs "catalog.type" = '
        '"rest" and a server that offers POST …/transactions/commit; with commit = "table" each table is one commit'
    )
