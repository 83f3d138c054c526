"""Opens the lake of a job for reading: Spark with the job's catalog, and nothing of the job itself."""

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from ticdc_spark.config.job import Job
from ticdc_spark.config.load import load_job
from ticdc_spark.names import escape
from ticdc_spark.sinks.base import TableName
from ticdc_spark.sinks.iceberg.catalog import catalog_options
from ticdc_spark.sinks.iceberg.faults import faults, quote
from ticdc_spark.spark.session.session import Part, coordinates, open_session


def open_lake(job: Job | Path | str) -> SparkSession:
    """A Spark session that sees the tables of a job (or of a job file) as ``<catalog>.<schema>.<table>``.

    Raises: UsageError for a wrong job file; EnvironmentFault when Spark does not start.
    """
    if not isinstance(job, Job):
        job = load_job(Path(job))
    sink = job.sink
    catalog = catalog_options(sink.catalog, sink.warehouse, sink.catalog_options)
    parts: list[Part] = ["iceberg"]
    if "jdbc:sqlite:" in catalog.get(f"spark.sql.catalog.{sink.catalog}.uri", ""):
        parts.append("sqlite")
    session = open_session(f"ticdc-spark {job.name}", catalog | job.spark, coordinates(*parts)).newSession()
    # Under an application that is open already, a new session has only its own settings.
    for key, value in catalog.items():
        session.conf.set(key, value)
    return session


def read_table(session: SparkSession, table: TableName, catalog: str = "lake") -> pa.Table:
    """Every row of a table, by the names of the source.

    Raises: SinkFault when it cannot be read, for one because it is not there.
    """
    name = ".".join(quote(part) for part in (catalog, escape(table[0]), escape(table[1])))
    with faults(f"{name} cannot be read"):
        return session.table(name).toArrow()


def list_tables(session: SparkSession, catalog: str = "lake") -> set[tuple[str, str]]:
    """(namespace, table) of every table, by its name in the lake; the job's own are left out."""
    found = set()
    with faults(f"catalog {catalog} cannot be listed"):
        for row in session.sql(f"SHOW NAMESPACES IN {quote(catalog)}").collect():
            namespace = row["namespace"]
            if namespace != "_ticdc_spark":
                tables = session.sql(f"SHOW TABLES IN {quote(catalog)}.{quote(namespace)}").collect()
                found |= {(namespace, table["tableName"]) for table in tables}
    return found


__all__ = ["list_tables", "open_lake", "read_table"]
