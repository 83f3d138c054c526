"""Reads the tables of a job as of its last commit, all at one commitTs, even while the job runs."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

from ticdc_spark.config.job import Job
from ticdc_spark.config.load import load_job
from ticdc_spark.model import TableName
from ticdc_spark.operate.snapshots import stop_if_made_again, table_snapshots
from ticdc_spark.sinks.registry import sink_kind


class Tables(dict[TableName, DataFrame]):
    """Tables by name. A missing name raises a KeyError with the reason."""

    def __init__(self, left_out: Mapping[TableName, str]) -> None:
        super().__init__()
        self._left_out = left_out

    def __missing__(self, name: TableName) -> DataFrame:
        if why := self._left_out.get(name):
            raise KeyError(f"{name} is not of this commitTs: {why}")
        known = ", ".join(map(str, sorted(self))) or "none"
        raise KeyError(f"{name} is not a table of this job; its tables, as (schema, table): {known}")


class ConsistentTables(msgspec.Struct, frozen=True, kw_only=True):
    """The tables of a job at one commitTs. Their names are the source's: (schema, table)."""

    commit_ts: int
    """A TSO: every table of ``tables`` equals the source at it, except those in ``unverified``."""
    tables: Tables
    unverified: dict[TableName, str]
    """Entries of ``tables`` that may differ from the source, with the reason: rows from before the job began may be
    missing."""
    left_out: dict[TableName, str]
    """Tables of the lake that are not at this commitTs, with the reason: diverged, quarantined, kept, or behind."""


def consistent(
    job: Job | Path | str, *, commit_ts: int | None = None, spark: SparkSession | None = None
) -> ConsistentTables:
    """Open all tables of a job (or of a job file) as of its last commit.

    Each table is read at the snapshot that the state records for that commit. Tables that a running job has written
    since then do not mix in.

    ``commit_ts``: read the last commit at this time or before, see ``table_snapshots``. ``spark``: a session that has
    the job's catalog; by default ``open_lake`` opens one.

    Raises: UsageError for a wrong job file, a job that has not committed a batch yet, and a job in arrival mode, whose
    tables have no common commitTs. EnvironmentFault if Spark does not start. SinkFault if a table does not exist, or
    its snapshot was expired and the table has changed since: try again.
    """
    if not isinstance(job, Job):
        job = load_job(Path(job))
    found = table_snapshots(job, commit_ts)
    kind = sink_kind(job)
    session = kind.open_lake(job) if spark is None else spark
    tables = Tables(found.left_out)
    for name, snapshot in found.tables.items():
        tables[name] = kind.read_as_of(job, session, found.targets[name], snapshot)
    stop_if_made_again(job, found)
    return ConsistentTables(
        commit_ts=found.commit_ts, tables=tables, unverified=found.unverified, left_out=found.left_out
    )
