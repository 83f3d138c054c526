"""Lift a quarantine: the tables go on from where they stand at the next run."""

from collections.abc import Collection

import msgspec

from ticdc_spark.config.job import Job
from ticdc_spark.errors import UsageError
from ticdc_spark.replicate.state.lease import acquire
from ticdc_spark.replicate.state.lease_store import lease_store, this_process
from ticdc_spark.replicate.state.progress import ProgressStore, Store, TableState


def resume(job: Job, wanted: Collection[str], *, every: bool) -> list[TableState]:
    """Let tables that are quarantined go on: those named ``schema.table``, or every one. Returns them as they stood.

    Raises: UsageError for a table that is not quarantined, or a job that has no progress; LeaseHeld while the job runs.
    """
    lease = lease_store(job.sink.warehouse, job.sink.catalog, job.name, job.state)
    with acquire(lease, this_process(job.name, job.owner)):
        return lift(job, Store(job.state), wanted, every=every)


def lift(job: Job, store: ProgressStore, wanted: Collection[str], *, every: bool) -> list[TableState]:
    """Lift quarantines in a progress. Raises: UsageError"""
    progress = store.load()
    if progress is None:
        message = f"{job.file}: the job has no progress in {job.state}: nothing is quarantined"
        raise UsageError(message)
    held = {f"{table.schema}.{table.name}": table for table in progress.tables if table.quarantined}
    for name in wanted:
        if name not in held:
            message = f"{name!r} is not quarantined; quarantined: {', '.join(sorted(held)) or 'no table'}"
            raise UsageError(message)
    lifted = held if every else {name: held[name] for name in wanted}
    chosen = {id(table) for table in lifted.values()}
    tables = tuple(
        msgspec.structs.replace(table, quarantined=None) if id(table) in chosen else table for table in progress.tables
    )
    store.save(msgspec.structs.replace(progress, tables=tables))
    return list(lifted.values())
