"""Which snapshots of a job's tables belong to one commitTs, from the job's state. Needs no Spark."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ticdc_spark.config.job import Identity, Job
from ticdc_spark.config.load import load_identity
from ticdc_spark.config.routes import compiled
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.model import TableName
from ticdc_spark.operate.table_status import TableStatus, table_status
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.rows import job_state
from ticdc_spark.sinks.lake_tables import made_again, open_tables
from ticdc_spark.sinks.mark import NO_MARK
from ticdc_spark.sinks.states import open_state

if TYPE_CHECKING:
    from pyiceberg.table import DataScan


class TableSnapshots(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshots of tables at one commitTs. Names are the source's: (schema, table)."""

    commit_ts: int
    """A TSO: every table of ``tables`` equals the source at it, except those in ``unverified``."""
    tables: dict[TableName, int | None]
    """Snapshot ids; ``None``: the table had no snapshot yet."""
    unverified: dict[TableName, str]
    """Entries of ``tables`` that may differ from the source, with the reason."""
    left_out: dict[TableName, str]
    """Tables that are not at this commitTs, with the reason: diverged, quarantined, kept, or behind."""
    targets: dict[TableName, TableName] = msgspec.field(default_factory=dict)
    """The names of ``tables`` in the target: (database, table)."""


def table_snapshots(job: Job | Identity | Path | str, commit_ts: int | None = None) -> TableSnapshots:
    """The snapshots of a job's last commit, even while it runs. ``commit_ts``: use the last commit at this time or
    before; a job keeps its last 60 commits, and one per hour for a day.

    Raises: UsageError for a wrong job file, a job that has committed nothing (at that time), and a job in arrival mode,
    whose tables have no common commitTs. SinkFault, DecisionNeeded
    """
    identity = _identity(job)
    with closing(open_state(identity.sink, identity.name, identity.spark)) as states:
        stored = states.load() if commit_ts is None else states.as_of(commit_ts)
        progress = job_state(stored, states.where).progress
    if progress is None or not progress.applied:
        early = "" if commit_ts is None else f" at {commit_ts} or before, in the commits that are kept"
        raise UsageError(f"job {identity.name} has applied nothing yet{early}; run it first")
    if progress.mode == "arrival":
        raise UsageError(
            f"job {identity.name} runs in arrival mode: without watermarks its tables have no common commitTs. "
            "open_lake reads their current state"
        )
    routes = compiled(progress.routes)
    found = TableSnapshots(commit_ts=progress.applied, tables={}, unverified={}, left_out={})
    for table in progress.tables:
        if table.mark == NO_MARK or table.is_dropped:
            continue
        name = table.full_name
        status = table_status(table)
        if why := _not_consistent(status, progress):
            found.left_out[name] = why
            continue
        found.tables[name] = table.snapshot_id
        found.targets[name] = routes.target(name)
        if status.condition == "unverified":
            found.unverified[name] = status.detail
    for name in _made_again(identity, found):
        found.left_out[name] = "made again, or renamed to this name, by a batch that is not committed yet"
        for known in (found.tables, found.targets, found.unverified):
            known.pop(name, None)
    return found


def stop_if_made_again(job: Job, found: TableSnapshots) -> None:
    """Check tables that were opened. Raises: SinkFault if one of them is not the table of the commit any more"""
    for name in _made_again(_identity(job), found):
        raise SinkFault(f"`{name[0]}`.`{name[1]}` was made again meanwhile: try again")


def _made_again(identity: Identity, found: TableSnapshots) -> list[TableName]:
    snapshots = {target: found.tables[name] for name, target in found.targets.items()}
    others = made_again(identity.sink, identity.spark, snapshots, found.commit_ts)
    return [name for name, target in found.targets.items() if target in others]


def consistent_scans(
    job: Job | Identity | Path | str, commit_ts: int | None = None
) -> "tuple[TableSnapshots, dict[TableName, DataScan]]":
    """All tables of a job as of one commit, as PyIceberg scans: without Spark or a JVM.

    Raises: as ``table_snapshots``; SinkFault if a table or its snapshot no longer exists
    """
    identity, found = _identity(job), table_snapshots(job, commit_ts)
    opened = open_tables(identity.sink, identity.spark, found.targets)
    scans: dict[TableName, DataScan] = {}
    for name, snapshot in found.tables.items():
        if snapshot is not None and opened[name].snapshot_by_id(snapshot) is None:
            raise SinkFault(f"`{name[0]}`.`{name[1]}`: snapshot {snapshot} of {found.commit_ts} was expired: try again")
        scans[name] = opened[name].scan(snapshot_id=snapshot)
    return found, scans


def _identity(job: Job | Identity | Path | str) -> Identity:
    if isinstance(job, Identity):
        return job
    if isinstance(job, Job):
        return Identity(job.file, job.name, job.sink, job.spark)
    return load_identity(Path(job))


def _not_consistent(status: TableStatus, progress: Progress) -> str:
    """Why a table does not equal the source at the commitTs of the progress; empty: it does."""
    if status.condition not in ("clean", "unverified"):
        return f"{status.condition}: {status.detail}" if status.detail else status.condition
    if status.applied_ts < progress.applied:
        return f"behind: it is at {status.applied_ts} ({status.applied_time})"
    return ""
