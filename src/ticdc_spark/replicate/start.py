"""The start of a run: the progress is compared with the tables, the change log and the source as they are now."""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from ticdc_spark.config.job import Job
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import TableName
from ticdc_spark.replicate.apply.columns import columns_gone
from ticdc_spark.replicate.apply.look import Looked, look_at
from ticdc_spark.replicate.apply.rows import vanished
from ticdc_spark.replicate.plan.reach import partitions_at
from ticdc_spark.replicate.plan.source_check import source_notes
from ticdc_spark.replicate.plan.timeline import DDL_STEPS
from ticdc_spark.replicate.proof import doubt_of, is_arrival, unread_topics
from ticdc_spark.replicate.schemas.files import with_schema_files
from ticdc_spark.replicate.snapshot.steps import LOAD_STEP
from ticdc_spark.replicate.state.conditions import diverged, misshapen, without_first_rows
from ticdc_spark.replicate.state.notes import CatchUp
from ticdc_spark.replicate.state.progress import PartitionState, PendingRows, Progress, TableState, WantedLoad
from ticdc_spark.replicate.state.requests import take
from ticdc_spark.replicate.state.store import ProgressStore
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.changelog_base import ChangeLog
from ticdc_spark.sinks.mark import NO_MARK, Mark
from ticdc_spark.spark.decode.log_files import LogScan
from ticdc_spark.spark.sources.base import Source

log = logging.getLogger(__name__)
T = TypeVar("T")


def begin(
    job: Job, source: Source, sink: Sink, changelog: ChangeLog, store: ProgressStore, protocol: str
) -> tuple[Progress, tuple[PendingRows, ...]]:
    """The progress to go on from, and rows that must be applied again to tables that were set back.

    Raises: DecisionNeeded with the ways out; SinkFault, SourceFault, UsageError
    """
    found = store.load()
    is_first = found is None
    if found is None:
        found = _first(job, source, sink, changelog, store)
        found = msgspec.structs.replace(found, source=source_notes(source, found))
        store.save(found)
    found = take(store, found, reads=job.snapshot is not None) or found
    progress = msgspec.structs.replace(with_schema_files(found, job.schema.file), protocol=protocol)
    batches = frozenset() if is_first else changelog.batches(progress.generation)
    missing = {rows.batch for rows in progress.pending if rows.batch > 0} - batches
    missing |= {rows.batch for rows in progress.pending if _is_of_older_try(rows, progress, changelog)}
    if missing:
        raise DecisionNeeded(
            f"the change log lacks rows of batches {', '.join(map(str, sorted(missing)[:5]))}, not applied yet: "
            f"it was restored or replaced by an older copy. Drop the table of the job's state, and the job reads the "
            "topic again from its start, and goes on from what its tables are"
        )
    plan = store.load_plan()
    under_way = plan is not None and (plan.generation, plan.batch) == (progress.generation, progress.batch + 1)
    interrupted = under_way and plan is not None and plan.resolved is not None
    known, redo = _look(job, sink, changelog, progress, interrupted=interrupted)
    newest = max(batches, default=0)
    return (known if newest <= progress.batch + interrupted else _of_older_state(known, newest, job, sink)), redo


def look_at_wanted(job: Job, sink: Sink, changelog: ChangeLog, progress: Progress) -> Progress:
    """The progress of a running job, with the tables that a person wants read in full as they are in the lake now.

    Raises: DecisionNeeded, SinkFault
    """
    wanted = {(one.schema, one.name) for one in progress.wanted if one.asked}
    asked = tuple(table for table in progress.tables if (table.schema, table.name) in wanted)
    looked, _ = _look(job, sink, changelog, msgspec.structs.replace(progress, tables=asked), interrupted=False)
    now = {(table.schema, table.name): table for table in looked.tables}
    tables = tuple(now.get((table.schema, table.name), table) for table in progress.tables)
    return msgspec.structs.replace(progress, tables=tables)


def _is_of_older_try(rows: PendingRows, progress: Progress, changelog: ChangeLog) -> bool:
    """Whether the change log has fewer rows of a batch than wait: a copy from between two tries of the batch, of which
    the second read further."""
    if rows.late or not 0 < rows.batch <= progress.landed_anew:
        return False
    every = LogScan(
        generation=progress.generation,
        batches=frozenset({rows.batch}),
        schema=rows.schema,
        table=rows.name,
        above=-1,
        upto=2**63 - 1,
        keys=(rows.schema_key,),
    )
    return changelog.count_rows(every) < rows.rows


def _of_older_state(progress: Progress, newest: int, job: Job, sink: Sink) -> Progress:
    """Note that the change log has batches beyond the progress, up to ``newest``, since the state folder is an older
    copy: they land anew, with other offsets. And how far the tables had come."""
    held = (sink.find(name) for name in sink.list_tables(job.name))
    stamps = (found.stamp for found in held if found is not None and found.stamp is not None)
    reached = max((stamp.job_applied for stamp in stamps if stamp.job == job.name), default=0)
    return msgspec.structs.replace(
        progress, landed_anew=max(newest, progress.landed_anew), reached=max(reached, progress.reached)
    )


def _first(job: Job, source: Source, sink: Sink, changelog: ChangeLog, store: ProgressStore) -> Progress:
    """The progress of a job that has none: a new one, or one whose state was lost."""
    plan, newest = store.load_plan(), changelog.newest_generation()
    if plan is not None and plan.batch == 1 and plan.generation >= newest:
        # Its first batch was interrupted; tables may be ahead already.
        return Progress(job=job.name, generation=plan.generation, partitions=partitions_at(source.starting()))
    tables = _recovered(job, sink)
    if not tables:
        starting = source.starting() if newest == 0 else source.beginning_offsets()
        return Progress(job=job.name, generation=newest + 1, partitions=partitions_at(starting))
    beginning = source.beginning_offsets()
    applied = max(table.job_applied for table in tables)
    log.warning(
        "the state was lost: %d tables are there, which had applied everything up to %d; the topic is read again from "
        "its start",
        len(tables),
        applied,
    )
    unread = {(table.schema, table.name): unread_topics(table, beginning, newest + 1) for table in tables}
    idle = {topic for table in tables if table.job_applied == applied for topic in table.idle_topics}
    tables = [_passed_over(table, sorted(idle & {*table.topics})) for table in tables]
    promised = tuple(_promised(table, applied, unread[table.schema, table.name], newest + 1) for table in tables)
    needs = tuple(sorted((topic, partition, applied) for topic, partition in beginning))
    return Progress(
        job=job.name,
        generation=newest + 1,
        applied=applied,
        replay_below=applied,
        partitions=tuple(
            PartitionState(topic=topic, partition=partition, offset=offset)
            for (topic, partition), offset in sorted(beginning.items())
        ),
        tables=promised,
        catching_up=tuple(
            CatchUp(schema=table.schema, name=table.name, needs=left_out or needs)
            for table in tables
            if (left_out := tuple((topic, 0, applied) for topic in unread[table.schema, table.name]))
            or _catches_up(table, newest + 1)
        ),
        # What was gathered is of a base before which messages count as applied now.
        wanted=tuple(
            WantedLoad(schema=table.schema, name=table.name, asked=True) for table in tables if table.load is not None
        ),
        unproven=tuple(sorted(place for place, first in beginning.items() if first > 0)),
        whole=() if any(beginning.values()) else tuple(sorted(beginning)),
        doubt=doubt_of(
            ((table, table.mark[0] if _is_further_back(table) else applied) for table in promised),
            beginning,
        ),
    )


def _is_further_back(table: TableState) -> bool:
    """Whether what all tables had applied says nothing of one: it stood still, or caught up."""
    return bool(table.behind or table.quarantined or table.load)


def _catches_up(table: TableState, generation: int) -> bool:
    """Whether messages of a table count from its own mark on, and not from where all tables had come to: it may be an
    older copy, or some come late. In arrival mode marks are no commit_ts."""
    if table.dropped or table.quarantined or table.load:
        return False
    return table.behind or not is_arrival(table, generation)


def _passed_over(table: TableState, topics: Sequence[str]) -> TableState:
    """A table after the state was lost. ``topics``: of its topics those with a partition that was passed over, since no
    watermark had come for long: rows of it that had not come count as replays now."""
    if not topics:
        return table
    why = f"a partition of topic {topics[0]} was passed over when the state was lost: rows of it may be missing"
    return diverged(table, table.mark[0], why)


def _promised(table: TableState, applied: int, unread: Sequence[str], generation: int) -> TableState:
    """A table after the state was lost. What comes of it now may stand in a topic that is not read (``unread``)."""
    stays = bool(unread) or _is_further_back(table) or not is_arrival(table, generation)
    if unread:
        log.warning(
            "`%s`.`%s` came from topic %s, which is not read: it stays where it is", table.schema, table.name, unread[0]
        )
        table = without_first_rows(table)
    return msgspec.structs.replace(table, applied=table.mark[0] if stays else applied)


def _recovered(job: Job, sink: Sink) -> list[TableState]:
    """The tables of the lake that are this job's, by their own stamps."""
    found = []
    for name in sink.list_tables(job.name):
        looked = look_at(sink, job, name, None)
        if looked.behind:
            raise DecisionNeeded(
                f"{looked.behind}, and the state of the job is lost: what the table lacks is not known. Roll it "
                "forward again, or drop every table of the job to have them rebuilt from the start of the topic"
            )
        if looked.state is not None and looked.stamp is not None and looked.stamp.about:
            found.append(looked.state)
    return found


def _look(
    job: Job, sink: Sink, changelog: ChangeLog, progress: Progress, *, interrupted: bool
) -> tuple[Progress, tuple[PendingRows, ...]]:
    """Look at every table of the job. ``interrupted``: a batch that was not finished may have dropped or renamed some.

    Returns: the progress with what the tables show, and rows to apply again.
    """
    tables = [table for table in progress.tables if table.mark != NO_MARK and (not table.dropped or table.kept)]
    arrival = progress.mode == "arrival"

    def look(table: TableState) -> tuple[Looked, str]:
        looked = look_at(sink, job, (table.schema, table.name), table, arrival=arrival)
        as_left = looked.stamp is not None and looked.stamp.mark == table.mark and not arrival
        return looked, columns_gone(sink, table) if as_left and table.diverged_since is None else ""

    asked = {(one.schema, one.name) for one in progress.wanted if one.asked}
    redo: list[PendingRows] = []
    worse: dict[TableName, TableState] = {}
    for table, (looked, gone) in zip(tables, _each(job, look, tables), strict=True):
        name = (table.schema, table.name)
        if name in asked and (looked.stamp is None or looked.behind):
            worse[name] = _to_be_read(sink, table, looked)
        elif looked.stamp is None:
            if not interrupted:
                raise DecisionNeeded(vanished(job, name))
        elif looked.behind:
            redo.append(_redo(job, changelog, progress, table, looked))
            # The table is here from now on. Until its rows are applied again, the stored progress is ahead of it, so
            # that a crash on the way begins this anew.
            sink.stamp(name, looked.stamp)
            worse[name] = _set_back(table, looked)
        elif looked.state is not None and looked.state.diverged_since is not None and table.diverged_since is None:
            worse[name] = _marked_as(table, looked.state)
        if gone:
            log.warning("`%s`.`%s`: %s", *name, gone)
            worse[name] = misshapen(worse.get(name, table), table.applied, gone)
    worse |= {} if arrival else _come_back(job, sink, progress)
    known = tuple(worse.get((table.schema, table.name), table) for table in progress.tables)
    return msgspec.structs.replace(progress, tables=known), tuple(redo)


def _come_back(job: Job, sink: Sink, progress: Progress) -> dict[TableName, TableState]:
    """Tables that were dropped, or renamed away, and are in the lake again as they were before: somebody restored
    them. They stay, as tables that were dropped and kept."""
    gone = [table for table in progress.tables if table.dropped and not table.kept]
    found = {}
    for table, there in zip(gone, _each(job, lambda table: sink.find((table.schema, table.name)), gone), strict=True):
        name = (table.schema, table.name)
        stamp = None if there is None else there.stamp
        if stamp is None or stamp.job != job.name or stamp.mark[0] >= table.ddl_ts:
            continue
        log.warning("`%s`.`%s` was dropped at %d and is there again: it is left as it is", *name, table.ddl_ts)
        found[name] = msgspec.structs.replace(table, kept=True, mark=stamp.mark)
    return found


def _to_be_read(sink: Sink, table: TableState, looked: Looked) -> TableState:
    """A table that is not what it was, and of which a person wants a full read: whatever it is now will do."""
    if looked.stamp is None:
        return TableState(schema=table.schema, name=table.name, applied=table.applied, topics=table.topics)
    stamp, since = looked.stamp, looked.stamp.mark[0]
    back = _lacking(_set_back(table, looked), since)
    if looked.furthest is not None and looked.state is not None:
        # Its columns are still those of before, and DDLs go on from there: it does not matter what its rows are.
        about = msgspec.json.encode(_lacking(looked.state, since)).decode()
        stamp = msgspec.structs.replace(stamp, mark=looked.furthest, about=about)
        back = msgspec.structs.replace(back, mark=min(table.mark, looked.furthest))
    sink.stamp((table.schema, table.name), stamp)
    return back


def _lacking(table: TableState, since: int) -> TableState:
    """A table that was set back, and will be read in full."""
    why = "it was set back; a full read of it is wanted"
    if table.load is None:
        return diverged(table, since, why)
    return msgspec.structs.replace(
        table, load=msgspec.structs.replace(table.load, diverged_since=since, diverged_why=why)
    )


def _set_back(table: TableState, looked: Looked) -> TableState:
    """The state of a table that was set back: with the mark that it has, and what other writers did to it since."""
    assert looked.stamp is not None, "it is in the lake"
    back = msgspec.structs.replace(table, mark=looked.stamp.mark)
    state = looked.state
    if state is None or state.diverged_since is None or table.diverged_since is not None:
        return back
    return _marked_as(back, state)


def _marked_as(table: TableState, held: TableState) -> TableState:
    """A table with the mark that its stamp has."""
    assert held.diverged_since is not None, "the stamp has a mark"
    marked = diverged(table, held.diverged_since, held.diverged_why)
    return msgspec.structs.replace(marked, misshapen=table.misshapen or held.misshapen)


def _each(job: Job, look: Callable[[TableState], T], tables: list[TableState]) -> Iterable[T]:
    if len(tables) <= 1 or job.parallel_tables == 1:
        return [look(table) for table in tables]
    with ThreadPoolExecutor(job.parallel_tables, "look") as pool:
        return list(pool.map(look, tables))


def _redo(job: Job, changelog: ChangeLog, progress: Progress, table: TableState, looked: Looked) -> PendingRows:
    """The rows that a table lacks, if the change log has them all and nothing but rows is missing.

    Raises: DecisionNeeded
    """
    assert looked.stamp is not None, "it is in the lake"
    mark, was = looked.stamp.mark[0], looked.state or table
    batches = changelog.batches(progress.generation)
    why = ""
    if progress.mode == "arrival":
        why = "without watermarks it is not known which rows it lacks"
    elif (read := max(_read_in_full(table), _read_in_full(was))) >= mark:
        why = f"it was read in full at {read}. `ticdc-spark rebuild` reads it again"
    elif (ddl := _last_ddl(table, was, looked)) > looked.stamp.mark:
        why = f"a DDL at {ddl[0]} is among what it lacks"
    elif mark < progress.forgotten or mark < progress.replay_below:
        why = "the change log does not reach back so far (log-retention)"
    elif progress.logged and progress.logged not in batches:
        why = "the change log is an older copy, too"
    elif progress.logged and progress.logged <= progress.landed_anew and _is_restored(table, looked):
        why = "the change log may be an older copy, too, from between two tries of its last batch"
    if why:
        raise DecisionNeeded(
            f"{looked.behind}. It cannot be brought forward from the change log: {why}. Roll the table forward again, "
            "have it read again (`ticdc-spark rebuild`), "
            f"or, if all tables were restored together, drop the table of the job's state: the job then reads the "
            "topic again from its start and goes on from what the tables are"
        )
    log.warning("%s; its rows since then are applied again from the change log", looked.behind)
    topic = table.topics[0] if table.topics else ""
    return PendingRows(
        batch=0,
        schema=table.schema,
        name=table.name,
        schema_key="",
        rows=0,
        min_ts=mark + 1,
        max_ts=max(table.applied, mark + 1),
        late=True,
        redo=True,
        topic=topic,
        partition=0,
    )


def _is_restored(table: TableState, looked: Looked) -> bool:
    """Whether a table was replaced by an older copy, and not only rolled back."""
    return looked.furthest is None or looked.furthest < table.mark


def _read_in_full(table: TableState) -> int:
    return table.emptied if table.origin == "snapshot" else -1


def _last_ddl(table: TableState, was: TableState, looked: Looked) -> Mark:
    """The last commit of a DDL to a table that was set back. ``was``: what it was before; a batch that was interrupted
    may have brought it beyond the progress, and into the midst of a DDL."""
    found = max((table.ddl_ts, table.ddl_step), (was.ddl_ts, was.ddl_step))
    furthest = looked.furthest
    return max(found, furthest) if furthest is not None and DDL_STEPS <= furthest[1] < LOAD_STEP else found
