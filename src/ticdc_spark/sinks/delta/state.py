"""The state of a job as a Delta table beside its tables: each version of the state is one version of the table.

A commit rewrites all rows and names the version that it follows. The store accepts only one file for that version, so
only one of two processes succeeds.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.fs

from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.sinks.delta.names import OURS, folder_of
from ticdc_spark.sinks.delta.python_tables import make_folder, open_table, plain, python_faults, read_rows
from ticdc_spark.sinks.state import NOTHING, Parts, StateMoved, StateRow, StoredState, read_parts
from ticdc_spark.spark.storage import local_folder

if TYPE_CHECKING:
    from deltalake import DeltaTable

KEPT = 60
"""Number of newest versions that are kept; at most twice as many exist."""
_UNDER_WAY_S = 600
"""A file that is younger may belong to a commit that another process is preparing."""
RESOLVED_TS, NAMES = "ticdc.resolved-ts", "ticdc.parts"
_HEARTBEAT = "_heartbeat.json"
_FIELDS = ("kind", "schema", "table", "resolved_ts", "snapshot_id", "condition", "value")
_SCHEMA = pa.schema(
    [
        ("part", pa.string()),
        ("seq", pa.int64()),
        *((name, pa.int64() if name in ("resolved_ts", "snapshot_id") else pa.string()) for name in _FIELDS),
    ]
)
_PROPERTIES = {
    "delta.checkpointInterval": str(KEPT),
    # The log is cleaned here, by version: by age, a job that commits rarely would lose versions that must be kept.
    "delta.enableExpiredLogCleanup": "false",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}


class DeltaState:
    """See ``StateStore``: the table ``_ticdc_spark/state_<job>``."""

    def __init__(self, warehouse: str, job: str, options: Mapping[str, str]) -> None:
        """``options``: settings of the store, see ``storage_options``."""
        self.location = f"{warehouse.rstrip('/')}/{OURS}/state_{folder_of(job)}"
        self.where = self.location
        self.pause = 1.0 if local_folder(warehouse) is not None else 5.0
        self._options = dict(options)
        self._lock = threading.Lock()
        self._read = NOTHING

    def version(self) -> str | None:
        with self._lock, self._faults("looked at"):
            table = self._open()
            return None if table is None else str(table.version())

    def load(self) -> StoredState:
        with self._lock, self._faults("read"):
            table = self._open()
            return NOTHING if table is None else self._stored(table)

    def as_of(self, resolved_ts: int) -> StoredState:
        with self._lock, self._faults("read"):
            table = self._open()
            for entry in [] if table is None else table.history(KEPT):
                if table is not None and 0 < int(entry.get(RESOLVED_TS, 0)) <= resolved_ts:
                    table.load_as_version(entry["version"])
                    return self._stored(table)
        return NOTHING

    def commit(self, parts: Parts, expected: str | None, resolved_ts: int) -> str:
        from deltalake import CommitProperties, write_deltalake
        from deltalake.exceptions import CommitFailedError, DeltaError

        with self._lock, self._faults("written"):
            table = self._open()
            if (None if table is None else str(table.version())) != expected:
                raise StateMoved
            whole = parts if table is None else {**self._stored(table).parts, **parts}
            said = {RESOLVED_TS: str(resolved_ts), NAMES: msgspec.json.encode(sorted(whole)).decode()}
            properties = CommitProperties(custom_metadata=said, max_commit_retries=0)
            make_folder(self.location)
            try:
                write_deltalake(
                    plain(self.location) if table is None else table,
                    pa.Table.from_pylist([*_cells(whole)], schema=_SCHEMA),
                    mode="error" if table is None else "overwrite",
                    configuration=_PROPERTIES if table is None else None,
                    storage_options=self._options or None,
                    commit_properties=properties,
                )
            except (CommitFailedError, DeltaError) as error:
                now = self._open()
                if now is not None and str(now.version()) != expected:
                    raise StateMoved from error
                raise
            version = 0 if expected is None else int(expected) + 1
            self._read = StoredState(version=str(version), parts={name: tuple(rows) for name, rows in whole.items()})
            if version % KEPT == KEPT - 1:
                self._tidy()
            return str(version)

    def beat(self, heartbeat: bytes) -> None:
        if self.version() is None:
            return
        with self._faults("given a heartbeat"):
            # Bypasses pyarrow's wrapper, which would hand pyarrow buffers to deltalake; it accepts only bytes.
            file = self._handler()._handler.open_output_stream(_HEARTBEAT, None)
            file.write(heartbeat)
            file.close()

    def heartbeat(self) -> bytes | None:
        if self.version() is None:
            return None
        with self._faults("asked for its heartbeat"):
            try:
                with pyarrow.fs.PyFileSystem(self._handler()).open_input_file(_HEARTBEAT) as file:
                    return bytes(file.read())
            except FileNotFoundError:
                return None

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _open(self) -> "DeltaTable | None":
        return open_table(self.location, self._options)

    def _stored(self, table: "DeltaTable") -> StoredState:
        version = str(table.version())
        if self._read.version == version:
            return self._read
        said = table.history(1)[0]
        if NAMES not in said:
            raise DecisionNeeded(
                f"the newest version of the table {self.where} is not from a job: another tool has rewritten it. "
                f"Restore the last version whose history has {NAMES!r}, and exclude the table from that tool"
            )
        rows = sorted(read_rows(table), key=lambda row: (row["part"], row["seq"]))
        cells = ((row["part"], *(row[name] for name in _FIELDS)) for row in rows)
        self._read = StoredState(version=version, parts=read_parts(said[NAMES], cells))
        return self._read

    def _handler(self) -> Any:
        from deltalake.fs import DeltaStorageHandler

        return DeltaStorageHandler(plain(self.location), self._options or None)

    def _tidy(self) -> None:
        """Remove the rows and logs of old versions. Files that stay do no harm."""
        from deltalake import DeltaTable

        table = self._open()
        assert table is not None, "it was written"
        newest = table.version()
        oldest = max(0, newest - KEPT)
        kept: set[str] = set()
        for version in range(oldest, newest + 1):
            old = DeltaTable(plain(self.location), version=version, storage_options=self._options)
            kept |= {uri.rpartition("/")[2] for uri in old.file_uris()}
        files = pyarrow.fs.PyFileSystem(self._handler())
        young = time.time() - _UNDER_WAY_S
        for one in files.get_file_info(pyarrow.fs.FileSelector("", recursive=False)):
            if one.path.endswith(".parquet") and one.base_name not in kept and _changed(one) < young:
                files.delete_file(one.path)
        log = files.get_file_info(pyarrow.fs.FileSelector("_delta_log", recursive=False))
        whole = [_version(one) for one in log if one.base_name.endswith(".checkpoint.parquet")]
        first = max((version for version in whole if version <= oldest), default=0)
        for one in log:
            if 0 <= _version(one) < first:
                files.delete_file(one.path)

    def _faults(self, what: str) -> Any:
        return python_faults(f"the state {self.where} cannot be {what}")


def _changed(file: pyarrow.fs.FileInfo) -> float:
    """When a file was written: seconds since the epoch."""
    return float(file.mtime.timestamp()) if file.mtime is not None else time.time()


def _version(file: pyarrow.fs.FileInfo) -> int:
    """The version of a log file; -1: the file is not a version's."""
    digits = str(file.base_name).partition(".")[0]
    return int(digits) if digits.isdigit() else -1


def _cells(parts: Parts) -> Iterator[dict[str, Any]]:
    for part, rows in parts.items():
        for at, row in enumerate(rows):
            yield {"part": part, "seq": at, **_named(row)}


def _named(row: StateRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _FIELDS}
