"""Reads a job's lake: a Spark session with the job's catalog, and tables, current or as of a commit."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.config.job import IcebergConfig, Job
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.model import TableName
from ticdc_spark.names import escape
from ticdc_spark.sinks.history import UPKEEP
from ticdc_spark.sinks.iceberg.catalog import catalog_options
from ticdc_spark.sinks.iceberg.faults import faults
from ticdc_spark.sinks.iceberg.time_travel import table_as_of
from ticdc_spark.spark.session.session import Part, coordinates, open_session
from ticdc_spark.spark.sql import quote


def iceberg_of(job: Job) -> IcebergConfig:
    """The sink of a job. Raises: UsageError if it is of another kind"""
    if not isinstance(job.sink, IcebergConfig):
        raise UsageError(f"{job.file}: [sink] kind: the tables are read by Spark only where it is `iceberg`")
    return job.sink


def open_lake(job: Job | Path | str) -> SparkSession:
    """A Spark session that has the tables of a job (or of a job file) as ``<catalog>.<schema>.<table>``.

    Raises: UsageError for a wrong job file; EnvironmentFault if Spark does not start.
    """
    if not isinstance(job, Job):
        job = load_job(Path(job))
    sink = iceberg_of(job)
    catalog = catalog_options(sink.catalog, sink.warehouse, sink.catalog_options)
    parts: list[Part] = ["iceberg"]
    if "jdbc:sqlite:" in catalog.get(f"spark.sql.catalog.{sink.catalog}.uri", ""):
        parts.append("sqlite")
    session = open_session(f"ticdc-spark {job.name}", catalog | job.spark, coordinates(*parts)).newSession()
    # If an application is already open, a new session has only its own settings.
    for key, value in catalog.items():
        session.conf.set(key, value)
    return session


def read_table(session: SparkSession, table: TableName, catalog: str = "lake") -> pa.Table:
    """Every row of a table, which is named as at the source.

    Raises: SinkFault if it cannot be read, for example because it does not exist.
    """
    name = _quoted(table, catalog)
    with faults(f"{name} cannot be read"):
        return session.table(name).toArrow()


def read_as_of(job: Job, session: SparkSession, table: TableName, snapshot_id: int | None) -> DataFrame:
    """A table as of a snapshot; ``None``: before its first snapshot.

    If that snapshot was expired and only upkeep (compaction) came after it, the current snapshot is read instead.

    Raises: SinkFault if the lake does not have the table or that state of it any more.
    """
    name = _quoted(table, iceberg_of(job).catalog)
    with faults(f"{name} cannot be read; a running job may have dropped or renamed it: try again"):
        spark_utilities = session._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
        loaded = spark_utilities.loadIcebergTable(session._jsparkSession, name)
        if snapshot_id is not None and loaded.snapshot(snapshot_id) is not None:
            return table_as_of(session, name, loaded, snapshot_id)
        if _newest_change(loaded) == snapshot_id:
            return session.table(name)
    raise SinkFault(
        f"{name}: snapshot {snapshot_id} of the job's last commit was expired, and later commits may have changed "
        "the rows"
    )


def _newest_change(loaded: Any) -> int | None:
    """The snapshot that has the table's current rows, expired or not: the newest one that is not from upkeep."""
    snapshot = loaded.currentSnapshot()
    while snapshot is not None and str(snapshot.operation()) in UPKEEP:
        parent = snapshot.parentId()
        if parent is None or loaded.snapshot(parent) is None:
            return None if parent is None else int(parent)
        snapshot = loaded.snapshot(parent)
    return None if snapshot is None else int(snapshot.snapshotId())


def _quoted(table: TableName, catalog: str) -> str:
    return ".".join(quote(part) for part in (catalog, escape(table[0]), escape(table[1])))


def list_tables(session: SparkSession, catalog: str = "lake") -> set[tuple[str, str]]:
    """(namespace, table) of every table, as named in the lake, without the job's own."""
    found = set()
    with faults(f"catalog {catalog} cannot be listed"):
        for row in session.sql(f"SHOW NAMESPACES IN {quote(catalog)}").collect():
            namespace = row["namespace"]
            if namespace != "_ticdc_spark":
                tables = session.sql(f"SHOW TABLES IN {quote(catalog)}.{quote(namespace)}").collect()
                found |= {(namespace, table["tableName"]) for table in tables}
    return found
