"""Requests to a job, running or not: a command adds a request to the state, and the job takes it.

To take a request, the job folds it into the progress and removes it, in one commit.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

import msgspec

from ticdc_spark.model import Offsets, TableName
from ticdc_spark.replicate.state.progress import PendingRows, Progress, WantedLoad
from ticdc_spark.replicate.state.table import TableState, clear, lift

log = logging.getLogger(__name__)


class _Asked(msgspec.Struct, frozen=True, kw_only=True, tag_field="request", forbid_unknown_fields=True):
    tables: tuple[TableName, ...]
    """The names that the job uses."""


class Rebuild(_Asked, frozen=True, kw_only=True, tag="rebuild"):
    """Read tables in full again, whatever their condition."""

    at: int = 0
    """commit_ts of the dump that they are read from; 0: there is no dump."""
    from_topic: bool = False
    """Whether they are read from the job's own topics."""


class Resume(_Asked, frozen=True, kw_only=True, tag="resume"):
    """Lift the quarantine of tables."""


class Clear(_Asked, frozen=True, kw_only=True, tag="clear"):
    """Clear the mark of diverged tables: a person has looked at them."""


class ReplayedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row to be read again, in a message that the job has read before."""

    table: TableName
    """The name that the job uses."""
    sent: TableName
    """The name in the message."""
    schema_key: str
    commit_ts: int
    topic: str
    partition: int
    offset: int


class Replay(_Asked, frozen=True, kw_only=True, tag="replay"):
    """Apply rows that could not be read, or were skipped, if their keys have no newer change."""

    rows: tuple[ReplayedRow, ...]


class Repair(_Asked, frozen=True, kw_only=True, tag="repair"):
    """Replace some rows of a table by those of the source."""

    keys: tuple[str, ...]
    """The rows' keys: images of the handle key (``protocols.image_writer``)."""


class Withdraw(_Asked, frozen=True, kw_only=True, tag="withdraw"):
    """Withdraw the requests to read tables or rows again whose read has not begun."""


Folded: TypeAlias = Rebuild | Resume | Clear | Replay | Withdraw
"""Requests that the progress can keep. A ``Repair`` waits as a request until it is done."""
Request: TypeAlias = Folded | Repair


class RequestStore(Protocol):
    """Where requests wait, beside the progress. Raises: SinkFault, LeaseHeld"""

    def requests(self) -> Sequence[Request]:
        """The waiting requests, the oldest first."""

    def save(self, progress: Progress, taken: Sequence[Request] = ()) -> None:
        """Commit a progress, and end the plan that led to it. ``taken``: requests that are in it, and are removed."""


def take(
    store: RequestStore,
    progress: Progress,
    beginning: Callable[[], Offsets],
    *,
    reads: bool,
    replays: bool = True,
) -> Progress | None:
    """Fold the waiting requests into the progress and save it; ``None``: there were none to fold.

    ``beginning``: where the topics begin. ``reads``: the job file has ``[snapshot]``; without it, a ``Rebuild`` keeps
    waiting unless it reads the topics. ``replays``: no batch was interrupted; otherwise a ``Replay`` keeps waiting,
    since its table may have passed the point at which it would take the rows.

    Raises: SinkFault, LeaseHeld
    """
    waiting = [one for one in store.requests() if not isinstance(one, Repair)]
    taken = [one for one in waiting if reads or not isinstance(one, Rebuild) or one.from_topic]
    taken = [one for one in taken if replays or not isinstance(one, Replay)]
    if not taken:
        return None
    after = progress
    for request in taken:
        log.info("request: %s", words(request))
        after = folded(after, _there(request, beginning()) if isinstance(request, Replay) else request)
    store.save(after, taken)
    return after


def added(waiting: Sequence[Request], request: Request) -> tuple[Request, ...]:
    """The waiting requests with a new one. A table has one repair: the rows of a new one come to those of the old."""
    match request:
        case Repair(tables=tables):
            same = [one for one in (*waiting, request) if isinstance(one, Repair) and one.tables == tables]
            keys = tuple(dict.fromkeys(key for one in same for key in one.keys))
            return (*(one for one in waiting if one not in same), msgspec.structs.replace(request, keys=keys))
        case Withdraw(tables=tables):
            left = (_without(one, tables) if isinstance(one, Rebuild | Repair) else one for one in waiting)
            return (*(one for one in left if one.tables), request)
    return (*waiting, request)


def _without(request: Rebuild | Repair, tables: Collection[TableName]) -> Rebuild | Repair:
    return msgspec.structs.replace(request, tables=tuple(one for one in request.tables if one not in tables))


def withdrawable(waiting: Sequence[Request], progress: Progress | None) -> set[TableName]:
    """The tables for which a person asked that they, or rows of them, are read again, and whose read has not begun."""
    wanted = () if progress is None else (one.full_name for one in progress.wanted if one.asked)
    return {*wanted, *(name for one in waiting if isinstance(one, Rebuild | Repair) for name in one.tables)}


def repairs_of(store: RequestStore) -> list[Repair]:
    """The repairs that wait. Raises: SinkFault, LeaseHeld"""
    return [one for one in store.requests() if isinstance(one, Repair)]


def folded(progress: Progress, request: Folded) -> Progress:
    """The progress with a request. Tables that the request no longer fits stay unchanged."""
    match request:
        case Rebuild():
            left = tuple(one for one in progress.wanted if one.full_name not in request.tables)
            refused = tuple(one for one in progress.refused if one.full_name not in request.tables)
            new = (
                WantedLoad(schema=schema, name=name, at=request.at, asked=True, from_topic=request.from_topic)
                for schema, name in request.tables
            )
            return msgspec.structs.replace(progress, wanted=(*left, *new), refused=refused)
        case Resume():
            return _changed(progress, request.tables, is_quarantined, lift)
        case Clear():
            return _changed(progress, request.tables, has_diverged, clear)
        case Replay():
            return _replayed(progress, request.rows)
        case Withdraw():
            left = tuple(one for one in progress.wanted if not (one.asked and one.full_name in request.tables))
            return msgspec.structs.replace(progress, wanted=left)


def is_quarantined(table: TableState) -> bool:
    """Whether a ``Resume`` changes a table."""
    return table.is_quarantined


def has_diverged(table: TableState) -> bool:
    """Whether a ``Clear`` changes a table."""
    return table.has_diverged


def words(request: Request) -> str:
    """A request as text, for the log and for ``status``."""
    what = f"{request.__struct_config__.tag} {', '.join('.'.join(name) for name in request.tables)}"
    match request:
        case Rebuild(from_topic=True):
            return f"{what} from the topics"
        case Repair(keys=keys):
            return f"{what}, {len(keys)} row{'' if len(keys) == 1 else 's'}"
    return what


def _there(request: Replay, beginning: Offsets) -> Replay:
    """A request without the rows that are no longer in their topics."""
    rows = []
    for row in request.rows:
        if row.offset >= beginning.get((row.topic, row.partition), 0):
            rows.append(row)
            continue
        log.warning(
            "topic %s, partition %d, offset %d cannot be replayed: it is no longer in the topic. `ticdc-spark "
            "rebuild` reads `%s`.`%s` again",
            *(row.topic, row.partition, row.offset, *row.table),
        )
    return msgspec.structs.replace(request, rows=tuple(rows))


def _replayed(progress: Progress, rows: Sequence[ReplayedRow]) -> Progress:
    """The progress with rows as late ones: each is applied only if it is its key's newest."""
    states = progress.states()
    read = {(one.topic, one.partition): one.offset for one in progress.partitions}
    found: dict[PendingRows, None] = {}
    for row in rows:
        why = why_not_replayed(row.table, row.commit_ts, states.get(row.table))
        if row.offset >= read.get((row.topic, row.partition), 0):
            why = f"the job does not read topic {row.topic} now, or reads it again from an earlier offset"
        if why:
            log.warning("%s/%d/%d cannot be replayed: %s", row.topic, row.partition, row.offset, why)
            continue
        found[_late(row)] = None
    places = {(row.topic, row.partition, row.first) for row in found}
    left_out = tuple(place for place in progress.left_out if place not in places)
    new = tuple(one for one in found if one not in progress.pending)
    return msgspec.structs.replace(progress, pending=(*progress.pending, *new), left_out=left_out)


def why_not_replayed(name: TableName, commit_ts: int, table: TableState | None) -> str:
    """Why a row of a table cannot be replayed now; ``""``: it can.

    A DDL since the row prevents it: the row may have other columns, or belong to another table that had the name.
    """
    named = ".".join(name)
    if table is None or table.is_gone:
        return f"the job has no table {named} now"
    if commit_ts <= table.emptied:
        return f"{named} was created, truncated or read in full since, and holds no older row"
    if commit_ts <= table.ddl_ts:
        return (
            f"a DDL has changed {named} since, at commitTs {table.ddl_ts}, so the row may not fit it. `ticdc-spark "
            f"rebuild` reads {named} again"
        )
    return ""


def _late(row: ReplayedRow) -> PendingRows:
    return PendingRows(
        schema=row.table[0],
        name=row.table[1],
        schema_key=row.schema_key,
        rows=1,
        min_ts=row.commit_ts,
        max_ts=row.commit_ts,
        late=True,
        topic=row.topic,
        partition=row.partition,
        first=row.offset,
        end=row.offset + 1,
        sent=row.sent,
    )


def _changed(
    progress: Progress,
    names: Collection[TableName],
    fits: Callable[[TableState], bool],
    change: Callable[[TableState], TableState],
) -> Progress:
    tables = tuple(change(table) if table.full_name in names and fits(table) else table for table in progress.tables)
    return msgspec.structs.replace(progress, tables=tables)
