"""Requests to read tables or rows again, or to resume tables. The job takes one while it runs, or at its next start."""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing

from ticdc_spark.capture.snapshot.base import SnapshotReader, TooOld
from ticdc_spark.capture.snapshot.open import open_reader
from ticdc_spark.config.job import Job, StorageSource, prefix_of
from ticdc_spark.config.load import load_identity
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.shards import is_merged
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.operate.status import job_status
from ticdc_spark.replicate.plan.spelling import by_source
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.requests import (
    Clear,
    Rebuild,
    Repair,
    Request,
    Resume,
    Withdraw,
    has_diverged,
    is_quarantined,
    withdrawable,
)
from ticdc_spark.replicate.state.store import ask, read_state
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.state import StateStore
from ticdc_spark.sinks.states import open_state


def rebuild(job: Job, tables: Collection[str], *, from_topic: bool = False) -> None:
    """Request full reads of tables, named ``schema.table``, from the source in ``[snapshot]`` or from the topics.

    Raises: UsageError for a job without progress, and for a table that ``tables`` excludes. From the source: if
    ``[snapshot]`` is missing, or the source does not have a table. From the topics: for a job in arrival mode, and for
    a table that is unknown or was dropped. SourceFault, EnvironmentFault
    """
    if from_topic:
        with closing(open_state(job.sink, job.name, job.spark)) as states:
            _ask(states, rebuild_from_topic(job, read_state(states).progress, tables))
        return
    if job.snapshot is None:
        raise UsageError(
            f"{job.file}: [snapshot]: missing; it names the database or the dump to read tables from. Or use "
            "`--from topic` to read a table from its topics, if they still have its CREATE or TRUNCATE"
        )
    reader = open_reader(job.snapshot)
    try:
        with closing(open_state(job.sink, job.name, job.spark)) as states:
            request = rebuild_of(job, read_state(states).progress, tables, reader)
            for name in request.tables:
                _stop_if_no_key(job, reader, name)
            _ask(states, request)
    finally:
        reader.close()


def _stop_if_no_key(job: Job, reader: SnapshotReader, name: TableName) -> None:
    """Raises: UsageError for a table that would not be read, as it has no key; SourceFault"""
    if is_merged(name) or (reader.exact and job.no_key == "apply"):
        return
    try:
        table = reader.schema(name, None)
    except (TooOld, MessageError):
        return  # the job says why it cannot read it
    if table is not None and not handle_key(table):
        raise UsageError(
            f"{'.'.join(name)!r} has no primary key and no unique key that is not null. Such a table is read in full "
            'only from TiDB or from a dump, with no-key = "apply" under [job]. At the source, give it a key, or empty '
            "it with TRUNCATE TABLE and fill it again"
        )


def repair(job: Job, rows: Mapping[str, Collection[str]]) -> None:
    """Request to replace rows by those of the source in ``[snapshot]``.

    ``rows``: by table, named ``schema.table``, the images of their keys (``Repair.keys``).
    Raises: UsageError for a table that the job does not have; EnvironmentFault
    """
    with closing(open_state(job.sink, job.name, job.spark)) as states:
        progress = read_state(states).progress
        there = {".".join(one.full_name): one.full_name for one in progress.tables} if progress is not None else {}
        for text in rows:
            if text not in there:
                raise UsageError(f"{text!r} is no table of the job any more: run `verify` again")
        for text, keys in rows.items():
            _ask(states, Repair(tables=(there[text],), keys=tuple(keys)))


def withdraw(job: Job, tables: Collection[str]) -> None:
    """Withdraw the requests to read tables, named ``schema.table``, or rows of them again. A read that has begun goes
    on.

    Raises: UsageError for a table without such a request; EnvironmentFault
    """
    with closing(open_state(job.sink, job.name, job.spark)) as states:
        found = read_state(states)
        waiting = {".".join(name): name for name in sorted(withdrawable(found.requests, found.progress))}
        for text in tables:
            if text not in waiting:
                raise UsageError(
                    f"{text!r}: no request to read it again waits, or its read has begun. Waiting: "
                    f"{', '.join(waiting) or 'no table'}"
                )
        _ask(states, Withdraw(tables=tuple(waiting[text] for text in dict.fromkeys(tables))))


def resume(job: Job, tables: Collection[str], *, every: bool) -> list[TableState]:
    """Request to resume quarantined tables: those named ``schema.table``, or all.

    Returns: their current states

    Raises: UsageError for a table that is not quarantined, and for a job without progress; EnvironmentFault
    """
    with closing(open_state(job.sink, job.name, job.spark)) as states:
        found = quarantined(job, read_state(states).progress, tables, every=every)
        _ask(states, Resume(tables=_names(found)))
    return found


def clear(job: Job, tables: Collection[str], *, every: bool) -> list[TableState]:
    """Declare that a person has checked diverged tables: they no longer count as diverged. They stay unverified, and a
    later divergence is marked again.

    Returns: their current states

    Raises: as ``resume``
    """
    with closing(open_state(job.sink, job.name, job.spark)) as states:
        found = diverged(job, read_state(states).progress, tables, every=every)
        _ask(states, Clear(tables=_names(found)))
    return found


def taken_when(job: Job) -> str:
    """A text on when the job takes a request that is made now. Raises: EnvironmentFault"""
    if not job_status(load_identity(job.file)).running:
        return "the job is not running: it takes this when it starts"
    pause = open_state(job.sink, job.name, job.spark).pause
    seconds = pause + max(job.poll_interval, job.commit_interval)
    return f"the job is running: it takes this within {seconds:.0f} s, or once the current batch is done"


def rebuild_from_topic(job: Job, progress: Progress | None, tables: Collection[str]) -> Rebuild:
    """The request to read tables from the topics, all or none. Only when the job takes the request, it finds out
    whether the topics still have enough. Raises: UsageError"""
    if progress is None:
        raise UsageError(f"{job.file}: the job has no progress yet: it reads its tables at its first run")
    if progress.mode == "arrival":
        raise UsageError(f"{job.file}: the job is in mode arrival: reading a table again needs watermarks")
    if isinstance(job.source, StorageSource):
        raise UsageError(
            f"{job.file}: --from topic reads topics, but the job reads a storage sink, and keeps no list of its files. "
            "Read the table from its database, with [snapshot]"
        )
    there = {f"{table.schema}.{table.name}": table for table in progress.tables if not table.is_gone}
    for text in tables:
        if text not in there:
            raise UsageError(
                f"{text!r} is not a table that the job replicates; `ticdc-spark status` lists them"
                f"{_meant(job, text, [one.full_name for one in there.values()])}"
            )
        if is_merged(there[text].full_name):
            raise UsageError(
                f"{text!r} is made of several tables by [[route]] origin, and cannot be read from topics. Read it from "
                "the database, with [snapshot]"
            )
    followed = table_filter(job.tables or ["*.*"])
    for text in tables:
        if not followed(there[text].schema, there[text].name):
            raise UsageError(f"{text!r}: `tables` under [job] in {job.file} excludes it; include it first")
    names = tuple(there[text].full_name for text in dict.fromkeys(tables))
    return Rebuild(tables=names, from_topic=True)


def rebuild_of(job: Job, progress: Progress | None, tables: Collection[str], reader: SnapshotReader) -> Rebuild:
    """The request for full reads of tables, all or none. Raises: UsageError, SourceFault"""
    if progress is None:
        raise UsageError(f"{job.file}: the job has no progress yet: it reads its tables at its first run")
    found, routes = by_source(progress, reader.tables()), compiled(job.routes)
    there = {".".join(one): name for named, name in found.items() for one in (named, name)}
    followed = table_filter(job.tables or ["*.*"])
    shards = {name: merged for name in found.values() if followed(*name) and (merged := routes.merged(name))}
    there |= {".".join(name): name for name in shards.values()}
    for text in tables:
        if text not in there:
            meant = _meant(job, text, there.values())
            raise UsageError(f"{text!r} is not a table of the source; write schema.table{meant}")
        if there[text] in shards:
            whole = ".".join(shards[there[text]])
            raise UsageError(f"{text!r} is one of the tables of {whole}, which is read as a whole: name {whole}")
        if not (is_merged(there[text]) or followed(*there[text])):
            raise UsageError(
                f"{text!r}: `tables` under [job] in {job.file} excludes it, so no change would follow its full read; "
                "include it first"
            )
    return Rebuild(tables=tuple(there[text] for text in dict.fromkeys(tables)), at=reader.fixed or 0)


def quarantined(job: Job, progress: Progress | None, tables: Collection[str], *, every: bool) -> list[TableState]:
    """The tables for a ``Resume``. Raises: UsageError"""
    return _chosen(job, progress, tables, every, is_quarantined, "quarantined")


def diverged(job: Job, progress: Progress | None, tables: Collection[str], *, every: bool) -> list[TableState]:
    """The tables for a ``Clear``. Raises: UsageError"""
    return _chosen(job, progress, tables, every, has_diverged, "diverged")


def _chosen(
    job: Job,
    progress: Progress | None,
    tables: Collection[str],
    every: bool,
    fits: Callable[[TableState], bool],
    what: str,
) -> list[TableState]:
    if progress is None:
        raise UsageError(f"{job.file}: the job has no progress yet: nothing is {what}")
    marked = {f"{table.schema}.{table.name}": table for table in progress.tables if fits(table)}
    for text in tables:
        if text not in marked:
            meant = _meant(job, text, [one.full_name for one in marked.values()])
            raise UsageError(f"{text!r} is not {what}; {what}: {', '.join(sorted(marked)) or 'no table'}{meant}")
    return list(marked.values()) if every else [marked[text] for text in dict.fromkeys(tables)]


def _meant(job: Job, text: str, tables: Iterable[TableName]) -> str:
    """``; did you mean …?`` with the closest name, at the source or in the target."""
    routes, prefix = compiled(job.routes), prefix_of(job.sink)
    named = {".".join(name): ".".join(name) for name in tables}
    for name in [*tables]:
        schema, table = routes.target(name)
        named.setdefault(f"{prefix}{schema}.{table}", ".".join(name))
    near = difflib.get_close_matches(text, list(named), n=1)
    if not near:
        return ""
    source = named[near[0]]
    why = f": {near[0]} is its name in the target" if near[0] != source else ""
    return f"; did you mean {source}?{why}"


def _names(tables: Collection[TableState]) -> tuple[tuple[str, str], ...]:
    return tuple(table.full_name for table in tables)


def _ask(states: StateStore, request: Request) -> None:
    if request.tables:
        ask(states, request)
