"""Read the stamp of a table of the lake, and compare it with the progress.

The stamp is the truth: the same commit wrote the stamp and the rows. The progress is the promise. An interrupted batch
may have brought the table ahead of the progress. If the table is further ahead, or behind, it is of another time than
the state, and the job stops.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing

import msgspec

from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled, shown
from ticdc_spark.config.shards import is_merged
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import TableName
from ticdc_spark.mysql import tso_time
from ticdc_spark.replicate.plan.timeline import DDL_STEPS
from ticdc_spark.replicate.state.owner import beat_of, describe, lives
from ticdc_spark.replicate.state.store import read_state
from ticdc_spark.replicate.state.table import TableState, adopt, diverge, from_stamp, take_promise
from ticdc_spark.sinks.base import Sink, Stamp, TableFound
from ticdc_spark.sinks.capabilities import FilesGone
from ticdc_spark.sinks.mark import NO_MARK, Mark
from ticdc_spark.sinks.type_map import TypeMap
from ticdc_spark.spark.types import LakeColumn, LakeOptions

log = logging.getLogger(__name__)
OLD_VALUES = "_ticdc_old"
"""Column with the old values, while a type change converts them."""


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of a table, compared with its promise."""

    state: TableState | None
    """``None``: nothing is known about such a table."""
    stamp: Stamp | None
    """``None``: the table is not in the lake."""
    behind: str = ""
    """One sentence if the table is behind its promise; ``""``: it is not."""
    furthest: Mark | None = None
    """If the table was rolled back: the mark that it had before, to which its columns and ``state`` belong."""
    snapshot: int | None = None
    """The table's snapshot at that look."""
    columns: Mapping[str, str] = {}
    """The types of its columns at that look, by their names."""


def look_at(
    sink: Sink, job: Job, name: TableName, promise: TableState | None, *, resolves: bool = True, job_applied: int = 0
) -> Looked:
    """Read one table's stamp. ``resolves``: see ``modes.traits``. ``job_applied``: the commit_ts that all tables had
    applied; 0: not known.

    Raises: DecisionNeeded when the table is not this job's and ``adopt`` is not set; FilesGone, SinkFault
    """
    try:
        found = sink.find(name)
    except FilesGone as error:
        again = f". Or let the job drop and read it: {_rebuild_ways(job, name)}" if resolves else ""
        raise FilesGone(f"`{name[0]}`.`{name[1]}`: {error}{again}") from error
    if found is None:
        return Looked(state=promise, stamp=None)
    stamp = found.stamp
    if stamp is None or stamp.job != job.name:
        return _not_ours(sink, job, name, promise, found)
    held = TableState(schema=name[0], name=name[1]) if promise is None else promise
    if stamp.about:
        held = from_stamp(stamp.about)
        _stop_if_another(job, name, held)
    state = _merged(name, held, stamp, promise)
    if not resolves:
        state = msgspec.structs.replace(state, applied=0 if promise is None else promise.applied)
    if found.changed_by:
        why = f"another writer changed its rows ({found.changed_by}) after {stamp.mark[0]}"
        state = _diverged(state, stamp.mark[0], why)
    if promise is None and stamp.job_applied < job_applied:
        # An interrupted batch had created it, and the job has ignored it since, for example because of `tables`.
        why = f"the job went on without it after {stamp.mark[0]}: what changed meanwhile may be missing"
        state = _diverged(state, stamp.mark[0], why)
    is_ahead = promise is None or stamp.mark > promise.mark
    in_ddl = stamp.mark[1] >= DDL_STEPS and state.ddl_ts < stamp.mark[0]  # its columns do not yet match the stamp
    if is_ahead and resolves and not (in_ddl or state.has_diverged):
        # The interrupted batch that wrote it will skip what it did, so nothing else checks the columns.
        gone = columns_gone(sink.types, state, found.columns)
        state = diverge(state, stamp.mark[0], gone, columns=True) if gone else state
    behind = _behind(_where(name, stamp) if resolves else f"`{name[0]}`.`{name[1]}`", stamp, found, promise)
    return Looked(
        state=state, stamp=stamp, behind=behind, furthest=found.furthest, snapshot=found.snapshot, columns=found.columns
    )


def columns_gone(types: TypeMap, state: TableState, there: Collection[str]) -> str:
    """One sentence about columns that another writer dropped or renamed; ``""``: none. ``there``: the names of the
    table's columns. Raises: UsageError"""
    if state.table is None:
        return ""
    gone = missing_columns(types.columns(state.table, (), LakeOptions()), there)
    return why_gone(state, gone) if gone and OLD_VALUES not in there else ""


def missing_columns(columns: Iterable[LakeColumn], there: Iterable[str]) -> list[LakeColumn]:
    """The columns among ``columns`` that a table lacks. ``there``: the names of the table's columns."""
    have = {column.casefold() for column in there}
    return [column for column in columns if column.name.casefold() not in have]


def why_gone(state: TableState, gone: Sequence[LakeColumn]) -> str:
    """One sentence about columns that a table lacks."""
    columns = ", ".join(f"`{column.name}`" for column in gone)
    if state.origin == "adopted":
        return f"the table that the job took over (`adopt`) lacks columns of the source: {columns}"
    return f"another writer dropped or renamed columns in the target: {columns}"


def rebuild_line(job: Job, name: TableName) -> str:
    """The command that reads a table again."""
    return f"`ticdc-spark rebuild {job.file.name} {name[0]}.{name[1]}`"


def _rebuild_ways(job: Job, name: TableName) -> str:
    topics = "" if is_merged(name) else ", or from its topics with `--from topic`"
    return f"{rebuild_line(job, name)} reads it again from the source{topics}"


def way_back(job: Job, name: TableName, *, resolves: bool) -> str:
    """What to do about a table that is behind its promise, or gone."""
    if resolves:
        way = f"Or let the job read it: {_rebuild_ways(job, name)}"
    else:
        way = "Or drop all tables of the job and its state table: the job begins from scratch"
    return (
        f"Restore the table as the job left it. {way}. If you restored the target, restore all of it, with "
        "`_ticdc_spark`, from one backup"
    )


def vanished(job: Job, name: TableName, *, resolves: bool = True) -> str:
    """One sentence about a table that is gone, and what to do."""
    out = "the tables that it is made of" if is_merged(name) else "it"
    return (
        f"`{name[0]}`.`{name[1]}` was created by this job, but it is no longer in the target. "
        f"{way_back(job, name, resolves=resolves)}. Or exclude {out} with `tables` under [job]"
    )


OLDER_STATE = (
    "the state is an older copy. Restore the whole target from one backup, with `_ticdc_spark`; of a lake, "
    "the warehouse and the catalog"
)
"""What to do if the lake is newer than the state."""


def stop_if_ahead(job: Job, name: TableName, stamp: Stamp | None, promise: TableState | None, furthest: int) -> None:
    """Stop at a table that is ahead of every batch in the state. ``furthest``: of the batch under way, as in ``Batch``.

    Raises: DecisionNeeded
    """
    known = NO_MARK if promise is None else promise.mark
    if stamp is not None and stamp.job == job.name and stamp.mark > known and stamp.mark[0] > furthest:
        raise DecisionNeeded(
            f"`{name[0]}`.`{name[1]}` is at {stamp.mark[0]}, but the state of the job ends at {furthest}: {OLDER_STATE}"
        )


def _merged(name: TableName, held: TableState, stamp: Stamp, promise: TableState | None) -> TableState:
    """The state in the stamp, with what only the progress knows."""
    state = msgspec.structs.replace(
        held,
        schema=name[0],
        name=name[1],
        mark=stamp.mark,
        applied=stamp.mark[0],
        rows=0,
    )
    if promise is None:
        return state
    state = msgspec.structs.replace(
        state,
        topics=tuple(sorted({*state.topics, *promise.topics})),
        rows=promise.rows,
        snapshot_id=promise.snapshot_id,
    )
    state = take_promise(state, promise, same_mark=NO_MARK != promise.mark == stamp.mark)
    if promise.mark == NO_MARK or promise.mark > stamp.mark:
        return state
    # A table without recent changes was promised to be further than its last commit.
    return msgspec.structs.replace(state, applied=max(stamp.mark[0], promise.applied))


def _diverged(state: TableState, at: int, why: str) -> TableState:
    log.warning("`%s`.`%s`: %s", state.schema, state.name, why)
    return diverge(state, at, why)


def _where(name: TableName, stamp: Stamp) -> str:
    return f"`{name[0]}`.`{name[1]}` is at {stamp.mark[0]} ({tso_time.utc(stamp.mark[0])})"


def _behind(where: str, stamp: Stamp, found: TableFound, promise: TableState | None) -> str:
    if found.rolled_back:
        return f"{where}: it was set back to an older snapshot"
    if promise is not None and promise.mark > stamp.mark and not promise.is_gone:
        return (
            f"{where}, behind {promise.mark[0]}, where the job left it: it was restored, or replaced by an older copy"
        )
    return ""


def _stop_if_another(job: Job, name: TableName, held: TableState) -> None:
    """Stop if the rules of ``[[route]]`` lead to another table of the job. Raises: DecisionNeeded"""
    source = held.full_name
    same = source[0].casefold() == name[0].casefold() and source[1].casefold() == name[1].casefold()
    if job.routes and not same and held.was[-1:] != (source,):  # otherwise a RENAME of it is under way
        target = shown(compiled(job.routes).target(name))
        raise DecisionNeeded(
            f"{shown(name)} would be {target} in the target, but the job has {shown(source)} there. Drop or rename "
            f"{target} there if {shown(source)} is gone at the source, or give {shown(name)} another name by a rule of "
            "[[route]]"
        )


def _not_ours(sink: Sink, job: Job, name: TableName, promise: TableState | None, found: TableFound) -> Looked:
    stamp = found.stamp
    was_ours = promise is not None and promise.table is not None and not promise.is_gone
    if was_ours and stamp is None:
        message = (
            f"`{name[0]}`.`{name[1]}` is a table of this job, but the job's metadata in it is gone: the table was "
            "replaced, or its history was removed. Restore it; or drop it, and read it again with "
            f"{rebuild_line(job, name)}"
        )
        raise DecisionNeeded(message)
    owner = "no job" if stamp is None else f"job {stamp.job!r}"
    if job.adopt:
        _refuse_living(sink, name, stamp)
        adopted = promise or TableState(schema=name[0], name=name[1])
        adopted = msgspec.structs.replace(adopt(adopted, "adopted"), mark=(0, 0))
        return Looked(state=adopted, stamp=Stamp(job.name, (0, 0), 0), snapshot=found.snapshot, columns=found.columns)
    message = (
        f"the target has a table {sink.sql_name(name)} already, written by {owner}; rename or drop it, "
        "or set `adopt = true` under [job] to take it over"
    )
    raise DecisionNeeded(message)


def _refuse_living(sink: Sink, name: TableName, stamp: Stamp | None) -> None:
    """Stop if another running job writes to the table: two jobs would undo each other's rows.

    Raises: DecisionNeeded, SinkFault
    """
    if stamp is None:
        return
    with closing(sink.state(stamp.job)) as states:
        held = read_state(states).held
        beat = None if held is None else beat_of(states, held)
    if held is not None and lives(held, beat):
        owner = describe(held, beat)
        message = (
            f"`{name[0]}`.`{name[1]}` is written by another job that is running: {owner}. Stop that job before `adopt` "
            "takes over its table, or exclude the table from one of them with `tables` under [job]"
        )
        raise DecisionNeeded(message)
