"""Apply the timelines of a batch, some at a time, and fold their results."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

import msgspec

from ticdc_spark.config.histories import histories
from ticdc_spark.config.shards import is_merged
from ticdc_spark.model import TableName
from ticdc_spark.replicate.apply.batch import Batch, TimelineWork
from ticdc_spark.replicate.apply.ddl import apply_ddl
from ticdc_spark.replicate.apply.rejects import TimelineStopped
from ticdc_spark.replicate.apply.rename import was_set_aside
from ticdc_spark.replicate.plan.ddl_actions import Alter, Drop, DropDatabase, Exchange, Leave, names
from ticdc_spark.replicate.plan.parked import parks
from ticdc_spark.replicate.plan.policy import is_skipped
from ticdc_spark.replicate.plan.timeline import Ddl, Rows, Step
from ticdc_spark.replicate.state.progress import QueuedDdl
from ticdc_spark.replicate.state.table import TableState, diverge, quarantine
from ticdc_spark.sinks.mark import NO_MARK

log = logging.getLogger(__name__)
TOGETHER = 64
"""Timelines that run at a time. Most of them wait, and their rows are read together."""
ApplyRows = Callable[[TimelineWork, Rows], None]
"""Applies the rows of a table up to the end of a step, as a mode does."""


class TimelineResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a timeline, or of a whole batch."""

    states: dict[TableName, TableState]
    touched: frozenset[TableName]
    """Tables that were read and are in the lake."""
    left: tuple[QueuedDdl, ...] = ()
    """DDLs that were not applied, because their timeline stopped before them."""
    taken: dict[TableName, int] = {}
    """Applied rows, by table."""
    uncounted: frozenset[TableName] = frozenset()
    """Tables that may have got more rows than ``taken`` counts."""
    ddls: int = 0
    rejected: int = 0
    zero_dates: int = 0

    @property
    def rows(self) -> int:
        """All applied rows."""
        return sum(self.taken.values())


def apply(
    batch: Batch,
    states: Mapping[TableName, TableState],
    lines: Sequence[Sequence[Step]],
    apply_rows: ApplyRows,
) -> TimelineResult:
    """Apply all timelines, ``parallel-tables`` at a time. After an error, no new timeline starts, and the error is
    raised once the running ones are done.

    Raises: DecisionNeeded, SinkFault, RejectedMessage
    """
    if len(lines) <= 1 or batch.job.parallel_tables == 1:
        results = [_work(batch, line, states, apply_rows) for line in lines]
    else:
        with batch.rows.share(batch.job.parallel_tables) as workers:

            def work(line: Sequence[Step]) -> TimelineResult:
                with workers.worker():
                    return _work(batch, line, states, apply_rows)

            with ThreadPoolExecutor(min(TOGETHER, len(lines)), "apply") as pool:
                running = [pool.submit(work, line) for line in lines]
                _, waiting = wait(running, return_when=FIRST_EXCEPTION)
                for future in waiting:
                    future.cancel()
            results = [future.result() for future in running if not future.cancelled()]
    return _fold(states, results)


def write_decisions(batch: Batch, states: Mapping[TableName, TableState], names: Iterable[TableName]) -> TimelineResult:
    """Write what was decided about tables without a timeline in a batch. Raises: as ``apply``"""
    work = TimelineWork(batch=batch, promised=states)
    for name in names:
        work.state(name)
    work.write_decisions()
    return _fold(states, [_result(work, ())])


def _result(work: TimelineWork, left: tuple[QueuedDdl, ...]) -> TimelineResult:
    return TimelineResult(
        states={name: state for name, state in work.known.items() if state is not None},
        touched=frozenset(name for name, stamp in work.stamps.items() if stamp is not None),
        left=left,
        taken=dict(work.taken),
        uncounted=frozenset(work.uncounted),
        ddls=work.ddls,
        rejected=work.rejected,
        zero_dates=work.zero_dates,
    )


def _fold(states: Mapping[TableName, TableState], results: Sequence[TimelineResult]) -> TimelineResult:
    folded = dict(states)
    for result in results:
        folded |= result.states
    return TimelineResult(
        states=folded,
        touched=frozenset(name for result in results for name in result.touched),
        left=tuple(ddl for result in results for ddl in result.left),
        taken={name: rows for result in results for name, rows in result.taken.items()},
        uncounted=frozenset(name for result in results for name in result.uncounted),
        ddls=sum(result.ddls for result in results),
        rejected=sum(result.rejected for result in results),
        zero_dates=sum(result.zero_dates for result in results),
    )


def _work(
    batch: Batch, line: Sequence[Step], states: Mapping[TableName, TableState], apply_rows: ApplyRows
) -> TimelineResult:
    work = TimelineWork(batch=batch, promised=states)
    left: tuple[QueuedDdl, ...] = ()
    for at, step in enumerate(line):
        try:
            if isinstance(step, Ddl):
                apply_ddl(work, step)
            elif not _doomed(work, step.table, line[at + 1 :]):
                apply_rows(work, step)
        except TimelineStopped as reason:
            if _is_needless(work, step, line[at + 1 :]):
                continue
            _quarantine(work, line, step, str(reason))
            left = tuple(step.queued for step in line[at:] if isinstance(step, Ddl))
            break
    else:
        _note_missing(work)
    work.write_decisions()
    return _result(work, left)


def _note_missing(work: TimelineWork) -> None:
    """Mark tables that should exist after the DDLs of a timeline, but that the lake does not have. The DDLs came in
    another order, because some topics were read late."""
    for name, stamp in work.stamps.items():
        state = work.known.get(name)
        if stamp is not None or state is None or state.table is None or state.is_gone or state.load is not None:
            continue
        why = "DDLs came in another order than the source ran them, and the target does not have the table"
        lost = TableState(schema=name[0], name=name[1], applied=state.applied, topics=state.topics, rows=state.rows)
        first = state.applied if state.diverged_since is None else state.diverged_since
        work.known[name] = diverge(lost, first, state.diverged_why or why)


def _doomed(work: TimelineWork, name: TableName, later: Sequence[Step]) -> bool:
    """Whether the rows of a table need not be written: a later step drops it, under whatever name, or it got another
    name before a restart."""
    job, now = work.batch.job, name
    for step in later:
        if not isinstance(step, Ddl):
            continue
        match step.action:
            case Exchange() if now in names(step.action, {}):
                return _has_gone_on(work, name)  # Its rows move to another table.
            case Leave() if now == step.action.name:
                return was_set_aside(work, name, step.mark)
            case Drop() | DropDatabase() if now in names(step.action, {now: None}) and not is_merged(now):
                kept = job.ddl.of(now).drop_table == "keep" or is_skipped(job, step.queued.change)
                if isinstance(step.action, Drop) and parks(job, now) and not kept:
                    return _has_gone_on(work, name)
                # A history table keeps the rows of a table that is dropped.
                unseen = not kept and histories(job.histories).of(name) is None
                is_away = _is_away(work, name) or _has_gone_on(work, name)  # under its name before the batch, or since
                return unseen or was_set_aside(work, name, step.mark) or is_away
            case Alter() if step.action.old == now != step.action.table.full_name:
                if is_skipped(job, step.queued.change):
                    return was_set_aside(work, name, step.mark)
                now = step.action.table.full_name
                if work.mark(name) == NO_MARK and work.mark(now) >= step.mark:
                    return True
    return False


def _has_gone_on(work: TimelineWork, name: TableName) -> bool:
    """Whether later steps moved a table before a restart: the job knows it, but the lake no longer has it."""
    state = work.state(name)
    return work.mark(name) == NO_MARK and state is not None and state.table is not None and not state.is_gone


def _is_away(work: TimelineWork, name: TableName) -> bool:
    """Whether the lake had a table before the batch and lost it: an interrupted try dropped it, before the job file
    said to keep it."""
    before = work.promised.get(name)
    return work.mark(name) == NO_MARK and before is not None and before.mark != NO_MARK and not before.is_gone


def _is_needless(work: TimelineWork, step: Step, later: Sequence[Step]) -> bool:
    """Whether a table need not be quarantined at a DDL, which is passed over then: a later step drops the table."""
    if not isinstance(step, Ddl) or not isinstance(step.action, Alter):
        return False
    name = step.action.table.full_name
    return name == step.action.old and _doomed(work, name, later)


def _quarantine(work: TimelineWork, line: Sequence[Step], at: Step, reason: str) -> None:
    """Quarantine every table of a timeline where it is. ``at``: the step that cannot be applied."""
    tables = {step.table: None for step in line if isinstance(step, Rows)}
    if isinstance(at, Ddl) and isinstance(at.action, Alter):
        tables[at.action.old] = None
        log.error("`%s`.`%s` is quarantined: %s", *at.action.old, reason)
    for name in tables:
        state = work.state(name) or TableState(schema=name[0], name=name[1])
        work.put(quarantine(state, reason))
