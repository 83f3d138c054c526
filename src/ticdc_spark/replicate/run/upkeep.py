"""Upkeep of tables: one at a time between batches, for a limited share of the time; several at the end of a run."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ticdc_spark.config.job import Job, UpkeepKeys
from ticdc_spark.errors import SinkFault
from ticdc_spark.log_events import event
from ticdc_spark.model import TableName
from ticdc_spark.replicate.parallel import looks
from ticdc_spark.replicate.run.watch import UNWATCHED, Maintained, Watcher
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.upkeep import Upkeep, UpkeepPolicy, UpkeepResult

log = logging.getLogger(__name__)
SHARE = 0.2
"""The part of a run's time that upkeep may take."""


class UpkeepScheduler:
    """Decides which table gets its upkeep, and when. Only tables that changed since their last upkeep need it."""

    def __init__(self, job: Job, clock: Callable[[], float] = time.time) -> None:
        self._job, self._keys = job, job.upkeep
        self._clock = clock
        self._began = clock()
        self._spent = 0.0
        self._looked: dict[TableName, tuple[float, int | None]] = {}
        """When a table had its last upkeep, and the job's snapshot of the table at that time."""

    def turn(self, sink: Upkeep, progress: Progress, watcher: Watcher = UNWATCHED) -> bool:
        """Do the upkeep of the table that has waited longest, if one is due. Returns: whether one was"""
        now = self._clock()
        if not self._keys.enabled or self._spent > SHARE * (now - self._began):
            return False
        tables = _living(progress)
        self._looked = {name: at for name, at in self._looked.items() if name in tables}
        due = []
        for name, state in tables.items():
            looked, snapshot = self._looked.setdefault(name, (now, None))
            if now - looked >= self._keys.interval and snapshot != state.snapshot_id:
                due.append((looked, name))
        if not due:
            return False
        watcher.phase("upkeep", progress.batch)
        name = min(due)[1]
        self._note(self._looked_after(sink, name), tables[name], watcher)
        return True

    def finish(
        self, sink: Upkeep, progress: Progress, touched: Iterable[TableName], watcher: Watcher = UNWATCHED
    ) -> None:
        """Do the upkeep of the tables that a run wrote. A run to an end may be too short for any interval."""
        tables = _living(progress)
        due = [name for name in touched if name in tables] if self._keys.enabled else []
        for done in looks(self._job, lambda name: self._looked_after(sink, name), due):
            self._note(done, tables[done.table], watcher)

    def _looked_after(self, sink: Upkeep, name: TableName) -> Maintained:
        began = self._clock()
        try:
            result, why = sink.look_after(name, policy_of(self._keys), began), ""
        except SinkFault as fault:
            # Another writer may have been faster. An unreachable catalog ends the next batch, not the upkeep.
            result, why = UpkeepResult(), str(fault)
        return Maintained(table=name, seconds=self._clock() - began, result=result, fault=why)

    def _note(self, done: Maintained, state: TableState, watcher: Watcher) -> None:
        """Log the upkeep of a table, and remember it."""
        name, changes = done.table, done.result.done
        if done.fault:
            told = self._event(name, (), done.fault)
            log.warning("%s; retrying in %.0f seconds", done.fault, self._keys.interval, extra=told)
        elif changes:
            told = self._event(name, changes, "")
            log.info("upkeep of %s.%s: %s", *name, "; ".join(changes), extra=told)
        watcher.maintained(done)
        self._spent += done.seconds
        self._looked[name] = (self._clock(), state.snapshot_id)

    def _event(self, table: TableName, done: Sequence[str], why: str) -> dict[str, Any]:
        return event("upkeep", job=self._job.name, schema=table[0], table=table[1], done=done, reason=why)


def policy_of(keys: UpkeepKeys) -> UpkeepPolicy:
    """The policy of a job file."""
    return UpkeepPolicy(small_files=keys.small_files, keep_all=keys.keep_all, keep_hourly=keys.keep_hourly)


def _living(progress: Progress) -> dict[TableName, TableState]:
    """Tables in the lake, without those that are being read in full."""
    return {
        state.full_name: state
        for state in progress.tables
        if state.table is not None and not state.is_gone and state.load is None
    }
