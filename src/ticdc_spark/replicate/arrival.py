"""Arrival mode: what wins, and when a DDL is due, where no watermark says what has been sent. Pure.

For Avro, and for Debezium and canal-json without the TiDB extension. Each batch is applied at its end, so an older
change may come after a newer one: late, from another partition, or again after a restart of TiCDC.

Rows. A key holds, beside its image or its tombstone, the highest commit_ts that it has had and what came with it:
``Held``. A change with a commit_ts wins if it is newer: of one commit_ts, a row beats a delete, and an equal change is
a replay, whose image may be of an older schema. A change without commit_ts (0: Avro's deletes, Avro without
extension) follows the order of offsets: it wins over what lies before it, and what comes with the same commit_ts or a
newer one behind it wins over it. Where commit_ts is a millisecond only (canal-json), of one commit_ts the later
offset wins. So one key's changes have to stay in one partition wherever commit_ts does not tell all.

``net`` reduces the changes of one key, in order of offset, to what a merge needs of them; ``join`` puts two such
halves together, ``settle`` lays them over what the key holds: ``settle(held, net(changes))`` is ``settle`` of one
change after the other.

DDLs. A DDL waits until its copy was read from every partition of its topic. Rows that follow it wait with it: those
with a greater commit_ts; without one, those behind its copy in their own partition, and whatever is behind such a row
of the same table there. A row at or below the commit_ts of a DDL of its table is a replay, for the DDL waited for the
rows before it: ``is_replay``. But where deletes hide their commit_ts, a replayed delete takes effect and the insert
behind it has to, too: there only CREATE, TRUNCATE, DROP and a RENAME's old name set the floor, for there tombstones go.

Between topics nothing tells the order of DDLs: RENAME and DROP DATABASE, which bind tables of several, need one topic.

What does not hold here: that all tables equal the source at one commit_ts (I4); within a replay without commit_ts,
tables go back for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

DdlId: TypeAlias = tuple[str, str, str]
"""SQL, schema and table that a DDL message names: with its commit_ts, what makes two copies one."""


class Arrived(msgspec.Struct, frozen=True, gc=False):
    """One change of one key."""

    commit_ts: int
    """0: hidden."""
    deleted: bool
    at: int
    """Which change of the batch it is."""


class Held(msgspec.Struct, frozen=True, order=True, gc=False):
    """What a key holds; ordered by what wins."""

    commit_ts: int = 0
    """The highest that the key has had."""
    rank: int = 0
    """What came with it: 2 a row, 1 a delete; 0 where something without it came later, or the offset decides."""


class Net(msgspec.Struct, frozen=True, gc=False):
    """The changes of one key in a batch, reduced."""

    before: int = 0
    """The highest commit_ts before ``hidden``."""
    hidden: Arrived | None = None
    """The last change without commit_ts. It wins over whatever was held."""
    newest: Arrived | None = None
    """The winner of those with commit_ts after it. It wins if it beats what is held then."""


def held_after(change: Arrived, *, exact: bool) -> Held:
    """What a key holds after a change with a commit_ts that won. ``exact``: it is no millisecond."""
    return Held(change.commit_ts, (1 if change.deleted else 2) if exact else 0)


def wins(held: Held, change: Arrived, *, exact: bool) -> bool:
    """Whether a change with a commit_ts takes the place of what is held."""
    new = held_after(change, exact=exact)
    return new > held or (new == held and not exact)


def net(changes: Iterable[Arrived], *, exact: bool) -> Net:
    """Reduce the changes of one key, in order of offset."""
    reduced = Net()
    for change in changes:
        reduced = join(reduced, Net(newest=change) if change.commit_ts else Net(hidden=change), exact=exact)
    return reduced


def join(first: Net, second: Net, *, exact: bool) -> Net:
    """The reduction of changes of which ``first`` has the earlier offsets. Associative."""
    if second.hidden is not None:
        passed = 0 if first.newest is None else first.newest.commit_ts
        return Net(max(first.before, passed, second.before), second.hidden, second.newest)
    if first.newest is None or second.newest is None:
        return Net(first.before, first.hidden, first.newest or second.newest)
    later = wins(held_after(first.newest, exact=exact), second.newest, exact=exact)
    return Net(first.before, first.hidden, second.newest if later else first.newest)


def settle(held: Held, reduced: Net, *, exact: bool) -> tuple[Held, Arrived | None]:
    """Lay a batch over what a key held before: what it holds then, and the change that won (``None``: none)."""
    winner = reduced.hidden
    if winner is not None:
        held = Held(max(held.commit_ts, reduced.before), 0)
    if reduced.newest is not None and wins(held, reduced.newest, exact=exact):
        return held_after(reduced.newest, exact=exact), reduced.newest
    return held, winner


class WaitingDdl(msgspec.Struct, frozen=True):
    """A DDL of which not every copy was read."""

    commit_ts: int
    identity: DdlId
    copies: Mapping[int, int]
    """Partition to the offset of its first copy there."""


class TopicDdls(msgspec.Struct, frozen=True):
    """The DDLs of one topic: what was applied, and what waits, in order."""

    done_ts: int = 0
    done: frozenset[DdlId] = frozenset()
    """Those of ``done_ts`` that were applied. Older ones are replays: every partition has its DDLs in order."""
    waiting: tuple[WaitingDdl, ...] = ()


def read_copy(ddls: TopicDdls, commit_ts: int, identity: DdlId, partition: int, offset: int) -> TopicDdls | None:
    """Note a copy of a DDL; ``None`` for a replay of one that was applied, which is to be counted."""
    if commit_ts < ddls.done_ts or (commit_ts == ddls.done_ts and identity in ddls.done):
        return None
    waiting = list(ddls.waiting)
    for at, ddl in enumerate(waiting):
        if (ddl.commit_ts, ddl.identity) == (commit_ts, identity):
            if partition not in ddl.copies:
                waiting[at] = WaitingDdl(commit_ts, identity, {**ddl.copies, partition: offset})
            break
    else:
        waiting.append(WaitingDdl(commit_ts, identity, {partition: offset}))
        waiting.sort(key=lambda ddl: ddl.commit_ts)  # stable: of one commit_ts, in order of arrival
    return TopicDdls(ddls.done_ts, ddls.done, tuple(waiting))


def take_due(
    ddls: TopicDdls, partitions: Iterable[int], finished: frozenset[int] = frozenset()
) -> tuple[tuple[WaitingDdl, ...], TopicDdls]:
    """The DDLs that are due, in order, and the others. None is due before one that it follows.

    ``partitions``: those that get copies (canal-json: partition 0). ``finished``: those that will have no more copies,
    as a bounded run read them to their end, or they were read to ends listed long after the first copy was read.
    """
    needed = frozenset(partitions) - finished
    due: list[WaitingDdl] = []
    for ddl in ddls.waiting:
        if needed - ddl.copies.keys():
            break
        due.append(ddl)
    if not due:
        return (), ddls
    last = due[-1].commit_ts
    done = frozenset(ddl.identity for ddl in due if ddl.commit_ts == last)
    if last == ddls.done_ts:
        done |= ddls.done
    return tuple(due), TopicDdls(last, done, ddls.waiting[len(due) :])


def follows(ddl: WaitingDdl, commit_ts: int, partition: int, offset: int, *, exact: bool) -> bool:
    """Whether a row comes after a DDL, and waits with it."""
    if commit_ts and (exact or commit_ts != ddl.commit_ts):
        return commit_ts > ddl.commit_ts
    return offset > ddl.copies.get(partition, offset)


def is_replay(floor: int, commit_ts: int, *, exact: bool) -> bool:
    """Whether a row was there before the DDL of its table at ``floor`` was applied. Never told without commit_ts."""
    return 0 < commit_ts <= (floor if exact else floor - 1)
