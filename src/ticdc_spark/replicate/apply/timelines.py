"""Apply: work through the timelines of a batch, some at a time, and fold their results."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

import msgspec

from ticdc_spark.replicate.apply.batch import NO_MARK, Batch, TimelineWork
from ticdc_spark.replicate.apply.ddl import apply_ddl
from ticdc_spark.replicate.apply.rejects import Quarantined
from ticdc_spark.replicate.plan.evolve import Alter, Drop, DropDatabase, names
from ticdc_spark.replicate.plan.timeline import Ddl, Rows, Step
from ticdc_spark.replicate.state.progress import Mark, TableState
from ticdc_spark.sinks.base import TableName

ApplyRows = Callable[[TimelineWork, Rows], None]
"""How a mode applies the rows of a table up to the end of a step."""


class TimelineResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one timeline, or a whole batch, has become."""

    states: dict[TableName, TableState]
    marks: dict[TableName, Mark | None]
    """Of the tables that were touched; ``None``: it is not in the lake."""
    rows: int = 0
    ddls: int = 0
    rejected: int = 0
    zero_dates: int = 0


def apply(
    batch: Batch,
    states: Mapping[TableName, TableState],
    lines: Sequence[Sequence[Step]],
    apply_rows: ApplyRows,
) -> TimelineResult:
    """Apply all timelines, ``parallel-tables`` at a time. The first error ends it once the running ones are done.

    Raises: DecisionNeeded, SinkFault, RejectedMessage
    """
    jobs = [(line, {name: states[name] for name in _tables(line, states) if name in states}) for line in lines]
    if len(jobs) <= 1 or batch.job.parallel_tables == 1:
        results = [_work(batch, line, known, apply_rows) for line, known in jobs]
    else:
        with ThreadPoolExecutor(min(batch.job.parallel_tables, len(jobs)), "apply") as pool:
            running = [pool.submit(_work, batch, line, known, apply_rows) for line, known in jobs]
            _, waiting = wait(running, return_when=FIRST_EXCEPTION)
            for future in waiting:
                future.cancel()
        results = [future.result() for future in running if not future.cancelled()]
    return _fold(states, results)


def _fold(states: Mapping[TableName, TableState], results: Sequence[TimelineResult]) -> TimelineResult:
    folded, marks = dict(states), dict[TableName, Mark | None]()
    for result in results:
        folded |= result.states
        marks |= result.marks
    return TimelineResult(
        states=folded,
        marks=marks,
        rows=sum(result.rows for result in results),
        ddls=sum(result.ddls for result in results),
        rejected=sum(result.rejected for result in results),
        zero_dates=sum(result.zero_dates for result in results),
    )


def _tables(line: Sequence[Step], states: Mapping[TableName, TableState]) -> set[TableName]:
    """The tables that a timeline is about."""
    found: set[TableName] = set()
    for step in line:
        found |= set(names(step.action, states)) if isinstance(step, Ddl) else {step.table}
        if isinstance(step, Ddl):
            change = step.queued.change
            found.add((change.schema, change.name))
            found |= {(table.schema, table.name) for table in (change.table, change.pre_table) if table is not None}
    return found


def _work(
    batch: Batch, line: Sequence[Step], states: dict[TableName, TableState], apply_rows: ApplyRows
) -> TimelineResult:
    work = TimelineWork(batch=batch, states=states)
    for at, step in enumerate(line):
        try:
            if isinstance(step, Ddl):
                apply_ddl(work, step)
            elif not _doomed(work, step.table, line[at + 1 :]):
                apply_rows(work, step)
        except Quarantined as reason:
            _quarantine(work, line, str(reason))
            break
    return TimelineResult(
        states=work.states,
        marks={name: None if found is None else found.mark for name, found in work.marks.items()},
        rows=work.applied_rows,
        ddls=work.ddls,
        rejected=work.rejected,
        zero_dates=work.zero_dates,
    )


def _doomed(work: TimelineWork, name: TableName, later: Sequence[Step]) -> bool:
    """Whether the rows of a table need not be written: further on it is dropped, under whatever name, or it went on
    under another name before a restart."""
    now = name
    for step in later:
        if not isinstance(step, Ddl):
            continue
        match step.action:
            case Drop(gone) if now in gone:
                return work.batch.job.drop_table == "apply"
            case DropDatabase(schema) if schema == now[0]:
                return work.batch.job.drop_table == "apply"
            case Alter() if step.action.old == now != (step.action.table.schema, step.action.table.name):
                now = (step.action.table.schema, step.action.table.name)
                if work.mark(name) == NO_MARK and work.mark(now) >= step.mark:
                    return True
    return False


def _quarantine(work: TimelineWork, line: Sequence[Step], reason: str) -> None:
    """Stop every table of a timeline where it is."""
    for step in line:
        if isinstance(step, Rows):
            state = work.states.get(step.table)
            if state is not None and state.quarantined is None:
                work.states[step.table] = msgspec.structs.replace(state, quarantined=reason, clean=False)


__all__ = ["ApplyRows", "TimelineResult", "apply"]
