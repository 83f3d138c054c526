"""Tables as of a snapshot, in their current columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ticdc_spark.errors import SinkFault
from ticdc_spark.sinks.iceberg.java import spark_columns, to_schema
from ticdc_spark.spark.sql import quote


def table_as_of(
    session: SparkSession, name: str, loaded: Any, snapshot_id: int, metadata: Sequence[str] = ()
) -> DataFrame:
    """The rows that a table had, in the columns that it has now. A column that came later is NULL.

    ``name``: in SQL. ``loaded``: the table in Iceberg's Java API. ``metadata``: names of metadata columns to have too.

    Raises: SinkFault if columns were renamed since, and nothing was committed after it
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
    before = {field.id: field.name for field in to_schema(iceberg, loaded.schemas().get(then)).fields}
    if int(loaded.currentSnapshot().snapshotId()) == snapshot_id:
        _stop_if_renamed(name, before, {field.id: field.name for field in fields})
    types = spark_columns(iceberg, now)
    columns = [
        (sf.col(quote(before[field.id])) if field.id in before else sf.lit(None))
        .cast(types[field.name])
        .alias(field.name)
        for field in fields
    ]
    return frame.select(*columns, *metadata)


def _stop_if_renamed(name: str, before: Mapping[int, str], now: Mapping[int, str]) -> None:
    """Iceberg resolves a filter on the current snapshot by the current names, also if the snapshot has others.

    The job commits a snapshot with each change of columns, so another writer has made this one. Raises: SinkFault
    """
    ids = {column: key for key, column in now.items()}
    for key, column in before.items():
        if now.get(key, column) != column or ids.get(column, key) != key:
            raise SinkFault(
                f"column {quote(column)} of {name} was renamed, and nothing was committed since. Spark cannot read the "
                "table as of its last commit. Rename the column back, or wait for the next commit"
            )
