"""Files of an Iceberg table that tasks write themselves: where they go, and how they come into the table.

Through Iceberg's own Java API: one commit replaces a partition's files, and planning lists the files of one.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.storage import Closed, Storages, remove
from ticdc_spark.sinks.iceberg.java import JavaNames, to_snapshot
from ticdc_spark.spark.decode.log_files import LogFile
from ticdc_spark.spark.storage import Storage, list_files, path_in

log = logging.getLogger(__name__)
_FAR_AHEAD_MS = 253_370_764_800_000
"""9999-01-01"""


class LogTableFiles:
    """The files of one change log, partitioned by generation, batch and bucket."""

    def __init__(self, spark: SparkSession, name: str, table: Any, storage: Storage) -> None:
        """``name``: of the table, for SQL, quoted. ``table``: as Iceberg's Java API has it; it lies in ``storage``."""
        self.name = name
        self.storage = storage
        self._session = spark._jsparkSession
        self._iceberg = _iceberg(spark)
        self._util = self._iceberg.spark.Spark3Util
        self._location = str(table.location()).rstrip("/")
        root = path_in(storage, self._location)
        assert root is not None, "that is how the storage was found"
        self._root = root
        self.field_ids: Mapping[str, int] = {field.name(): field.fieldId() for field in table.schema().columns()}

    def batch_folder(self, generation: int, batch: int) -> str:
        """Folder of a batch's files, in the storage."""
        return f"{self._root}/data/generation={generation}/batch={batch}"

    def _spelt(self, path: str) -> str:
        """The location of one of its files."""
        return f"file:{path}" if self.storage.is_local else self._location + path.removeprefix(self._root)

    def replace(self, generation: int, batch: int, files: Sequence[LogFile], fence: Callable[[], None]) -> None:
        """Let a batch have exactly these files, in one commit; what was in its folder before the ``fence`` goes.

        What another owner has landed behind the fence stays. Raises: SinkFault where somebody has
        """
        with faults(f"{self.name} cannot be committed"):
            table = self._load()
            spec = table.spec()
            found = list_files(self.storage, self.batch_folder(generation, batch))
            fence()
            overwrite = table.newOverwrite().overwriteByRowFilter(self._is_batch(generation, [batch]))
            overwrite = overwrite.validateNoConflictingData().validateNoConflictingDeletes()
            before = table.currentSnapshot()
            if before is not None:
                overwrite = overwrite.validateFromSnapshot(before.snapshotId())
            for file in files:
                overwrite.addFile(
                    self._iceberg.DataFiles.builder(spec)
                    .withPath(self._spelt(file.path))
                    .withFormat("parquet")
                    .withFileSizeInBytes(file.bytes)
                    .withRecordCount(file.rows)
                    .withPartitionPath(f"generation={generation}/batch={batch}/slot={file.bucket}")
                    .build()
                )
            overwrite.commit()
        mine = {file.path for file in files}
        with faults(f"old files of {self.name} cannot be removed"):
            remove(table.io(), [self._spelt(path) for path in found if path not in mine])

    def find(self, generation: int, batches: Collection[int], bucket: int) -> list[LogFile] | None:
        """The files of one bucket of some batches; ``None`` when tasks cannot read one of them."""
        found: list[LogFile] = []
        expressions = self._iceberg.expressions.Expressions
        with faults(f"the files of {self.name} cannot be listed"):
            chosen = getattr(expressions, "and")(self._is_batch(generation, batches), expressions.equal("slot", bucket))
            planned = self._load().newScan().filter(chosen).planFiles()
            try:
                tasks = planned.iterator()
                while tasks.hasNext():
                    task = tasks.next()
                    file = task.file()
                    path = path_in(self.storage, file.location())
                    if path is None or task.deletes().size():
                        return None
                    found.append(
                        LogFile(path=path, bucket=bucket, rows=file.recordCount(), bytes=file.fileSizeInBytes())
                    )
            finally:
                planned.close()
        return found

    def _is_batch(self, generation: int, batches: Collection[int]) -> Any:
        expressions = self._iceberg.expressions.Expressions
        both = expressions.alwaysFalse()
        for batch in sorted(batches):
            both = getattr(expressions, "or")(both, expressions.equal("batch", batch))
        return getattr(expressions, "and")(expressions.equal("generation", generation), both)

    def _load(self) -> Any:
        return self._util.loadIcebergTable(self._session, self.name)


def open_files(spark: SparkSession, name: str, storages: Storages) -> LogTableFiles | Closed:
    """The files of the change log ``name``, where tasks can write them."""
    with faults(f"{name} cannot be opened"):
        table = _iceberg(spark).spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
        storage = storages.of(table)
        if isinstance(storage, Closed):
            log.warning("Spark writes the change log and the tables, and not the Python tasks: %s", storage.reason)
            return storage
        return LogTableFiles(spark, name, table, storage)


def current_snapshot(spark: SparkSession, name: str) -> int | None:
    """The current snapshot's id of the table ``name``; ``None``: it has none."""
    iceberg = _iceberg(spark)
    with faults(f"{name} cannot be read"):
        snapshot = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name).currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())


def remove_batches(spark: SparkSession, name: str, generation: int, before: int) -> None:
    """Remove older generations from a table, and batches before ``before`` of this one: whole partitions.

    As ``remove_history``, by Iceberg's own API: Spark's statements look through every file, by several jobs.
    """
    iceberg = _iceberg(spark)
    ask = iceberg.expressions.Expressions
    these = getattr(ask, "and")(ask.equal("generation", generation), ask.lessThan("batch", before))
    old = getattr(ask, "or")(ask.lessThan("generation", generation), these)
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    table.newDelete().deleteFromRowFilter(old).commit()


def remove_history(spark: SparkSession, name: str) -> None:
    """Remove all snapshots of a table but the current one, with the files that only they have."""
    iceberg = _iceberg(spark)
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    expire = table.expireSnapshots().expireOlderThan(_FAR_AHEAD_MS).retainLast(1)
    newest = to_snapshot(iceberg, table.currentSnapshot())
    before = None if newest is None else newest.parent_snapshot_id
    if before is not None and table.snapshot(before) is not None:
        # By its number: then Iceberg removes all files that no snapshot has, and not only those that were deleted in
        # snapshots that expire, too.
        expire = expire.expireSnapshotId(before)
    expire.commit()


def _iceberg(spark: SparkSession) -> Any:
    return JavaNames(spark._jvm.org.apache.iceberg)  # type: ignore[union-attr]
