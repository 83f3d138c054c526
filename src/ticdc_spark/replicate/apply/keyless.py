"""Tables without a key, where updates and deletes cannot find their rows. By ``no-key``, the job counts equal rows,
skips rows, or stops.

Without a key, a row that is sent twice looks like two rows. So only its place shows that it was sent again
(``changes.tries``). Late rows cannot be checked that way, so they mark the table.
"""

import logging
from collections.abc import Sequence

import msgspec

from ticdc_spark.changes.ranges import RowRange
from ticdc_spark.changes.tries import Tries, find_tries
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Table, TableName
from ticdc_spark.mysql import handle_key, no_key
from ticdc_spark.replicate.apply.batch import Batch, TimelineWork
from ticdc_spark.replicate.plan.pending import range_of
from ticdc_spark.replicate.state.progress import PendingRows
from ticdc_spark.replicate.state.table import LEFT_OUT, TableState, diverge, is_without_rows, lose_rows

log = logging.getLogger(__name__)
_HIGHEST = 2**63 - 1
_NAMED = 20
"""Most tables that one error names."""


def leave_out_rows(work: TimelineWork, state: TableState, since: int) -> TableState:
    """Skip rows of a table without a key from a commit_ts on, and mark the table.

    Raises: DecisionNeeded unless ``no-key = "skip"``; with ``"stop"``, it names every such table
    """
    match work.batch.job.no_key:
        case "stop":
            raise _stop(work, state.full_name)
        case "apply":
            raise DecisionNeeded(
                f"`{state.schema}`.`{state.name}` has no key, so its rows cannot be counted without watermarks (mode "
                '"arrival"): a row that is sent twice would count twice. Exclude the table with `tables` under '
                '[job], or set no-key = "skip" there'
            )
    if not state.has_diverged:
        log.warning("`%s`.`%s`: %s", state.schema, state.name, LEFT_OUT)
    return diverge(state, since, LEFT_OUT)


def is_counted(work: TimelineWork, state: TableState) -> bool:
    """Whether a table has no key and its rows are counted. Raises: NotSupported"""
    if work.batch.job.no_key != "apply" or state.table is None or handle_key(state.table):
        return False
    work.batch.sink.capabilities.need("counts", f"`{state.schema}`.`{state.name}` has no key")
    return True


def counted_again(state: TableState) -> TableState:
    """The state of a table whose rows are counted now. It lacks rows that ``no-key = "skip"`` skipped before."""
    if state.diverged_since is None or not is_without_rows(state):
        return state
    return lose_rows(state, state.diverged_since, 'rows were left out before no-key = "apply", and it lacks them')


def leave_out_late(state: TableState, late: Sequence[PendingRows]) -> TableState:
    """Skip late rows of a table without a key, and mark the table: it may have these rows already."""
    since = min(rows.min_ts for rows in late)
    why = (
        f"{sum(rows.rows for rows in late)} late rows, the first at {since}, are left out: the table has no key, so it "
        "cannot be known whether it has them"
    )
    log.warning("`%s`.`%s`: %s", state.schema, state.name, why)
    return diverge(state, since, why)


def tries_of(batch: Batch, name: TableName, waiting: Sequence[PendingRows]) -> Tries:
    """The tries in which waiting rows of a table were sent. All rows of the table between the first and the last
    waiting one count, including rows that are applied already, or will be later. Raises: SinkFault, SourceFault"""
    ends: dict[tuple[str, int, TableName | None], tuple[int, int]] = {}
    for one in map(range_of, waiting):
        first, end = ends.get(at := (one.topic, one.partition, one.sent), (one.first, one.end))
        ends[at] = (min(first, one.first), max(end, one.end))
    scan = batch.waiting(name, waiting, -1, _HIGHEST)
    ranges = tuple(RowRange(topic, partition, *ends[topic, partition, sent], sent) for topic, partition, sent in ends)
    scan = msgspec.structs.replace(scan, ranges=ranges, watermarks=True)
    return find_tries(batch.rows.raw(scan), batch.protocol)


def doubt(state: TableState, tries: Tries, above: int, upto: int) -> TableState:
    """Mark a table if a transaction in (above, upto] may have been sent once or twice."""
    doubted = [ts for ts in tries.doubted if above < ts <= upto]
    if not doubted:
        return state
    why = (
        f"{len(doubted)} transactions, the first at {doubted[0]}, have equal rows behind each other or in several "
        "partitions, and the table has no key: it cannot be known whether they were sent again. Each row counts once"
    )
    if not state.has_diverged:
        log.warning("`%s`.`%s`: %s", state.schema, state.name, why)
    return diverge(state, doubted[0], why)


def _stop(work: TimelineWork, first: TableName) -> DecisionNeeded:
    is_included = table_filter(work.batch.job.tables)
    tables: dict[TableName, Table] = {(schema, name): one for (schema, name, _), one in work.batch.schemas.items()}
    for name, state in work.promised.items():
        if state.is_gone:
            tables.pop(name, None)
        elif state.table is not None:
            tables[name] = state.table
    others = sorted(
        name for name, one in tables.items() if is_included(*name) and not handle_key(one) and name != first
    )
    names = [f"`{schema}`.`{name}`" for schema, name in (first, *others)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return no_key(", ".join(names[:_NAMED]) + more, "[job]")
