"""Row deltas: one commit adds the files that tasks have written to an Iceberg table, and deletes the replaced rows.

Used instead of a MERGE if Python can open the warehouse. Old rows are looked up in the key columns of the live files
(``sinks.iceberg.files.lookup``). If that module cannot read the files, Iceberg's own reader looks them up (key
columns and ``_file``, ``_pos``).
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.config.routes import shown
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.iceberg.catalog import IcebergCatalog
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.files.data_files import Written
from ticdc_spark.sinks.iceberg.files.deleted import by_file
from ticdc_spark.sinks.iceberg.files.storage import remove
from ticdc_spark.sinks.iceberg.rows.content_files import data_file
from ticdc_spark.sinks.iceberg.rows.deletes import Deletes, Places, write_deletes
from ticdc_spark.sinks.iceberg.rows.target import Target
from ticdc_spark.sinks.iceberg.stamps import summary
from ticdc_spark.sinks.iceberg.tables import IcebergTables, NewRows
from ticdc_spark.sinks.iceberg.time_travel import table_as_of
from ticdc_spark.spark.sql import quote
from ticdc_spark.spark.types import LakeColumn

log = logging.getLogger(__name__)
_ORDERED = frozenset({"int32", "int64", "decimal", "string"})
"""Types that Arrow, Spark and Iceberg order in the same way, and whose values are valid Spark literals."""
_MOST_LISTED = 200
"""Up to this many keys are listed one by one; Iceberg makes no use of a longer list."""


def positions(
    tables: IcebergTables, session: SparkSession, to: Target, columns: Sequence[LakeColumn], keys: pa.Table | None
) -> Places:
    """The positions of the rows with given keys."""
    if to.is_empty or keys is None:
        return {}
    with faults(f"the rows to replace in {shown(to.table)} cannot be found"):
        found = tables.catalog.lookup.find(to.files.storage, to.manifest_list, keys, to.files.field_ids)
    return positions_by_spark(tables, session, to, columns, keys) if found is None else found


def positions_by_spark(
    tables: IcebergTables, session: SparkSession, to: Target, columns: Sequence[LakeColumn], wanted: pa.Table
) -> Places:
    """As ``positions``, with Iceberg's own reader."""
    keys = [column for column in columns if column.key]
    schema = ", ".join(f"{quote(column.name)} {column.type.spark}" for column in keys)
    with faults(f"the rows to replace in {shown(to.table)} cannot be found"):
        named = session.createDataFrame(wanted, schema)
        assert to.snapshot_id is not None, "it has rows"
        # Another writer may have renamed columns since the tasks began: Spark reads by the names of now.
        name, loaded = tables.catalog.sql_name(to.table), tables.catalog.load_table(to.table)
        table = table_as_of(session, name, loaded, to.snapshot_id, ["_file", "_pos"])
        for condition in _bounds(wanted.column(keys[0].name), keys[0]):
            table = table.where(condition)
        found = (
            table.select("_file", "_pos", *(quote(column.name) for column in keys))
            .join(sf.broadcast(named), [column.name for column in keys], "left_semi")
            .select("_file", "_pos")
            .toArrow()
        )
    if not len(found):
        return {}
    found = found.sort_by("_pos").combine_chunks()
    return by_file(found.column("_file").combine_chunks().dictionary_encode(), found.column("_pos").combine_chunks())


def _bounds(values: pa.ChunkedArray, column: LakeColumn) -> list[Column]:
    """Conditions on the first key column that let Iceberg skip files and row groups by their statistics."""
    if column.type.arrow not in _ORDERED:
        return []
    key = sf.col(quote(column.name))
    distinct = pc.unique(values)
    if len(distinct) <= _MOST_LISTED:
        listed = distinct.to_pylist()
        literals = [_literal(value) for value in listed]
        if any(literal is None for literal in literals):
            return [key.isin(listed)]
        # As text: ``isin`` would call the JVM several times for each value.
        return [sf.expr(f"{quote(column.name)} IN ({', '.join(map(str, literals))})")]
    ends = pc.min_max(values).as_py()
    return [key >= sf.lit(ends["min"]), key <= sf.lit(ends["max"])]


def _literal(value: object) -> str | None:
    """SQL of a value; ``None`` if that SQL depends on the value's type or on how Spark reads escapes."""
    if isinstance(value, int):
        return str(value)
    return f"'{value}'" if isinstance(value, str) and not {"'", "\\"} & set(value) else None


def commit(tables: IcebergTables, to: Target, written: Written, old: Places, stamp: Stamp) -> bool:
    """Add the written files, delete ``old`` and write the stamp, in one commit or as a part of one.

    Returns: ``False`` if another writer changed the table meanwhile; then nothing was done.
    """
    with faults(f"rows cannot be committed to {shown(to.table)}"):
        catalog, loaded = tables.catalog, to.loaded
        data = [data_file(catalog, loaded, to.files, file) for file in written.files]
        deletes = write_deletes(catalog, loaded, to, old) if old else Deletes()
        files = (*(f"{to.files.location}/{file.name}" for file in written.files), *deletes.locations)
        is_sent = False

        def put(_: Any, transaction: Any) -> None:
            nonlocal is_sent
            delta = transaction.newRowDelta()
            for file in data:
                delta.addRows(file)
            for file in deletes.added:
                delta.addDeletes(file)
            for file in deletes.removed:
                delta.removeDeletes(file)
            if old:
                delta.validateDataFilesExist(_java_list(catalog, old))
            if to.snapshot_id is not None:
                delta.validateFromSnapshot(to.snapshot_id)
            delta.conflictDetectionFilter(tables.catalog.iceberg.expressions.Expressions.alwaysTrue())
            delta.validateDeletedFiles().validateNoConflictingDataFiles().validateNoConflictingDeleteFiles()
            for key, value in summary(stamp).items():
                delta.set(key, value)
            delta.commit()
            is_sent = True

        try:
            tables.bring_in(NewRows(to.table, stamp, loaded, files), put)
        except Py4JJavaError as error:
            if str(error.java_exception.getClass().getSimpleName()) != "ValidationException":
                raise
            if not is_sent:  # else the catalog may have them, whatever it responded
                remove(loaded.io(), files)
            catalog.conflicts.add(to.table)
            log.warning("%s.%s was changed by another writer meanwhile: %s", *to.table, error.java_exception)
            return False
    return True


def _java_list(catalog: IcebergCatalog, values: Iterable[str]) -> Any:
    found = catalog.java.util.ArrayList()
    for value in values:
        found.add(value)
    return found
