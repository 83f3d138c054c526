"""The states of a table of the source and its copy in the lake, and all that changes them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from ticdc_spark.model import Table, TableName
from ticdc_spark.mysql import HIDDEN_NAMES, handle_key
from ticdc_spark.sinks.mark import NO_MARK, Mark

if TYPE_CHECKING:  # it imports the decoders, which `status` does not need
    from ticdc_spark.spark.decode.versions import ExpectedColumns


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A full read of a table that is under way."""

    base: int
    """commit_ts at which the table stands still until the read is brought in."""
    token: str
    """As in the note beside what was gathered."""
    exact: bool = False
    """It is read as of ``base``."""
    identity: str = ""
    """Which table of the source it is, whatever its name; ``""``: not known. Chunks read as of now check it."""
    diverged_since: int | None = None
    diverged_why: str = ""
    """What the table was before; it is that again where the read is given up."""


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """One table of the source and its copy in the lake."""

    schema: str
    name: str
    applied: int = 0
    """The copy equals the source at this commit_ts (when ``clean``)."""
    emptied: int = 0
    """commit_ts of the CREATE or TRUNCATE that it began empty with, or the base of its full read: no older row belongs
    in it, however late."""
    table: Table | None = None
    """The schema of the copy; ``None`` while it has not been created, or after a drop."""
    origin: Literal["create", "bootstrap", "adopted", "snapshot"] = "bootstrap"
    clean: bool = False
    """The copy is known to equal the source at ``applied``: rows may be appended."""
    dropped: bool = False
    kept: bool = False
    """Dropped at the source, or out of what ``tables`` names, and kept in the lake."""
    diverged_since: int | None = None
    """Commit_ts from which the copy may differ from the source."""
    diverged_why: str = ""
    """One sentence: what was left out, or what was done to the copy."""
    cleared: int | None = None
    """The ``diverged_since`` that the operator has cleared (``resume --clear-diverged``); it wins over the stamp."""
    quarantined: str | None = None
    """Why it does not advance, by ``on-reject = "quarantine"``."""
    snapshot_id: int | None = None
    rows: int = 0
    """Row changes applied so far."""
    topics: tuple[str, ...] = ()
    """Topics that its messages came from."""
    mark: Mark = NO_MARK
    """That of the last commit to the copy; ``NO_MARK``: there was none."""
    ddl_ts: int = 0
    """commit_ts of the last DDL that was applied to it."""
    ddl_step: int = 0
    """The step of its last commit with the commit_ts of that DDL, which may have several."""
    was: tuple[tuple[str, str], ...] = ()
    """Names that it had before, the oldest first."""
    schema_keys: tuple[str, ...] = ()
    """Registered schemas (Avro) or schema blocks (Debezium) that ``table`` has followed; none where it follows DDL."""
    misshapen: bool = False
    """Its columns may not be those of the source or of ``table``: it may lack a DDL, or others changed them."""
    columns_before: tuple[tuple[str, str], ...] = ()
    """In the midst of a DDL of a misshapen or an adopted table: the lake's columns before it, name and type."""
    load: Load | None = None
    """The full read that is under way."""
    settles: int = 0
    """commit_ts from which on the copy equals the source, after a full read of several moments; 0: it is known."""
    gathered: int = 0
    """Rows that the full read has gathered so far."""
    expected: int = 0
    """About how many it will gather; 0: not known."""

    @property
    def is_clean(self) -> bool:
        """It is known to equal the source at ``applied``: rows may be appended."""
        return self.clean

    @property
    def has_diverged(self) -> bool:
        """It may differ from the source."""
        return self.diverged_since is not None

    @property
    def is_quarantined(self) -> bool:
        """It does not advance."""
        return self.quarantined is not None

    @property
    def is_gone(self) -> bool:
        """The source has no such table, or not under this name."""
        return self.dropped

    @property
    def is_dropped(self) -> bool:
        """It is gone, in the lake too."""
        return self.dropped and not self.kept

    @property
    def is_kept(self) -> bool:
        """It is gone, and kept in the lake."""
        return self.kept

    @property
    def has_unsure_columns(self) -> bool:
        """Its columns may not be those of the source or of ``table``: it may lack a DDL, or others changed them."""
        return self.misshapen


def create(table: Table, ts: int, topics: tuple[str, ...], *, certain: bool) -> TableState:
    """Its CREATE TABLE is applied. ``certain``: whether ``table`` is what the source has."""
    return TableState(
        schema=table.schema,
        name=table.name,
        applied=ts,
        emptied=ts,
        table=table,
        origin="create" if certain else "bootstrap",
        clean=certain,
        misshapen=not certain,
        ddl_ts=ts,
        topics=topics,
    )


def create_late(table: Table, ts: int, topics: tuple[str, ...], *, certain: bool, empty: bool) -> TableState:
    """Another DDL of it is applied, and the lake has no such table yet. ``empty``: the DDL is a TRUNCATE."""
    late = msgspec.structs.replace(create(table, ts, topics, certain=certain), origin="bootstrap")
    return late if empty else msgspec.structs.replace(late, clean=False, emptied=0)


def create_by_rows(state: TableState, table: Table, applied: int, *, certain: bool) -> TableState:
    """Its first rows are applied, and no DDL came before them."""
    return TableState(
        schema=state.schema,
        name=state.name,
        table=table,
        applied=applied,
        diverged_since=state.diverged_since,
        diverged_why=state.diverged_why,
        topics=state.topics,
        misshapen=not certain,
    )


def adopt(state: TableState) -> TableState:
    """The lake has a table that this job did not write, and the job takes it over."""
    return msgspec.structs.replace(state, origin="adopted", clean=False, dropped=False)


def take_columns(state: TableState, table: Table, *, adopted: bool) -> TableState:
    """Its rows say which columns it has, which nothing has said before."""
    origin = "adopted" if adopted else "bootstrap"
    return msgspec.structs.replace(state, table=table, origin=origin, clean=False, dropped=False)


def drop(name: TableName, ts: int, topics: tuple[str, ...], rows: int = 0) -> TableState:
    """A DDL takes it away, or gives its name up, in the lake too."""
    return TableState(schema=name[0], name=name[1], applied=ts, dropped=True, ddl_ts=ts, topics=topics, rows=rows)


def keep(state: TableState, ts: int) -> TableState:
    """A DDL takes it away at the source, or out of what ``tables`` names; it stays in the lake."""
    return msgspec.structs.replace(state, dropped=True, kept=True, applied=ts, ddl_ts=ts)


def keep_restored(state: TableState, mark: Mark) -> TableState:
    """It was dropped, and somebody has put it back into the lake."""
    return msgspec.structs.replace(state, kept=True, mark=mark)


def replace_kept(state: TableState, since: int, why: str) -> TableState:
    """Rows come for the name of one that is kept: they join its rows."""
    return diverge(msgspec.structs.replace(state, dropped=False, kept=False), since, why)


def await_successor(state: TableState) -> TableState:
    """It was dropped, and a newer table of its name waits."""
    return msgspec.structs.replace(state, dropped=state.kept)


def truncate(state: TableState, ts: int, *, in_shape: bool) -> TableState:
    """A TRUNCATE empties it. ``in_shape``: it has the columns of the source, so that it equals the source whatever it
    was before; not one whose columns nothing has said yet."""
    state = msgspec.structs.replace(state, emptied=ts, settles=0)
    if not in_shape:
        return state
    clean = state.table is not None
    return msgspec.structs.replace(state, clean=clean, misshapen=False, diverged_since=None, diverged_why="")


def unverify(state: TableState) -> TableState:
    """It may lack rows or values from before, without a cause to mark it. A full read that settles does not help."""
    return msgspec.structs.replace(state, clean=False, settles=0)


def lose_first_rows(state: TableState) -> TableState:
    """It may lack rows from before the first messages: as if it had begun with these."""
    origin = "bootstrap" if state.origin == "create" else state.origin
    return msgspec.structs.replace(unverify(state), origin=origin)


def diverge(state: TableState, since: int, why: str) -> TableState:
    """It may differ from the source from a commit_ts on."""
    first = since if state.diverged_since is None else state.diverged_since
    return msgspec.structs.replace(state, clean=False, diverged_since=first, diverged_why=state.diverged_why or why)


def diverge_in_columns(state: TableState, since: int, why: str) -> TableState:
    """It may differ from the source in its columns, too: what was left out may have been a DDL."""
    return msgspec.structs.replace(diverge(state, since, why), misshapen=True)


def lose_rows(state: TableState, since: int, why: str) -> TableState:
    """Rows of it from a commit_ts on are left out, which may be older than what it lacked before."""
    first = since if state.diverged_since is None else min(since, state.diverged_since)
    return msgspec.structs.replace(state, diverged_since=first, diverged_why=why, clean=False)


def lose_hidden_values(state: TableState, before: Table | None) -> TableState:
    """It has hidden columns of TiDB's, which ``before`` had not. A full read gives none of their values, so the rows
    that it brought may lack some. A table that came with its CREATE TABLE has had each value with its row."""
    columns = () if state.table is None else state.table.columns
    known = () if before is None else before.columns
    new = HIDDEN_NAMES & {column.name for column in columns} - {column.name for column in known}
    if not new or state.origin != "snapshot":
        return state
    why = f"a full read gives no values of TiDB's columns {', '.join(sorted(new))}: they are NULL"
    return diverge(state, state.emptied, why)


def doubt_read(state: TableState, ts: int) -> TableState:
    """A DDL at ``ts`` is applied. Where its full read may have met what the DDL made of it at the source, the DDL is
    done twice to some rows, or rows of another table are in it: it is read again, as one that began in the middle."""
    if state.settles < ts or state.settles == 0:
        return state
    why = f"a DDL at {ts} changed or renamed it while it was read in full: it may have rows of the table behind the DDL"
    return diverge(msgspec.structs.replace(state, settles=0, origin="bootstrap"), ts, why)


def clear(state: TableState) -> TableState:
    """It had diverged, and a person has looked at it."""
    seen = state.diverged_since
    return msgspec.structs.replace(state, diverged_since=None, diverged_why="", misshapen=False, cleared=seen)


def quarantine(state: TableState, why: str) -> TableState:
    """What cannot be read stops it where it is, by ``on-reject = "quarantine"``."""
    return msgspec.structs.replace(state, quarantined=state.quarantined or why)


def lift(state: TableState) -> TableState:
    """A person lets it go on."""
    return msgspec.structs.replace(state, quarantined=None)


def begin_load(state: TableState, table: Table, load: Load, loses: str) -> TableState:
    """Its full read begins. ``loses``: why it differs from the source if the read is given up; ``""``: it does not."""
    why = state.quarantined or loses
    lost = diverge(state, min(state.applied, load.base), why) if why else state
    load = msgspec.structs.replace(load, diverged_since=lost.diverged_since, diverged_why=lost.diverged_why)
    return msgspec.structs.replace(
        state,
        table=table,
        applied=load.base,
        clean=False,
        dropped=False,
        kept=False,
        diverged_since=None,
        diverged_why="",
        cleared=None,
        quarantined=None,
        schema_keys=(),
        misshapen=False,
        columns_before=(),
        load=load,
        settles=0,
        gathered=0,
    )


def gather(state: TableState, rows: int, expected: int) -> TableState:
    """Its full read has so many rows by now."""
    return msgspec.structs.replace(state, gathered=rows, expected=expected)


def give_up_load(state: TableState, load: Load) -> TableState:
    """Its full read ends without a result: it goes on as what it was before."""
    after = msgspec.structs.replace(state, load=None, gathered=0)
    return after if load.diverged_since is None else diverge(after, load.diverged_since, load.diverged_why)


def finish_load(state: TableState, load: Load, rows: int, settles: int, *, in_shape: bool) -> TableState:
    """What was read becomes the table, which goes on from the base. ``settles``: what was read is of a commit_ts up to
    this one. ``in_shape``: it has no columns but those of the source."""
    done = msgspec.structs.replace(
        state,
        load=None,
        origin="snapshot" if in_shape else "adopted",
        emptied=load.base,
        applied=load.base,
        clean=False,
        settles=max(settles, load.base) if in_shape else 0,
        rows=rows,
        gathered=0,
    )
    return lose_hidden_values(done, None)


def settle_load(state: TableState) -> TableState:
    """All is applied that its full read may have met."""
    return msgspec.structs.replace(state, settles=0, clean=state.diverged_since is None)


def set_back(state: TableState, since: int) -> TableState:
    """Somebody has set it back to an older snapshot, and a person wants it read in full."""
    why = "it was set back; a full read of it is wanted"
    if state.load is None:
        return diverge(state, since, why)
    load = msgspec.structs.replace(state.load, diverged_since=since, diverged_why=why)
    return msgspec.structs.replace(state, load=load)


def for_stamp(state: TableState) -> TableState:
    """What of a table its stamp has: not what changes without a commit, or has a place of its own in the stamp."""
    return msgspec.structs.replace(state, applied=0, mark=NO_MARK, snapshot_id=None, rows=0, gathered=0, expected=0)


def take_promise(state: TableState, promise: TableState, *, same_mark: bool) -> TableState:
    """A table as its stamp has it, with what only the progress says. ``same_mark``: the progress is of the same commit,
    and may have decided something since."""
    if state.load is None:
        state = msgspec.structs.replace(state, quarantined=promise.quarantined, gathered=0, expected=0)
    else:
        # The read has taken it out of quarantine, and the progress need not have been committed since.
        state = gather(lift(state), promise.gathered, promise.expected)
    if same_mark:
        state = _decided(state, promise)
    if promise.cleared is None:
        return state
    # The operator's decision counts, unless it has diverged again.
    if promise.diverged_since is None and state.diverged_since == promise.cleared:
        state = msgspec.structs.replace(state, diverged_since=None, diverged_why="")
    return msgspec.structs.replace(state, cleared=promise.cleared)


def _decided(state: TableState, promise: TableState) -> TableState:
    clean = state.clean and promise.clean
    if bool(promise.settles) != bool(state.settles):
        # One of the two has seen the table settle after its full read, and the other has not.
        clean = state.clean if promise.settles else promise.clean
        state = msgspec.structs.replace(state, settles=0)
    return msgspec.structs.replace(
        state,
        clean=clean,
        origin=promise.origin if state.clean and not promise.clean else state.origin,
        diverged_since=promise.diverged_since if promise.diverged_since is not None else state.diverged_since,
        diverged_why=promise.diverged_why or state.diverged_why,
        misshapen=promise.misshapen or (state.misshapen and promise.cleared is None),
        dropped=promise.dropped,
        kept=promise.kept,
    )


def expected_columns(state: TableState) -> ExpectedColumns:
    """Which columns the rows of a table must have. Rows without a column that may be generated mark a table only if it
    counts as equal to the source, or will: a full read of several moments makes it so once they are all applied."""
    if state.has_diverged:
        return "nothing"
    return "all" if state.is_clean or state.settles else "stored"


def is_without_rows(state: TableState) -> bool:
    """Whether ``no-key = "skip"`` leaves out the rows of a table: it has no key."""
    return state.has_diverged and state.table is not None and not handle_key(state.table)


def condition_of(state: TableState) -> str:
    """What is known of a table, in the word that ``status`` has for it, as its own state tells."""
    if state.is_quarantined:
        return "quarantined"
    if state.has_diverged:
        return "skipped" if is_without_rows(state) else "diverged"
    if state.is_gone:
        return "kept" if state.is_kept else "dropped"
    if state.load is not None:
        return "snapshot"
    return "clean" if state.is_clean else "unverified"
