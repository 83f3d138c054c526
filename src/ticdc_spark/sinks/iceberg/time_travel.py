"""Tables as of a snapshot, in their current columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.iceberg.java import NestedField, spark_columns, to_schema
from ticdc_spark.spark.sql import quote

_WAYS = "Spark cannot read the rows of before: undo the change, or read the present table"


def table_as_of(
    session: SparkSession, name: str, loaded: Any, snapshot_id: int, metadata: Sequence[str] = ()
) -> DataFrame:
    """The rows that a table had, in the columns that it has now. A column that came later is NULL.

    ``name``: in SQL. ``loaded``: the table in Iceberg's Java API. ``metadata``: names of metadata columns to have too.

    Raises: SinkFault if another writer has changed the columns so that Spark cannot read it
    """
    if pyspark.__version__.startswith("4.0."):
        # Iceberg for Spark 4.0 does this itself; there, filters on renamed columns fail with versionAsOf.
        return session.read.option("snapshot-id", str(snapshot_id)).table(name).select("*", *metadata)
    frame = session.read.option("versionAsOf", str(snapshot_id)).table(name)
    then, now = loaded.snapshot(snapshot_id).schemaId(), loaded.schema()
    if then is None or then == now.schemaId():
        return frame.select("*", *metadata)
    iceberg = session._jvm.org.apache.iceberg  # type: ignore[union-attr]
    fields = to_schema(iceberg, now).fields
    before = {field.id: field for field in to_schema(iceberg, loaded.schemas().get(then)).fields}
    current = loaded.currentSnapshot()
    if current is not None and int(current.snapshotId()) == snapshot_id:
        _stop_if_renamed(name, before, fields)
    types = spark_columns(iceberg, now)
    columns = [_column(name, before.get(field.id), field, types[field.name]) for field in fields]
    return frame.select(*columns, *metadata)


def _column(name: str, before: NestedField | None, now: NestedField, kind: str) -> Column:
    """A column of then as the present one. Raises: SinkFault"""
    if before is None and now.initial_default is not None:
        raise SinkFault(f"another writer added column {quote(now.name)} of {name} with a default; {_WAYS}")
    if before is not None and before.type != now.type and not isinstance(now.type, str):
        raise SinkFault(f"another writer changed the nested column {quote(now.name)} of {name}; {_WAYS}")
    column = sf.lit(None) if before is None else sf.col(quote(before.name))
    return column.cast(kind).alias(now.name)


def _stop_if_renamed(name: str, before: Mapping[int, NestedField], now: Sequence[NestedField]) -> None:
    """Iceberg resolves a filter on the current snapshot by the present names, also if the snapshot has others.

    The job commits a snapshot with each change of columns, so another writer has made this one. Raises: SinkFault
    """
    for field in now:
        old = before.get(field.id)
        if (old is not None and old.name != field.name) or (
            old is None and any(one.name == field.name for one in before.values())
        ):
            raise SinkFault(
                f"another writer renamed column {quote(field.name)} of {name}, or dropped it and added it again, and "
                f"nothing was committed since; {_WAYS}"
            )
