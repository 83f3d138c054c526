"""The state of one table, its properties, and every function that changes it. Pure.

The first line of each such function says what has happened to the table.
"""

from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.config.computed import Expressions
from ticdc_spark.model import Column, Table, TableName
from ticdc_spark.mysql import handle_key
from ticdc_spark.replicate.state.conditions import (
    UNVERIFIED,
    Clean,
    Condition,
    Diverged,
    Dropped,
    Kept,
    Known,
    Lifted,
    Loading,
    Quarantined,
    Settling,
    Unverified,
)
from ticdc_spark.sinks.mark import NO_MARK, Mark

LEFT_OUT = 'it has no primary key and no unique key that is not null, and no-key = "skip" leaves its rows out'
"""Why a table without a key counts as diverged."""


class KeptColumn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column that the source dropped and the copy keeps. Rows that change later get NULL there."""

    column: Column
    """Nullable and without a default. Its name determines its name in the target."""
    dropped: int
    """commit_ts of the DDL that dropped it."""


class TableState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the source and its copy in the lake. A state of another version is refused, unless it has the same
    fields."""

    schema: str
    name: str
    condition: Condition = UNVERIFIED
    applied: int = 0
    """The copy equals the source at this commit_ts, if it is clean."""
    emptied: int = 0
    """commit_ts of the CREATE or TRUNCATE that began it, or the base of its full read. Older rows do not belong in it,
    however late they come."""
    partition_ids: tuple[tuple[int, str], ...] = ()
    """Physical ids at the source that rows have shown, each with the partition of its rows."""
    table: Table | None = None
    """The schema of the copy; ``None``: it is not created yet, or it was dropped."""
    origin: Literal["create", "bootstrap", "adopted", "snapshot"] = "bootstrap"
    """How its rows began; ``bootstrap``: the job did not see their beginning."""
    cleared: int | None = None
    """``diverged_since`` before the operator cleared it (``resume --clear-diverged``). It overrides the stamp."""
    snapshot_id: int | None = None
    rows: int = 0
    """Row changes applied so far."""
    topics: tuple[str, ...] = ()
    """Topics that its messages came from."""
    mark: Mark = NO_MARK
    """Mark of the last commit to the copy; ``NO_MARK``: there was none."""
    ddl_ts: int = 0
    """commit_ts of the last DDL applied to it."""
    ddl_step: int = 0
    """The step of its last commit at the commit_ts of that DDL, which may have several."""
    was: tuple[tuple[str, str], ...] = ()
    """Its former names, the oldest first."""
    schema_keys: tuple[str, ...] = ()
    """Registered schemas (Avro) or schema blocks (Debezium) that ``table`` has followed; empty if it follows DDL."""
    kept_columns: tuple[KeptColumn, ...] = ()
    """Columns that the source dropped and the copy still has (``drop-column = "keep"``)."""
    computed: Expressions = ()
    """The virtual generated columns that have their values in every row of the copy. Others are NULL."""
    columns_before: tuple[tuple[str, str], ...] = ()
    """While a DDL is under way on an adopted table, or on one with unsure columns: the lake's columns before it, as
    (name, type)."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name

    @property
    def lifted(self) -> Lifted:
        """Its condition without a quarantine."""
        return self.condition.lifted if isinstance(self.condition, Quarantined) else self.condition

    @property
    def known(self) -> Known:
        """What is known about its rows."""
        lifted = self.lifted
        return lifted.rows if isinstance(lifted, Loading | Dropped | Kept) else lifted

    @property
    def is_clean(self) -> bool:
        return isinstance(self.known, Clean)

    @property
    def has_diverged(self) -> bool:
        return isinstance(self.known, Diverged)

    @property
    def diverged_since(self) -> int | None:
        """The commit_ts from which it may differ from the source; ``None``: it has not diverged."""
        return self.known.since if isinstance(self.known, Diverged) else None

    @property
    def diverged_why(self) -> str:
        """Why it may differ from the source; ``""``: it has not diverged."""
        return self.known.why if isinstance(self.known, Diverged) else ""

    @property
    def settles(self) -> int:
        """commit_ts from which it equals the source after its full read; 0: it is there, or had no full read."""
        match self.known:
            case Settling(upto=upto) | Diverged(settles=upto):
                return upto
        return 0

    @property
    def has_unsure_columns(self) -> bool:
        return isinstance(self.known, Unverified | Diverged) and self.known.columns_unsure

    @property
    def load(self) -> Loading | None:
        return self.lifted if isinstance(self.lifted, Loading) else None

    @property
    def is_gone(self) -> bool:
        """The source has no table of this name."""
        return isinstance(self.lifted, Dropped | Kept)

    @property
    def is_dropped(self) -> bool:
        """It is gone, also in the lake."""
        return isinstance(self.lifted, Dropped)

    @property
    def is_kept(self) -> bool:
        return isinstance(self.lifted, Kept)

    @property
    def is_quarantined(self) -> bool:
        return isinstance(self.condition, Quarantined)

    @property
    def quarantined(self) -> str | None:
        """Why it does not advance; ``None``: it does."""
        return self.condition.why if isinstance(self.condition, Quarantined) else None


ConditionName: TypeAlias = Literal[
    "clean", "unverified", "diverged", "quarantined", "snapshot", "skipped", "dropped", "kept"
]
"""What ``status`` and the state table call a condition:

- clean: it is known to equal the source.
- unverified: it is up to date, but the job did not see its beginning.
- diverged: it lacks a message or a DDL.
- quarantined: it does not advance.
- snapshot: a full read of it is under way.
- skipped: it has no key, and ``no-key`` skips its rows.
- dropped: it is gone.
- kept: it is gone at the source, and the lake keeps it.
"""


def condition_of(state: TableState) -> ConditionName:
    """The condition of a table in one word, from its own state alone."""
    if state.is_quarantined:
        return "quarantined"
    if state.has_diverged:
        return "skipped" if is_without_rows(state) else "diverged"
    if state.is_gone:
        return "kept" if state.is_kept else "dropped"
    if state.load is not None:
        return "snapshot"
    return "clean" if state.is_clean else "unverified"


def is_without_rows(state: TableState) -> bool:
    """Whether ``no-key = "skip"`` skips the rows of a table, because it has no key."""
    return state.diverged_why == LEFT_OUT and state.table is not None and not handle_key(state.table)


def is_unfollowed(state: TableState) -> bool:
    """Whether a table was read in full and has had no message since: it may change unseen."""
    return state.origin == "snapshot" and not state.topics


def is_new(state: TableState | None, ts: int) -> bool:
    """Whether messages from a commit_ts on are of a table that the job has never met: it knows no table of the name, or
    one that was dropped before."""
    return state is None or (state.is_dropped and state.ddl_ts < ts)


def create(table: Table, ts: int, topics: tuple[str, ...], *, certain: bool) -> TableState:
    """Its CREATE TABLE is applied. ``certain``: whether ``table`` is surely the source's schema."""
    return TableState(
        schema=table.schema,
        name=table.name,
        condition=Clean() if certain else Unverified(columns_unsure=True),
        applied=ts,
        emptied=ts,
        table=table,
        origin="create" if certain else "bootstrap",
        ddl_ts=ts,
        topics=topics,
    )


def create_late(table: Table, ts: int, topics: tuple[str, ...], *, certain: bool, empty: bool) -> TableState:
    """A DDL other than its CREATE is applied, and the lake has no such table yet. ``empty``: the DDL is a TRUNCATE."""
    late = msgspec.structs.replace(create(table, ts, topics, certain=certain), origin="bootstrap")
    return late if empty else msgspec.structs.replace(unverify(late), emptied=0)


def create_by_rows(state: TableState, table: Table, applied: int, *, certain: bool) -> TableState:
    """Its first rows are applied, without a DDL before them. ``certain``: as for ``create``."""
    known: Known = Unverified(columns_unsure=not certain)
    if state.diverged_since is not None:
        known = Diverged(since=state.diverged_since, why=state.diverged_why, columns_unsure=not certain)
    return TableState(
        schema=state.schema, name=state.name, condition=known, applied=applied, table=table, topics=state.topics
    )


def adopt(state: TableState, origin: Literal["adopted", "bootstrap"]) -> TableState:
    """The lake has it already, and no DDL created it: the job continues with the table that is there."""
    there = state if state.is_kept else come_back(state)
    return msgspec.structs.replace(unverify(there), origin=origin, computed=())


def drop(name: TableName, ts: int, topics: tuple[str, ...], rows: int = 0) -> TableState:
    """A DDL drops it or renames it away, also in the lake."""
    return TableState(
        schema=name[0], name=name[1], condition=Dropped(), applied=ts, ddl_ts=ts, topics=topics, rows=rows
    )


def come_back(state: TableState) -> TableState:
    """It was gone, and a table of its name exists again or is about to."""
    return _with_lifted(state, state.known) if state.is_gone else state


def keep(state: TableState) -> TableState:
    """A DDL drops it at the source, or renames it to a name that ``tables`` excludes, and the lake keeps it. Or a user
    has put it back into the lake."""
    return _with_lifted(state, Kept(rows=state.known))


def truncate(state: TableState, ts: int, *, in_shape: bool) -> TableState:
    """A TRUNCATE empties it. ``in_shape``: it is known to have the source's columns, so it then equals the source,
    whatever it was before."""
    state = msgspec.structs.replace(state, emptied=ts, partition_ids=())
    if in_shape:
        return _with_known(state, UNVERIFIED if state.table is None else Clean())
    return state if state.is_clean else unverify(state)


def truncate_older(state: TableState, ts: int, *, in_shape: bool) -> TableState:
    """A TRUNCATE empties it but for newer rows, which may be what its mark is for. ``in_shape``: as in ``truncate``."""
    if state.has_diverged:
        state = msgspec.structs.replace(state, emptied=ts, partition_ids=())
    else:
        state = truncate(state, ts, in_shape=in_shape)
    return unverify(state)


def doubt_partitions(state: TableState, why: str) -> TableState:
    """Its rows contradict what is known about its partitions."""
    if state.table is None or state.table.partitioning is None:
        return state
    doubted = msgspec.structs.replace(state.table.partitioning, doubt=why)
    table = msgspec.structs.replace(state.table, partitioning=doubted)
    return msgspec.structs.replace(state, table=table, partition_ids=())


def unverify(state: TableState) -> TableState:
    """It may lack rows or values, for a cause that does not mark it. It no longer settles after a full read."""
    match state.known:
        case Clean() | Settling():
            return _with_known(state, UNVERIFIED)
        case Diverged() as known:
            return _with_known(state, msgspec.structs.replace(known, settles=0))
    return state


def lose_first_rows(state: TableState) -> TableState:
    """It may lack rows from before the first messages, as if it had begun with these."""
    origin = "bootstrap" if state.origin == "create" else state.origin
    return msgspec.structs.replace(unverify(state), origin=origin)


def known_of_both(state: TableState, other: TableState) -> TableState:
    """It has rows of another table, too: its condition is the less certain one of the two."""
    state = unverify(state) if isinstance(other.known, Unverified) else state
    if isinstance(other.known, Settling) and isinstance(state.known, Clean | Settling):
        state = _with_known(state, Settling(upto=max(state.settles, other.settles)))
    if isinstance(other.known, Diverged):
        first = other.known.since if state.diverged_since is None else min(state.diverged_since, other.known.since)
        state = lose_rows(state, first, state.diverged_why or other.known.why)
    return state


def want_load(state: TableState) -> TableState:
    """It lacks rows that only a full read can load: it counts as a table whose beginning the job did not see."""
    return msgspec.structs.replace(unverify(state), origin="bootstrap")


def diverge(state: TableState, since: int, why: str, *, columns: bool = False) -> TableState:
    """It may differ from the source from a commit_ts on. ``columns``: its columns may differ too, since the skipped
    message may have been a DDL."""
    if isinstance(state.known, Diverged):
        since, why = state.known.since, state.known.why or why
    unsure = columns or state.has_unsure_columns
    if columns and state.table is not None and state.table.partitioning is not None:
        # Once a person has cleared the mark, nothing else shows that a DDL on partitions may be missing.
        state = msgspec.structs.replace(state, table=msgspec.structs.replace(state.table, partitioning=None))
    return _with_known(state, Diverged(since=since, why=why, columns_unsure=unsure, settles=state.settles))


def lose_rows(state: TableState, since: int, why: str) -> TableState:
    """Rows of it from a commit_ts on are skipped. They may be older than the rows that it lacked before."""
    first = since if state.diverged_since is None else min(since, state.diverged_since)
    return _with_known(state, msgspec.structs.replace(diverge(state, first, why).known, since=first, why=why))


def lose_rows_of_next(state: TableState, since: int, why: str) -> TableState:
    """It is gone, and rows of the next table of its name went with it. That one lacks them, from a commit_ts on."""
    unsure = state.has_unsure_columns
    return _with_known(state, Diverged(since=since, why=why, columns_unsure=unsure))


def doubt_load(state: TableState, ts: int) -> TableState:
    """A DDL at ``ts`` is applied. If its full read may have seen the table after that DDL, some rows get the DDL twice,
    or it has rows of another table. It is then read again, as a table whose beginning the job did not see."""
    if state.settles < ts or state.settles == 0:
        return state
    why = f"a DDL at {ts} changed or renamed it while it was read: it may have rows of the table behind the DDL"
    return diverge(msgspec.structs.replace(unverify(state), origin="bootstrap"), ts, why)


def clear(state: TableState) -> TableState:
    """A person has looked at it and clears its mark as diverged."""
    return msgspec.structs.replace(_without_mark(state, unsure=False), cleared=state.diverged_since)


def quarantine(state: TableState, why: str) -> TableState:
    """A message that cannot be read stops it where it is, or a key that is not the source's."""
    return msgspec.structs.replace(state, condition=Quarantined(why=state.quarantined or why, lifted=state.lifted))


def lift(state: TableState) -> TableState:
    """A person lifts its quarantine."""
    return msgspec.structs.replace(state, condition=state.lifted)


def begin_load(state: TableState, table: Table, load: Loading, loses: str) -> TableState:
    """Its full read begins. ``loses``: why it would differ from the source if the read were given up; ``""``: it would
    not."""
    why = state.quarantined or loses
    lost = (diverge(state, min(state.applied, load.base), why) if why else state).known
    # A process that crashed began the read before: the table's condition then counts, as nothing was loaded since.
    before = None if state.load is None else state.load.before
    before = Diverged(since=lost.since, why=lost.why) if isinstance(lost, Diverged) else before
    return msgspec.structs.replace(
        state,
        condition=msgspec.structs.replace(load, before=before),
        # What another table of the name began with says nothing about this one.
        origin="bootstrap" if state.is_gone else state.origin,
        applied=load.base,
        table=table,
        cleared=None,
        schema_keys=(),
        columns_before=(),
        partition_ids=(),
        computed=(),
    )


def gather(state: TableState, rows: int, expected: int | None = None) -> TableState:
    """Its full read has gathered ``rows`` rows. ``expected``: of about this many; ``None``: as before."""
    assert state.load is not None, "its read is under way"
    expected = state.load.expected if expected is None else expected
    return _with_lifted(state, msgspec.structs.replace(state.load, gathered=rows, expected=expected))


def give_up_load(state: TableState) -> TableState:
    """Its full read ends without a result: it has its former condition again. If it lacks rows by then, it is read
    again, whatever its name is at that time: a RENAME may be what ended the read."""
    assert state.load is not None, "its read is under way"
    before, after = state.load.before, _with_lifted(state, state.known)
    return after if before is None else diverge(want_load(after), before.since, before.why)


def finish_load(state: TableState, rows: int, settles: int, *, in_shape: bool) -> TableState:
    """The rows of its full read become the table, which continues from the base. ``settles``: the highest commit_ts
    that these rows may be from. If they were read from the topics, its CREATE or TRUNCATE and its rows have made it.
    ``in_shape``: it has only the source's columns."""
    assert state.load is not None, "its read is under way"
    base, began, known = state.load.base, state.load.began, unverify(state).known
    if in_shape:
        upto = 0 if began else max(settles, base)
        fresh = Settling(upto=upto) if upto else Clean()
        known = msgspec.structs.replace(known, settles=upto) if isinstance(known, Diverged) else fresh
    origin = "adopted" if not in_shape else "create" if began else "snapshot"
    done = _with_lifted(state, known)
    return msgspec.structs.replace(done, origin=origin, emptied=began or base, applied=base, rows=rows)


def settle_load(state: TableState) -> TableState:
    """Every change that its full read may have seen is applied."""
    return unverify(state) if state.has_diverged else _with_known(state, Clean())


def repair(state: TableState, upto: int) -> TableState:
    """Some of its rows are replaced by the source's. ``upto``: the highest commit_ts that these may be from; 0: they
    are as of ``applied``."""
    match state.known:
        case Clean() if upto:
            return _with_known(state, Settling(upto=upto))
        case Settling(upto=before) if upto > before:
            return _with_known(state, Settling(upto=upto))
        case Diverged(settles=before) as known if upto > before > 0:
            return _with_known(state, msgspec.structs.replace(known, settles=upto))
    return state


def set_back(state: TableState, since: int) -> TableState:
    """A user has set it back to an older snapshot, and a full read is requested."""
    why = "it was set back; a full read of it is wanted"
    if state.load is None:
        return diverge(state, since, why)
    return _with_lifted(state, msgspec.structs.replace(state.load, before=Diverged(since=since, why=why)))


def for_stamp(state: TableState) -> TableState:
    """The part of a table's state that its stamp stores: not what changes without a commit, nor what has its own field
    in the stamp."""
    state = state if state.load is None else gather(state, 0, 0)
    return msgspec.structs.replace(state, applied=0, mark=NO_MARK, snapshot_id=None, rows=0, partition_ids=())


def from_stamp(about: str) -> TableState:
    """A table as the text of its stamp describes it (``Stamp.about``, written from ``for_stamp``)."""
    return msgspec.json.decode(about.encode(), type=TableState)


def take_promise(state: TableState, promise: TableState, *, same_mark: bool) -> TableState:
    """A table's state from its stamp, with what only the progress knows. ``same_mark``: the progress is of the same
    commit, and may have decided something since."""
    state = lift(state)
    if state.load is not None:
        # The read has lifted its quarantine, and the progress may not have been committed since.
        state = gather(state, *(0, 0) if promise.load is None else (promise.load.gathered, promise.load.expected))
    elif promise.quarantined is not None:
        state = quarantine(state, promise.quarantined)
    if promise.cleared is not None:
        if state.diverged_since == promise.cleared and not promise.has_diverged:  # nor has it diverged again
            state = _without_mark(state, unsure=state.has_unsure_columns)
        state = msgspec.structs.replace(state, cleared=promise.cleared)
    if not same_mark:
        return state
    return _decided(msgspec.structs.replace(state, partition_ids=promise.partition_ids), promise)


def _decided(state: TableState, promise: TableState) -> TableState:
    clean, settles = state.is_clean and promise.is_clean, state.settles
    if bool(promise.settles) != bool(state.settles):
        # Only one of the two has seen the table settle after its full read.
        clean, settles = state.is_clean if promise.settles else promise.is_clean, 0
    unsure = promise.has_unsure_columns or (state.has_unsure_columns and promise.cleared is None)
    mark = promise.diverged_since if promise.has_diverged else state.diverged_since
    known: Known = Unverified(columns_unsure=unsure)
    if mark is not None:
        why = promise.diverged_why or state.diverged_why
        known = Diverged(since=mark, why=why, columns_unsure=unsure, settles=settles)
    elif clean or settles:
        known = Settling(upto=settles) if settles else Clean()
    origin = promise.origin if state.is_clean and not promise.is_clean else state.origin
    if isinstance(promise.lifted, Dropped | Kept):
        decided = _with_lifted(state, msgspec.structs.replace(promise.lifted, rows=known))
    else:
        decided = _with_known(_with_lifted(state, state.known) if state.is_gone else state, known)
    return msgspec.structs.replace(decided, origin=origin)


def _without_mark(state: TableState, *, unsure: bool) -> TableState:
    return _with_known(state, Settling(upto=state.settles) if state.settles else Unverified(columns_unsure=unsure))


def _with_known(state: TableState, known: Known) -> TableState:
    lifted = state.lifted
    is_around = isinstance(lifted, Loading | Dropped | Kept)
    return _with_lifted(state, msgspec.structs.replace(lifted, rows=known) if is_around else known)


def _with_lifted(state: TableState, lifted: Lifted) -> TableState:
    quarantined = isinstance(state.condition, Quarantined)
    condition = msgspec.structs.replace(state.condition, lifted=lifted) if quarantined else lifted
    return msgspec.structs.replace(state, condition=condition)
