"""Lift a quarantine, or clear what a person has looked at: both hold from the next run on."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import msgspec

from ticdc_spark.config.job import Job
from ticdc_spark.errors import UsageError
from ticdc_spark.replicate.state.lease import acquire
from ticdc_spark.replicate.state.lease_store import lease_store, this_process
from ticdc_spark.replicate.state.progress import TableState
from ticdc_spark.replicate.state.store import ProgressStore, Store


def resume(job: Job, wanted: Collection[str], *, every: bool) -> list[TableState]:
    """Let tables that are quarantined go on: those named ``schema.table``, or every one. Returns them as they stood.

    Raises: UsageError for a table that is not quarantined, or a job that has no progress; LeaseHeld while the job runs.
    """
    with held(job):
        return lift(job, Store(job.state), wanted, every=every)


def clear(job: Job, wanted: Collection[str], *, every: bool) -> list[TableState]:
    """Note that a person has looked at tables that had diverged: they no longer count as such. Returns them as they
    stood. They stay unverified, and what diverges anew is marked anew.

    Raises: as ``resume``
    """
    with held(job):
        return lift(job, Store(job.state), wanted, every=every, diverged=True)


@contextmanager
def held(job: Job) -> Iterator[None]:
    """Hold a job's lease. Raises: LeaseHeld while the job runs"""
    lease = lease_store(job.sink.warehouse, job.sink.catalog, job.name, job.state)
    with acquire(lease, this_process(job.name, job.owner)):
        yield


def lift(
    job: Job, store: ProgressStore, wanted: Collection[str], *, every: bool, diverged: bool = False
) -> list[TableState]:
    """Lift quarantines in a progress, or (``diverged``) clear that tables have diverged. Raises: UsageError"""
    progress, what = store.load(), "diverged" if diverged else "quarantined"
    if progress is None:
        message = f"{job.file}: the job has no progress in {job.state}: nothing is {what}"
        raise UsageError(message)
    marked = {
        f"{table.schema}.{table.name}": table
        for table in progress.tables
        if (table.diverged_since is not None if diverged else table.quarantined)
    }
    for name in wanted:
        if name not in marked:
            message = f"{name!r} is not {what}; {what}: {', '.join(sorted(marked)) or 'no table'}"
            raise UsageError(message)
    lifted = marked if every else {name: marked[name] for name in wanted}
    chosen = {id(table) for table in lifted.values()}
    tables = tuple(
        (_cleared if diverged else _lifted)(table) if id(table) in chosen else table for table in progress.tables
    )
    store.save(msgspec.structs.replace(progress, tables=tables))
    return list(lifted.values())


def _lifted(table: TableState) -> TableState:
    return msgspec.structs.replace(table, quarantined=None)


def _cleared(table: TableState) -> TableState:
    seen = table.diverged_since
    return msgspec.structs.replace(table, diverged_since=None, diverged_why="", misshapen=False, cleared=seen)
