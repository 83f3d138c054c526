"""Want full reads of tables of a job, whatever the tables are: they begin at the job's next run."""

from collections.abc import Collection

import msgspec

from ticdc_spark.capture.snapshot.base import SnapshotReader
from ticdc_spark.capture.snapshot.open import open_reader
from ticdc_spark.config.job import Job
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import UsageError
from ticdc_spark.operate.resume import held
from ticdc_spark.replicate.plan.spelling import by_source
from ticdc_spark.replicate.state.progress import Progress, WantedLoad
from ticdc_spark.replicate.state.store import ProgressStore, Store


def resnapshot(job: Job, tables: Collection[str]) -> None:
    """Have tables, named ``schema.table``, read in full.

    Raises: UsageError for a table that the source does not have or ``tables`` leaves out, or a job without
    ``[snapshot]`` or without progress; LeaseHeld while the job runs; SourceFault
    """
    if job.snapshot is None:
        raise UsageError(f"{job.file}: [snapshot]: missing; it names the database, or the dump, to read tables from")
    reader = open_reader(job.snapshot)
    try:
        with held(job):
            want(job, Store(job.state), tables, reader)
    finally:
        reader.close()


def want(job: Job, store: ProgressStore, tables: Collection[str], reader: SnapshotReader) -> Progress:
    """Note in a progress which tables are wanted, all or none. Raises: UsageError, SourceFault"""
    progress = store.load()
    if progress is None:
        raise UsageError(f"{job.file}: the job has no progress in {job.state}: its tables are read when it first runs")
    found = by_source(progress, reader.tables())
    there = {".".join(one): name for named, name in found.items() for one in (named, name)}
    followed = table_filter(job.tables or ["*.*"])
    for text in tables:
        if text not in there:
            raise UsageError(f"{text!r} is no table of the source; write schema.table")
        if not followed(*there[text]):
            raise UsageError(
                f"{text!r}: `tables` under [job] in {job.file} leaves it out, so that no change of it would follow its "
                "full read; let it in first"
            )
    at = reader.fixed or 0
    names = [there[text] for text in dict.fromkeys(tables)]
    left = tuple(one for one in progress.wanted if (one.schema, one.name) not in names)
    new = tuple(WantedLoad(schema=schema, name=name, at=at, asked=True) for schema, name in names)
    progress = msgspec.structs.replace(progress, wanted=(*left, *new))
    store.save(progress)
    return progress
