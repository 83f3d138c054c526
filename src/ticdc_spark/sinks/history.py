"""The history of a table: its stamps, and what other writers did between them.

A stamp is stored in the table's properties, with the number of the snapshot that was current then, and also in the
summaries of snapshots. Properties survive compaction and expiry by other tools. No rollback undoes them, which
is how a rollback is detected: their snapshot is no longer in the table's history.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from ticdc_spark.sinks.base import Stamp, TableFound

UPKEEP = frozenset({"replace"})
"""Operations that change files and no rows."""
EXPIRED = "snapshots that were expired"
"""Replaces operations that are no longer known."""
_NOWHERE: tuple[tuple[int, int], int] = ((0, 0), 0)


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of a table: a snapshot."""

    id: int
    parent: int | None
    sequence: int
    """Increases with every commit; 0 if the table's format has no such number."""
    operation: str
    """append, overwrite or delete; replace if no row changed."""
    stamp: Stamp | None
    """The stamp in the snapshot's summary; its ``about`` is empty if the same commit wrote the properties. ``None``:
    not a job's commit."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A stamp in the properties of a table."""

    stamp: Stamp
    snapshot: int | None
    """The snapshot that was current when the stamp was written."""
    sequence: int
    """The sequence number of ``snapshot``."""
    changed_by: frozenset[str] = frozenset()
    """What other writers did between the job's read of the table and this commit; no read has reported it yet."""


Lookup: TypeAlias = Callable[[int], Commit | None]
"""A commit by its id; ``None``: it was expired, so nothing is known of it."""


def judge(note: Note | None, current: int | None, lookup: Lookup) -> TableFound:
    """Find a table's newest stamp, and what other writers did since.

    ``current``: the table's current snapshot; ``None``: it has none.
    """
    if note is None:
        return _unnoted(current, lookup)
    commits, reached, lost = _walk(current, lookup, note.snapshot)
    ours = [at for at, commit in enumerate(commits) if commit.stamp is not None]
    newest = commits[0] if commits else None
    if reached or (newest is not None and lost and not ours and newest.sequence > note.sequence):
        carried = commits[ours[0]].stamp if ours else None
        stamp = note.stamp if carried is None else _whole(carried, note)
        others = _others(commits) | note.changed_by | ({EXPIRED} if lost else set())
        return TableFound(stamp=stamp, changed_by=_text(others), snapshot=current)
    if ours:
        # The properties' snapshot is not among its ancestors: the table was rolled back, and perhaps written since.
        at = commits[ours[0]]
        assert at.stamp is not None, "that is why it was chosen"
        stamp = msgspec.structs.replace(at.stamp, about=note.stamp.about)  # no rollback undoes a schema
        others = _others(commits[: ours[0]]) | note.changed_by
        if at.sequence > note.sequence:
            others |= {EXPIRED} if lost else set()
            return TableFound(stamp=_whole(at.stamp, note), changed_by=_text(others), snapshot=current)
        if stamp.job == note.stamp.job:
            return _set_back(stamp, note, others, current)
    since = [commit for commit in commits if commit.sequence > note.sequence]
    others = _others(since) | note.changed_by
    zero = Stamp(note.stamp.job, *_NOWHERE, note.stamp.about)
    return _set_back(zero, note, others, current)


def _set_back(stamp: Stamp, note: Note, others: set[str] | frozenset[str], current: int | None) -> TableFound:
    furthest, changed_by = note.stamp.mark, _text(others)
    return TableFound(stamp=stamp, rolled_back=True, furthest=furthest, changed_by=changed_by, snapshot=current)


def unseen_changes(note: Note | None, current: int | None, seen: int | None, lookup: Lookup) -> frozenset[str]:
    """What other writers did that the job has not seen yet, since its own last commit or since its read.

    ``seen``: the snapshot at which the job read the table; ``note``: the properties before the commit.
    """
    if note is None and seen is None:
        return frozenset()
    others: set[str] = set()
    at = current
    while at is not None and at != seen:
        if note is not None and at == note.snapshot:
            return frozenset(others) | note.changed_by
        commit = lookup(at)
        if commit is None:
            others.add(EXPIRED)
            break
        if commit.stamp is None and commit.operation not in UPKEEP:
            others.add(commit.operation)
        at = commit.parent
    return frozenset(others)


def _unnoted(current: int | None, lookup: Lookup) -> TableFound:
    """Find a stamp in the summaries of a table whose properties have none."""
    passed: list[Commit] = []
    at = current
    while at is not None and (commit := lookup(at)) is not None:
        if commit.stamp is not None:
            return TableFound(stamp=commit.stamp, changed_by=_text(_others(passed)), snapshot=current)
        passed.append(commit)
        at = commit.parent
    return TableFound(stamp=None, snapshot=current)


def _walk(current: int | None, lookup: Lookup, until: int | None) -> tuple[list[Commit], bool, bool]:
    """Walk from the current commit back to ``until``, which is not included.

    Returns the commits, whether ``until`` was reached, and whether an expired commit ended the walk.
    """
    found: list[Commit] = []
    at = current
    while at is not None:
        if at == until:
            return found, True, False
        commit = lookup(at)
        if commit is None:
            return found, False, True
        found.append(commit)
        at = commit.parent
    return found, False, False


def _whole(carried: Stamp, note: Note) -> Stamp:
    return carried if carried.about else msgspec.structs.replace(carried, about=note.stamp.about)


def _others(commits: list[Commit]) -> set[str]:
    return {commit.operation for commit in commits if commit.stamp is None and commit.operation not in UPKEEP}


def _text(operations: set[str] | frozenset[str]) -> str:
    return ", ".join(sorted(operations))
