"""Log events of a running job, for programs: one for each batch, and one for each table whose condition changes."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ticdc_spark.cli.output.events import lag_seconds
from ticdc_spark.cli.output.logging import is_json
from ticdc_spark.cli.output.progress import LogLines, line, shown
from ticdc_spark.log_events import event
from ticdc_spark.model import TableName
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.watch import Watcher
from ticdc_spark.replicate.state.table import ConditionName, condition_of

log = logging.getLogger(__name__)


@contextmanager
def watched(job: str) -> Iterator[Watcher]:
    """Show a run while this lasts: in the terminal, as log lines, or as events."""
    if is_json():
        yield RunEvents(job).watcher
        return
    with shown(job) as show:
        yield Watcher(committed=show)


class RunEvents:
    """Reports a run of a job as log events."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._lines = LogLines(self._batch)
        self._conditions: dict[TableName, ConditionName] = {}

    @property
    def watcher(self) -> Watcher:
        """The callbacks for the run."""
        return Watcher(committed=self._committed)

    def _committed(self, report: BatchReport) -> None:
        self._lines(report)
        for table in report.progress.tables:
            name, now = table.full_name, condition_of(table)
            before = self._conditions.get(name)
            if before == now:
                continue
            self._conditions[name] = now
            why = table.quarantined or table.diverged_why
            log.log(
                logging.WARNING if why else logging.INFO,
                "`%s`.`%s` is %s%s",
                *name,
                now,
                f": {why}" if why else "",
                extra=event(
                    "table", job=self._job, schema=name[0], table=name[1], condition=now, before=before, reason=why
                ),
            )

    def _batch(self, report: BatchReport) -> None:
        progress = report.progress
        fields = {
            "batch": progress.batch,
            "messages": report.messages,
            "changes": report.changes,
            "seconds": round(report.seconds, 3),
            "phases": {name: round(spent, 3) for name, spent in report.phases.items()},
            "resolved_ts": progress.applied,
            "lag_seconds": lag_seconds(progress.applied),
            "messages_left": report.left,
            "changes_waiting": sum(rows.waiting for rows in progress.pending),
            "held_back_by": progress.hold.what or None,
        }
        log.info("%s", line(report, time.time()), extra=event("batch", job=self._job, **fields))
