"""The start of a run: compare the progress with the current tables, and take requests.

The state and the tables must be of the same time, except for an interrupted batch. If they are not, the job stops.
"""

import logging
from collections.abc import Callable, Iterable, Iterator

import msgspec

from ticdc_spark.config.job import Job
from ticdc_spark.config.shards import is_merged
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import DecisionNeeded, UsageError
from ticdc_spark.model import TableName
from ticdc_spark.replicate.apply.look import Looked, columns_gone, look_at, stop_if_ahead, vanished, way_back
from ticdc_spark.replicate.apply.park import forget
from ticdc_spark.replicate.modes.traits import is_resolving
from ticdc_spark.replicate.parallel import for_each
from ticdc_spark.replicate.plan.offsets import known_offsets
from ticdc_spark.replicate.plan.parked import is_parked
from ticdc_spark.replicate.plan.reach import partitions_at
from ticdc_spark.replicate.plan.routes import is_in_target, stop_if_changed, with_routes
from ticdc_spark.replicate.plan.source_check import source_notes
from ticdc_spark.replicate.schemas.files import with_schema_files
from ticdc_spark.replicate.state.progress import Plan, Progress
from ticdc_spark.replicate.state.requests import take
from ticdc_spark.replicate.state.store import ProgressStore
from ticdc_spark.replicate.state.table import TableState, diverge, from_stamp, keep, set_back
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.capabilities import FilesGone
from ticdc_spark.sinks.mark import NO_MARK
from ticdc_spark.spark.sources.base import Source

log = logging.getLogger(__name__)
_NAMED = 5
"""Most tables that one error names."""


def begin(job: Job, source: Source, sink: Sink, store: ProgressStore, protocol: str) -> Progress:
    """The progress to continue from.

    Raises: DecisionNeeded, which names the options; SinkFault, SourceFault, UsageError
    """
    found = store.load()
    source.recall(_source_memory(found, store))
    if found is None:
        _stop_if_there_are_tables(job, sink)
        starting = partitions_at(source.starting())
        found = with_routes(job, Progress(job=job.name, partitions=starting))
        memory = source.memory(known_offsets(found), ())
        found = msgspec.structs.replace(found, source=source_notes(source, found), source_memory=memory)
        store.save(found)
    elif with_routes(job, found) != found:
        found = _take_over_routes(job, sink, found, store)
    whole = not is_interrupted(found, store)
    found = take(store, found, source.beginning_offsets, reads=job.snapshot is not None, replays=whole) or found
    progress = msgspec.structs.replace(with_schema_files(found, job.schema.file), protocol=protocol)
    plan = _under_way(progress, store)
    looked = _look(job, sink, progress, progress.tables, plan)
    marks = {table.full_name: table for table in looked.tables if table.has_diverged}
    marked = tuple(
        table if table.has_diverged or table.full_name not in marks else _marked_as(table, marks[table.full_name])
        for table in found.tables
    )
    if marked != found.tables:
        # The next start may not see the cause: a dropped column may be back, with NULL in all rows.
        store.save(msgspec.structs.replace(found, tables=marked))
    return looked


def with_mark(progress: Progress, marked: TableState) -> Progress:
    """The progress, with a table marked as diverged. ``marked``: as a batch has it, which may have renamed it."""
    names = (*marked.was, marked.full_name)
    of_names = {(*table.was, table.full_name): table for table in progress.tables}
    meant = next((of_names[names[:end]] for end in range(len(names), 0, -1) if names[:end] in of_names), None)
    if meant is None or meant.has_diverged:
        return progress
    tables = tuple(_marked_as(table, marked) if table is meant else table for table in progress.tables)
    return msgspec.structs.replace(progress, tables=tables)


def _source_memory(progress: Progress | None, store: ProgressStore) -> str:
    """The memory that the source continues with. A batch under way has its own, as tables may have its offsets."""
    if progress is None:
        return ""
    plan = _under_way(progress, store)
    return progress.source_memory if plan is None else plan.source_memory


def _take_over_routes(job: Job, sink: Sink, progress: Progress, store: ProgressStore) -> Progress:
    """The progress with the current rules of ``[[route]]``. Raises: UsageError, SinkFault"""
    changed = with_routes(job, progress)
    if is_interrupted(progress, store):
        _stop_if_made_otherwise(job, sink, progress)
    store.save(changed)  # before the new rules create a table
    return changed


def _stop_if_made_otherwise(job: Job, sink: Sink, progress: Progress) -> None:
    """Stop if a batch under way has created or changed a table by the old rules, without the progress knowing it.

    ``progress``: with the old rules. Raises: UsageError, SinkFault
    """
    put_back = "Put them back until the batch is done, or drop the table in the target"
    for table in progress.tables:
        if is_in_target(table) and sink.find(table.full_name) is None:
            raise UsageError(
                f"{job.file}: [[route]]: the rules were changed while a batch was under way, and the batch has renamed "
                f"or dropped `{table.schema}`.`{table.name}`. {put_back}"
            )
    for name, made in _stamped(job, sink):
        if made is None:
            raise UsageError(
                f"{job.file}: [[route]]: the rules were changed while a batch was under way, and the batch has "
                f"created `{name[0]}`.`{name[1]}`. {put_back}"
            )
        stop_if_changed(job, progress, made.full_name, made.table)


def _stamped(job: Job, sink: Sink) -> Iterator[tuple[TableName, TableState | None]]:
    """The tables whose newest stamp is from a job, as their stamps describe them. Reads every table of the target.

    ``None``: the stamp does not describe its table. Raises: SinkFault
    """
    for name in sink.list_tables(job.name):
        found = sink.find(name)
        about = "" if found is None or found.stamp is None else found.stamp.about
        yield name, from_stamp(about) if about else None


def look_at_wanted(job: Job, sink: Sink, progress: Progress, store: ProgressStore) -> Progress:
    """The progress of a running job, where tables with a requested full read are as the lake has them now.

    Raises: DecisionNeeded, SinkFault
    """
    wanted = {one.full_name for one in progress.wanted if one.asked}
    asked = [table for table in progress.tables if table.full_name in wanted]
    return _look(job, sink, progress, asked, _under_way(progress, store))


def is_interrupted(progress: Progress, store: ProgressStore) -> bool:
    """Whether tables may have changes of an unfinished batch."""
    return _under_way(progress, store) is not None


def furthest(progress: Progress, plan: Plan | None) -> int:
    """The highest mark that tables can have. ``plan``: of the batch under way; ``None``: there is none."""
    if not _resolves(progress, plan):
        return progress.batch if plan is None else plan.batch
    return max(progress.applied, 0 if plan is None else plan.resolved)


def _resolves(progress: Progress, plan: Plan | None) -> bool:
    return is_resolving(progress.mode) and (plan is None or is_resolving(plan.mode))


def _under_way(progress: Progress, store: ProgressStore) -> Plan | None:
    plan = store.load_plan()
    return plan if plan is not None and plan.batch == progress.batch + 1 else None


def _stop_if_there_are_tables(job: Job, sink: Sink) -> None:
    """Stop if a job without a state has tables. Raises: DecisionNeeded, SinkFault"""
    tables = sorted(sink.list_tables(job.name))
    if tables:
        names = ", ".join(f"`{schema}`.`{name}`" for schema, name in tables[:_NAMED])
        more = f" and {len(tables) - _NAMED} more" if len(tables) > _NAMED else ""
        raise DecisionNeeded(
            f"the target has tables of job {job.name!r}, but not the state of the job: {names}{more}. Restore the "
            "target from a backup, with `_ticdc_spark`. Or drop these tables: the job then begins from scratch"
        )


def _look(job: Job, sink: Sink, progress: Progress, some: Iterable[TableState], plan: Plan | None) -> Progress:
    """Look at tables of the job. A table without files that is to be read again is dropped.

    ``plan``: of an unfinished batch, which may have dropped or renamed some.

    Returns: the progress, corrected by what the tables show.
    """
    is_followed = _followed(job, progress)
    tables = [table for table in some if table.mark != NO_MARK and not table.is_dropped and is_followed(table)]
    exact, upto = _resolves(progress, plan), furthest(progress, plan)

    asked = {one.full_name for one in progress.wanted if one.asked}

    def look(table: TableState) -> tuple[Looked, str]:
        name = table.full_name
        try:
            looked = look_at(sink, job, name, table, resolves=exact)
        except FilesGone:
            if name not in asked:
                raise
            log.warning("`%s`.`%s`: its files are gone; dropping it from the catalog to read it again", *name)
            sink.drop(name)
            looked = Looked(state=table, stamp=None)
        as_left = looked.stamp is not None and looked.stamp.mark == table.mark and exact
        return looked, columns_gone(sink.types, table, looked.columns) if as_left and not table.has_diverged else ""

    worse: dict[TableName, TableState] = {}
    for table, (looked, gone) in zip(tables, for_each(job, look, tables), strict=True):
        name = table.full_name
        stop_if_ahead(job, name, looked.stamp, table, upto)
        renamed = name in asked and looked.stamp is None and plan is not None and _was_renamed(job, sink, table)
        if name in asked and not renamed and (looked.stamp is None or looked.behind):
            worse[name] = _to_be_read(sink, table, looked)
        elif looked.stamp is None and is_parked(name) and plan is None:
            worse[name] = forget(table)  # A user has removed it: it cannot come back.
        elif looked.stamp is None:
            if plan is None:
                raise DecisionNeeded(vanished(job, name, resolves=exact))
        elif looked.behind:
            raise DecisionNeeded(f"{looked.behind}. {way_back(job, name, resolves=exact)}")
        elif looked.state is not None and looked.state.has_diverged and not table.has_diverged:
            worse[name] = _marked_as(table, looked.state)
        if gone:
            log.warning("`%s`.`%s`: %s", *name, gone)
            worse[name] = diverge(worse.get(name, table), table.applied, gone, columns=True)
    worse |= _keep_restored(job, sink, progress) if exact else {}
    known = tuple(worse.get(table.full_name, table) for table in progress.tables)
    return msgspec.structs.replace(progress, tables=known)


def _was_renamed(job: Job, sink: Sink, table: TableState) -> bool:
    """Whether an unfinished batch has renamed a table: another table has had all its names.

    Raises: SinkFault
    """
    names = (*table.was, table.full_name)
    return any(made is not None and made.was[: len(names)] == names for _, made in _stamped(job, sink))


def _followed(job: Job, progress: Progress) -> Callable[[TableState], bool]:
    """Return a function: whether a run may change a table. A table that `tables` excludes need not match the state. A
    parked table has no name at the source, and a merged table has those of its shards."""
    wants = table_filter(job.tables)
    merged = {one.full_name for one in progress.shards if wants(one.table.schema, one.table.name)}

    def is_followed(table: TableState) -> bool:
        name = table.full_name
        return name in merged if is_merged(name) else is_parked(name) or wants(*name)

    return is_followed


def _keep_restored(job: Job, sink: Sink, progress: Progress) -> dict[TableName, TableState]:
    """Tables that were dropped or renamed away, and that a user has restored in the lake. They stay, as tables that
    were dropped and kept."""
    gone = [table for table in progress.tables if table.is_dropped]
    found = {}
    for table, there in zip(gone, for_each(job, lambda table: sink.find(table.full_name), gone), strict=True):
        name = table.full_name
        stamp = None if there is None else there.stamp
        if stamp is None or stamp.job != job.name or stamp.mark[0] >= table.ddl_ts:
            continue
        log.warning("`%s`.`%s` was dropped at %d, but the lake has it again: it stays unchanged", *name, table.ddl_ts)
        found[name] = msgspec.structs.replace(keep(table), mark=stamp.mark)
    return found


def _to_be_read(sink: Sink, table: TableState, looked: Looked) -> TableState:
    """Stamp a table that has changed since and has a requested full read. Any condition is accepted.

    Returns: its state
    """
    if looked.stamp is None:
        return TableState(schema=table.schema, name=table.name, applied=table.applied, topics=table.topics)
    stamp, since = looked.stamp, looked.stamp.mark[0]
    back = set_back(_as_found(table, looked), since)
    if looked.furthest is not None and looked.state is not None:
        # It has its former columns, from which DDLs can continue. Its rows do not matter.
        about = msgspec.json.encode(set_back(looked.state, since)).decode()
        stamp = msgspec.structs.replace(stamp, mark=looked.furthest, about=about)
        back = msgspec.structs.replace(back, mark=min(table.mark, looked.furthest))
    sink.stamp(table.full_name, stamp)
    return back


def _as_found(table: TableState, looked: Looked) -> TableState:
    """The state of a table that was set back: with its present mark, and with what other writers did to it since."""
    assert looked.stamp is not None, "it is in the lake"
    back = msgspec.structs.replace(table, mark=looked.stamp.mark)
    state = looked.state
    if state is None or not state.has_diverged or table.has_diverged:
        return back
    return _marked_as(back, state)


def _marked_as(table: TableState, held: TableState) -> TableState:
    """A table with the mark of ``held``, which is another state of it."""
    assert held.diverged_since is not None, "it has a mark"
    return diverge(table, held.diverged_since, held.diverged_why, columns=held.has_unsure_columns)
