"""Upkeep of Iceberg tables: compaction in Python or by Iceberg's procedures, and expiry that thins out the history.

Tables are not rewritten for each batch: only data files that are small or mostly deleted are rewritten, and small
files of position deletes are combined.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from pyspark.sql import Row, SparkSession

from ticdc_spark.config.routes import shown
from ticdc_spark.config.values import WriterName
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import TableName
from ticdc_spark.sinks.history import Note
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.storage import Closed
from ticdc_spark.sinks.iceberg.java import Snapshot
from ticdc_spark.sinks.iceberg.places import catalog_places, places_in
from ticdc_spark.sinks.iceberg.rewrite import (
    MIN_FILES,
    MOSTLY_DELETED,
    SMALL_BYTES,
    TARGET_BYTES,
    Rewritten,
    rewrite_files,
)
from ticdc_spark.sinks.iceberg.stamps import MARK, note_of
from ticdc_spark.sinks.upkeep import FilePlace, TableFiles, UpkeepPolicy, UpkeepResult
from ticdc_spark.spark.sql import text_literal

log = logging.getLogger(__name__)
_HOUR_MS = 3_600_000
_DATA = {
    "target-file-size-bytes": str(TARGET_BYTES),
    "min-file-size-bytes": str(SMALL_BYTES),
    "max-file-size-bytes": str(2 * TARGET_BYTES),
    "min-input-files": str(MIN_FILES),
    "delete-ratio-threshold": str(MOSTLY_DELETED),
    "partial-progress.enabled": "true",
    "max-files-to-rewrite": "2000",
}


class _Ref(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    snapshot_id: int
    type: str


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The parts of a table's metadata file that upkeep needs."""

    current_snapshot_id: int | None = None
    """-1 or ``None`` if there is no snapshot."""
    snapshots: Sequence[Snapshot] = ()
    refs: Mapping[str, _Ref] = {}
    properties: Mapping[str, str] = {}
    default_sort_order_id: int = 0
    """0: rows have no order."""

    @property
    def current(self) -> Snapshot | None:
        """The current snapshot."""
        return next((one for one in self.snapshots if one.snapshot_id == self.current_snapshot_id), None)


class IcebergUpkeep:
    """Compaction, expiry of snapshots and removal of orphaned files."""

    def __init__(self, catalog: IcebergCatalog, writer: WriterName = "python") -> None:
        """``writer``: with ``spark``, Python rewrites no files."""
        self._catalog, self._writer = catalog, writer

    def look_after(self, table: TableName, policy: UpkeepPolicy, now: float) -> UpkeepResult:
        done: list[str] = []
        failed = 0
        with faults(f"upkeep of {shown(table)} fails"), self._catalog.session() as session:
            loaded = self._catalog.find_table(table)
            metadata = Metadata() if loaded is None else self._metadata(loaded)
            if (current := metadata.current) is None:
                return UpkeepResult()
            before = table_files(metadata)
            if (small := small_files(current.summary)) >= policy.small_files or is_mostly_deleted(current.summary):
                made = self._rewrite_in_python(table, loaded, current)
                if made is None:
                    sort = ", strategy => 'sort'" if metadata.default_sort_order_id else ""
                    row = self._call(session, "rewrite_data_files", table, sort + _options(_DATA))[0]
                    failed = row.failed_data_files_count  # no error: what could be rewritten is committed
                    made = Rewritten(row.rewritten_data_files_count, row.added_data_files_count)
                if made.rewritten:
                    done.append(f"{made.rewritten} data files, of {small} small ones, became {made.added}")
                    loaded = self._catalog.load_table(table)
                    metadata = self._metadata(loaded)
                    current = metadata.current or current
            if int(current.summary.get("total-delete-files", "0")) >= policy.small_files:
                row = self._call(session, "rewrite_position_delete_files", table)[0]
                if row.rewritten_delete_files_count:
                    done.append(
                        f"{row.rewritten_delete_files_count} files of deletes became {row.added_delete_files_count}"
                    )
                    loaded = self._catalog.load_table(table)
                    metadata = self._metadata(loaded)
            expired = self._expire(loaded, metadata, policy, now)
            if expired:
                done.append(f"{expired} snapshots expired")
        if failed:
            raise SinkFault(
                f"upkeep of {shown(table)} fails: {failed} data files cannot be rewritten; the lines of Spark before "
                "this one name the reason"
            )
        after = table_files(metadata)
        if after is not None:
            after = msgspec.structs.replace(after, snapshots=after.snapshots - expired)
        return UpkeepResult(done=tuple(done), before=before, after=after)

    def file_places(self) -> Sequence[FilePlace]:
        return catalog_places(self._catalog)

    def remove_orphans(self, table: TableName, older_than: float, places: Sequence[FilePlace]) -> int:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(older_than))
        with faults(f"upkeep of {shown(table)} fails"), self._catalog.session() as session:
            name, location = self._catalog.sql_name(table), str(self._catalog.load_table(table).location())
            others = [place for place in places_in(location, places) if place.owner != name]
            if others:
                raise SinkFault(
                    f"the orphan files of {name} stay: {others[0].owner} has files in {others[0].location}, inside the "
                    f"location of {name}, {location}, and would lose them. Move one of the two to a location of its "
                    f"own, or leave `{table[0]}`.`{table[1]}` out with --table"
                )
            return len(self._call(session, "remove_orphan_files", table, f", older_than => TIMESTAMP '{at}'"))

    def _rewrite_in_python(self, table: TableName, loaded: Any, current: Snapshot) -> Rewritten | None:
        """``None``: Iceberg's procedure must do it."""
        if self._writer != "python":
            return None
        made = rewrite_files(self._catalog, table, loaded, current)
        if isinstance(made, Closed):
            log.debug("%s.%s: Iceberg's procedure rewrites its files: %s", *table, made.reason)
            return None
        return made

    def _call(self, session: SparkSession, procedure: str, table: TableName, more: str = "") -> list[Row]:
        """Call an Iceberg procedure for a table; ``more``: further arguments."""
        name = text_literal(self._catalog.sql_name(table).split(".", 1)[1])
        self._catalog.fence()
        return session.sql(f"CALL {self._catalog.name}.system.{procedure}(table => {name}{more})").collect()

    def _metadata(self, loaded: Any) -> Metadata:
        text = str(self._catalog.iceberg.TableMetadataParser.toJson(loaded.operations().current()))
        return msgspec.json.decode(text, type=Metadata)

    def _expire(self, loaded: Any, metadata: Metadata, policy: UpkeepPolicy, now: float) -> int:
        """Expire what ``policy`` does not keep; returns the number of expired snapshots."""
        if metadata.properties.get("gc.enabled") == "false":
            return 0  # the table may share its files with another one
        gone = expendable(metadata, policy, now)
        if not gone:
            return 0
        # By age alone, the snapshot of the table's own last stamp would not be kept.
        update = loaded.expireSnapshots().expireOlderThan(0)
        for snapshot in sorted(gone):
            update = update.expireSnapshotId(snapshot)
        self._catalog.fence()
        update.commit()
        return len(gone)


def _options(options: Mapping[str, str]) -> str:
    """The options as an argument of a procedure."""
    pairs = ", ".join(f"'{key}', '{value}'" for key, value in options.items())
    return f", options => map({pairs})"


def table_files(metadata: Metadata) -> TableFiles | None:
    """The files of a table, by the summary of its current snapshot; ``None``: it has none."""
    if metadata.current is None:
        return None
    summary = metadata.current.summary

    def number(key: str) -> int:
        return int(summary.get(f"total-{key}", "0"))

    return TableFiles(
        rows=number("records"),
        bytes=number("files-size"),
        files=number("data-files"),
        delete_files=number("delete-files"),
        deleted_rows=number("position-deletes"),
        snapshots=len(metadata.snapshots),
    )


def small_files(summary: Mapping[str, str]) -> int:
    """How many data files a table has beyond what its size needs."""
    files, size = int(summary.get("total-data-files", "0")), int(summary.get("total-files-size", "0"))
    return max(0, files - 1 - size // SMALL_BYTES)


def is_mostly_deleted(summary: Mapping[str, str]) -> bool:
    """Whether so many rows are deleted that readers notice it."""
    rows, deletes = int(summary.get("total-records", "0")), int(summary.get("total-position-deletes", "0"))
    return rows >= 10_000 and deletes > MOSTLY_DELETED * rows


def expendable(metadata: Metadata, policy: UpkeepPolicy, now: float) -> set[int]:
    """The snapshots that may be expired: older than ``keep_all`` and not the newest of their hour, or older than
    ``keep_hourly``.

    Always kept: snapshots of branches and tags, and all snapshots of a table with branches besides ``main``. Also kept
    are the snapshots from the current one back to the one of the last stamp, which identify the stamp.
    """
    branches = {name for name, ref in metadata.refs.items() if ref.type == "branch"}
    if branches - {"main"}:
        return set()
    note = note_of(metadata.properties)
    kept = {ref.snapshot_id for ref in metadata.refs.values()} | _since_stamp(metadata, note)
    if note is not None and note.snapshot is not None:
        kept.add(note.snapshot)  # after a rollback it is no ancestor, but a person may return to it
    newest: dict[int, tuple[bool, int, int]] = {}
    for one in metadata.snapshots:
        hour, before = one.timestamp_ms // _HOUR_MS, (False, 0, 0)
        # Prefer a snapshot with a stamp: a table that is rolled back to it is recognised.
        newest[hour] = max(newest.get(hour, before), (MARK in one.summary, one.timestamp_ms, one.snapshot_id))
    gone = set()
    for one in metadata.snapshots:
        age = now - one.timestamp_ms / 1000
        of_its_hour = newest[one.timestamp_ms // _HOUR_MS][2] == one.snapshot_id
        if age > policy.keep_hourly or (age > policy.keep_all and not of_its_hour):
            gone.add(one.snapshot_id)
    return gone - kept


def _since_stamp(metadata: Metadata, note: Note | None) -> set[int]:
    """The current snapshot and its ancestors, back to the one that the last stamp was written with."""
    parents = {one.snapshot_id: one.parent_snapshot_id for one in metadata.snapshots}
    way: set[int] = set()
    at = metadata.current_snapshot_id
    while at is not None and at in parents and at not in way:
        way.add(at)
        if note is None or at == note.snapshot:
            break
        at = parents[at]
    return way
