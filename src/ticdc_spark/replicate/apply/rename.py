"""RENAME TABLE in the lake: stamp, rename, stamp.

The first stamp says that a RENAME has begun, so that a restart does not take the renamed table for an older table of
its new name. A table records its former names, by which a restart recognises a RENAME that was done.
"""

import logging

import msgspec

from ticdc_spark import failpoints
from ticdc_spark.config.job import Job
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import TableName
from ticdc_spark.names import aside, shortened
from ticdc_spark.replicate.apply.batch import TimelineWork
from ticdc_spark.replicate.apply.newer_rows import diverge_behind, has_newer_rows
from ticdc_spark.replicate.plan.parked import is_parked
from ticdc_spark.replicate.state.table import TableState, come_back, diverge, drop, from_stamp
from ticdc_spark.sinks.mark import NO_MARK, Mark

log = logging.getLogger(__name__)
_LONGEST = 29
"""Longest part of the table's own name, in bytes, where the whole would not fit."""


def rename(work: TimelineWork, old: TableName, new: TableName, mark: Mark, ts: int) -> None:
    """Give a table its new name. ``mark``: of the first stamp. The second stamp is at the next step.

    Raises: DecisionNeeded when the new name is taken; SinkFault
    """
    at, step = mark
    before, taken = work.state(old), work.state(new)
    if not work.batch.resolves and before is not None and before.ddl_ts > ts:
        # A later table has the old name: its DDL was read first, or this RENAME was done before.
        if work.mark(new) < mark:
            log.warning("`%s`.`%s` is now another table; the table that was renamed at %d is not here", *old, ts)
        return
    if work.mark(new) >= mark and taken is not None and (old in taken.was or _is_later(taken, at)):
        _forget_copy(work, old, mark)
    elif NO_MARK < work.mark(old) <= mark:  # with a higher mark, a later table has the old name
        _move(work, old, new, mark, ts)
    elif taken is not None and taken.is_kept and NO_MARK < work.mark(new) < mark:
        # The lake does not have the renamed table, and the kept table of its new name is another one.
        set_aside(work, new)
        work.put(msgspec.structs.replace(drop(new, ts, taken.topics), ddl_ts=0))
    state = work.state(new)
    if state is not None and work.mark(new) == mark and state.was[-1:] == (old,):
        named = msgspec.structs.replace(state, schema=new[0], name=new[1], was=_names(state, old), ddl_ts=ts)
        named = msgspec.structs.replace(named, applied=max(ts, named.applied))
        work.commit(named, (at, step + 1), at, lambda stamp: work.batch.sink.stamp(new, stamp))
        failpoints.point("stamp")
    elif state is not None and NO_MARK < work.mark(new) < mark:
        # The lake's table of this name had it before, and the DDL that took the name from it did not come.
        why = f"RENAME TABLE at {ts} gave this name to another table, which was `{old[0]}`.`{old[1]}` and is not here"
        log.warning("`%s`.`%s`: %s", *new, why)
        work.put(diverge(state, ts, why, columns=True))
    elif work.mark(new) == NO_MARK and before is not None and before.table is not None and not before.is_gone:
        # A later DDL dropped it before a restart.
        work.put(msgspec.structs.replace(before, schema=new[0], name=new[1], applied=ts, was=_names(before, old)))
    elif work.mark(new) == NO_MARK and before is not None and before.has_diverged and not before.is_gone:
        # The lake does not have it, and it is known to lack changes.
        work.put(msgspec.structs.replace(before, schema=new[0], name=new[1]))
    # If a later DDL took the name away, that one is remembered.
    if work.mark(old) == NO_MARK and (before is None or not before.is_gone or before.ddl_ts < ts):
        gone = drop(old, ts, () if before is None else before.topics)
        work.put(diverge_behind(gone, ts) if before is not None and has_newer_rows(work, before, ts) else gone)


def is_begun(work: TimelineWork, old: TableName, new: TableName, mark: Mark) -> bool:
    """Whether the lake already has a commit of a RENAME: its first stamp, or the table under its new name.

    Raises: SinkFault
    """
    if old == new:
        return False
    for name in (old, new):
        found = work.batch.sink.find(name)
        stamp = None if found is None else found.stamp
        if stamp is None or stamp.job != work.batch.job.name or not stamp.about:
            continue
        was = from_stamp(stamp.about).was
        if (stamp.mark >= mark and old in was) if name == new else (stamp.mark == mark and was[-1:] == (old,)):
            return True
    return False


def _move(work: TimelineWork, old: TableName, new: TableName, mark: Mark, ts: int) -> None:
    state = work.state(old)
    assert state is not None, "a table of the lake has a state"
    there = work.state(new)
    if work.mark(new) != NO_MARK and there is not None and there.is_kept:
        set_aside(work, new)
    if work.mark(new) != NO_MARK and there is not None and there.settles >= ts:
        # A full read found it under this name, because the source had already renamed it.
        log.info("dropping `%s`.`%s`, which was read ahead of its RENAME: `%s`.`%s` takes its place", *new, *old)
        work.batch.sink.drop(new)
        failpoints.point("aside")
        work.gone(new)
    was_late = there is not None and there.table is not None and not there.is_gone and has_newer_rows(work, there, ts)
    if work.mark(new) != NO_MARK and not was_late:
        raise DecisionNeeded(f"RENAME of `{old[0]}`.`{old[1]}` at {ts}: {_is_taken(work.batch.job, new, there)}")
    state = come_back(state) if is_parked(old) else state
    meant = msgspec.structs.replace(state, was=_names(state, old))
    if was_late:
        # Rows from behind the RENAME, in another topic, made a table of the new name. They go with it.
        meant = diverge_behind(meant, ts)
    if there is not None and there.table is None and there.diverged_since is not None:
        # Messages of its new name were skipped before it had that name here.
        meant = diverge(meant, there.diverged_since, there.diverged_why)
    if given_up := passed_by(there, ts):
        log.warning("`%s`.`%s`: %s", *new, given_up)
        meant = diverge(meant, ts, given_up)
    if work.mark(old) < mark:
        work.commit(meant, mark, mark[0], lambda stamp: work.batch.sink.stamp(old, stamp))
        failpoints.point("intent")
    if work.mark(new) != NO_MARK:
        log.warning("dropping `%s`.`%s`: `%s`.`%s` was renamed to it before its rows", *new, *old)
        work.batch.sink.drop(new)
        failpoints.point("aside")
        work.gone(new)
    work.batch.sink.rename(old, new)
    failpoints.point("ddl")
    stamp = work.stamp_of(old)
    work.gone(old)
    work.stamps[new] = stamp
    work.known[new] = msgspec.structs.replace(meant, schema=new[0], name=new[1], mark=mark)


def _is_taken(job: Job, new: TableName, there: TableState | None) -> str:
    """Why a table cannot get its new name, and what to do."""
    name = f"`{new[0]}`.`{new[1]}`"
    if there is None or there.table is None or there.is_gone:
        return f"the target already has a table {name}; rename or drop that one"
    return (
        f"{name} is a table of this job, and the job has not read the DDL that dropped or renamed it at the source. If "
        f"`topics` under [source] in {job.file.name} excludes its topic, name it there. If the DDL never comes, "
        "rename the table in the target yourself"
    )


def passed_by(state: TableState | None, ts: int) -> str:
    """Why a table that takes a name at ``ts`` is not the source's: a later DDL, applied before, gave up the name.

    Returns: ``""`` when there is no such DDL.
    """
    if state is None or not state.is_gone or state.ddl_ts <= ts:
        return ""
    return (
        f"it took this name at {ts}, which was read after the DDL at {state.ddl_ts} that gave up the name: the source "
        "has no such table by now, or another one"
    )


def set_aside(work: TimelineWork, name: TableName) -> None:
    """Rename a table that was dropped and kept, to make room for a new one."""
    mark = work.mark(name)
    suffix, place = "", _aside(work, name, mark)
    while (there := work.batch.sink.find(place)) is not None:
        if there.stamp is not None and there.stamp.job == work.batch.job.name and there.stamp.mark[0] == mark[0]:
            # It was set aside before a restart; this table was created again from the topics.
            work.batch.sink.drop(name)
            work.gone(name)
            return
        suffix += "_again"
        place = _aside(work, name, mark, suffix)
    log.warning("renaming `%s`.`%s`, which was dropped and kept, to `%s`", *name, place[1])
    work.batch.sink.rename(name, place)
    failpoints.point("aside")
    work.gone(name)


def was_set_aside(work: TimelineWork, name: TableName, mark: Mark) -> bool:
    """Whether a table was renamed before a restart to make room. ``mark``: of the DDL by which it was kept."""
    return work.mark(name) == NO_MARK and work.batch.sink.find(_aside(work, name, mark)) is not None


def _aside(work: TimelineWork, name: TableName, mark: Mark, suffix: str = "") -> TableName:
    """The name of a table that is set aside. ``suffix``: if another one has that name."""
    whole = f"{aside(name[1], mark[0])}{suffix}"
    fits = work.batch.sink.names.fits(whole)
    return name[0], whole if fits else f"{aside(shortened(name[1], _LONGEST), mark[0])}{suffix}"


def _is_later(taken: TableState, at: int) -> bool:
    """Whether a table that is past ``at`` took its name after it, so that the former table of the name is gone."""
    return bool(taken.was) or taken.emptied > at


def _forget_copy(work: TimelineWork, old: TableName, mark: Mark) -> None:
    """Drop the table of the old name, which was built again from the topics after an interruption. The real table
    already has its new name, or is gone."""
    if NO_MARK < work.mark(old) < mark:
        work.batch.sink.drop(old)
        work.gone(old)


def _names(state: TableState, old: TableName) -> tuple[TableName, ...]:
    return state.was if state.was[-1:] == (old,) else (*state.was, old)
