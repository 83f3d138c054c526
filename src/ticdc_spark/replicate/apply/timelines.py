"""Apply: work through the timelines of a batch, some tables at a time."""

import logging
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

import msgspec

from ticdc_spark.replicate.apply.arrival_rows import apply_arrived
from ticdc_spark.replicate.apply.batch import NO_MARK, Batch
from ticdc_spark.replicate.apply.ddl import apply_ddl
from ticdc_spark.replicate.apply.rejects import Quarantined
from ticdc_spark.replicate.apply.rows import apply_rows
from ticdc_spark.replicate.plan.evolve import Alter, Drop, DropDatabase
from ticdc_spark.replicate.plan.timeline import Ddl, Rows, Step
from ticdc_spark.sinks.base import TableName

log = logging.getLogger(__name__)


def apply(batch: Batch, lines: Sequence[Sequence[Step]]) -> None:
    """Apply all timelines, ``parallel-tables`` at a time. The first error ends it once the running ones are done.

    Raises: DecisionNeeded, SinkFault, RejectedMessage
    """
    if not lines:
        return
    with ThreadPoolExecutor(min(batch.job.parallel_tables, len(lines)), "apply") as pool:
        running = [pool.submit(_line, batch, line) for line in lines]
        _, waiting = wait(running, return_when=FIRST_EXCEPTION)
        for future in waiting:
            future.cancel()
    for future in running:
        if not future.cancelled():
            future.result()


def _line(batch: Batch, line: Sequence[Step]) -> None:
    for at, step in enumerate(line):
        try:
            if isinstance(step, Ddl):
                apply_ddl(batch, step)
            elif not _doomed(batch, step.table, line[at + 1 :]):
                if step.mark is not None:
                    apply_arrived(batch, step, step.mark)
                else:
                    apply_rows(batch, step.table, step.upto)
        except Quarantined as reason:
            _quarantine(batch, line, str(reason))
            return


def _doomed(batch: Batch, name: TableName, later: Sequence[Step]) -> bool:
    """Whether the rows of a table need not be written: further on it is dropped, under whatever name, or it went on
    under another name before a restart."""
    now = name
    for step in later:
        if not isinstance(step, Ddl):
            continue
        match step.action:
            case Drop(names) if now in names:
                return batch.job.drop_table == "apply"
            case DropDatabase(schema) if schema == now[0]:
                return batch.job.drop_table == "apply"
            case Alter() if step.action.old == now != (step.action.table.schema, step.action.table.name):
                now = (step.action.table.schema, step.action.table.name)
                if batch.mark(name) == NO_MARK and batch.mark(now) >= step.mark:
                    return True
    return False


def _quarantine(batch: Batch, line: Sequence[Step], reason: str) -> None:
    """Stop every table of a timeline where it is."""
    for step in line:
        if isinstance(step, Rows):
            state = batch.states.get(step.table)
            if state is not None and state.quarantined is None:
                batch.states[step.table] = msgspec.structs.replace(state, quarantined=reason, clean=False)
