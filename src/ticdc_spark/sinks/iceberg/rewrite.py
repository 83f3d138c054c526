"""Rewrites small or mostly deleted data files of a table in Python, in the calling thread.

For a small table, Iceberg's procedure needs seconds of all cores, and this takes a fraction of one second. The choice
of files is the same, and so is the commit. What Python would not rewrite exactly as Iceberg does, and large amounts,
which Spark spreads over its tasks, are left to the procedure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ticdc_spark.model import TableName
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.commits import commit_or_retry
from ticdc_spark.sinks.iceberg.files.data_files import DataFiles, WrittenFile, new_name
from ticdc_spark.sinks.iceberg.files.live_rows import Misread, Positions, live_rows, row_groups, schema_of
from ticdc_spark.sinks.iceberg.files.manifests import LiveFile, LiveFiles
from ticdc_spark.sinks.iceberg.files.partitions import to_partition
from ticdc_spark.sinks.iceberg.files.storage import Closed, remove
from ticdc_spark.sinks.iceberg.java import Snapshot, to_dict, to_schema
from ticdc_spark.sinks.iceberg.rows.content_files import data_file, delete_file, old_data_file
from ticdc_spark.sinks.iceberg.rows.target import layout
from ticdc_spark.spark.storage import write_row_groups

TARGET_BYTES = 512 << 20
"""Size of data files, as in Iceberg's procedure."""
SMALL_BYTES = 32 << 20
"""Smaller data files are combined. Larger ones are left alone, so that no row is rewritten again and again."""
MOSTLY_DELETED = 0.3
"""Share of deleted rows from which a data file is rewritten."""
MIN_FILES = 5
"""Small data files of a partition that are combined."""
_MOST_BYTES, _MOST_FILES = 256 << 20, 200
"""What Python rewrites at once."""
_CODEC = "write.parquet.compression-codec"


class Rewritten(NamedTuple):
    """Numbers of data files."""

    rewritten: int = 0
    added: int = 0


class _Plan(NamedTuple):
    """What is rewritten, and how."""

    groups: Sequence[Sequence[LiveFile]]
    """Each becomes one file, or none if all its rows are deleted."""
    gone: Mapping[str, Positions]
    """Deleted rows, by the location of their file."""
    unneeded: Sequence[LiveFile]
    """Files of deletes that apply to no other data file."""
    files: DataFiles
    schema: pa.Schema


def rewrite_files(catalog: IcebergCatalog, table: TableName, loaded: Any, current: Snapshot) -> Rewritten | Closed:
    """Rewrite data files of a table in one commit. ``loaded``: in Iceberg's Java API; ``current``: its snapshot.

    Returns: ``Closed`` if nothing was done, and the procedure must do it
    Raises: SinkFault, Py4JError; Py4JJavaError also if another writer changed these files meanwhile
    """
    try:
        plan = _plan(catalog, loaded, current)
    except (OSError, pa.ArrowException) as error:
        return Closed(f"its files cannot be listed: {error}")
    if isinstance(plan, Closed):
        return plan
    return _Rewrite(catalog, table, loaded, plan).run(current) if plan.groups else Rewritten()


def _plan(catalog: IcebergCatalog, loaded: Any, current: Snapshot) -> _Plan | Closed:
    properties = to_dict(catalog.iceberg, loaded.properties())
    own = [name for name in properties if name.startswith("write.parquet.") and name != _CODEC]
    if own:
        return Closed(f"it has the property {own[0]}")
    if not loaded.sortOrder().isUnsorted():
        return Closed("its rows have an order")
    if (version := catalog.format_version(loaded)) != 2:
        return Closed(f"its format version is {version}")  # from 3 on, a rewritten row keeps its id
    fields = to_schema(catalog.iceberg, loaded.schema()).fields
    files, schema = layout(catalog, loaded, properties, fields), schema_of(fields)
    if isinstance(files, Closed) or isinstance(schema, Closed):
        return files if isinstance(files, Closed) else schema
    live = catalog.lookup.live_files(files.storage, current.manifest_list, fields[0].id)
    if live is None:
        return Closed("it has files that Python does not read")
    if any(file.spec_id != files.spec_id for file in (*live.data, *live.deletes)):
        return Closed("some of its files are of an earlier partition spec")
    gone = {one: np.unique(held) for one, held in catalog.lookup.deleted(files.storage, live).items()}
    groups = choose(live.data, gone)
    chosen = [file for group in groups for file in group]
    if len(chosen) > _MOST_FILES or sum(file.size for file in chosen) > _MOST_BYTES:
        return Closed("so much is to be rewritten that Spark is quicker")
    return _Plan(groups, gone, _unneeded(catalog, files, live, chosen), files, schema)


def choose(files: Sequence[LiveFile], gone: Mapping[str, Positions]) -> list[list[LiveFile]]:
    """The data files that are rewritten, by partition: what the procedure would choose with the same thresholds."""
    groups: dict[tuple[Any, ...], list[LiveFile]] = {}
    for file in files:
        if not SMALL_BYTES <= file.size <= 2 * TARGET_BYTES or _is_mostly_deleted(file, gone):
            groups.setdefault(file.partition, []).append(file)
    return [
        group
        for group in groups.values()
        if len(group) >= MIN_FILES
        or sum(file.size for file in group) > TARGET_BYTES
        or any(_is_mostly_deleted(file, gone) for file in group)
    ]


def _is_mostly_deleted(file: LiveFile, gone: Mapping[str, Positions]) -> bool:
    deleted = len(gone.get(file.location, ()))
    return deleted > 0 and deleted >= MOSTLY_DELETED * file.rows


def _unneeded(catalog: IcebergCatalog, files: DataFiles, live: LiveFiles, chosen: Sequence[LiveFile]) -> list[LiveFile]:
    """Deletes that apply to none of the data files that stay."""
    rewritten = {file.location for file in chosen}
    stay = {file.location: file.sequence for file in live.data if file.location not in rewritten}
    return [
        deletes
        for deletes in live.deletes
        if not any(
            one in stay and deletes.sequence >= stay[one] for one in catalog.lookup.deleted_from(files.storage, deletes)
        )
    ]


class _Rewrite:
    """One rewrite of a table."""

    def __init__(self, catalog: IcebergCatalog, table: TableName, loaded: Any, plan: _Plan) -> None:
        self._catalog, self._table, self._loaded, self._plan = catalog, table, loaded, plan
        self._names: list[str] = []
        """Of all files that were begun."""
        self._is_sent = False

    def run(self, current: Snapshot) -> Rewritten | Closed:
        """Write and commit. Without a commit, the new files are removed. See ``rewrite_files``."""
        try:
            try:
                written = [self._write(group) for group in self._plan.groups if self._live(group)]
            except (Misread, OSError, pa.ArrowException) as error:
                return Closed(f"a file of it cannot be rewritten: {error}")
            self._commit(current, written)
        finally:
            if not self._is_sent:  # else the catalog may have them, whatever it responded
                remove(self._loaded.io(), [f"{self._plan.files.location}/{name}" for name in self._names])
        return Rewritten(sum(map(len, self._plan.groups)), len(written))

    def _live(self, group: Sequence[LiveFile]) -> int:
        """Rows of some files that are not deleted."""
        return sum(file.rows - len(self._plan.gone.get(file.location, ())) for file in group)

    def _write(self, group: Sequence[LiveFile]) -> WrittenFile:
        """Write the live rows of some files of one partition to a new file. Raises: Misread, OSError, ArrowException"""
        files, schema = self._plan.files, self._plan.schema
        name = new_name(files)
        self._names.append(name)
        rows = 0

        def counted() -> Iterator[pa.Table]:
            nonlocal rows
            for table in row_groups(self._rows(group), schema):
                rows += len(table)
                yield table

        size, footer = write_row_groups(
            files.storage,
            f"{files.folder}/{name}",
            schema,
            counted(),
            compression=files.codec,
            store_decimal_as_integer=True,
        )
        if rows != self._live(group):
            raise Misread(f"{rows} rows are live, and its manifest says {self._live(group)}")
        partition = to_partition(group[0].partition, files.specs[files.spec_id])
        return WrittenFile(name=name, rows=rows, size=size, footer=footer, partition=partition)

    def _rows(self, group: Sequence[LiveFile]) -> Iterator[pa.RecordBatch]:
        files, nothing = self._plan.files, np.empty(0, np.int64)
        # Iceberg takes the value of such a column from the partition if the file does not have it.
        always = [field.column for field in files.specs[files.spec_id].fields]
        for file, opened in self._catalog.lookup.opened(files.storage, group):
            yield from live_rows(opened, self._plan.schema, self._plan.gone.get(file.location, nothing), always)

    def _commit(self, current: Snapshot, written: Sequence[WrittenFile]) -> None:
        """Replace the old files, if no other writer has deleted rows of them. Raises: SinkFault, Py4JError"""
        catalog, loaded, files = self._catalog, self._loaded, self._plan.files
        new = [data_file(catalog, loaded, files, file) for file in written]
        old = [old_data_file(catalog, loaded, files, file) for group in self._plan.groups for file in group]
        old += [delete_file(catalog, loaded, files, file) for file in self._plan.unneeded]

        def begin() -> Any:
            # Of now: if the files are not the same any more, Iceberg says so before anything is sent.
            transaction = catalog.load_table(self._table).newTransaction()
            # Later deletes by value keep their effect: new files are as old as the rows that were read.
            replaced = transaction.newRewrite().dataSequenceNumber(current.sequence_number)
            replaced.validateFromSnapshot(current.snapshot_id)
            for file in old:
                replaced.deleteFile(file)
            for file in new:
                replaced.addFile(file)
            replaced.commit()
            catalog.fence()
            self._is_sent = True
            return transaction

        commit_or_retry(catalog, self._table, begin)
