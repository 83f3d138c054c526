"""Keep rows that cannot be read, with the reason, then handle them by ``on-reject``."""

import logging
from collections.abc import Callable, Iterable, Sequence

from ticdc_spark.changes.typed import Counts, TypedChanges
from ticdc_spark.config.job import Job
from ticdc_spark.config.values import MessagePlace, skip_messages_line
from ticdc_spark.errors import EnvironmentFault, RejectedMessage
from ticdc_spark.model import TableName
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.state.table import TableState, diverge, lose_rows, quarantine
from ticdc_spark.spark.decode.control import Reject
from ticdc_spark.spark.decode.odd_columns import odd_columns
from ticdc_spark.spark.decode.rows import BadRow
from ticdc_spark.spark.tasks import UnreadableRows
from ticdc_spark.topics.storage.layout import place_of

log = logging.getLogger(__name__)
MOST_NAMED = 20
"""Most unreadable rows that the suggested ``skip-messages`` line names."""
LOGGED = 5
"""Most unreadable messages or rows, of a batch or of a table in it, that get their own log line."""


class TimelineStopped(Exception):
    """A timeline stops here: by ``on-reject = "quarantine"``, or at a table of another key. Other tables continue."""

    def __init__(self, reason: str, since: int) -> None:
        """``since``: the lowest commit_ts of a row that cannot be read, or the commit_ts of a DDL."""
        super().__init__(reason)
        self.since = since


class HiddenColumns(Exception):
    """Rows have hidden columns of TiDB that their table lacks. Nothing was applied."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(", ".join(names))
        self.names = names


def apply_readable(
    work: TimelineWork,
    state: TableState,
    changes: TypedChanges,
    since: int,
    apply: Callable[[TableState, bool], Counts],
) -> Counts:
    """Apply changes of a table. If some cannot be read, keep them as dead letters and follow ``on-reject``.

    ``since``: their lowest commit_ts. ``apply(state, leave_out)`` commits them, without unreadable ones if
    ``leave_out``.
    Returns: what was read. The table is marked as diverged if rows were skipped, or lack columns.
    Raises: RejectedMessage, TimelineStopped, HiddenColumns, EnvironmentFault when there are more than ``max-rejects``
    """
    name = state.full_name
    try:
        applied = apply(state, False)
    except UnreadableRows as unreadable:
        odd = odd_columns(str(unreadable))
        if odd is not None and odd.hidden:
            raise HiddenColumns(odd.hidden) from unreadable
        if odd is not None:
            why = lacks(odd.lacking)
            log.warning("`%s`.`%s`: %s", *name, why)
            return apply_readable(work, diverge(state, since, why), changes, since, apply)
        bad = _bad_rows(work, changes)
        if not bad:
            raise EnvironmentFault(f"rows of {name} could not be read, and then could: {unreadable}") from unreadable
        job = work.batch.job
        skipped = {(place.topic, place.partition, place.offset) for place in job.skip_messages}
        others = [row for row in bad if (row.topic, row.partition, row.offset) not in skipped]
        reason = _keep(work, name, bad)
        policy = job.on_reject if others else "continue"
        if policy == "stop":
            kept = work.batch.letters.where
            message = (
                f"{reason}; kept in {kept}. Nothing of this table was applied past it. "
                f"{ways_out(job, ((row.topic, row.partition, row.offset) for row in others))}"
            )
            raise RejectedMessage(message) from unreadable
        log_rejects([reason_of(name, row) for row in sorted(bad, key=lambda row: row.commit_ts)])
        first = min(row.commit_ts for row in bad)
        if policy == "quarantine":
            work.put(quarantine(state, reason))
            raise TimelineStopped(reason, first) from unreadable
        state = lose_rows(state, first, reason)
        applied = apply(state, True)
    work.zero_dates += applied.zero_dates
    return applied


def lacks(columns: Sequence[str]) -> str:
    """One sentence about columns that rows lack."""
    named = ", ".join(f"`{column}`" for column in columns)
    return (
        f"rows came without columns of the table, which hold no value of the source in them: {named}. Either the "
        "changefeed leaves them out (column-selectors), or no message told of a DDL that dropped them (an event "
        "filter), or they are generated columns and no message said so"
    )


def log_rejects(reasons: Sequence[str]) -> None:
    """Log the first few reasons, and how many more there are."""
    for reason in reasons[:LOGGED]:
        log.error("rejected: %s", reason)
    if len(reasons) > LOGGED:
        log.error("and %d more of this batch cannot be read", len(reasons) - LOGGED)


def ways_out(job: Job, places: Iterable[tuple[str, int, int]]) -> str:
    """The user's options for unreadable messages at these places, for an error that stops the job."""
    every = sorted({MessagePlace(*place) for place in places})
    line = skip_messages_line([*job.skip_messages, *every[:MOST_NAMED]])
    rest = f" (and {len(every) - MOST_NAMED} more)" if len(every) > MOST_NAMED else ""
    these = "this one" if len(every) == 1 else "these"
    return (
        f"`ticdc-spark dead-letters {job.file.name}` shows what is kept. Correct the source, or set on-reject under "
        "[job] to quarantine or continue. A table that lacks skipped messages is marked as diverged.\n"
        f"  To skip exactly {these}, under [job]: {line}{rest}\n"
        f"  `ticdc-spark skip {job.file.name} {every[0]}{' …' if len(every) > 1 else ''}` writes that line"
    )


def _bad_rows(work: TimelineWork, changes: TypedChanges) -> list[BadRow]:
    limit = work.batch.job.max_rejects + 1
    bad = changes.unreadable(limit)
    odd = [found for row in bad if (found := odd_columns(row.reason)) is not None]
    if odd:  # The task that found another unreadable row stopped first.
        raise HiddenColumns(tuple(sorted({name for found in odd for name in found.hidden})))
    if len(bad) >= limit:
        message = f"more than {limit - 1} rows of one batch cannot be read, such as: {bad[0].reason}"
        raise EnvironmentFault(message)
    return bad


def _keep(work: TimelineWork, name: TableName, bad: list[BadRow]) -> str:
    """Write rows to the dead letters. Returns: a sentence about the first of them"""
    batch = work.batch
    rejects = [
        Reject(topic=row.topic, partition=row.partition, offset=row.offset, seq=row.seq, reason=row.reason)
        for row in bad
    ]
    keys = batch.letters.keep(batch.batch, ".".join(name), rejects, batch.now)
    work.rejected += len(bad)
    first = min(bad, key=lambda row: row.commit_ts)
    return reason_of(name, first, place_of(keys.get((first.topic, first.partition, first.offset))))


def reason_of(name: TableName, row: BadRow, file: str = "") -> str:
    """A sentence about a row that cannot be read. ``file``: the file that has the row, if any."""
    return (
        f"`{name[0]}`.`{name[1]}`: a row cannot be read: {row.reason} {f'({file}) ' if file else ''}"
        f"(topic {row.topic}, partition {row.partition}, offset {row.offset}, commitTs {row.commit_ts})"
    )
