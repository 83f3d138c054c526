"""The state of a job as an Iceberg table beside its tables: each version of the state is one snapshot.

A part of the state is one data file with its manifest. A commit writes the changed parts and keeps the unchanged ones.
The same request asserts which snapshot was the newest, so the catalog refuses it if another process has committed
meanwhile. The request also expires old snapshots. PyIceberg's own writers are not used: after a conflict they would
commit again on top of the other process's commit.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from zlib import crc32

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from ticdc_spark.errors import DecisionNeeded, SinkFault, TicdcSparkError
from ticdc_spark.sinks.iceberg.python_catalog import moved_away, reason
from ticdc_spark.sinks.iceberg.python_store import small_writes
from ticdc_spark.sinks.iceberg.state_files import (
    RESOLVED_TS,
    SCHEMA,
    Draft,
    files_of,
    manifest_of,
    read_rows,
    remove,
    write_whole,
)
from ticdc_spark.sinks.state import NOTHING, Parts, StateMoved, StateRow, StoredState
from ticdc_spark.spark.storage import local_folder

log = logging.getLogger(__name__)
NAMESPACE = "_ticdc_spark"
KEPT = 60
"""Number of newest snapshots that are always kept."""
KEPT_HOURS = 24
"""For this many hours, the last snapshot of each hour is also kept."""
_HOUR_MS = 3_600_000
_TRIES = 5
"""Attempts of a commit that conflicts with a change of the table that is not a commit of the state."""
_METADATA = re.compile(r"\S*\.metadata\.json|$")
"""A metadata file in an error of a file system."""
_POINTER = (
    "SELECT metadata_location FROM iceberg_tables "
    "WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :table"
)
_PROPERTIES = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    "comment": "the state of a replication job; only the job writes to it",
}


class IcebergState:
    """See ``StateStore``: a table ``_ticdc_spark.state_<job>``."""

    def __init__(self, opened: Callable[[bool], Catalog | None], catalog: str, warehouse: str, job: str) -> None:
        """``opened``: opens the catalog. Its argument says whether to create a missing one; if not, it returns
        ``None``. ``catalog``, ``warehouse``: as named in the job file."""
        self._opened = opened
        self._catalog: Catalog | None = None
        # Some catalogs fold names, but two jobs whose names differ only by case must still differ.
        own = "" if job == job.lower() else f"_{crc32(job.encode()):08x}"
        self.name = (NAMESPACE, f"state_{job.lower()}{own}")
        self.where = f"{'.'.join(self.name)} in catalog {catalog} (warehouse {warehouse})"
        self.pause = 1.0 if local_folder(warehouse) is not None else 5.0
        self._lock = threading.Lock()
        self._table: Table | None = None
        self._io: FileIO | None = None
        """How the files of the state are read and written."""
        self._read: dict[str, tuple[StateRow, ...]] = {}
        """Rows of the newest parts, by their data file."""

    def version(self) -> str | None:
        with self._lock, self._faults("looked at"):
            table = self._table if self._is_newest() else self._load()
            return None if table is None else _version(table)

    def load(self) -> StoredState:
        with self._lock, self._faults("read"):
            table = self._load()
            return NOTHING if table is None else self._stored(table)

    def as_of(self, resolved_ts: int) -> StoredState:
        with self._lock, self._faults("read"):
            table = self._load()
            found = None if table is None else _newest_at(table, resolved_ts)
            return NOTHING if table is None or found is None else self._stored(table, found)

    def commit(self, parts: Parts, expected: str | None, resolved_ts: int) -> str:
        with self._lock, self._faults("written"):
            # If another process has committed since, the catalog refuses the commit, and the table is loaded again.
            is_as_expected = self._table is not None and _version(self._table) == expected
            table = (self._table if is_as_expected else self._load()) or self._create()
            draft = Draft(table, parts, resolved_ts)
            written = False
            try:
                for tries in range(_TRIES):
                    if _version(table) != expected:
                        raise StateMoved
                    if not written:
                        draft.write()
                        written = True
                    if new := self._commit(table, draft, last=tries + 1 == _TRIES):
                        self._table = new
                        self._tidy(table, new)
                        break
                    table = self._load() or table
            except StateMoved:
                draft.remove()
                raise
            return str(draft.snapshot_id)

    def beat(self, heartbeat: bytes) -> None:
        table = self._table
        if table is None:
            return
        with self._faults("given a heartbeat"):
            write_whole(table.io, self._heartbeat(table), heartbeat)

    def heartbeat(self) -> bytes | None:
        table = self._table
        if table is None:
            with self._lock, self._faults("looked at"):
                table = self._load()
        if table is None:
            return None
        with self._faults("asked for its heartbeat"):
            try:
                with table.io.new_input(self._heartbeat(table)).open() as file:
                    return bytes(file.read())
            except FileNotFoundError:
                return None

    def close(self) -> None:
        with self._lock, suppress(Exception):
            catalog, self._catalog, self._table = self._catalog, None, None
            if catalog is not None:
                catalog.close()

    def _heartbeat(self, table: Table) -> str:
        return f"{table.location().rstrip('/')}/heartbeat.json"

    def _is_newest(self) -> bool:
        """Whether the loaded table is surely current. Asks only catalogs where that is cheap."""
        if self._table is None or not hasattr(self._catalog, "engine"):
            return False
        from sqlalchemy import text

        assert self._catalog is not None, "a table was loaded"
        named = {"catalog": self._catalog.name, "namespace": self.name[0], "table": self.name[1]}
        with self._catalog.engine.connect() as connection:
            found = connection.execute(text(_POINTER), named).scalar()
        return bool(found == self._table.metadata_location)

    def _load(self) -> Table | None:
        try:
            if self._catalog is None:
                self._catalog = self._opened(False)
            self._table = None if self._catalog is None else self._catalog.load_table(self.name)
            if self._table is not None:
                self._table.io = self._io = _same_or_new(self._io, self._table.io)
        except (NoSuchTableError, NoSuchNamespaceError):
            self._table = None
        except FileNotFoundError as error:
            raise DecisionNeeded(moved_away(_METADATA.findall(str(error))[0])) from error
        return self._table

    def _create(self) -> Table:
        if self._catalog is None:
            self._catalog = self._opened(True)
        assert self._catalog is not None, "it was asked to create one"
        try:
            self._catalog.create_namespace(NAMESPACE)
        except Exception:
            # It exists, or another process created it at the same time. Catalogs raise many different errors for that.
            if not self._catalog.namespace_exists(NAMESPACE):
                raise
        with suppress(TableAlreadyExistsError):
            self._catalog.create_table(self.name, SCHEMA, properties=_PROPERTIES)
        table = self._load()
        if table is None:
            raise SinkFault(f"the state {self.where} cannot be created: the catalog does not list the new table")
        return table

    def _stored(self, table: Table, of: Snapshot | None = None) -> StoredState:
        """The state of a snapshot; ``None``: of the newest one."""
        snapshot = table.current_snapshot() if of is None else of
        if snapshot is None:
            return NOTHING
        files = files_of(snapshot)
        if not files:
            raise DecisionNeeded(
                f"the newest snapshot of the table {self.where} is not from a job: another tool has rewritten it. Roll "
                f"the table back to the last snapshot whose summary has {RESOLVED_TS!r}, and exclude the table from "
                "that tool"
            )
        read = {
            path: self._read.get(path) or read_rows(table.io, f"{table.location()}/{path}") for path in files.values()
        }
        self._read = read
        return StoredState(version=str(snapshot.snapshot_id), parts={part: read[path] for part, path in files.items()})

    def _commit(self, table: Table, draft: "Draft", *, last: bool) -> Table | None:
        """Send a commit once. Returns: the table with it; ``None``: it was refused and may be sent again.

        Raises: StateMoved; PyIceberg's error if it is not known whether it was accepted
        """
        parent = table.current_snapshot()
        made = draft.snapshot(table)
        head = None if parent is None else parent.snapshot_id
        updates: tuple[TableUpdate, ...] = (
            AddSnapshotUpdate(snapshot=made),
            SetSnapshotRefUpdate.model_validate(
                {"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": made.snapshot_id}
            ),
        )
        if old := _expired(table):
            updates += (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": old}),)
        requirements: tuple[TableRequirement, ...] = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": head}),
        )
        assert self._catalog is not None, "a table was loaded"
        try:
            done = self._catalog.commit_table(table, requirements, updates)
            return Table(self.name, done.metadata, done.metadata_location, table.io, self._catalog)
        except Exception as error:
            now = self._load()
            if now is not None and now.snapshot_by_id(made.snapshot_id) is not None:
                return now  # the response was lost, or the client has sent the request twice
            refused = isinstance(error, CommitFailedException)
            if refused and (now is None or now.metadata.current_snapshot_id != head):
                raise StateMoved from error
            if refused and not last:
                return None  # another change of the table came first, not a state
            raise

    def _tidy(self, before: Table, now: Table) -> None:
        """Remove the files that only expired snapshots and old metadata used. Files that stay do no harm."""
        kept = {snapshot.snapshot_id for snapshot in now.snapshots()}
        live = {path for snapshot in now.snapshots() for path in files_of(snapshot).values()}
        gone: list[str] = []
        for old in before.snapshots():
            if old.snapshot_id not in kept:
                gone.append(old.manifest_list)
                dead = {*files_of(old).values()} - live
                gone += [f"{before.location()}/{name}" for path in dead for name in (path, manifest_of(path))]
        logged = {entry.metadata_file for entry in now.metadata.metadata_log}
        gone += [one.metadata_file for one in before.metadata.metadata_log if one.metadata_file not in logged]
        remove(now.io, dict.fromkeys(gone))

    @contextmanager
    def _faults(self, what: str) -> Iterator[None]:
        """Raises: SinkFault for every error of PyIceberg, its catalogs and its stores"""
        try:
            yield
        except (StateMoved, TicdcSparkError):
            raise
        except Exception as error:
            raise SinkFault(f"the state {self.where} cannot be {what}: {reason(error)}") from error


def _same_or_new(before: FileIO | None, loaded: FileIO) -> FileIO:
    """The access to files so far, unless the catalog gives other settings now: each new one opens new connections."""
    return before if before is not None and before.properties == loaded.properties else small_writes(loaded)


def _version(table: Table) -> str | None:
    found = table.metadata.current_snapshot_id
    return None if found is None or found == -1 else str(found)


def _expired(table: Table) -> list[int]:
    """Snapshots that the next commit expires."""
    found = sorted(table.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0)
    if len(found) <= KEPT:
        return []
    newest = found[-1].timestamp_ms
    named = {ref.snapshot_id for ref in table.metadata.refs.values()}  # also tags that people made
    hours = {one.timestamp_ms // _HOUR_MS: one.snapshot_id for one in found}
    kept = {last for hour, last in hours.items() if (hour + KEPT_HOURS) * _HOUR_MS >= newest}
    return [one.snapshot_id for one in found[:-KEPT] if one.snapshot_id not in kept | named]


def _newest_at(table: Table, resolved_ts: int) -> Snapshot | None:
    found = sorted(table.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0)
    return next((one for one in reversed(found) if 0 < _resolved_ts(one) <= resolved_ts), None)


def _resolved_ts(snapshot: Snapshot) -> int:
    found = None if snapshot.summary is None else snapshot.summary.additional_properties.get(RESOLVED_TS)
    return int(found or 0)
