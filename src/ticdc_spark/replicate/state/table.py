"""The states of a table of the source and its copy in the lake, and all that changes them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from ticdc_spark.model import Table
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


def diverged(state: TableState, since: int, why: str) -> TableState:
    """A table that may differ from the source from a commit_ts on."""
    first = since if state.diverged_since is None else state.diverged_since
    return msgspec.structs.replace(state, clean=False, diverged_since=first, diverged_why=state.diverged_why or why)


def misshapen(state: TableState, since: int, why: str) -> TableState:
    """A table that may differ from the source in its columns, too: what was left out may have been a DDL."""
    return msgspec.structs.replace(diverged(state, since, why), misshapen=True)


def expected_columns(state: TableState) -> ExpectedColumns:
    """Which columns the rows of a table must have. Rows without a column that may be generated mark a table only if it
    counts as equal to the source, or will: a full read of several moments makes it so once they are all applied."""
    if state.diverged_since is not None:
        return "nothing"
    return "all" if state.clean or state.settles else "stored"


def with_ddl_during_read(state: TableState, ts: int) -> TableState:
    """A table after a DDL at ``ts``. Where its full read may have met what the DDL made of it at the source, the DDL is
    done twice to some rows, or rows of another table are in it: it is read again, as one that began in the middle."""
    if state.settles < ts or state.settles == 0:
        return state
    why = f"a DDL at {ts} changed or renamed it while it was read in full: it may have rows of the table behind the DDL"
    return diverged(msgspec.structs.replace(state, settles=0, origin="bootstrap"), ts, why)


def with_unread_columns(state: TableState, before: Table | None) -> TableState:
    """A table that has hidden columns of TiDB's, which ``before`` had not. A full read gives none of their values, so
    the rows that it brought may lack some. A table that came with its CREATE TABLE has had each value with its row."""
    columns = () if state.table is None else state.table.columns
    known = () if before is None else before.columns
    new = HIDDEN_NAMES & {column.name for column in columns} - {column.name for column in known}
    if not new or state.origin != "snapshot":
        return state
    why = f"a full read gives no values of TiDB's columns {', '.join(sorted(new))}: they are NULL"
    return diverged(state, state.emptied, why)


def without_first_rows(state: TableState) -> TableState:
    """A table that may lack rows from before the first messages: as if it had begun with these."""
    origin = "bootstrap" if state.origin == "create" else state.origin
    return msgspec.structs.replace(state, clean=False, origin=origin)


def is_without_rows(state: TableState) -> bool:
    """Whether ``no-key = "skip"`` leaves out the rows of a table: it has no key."""
    return state.diverged_since is not None and state.table is not None and not handle_key(state.table)


def condition_of(state: TableState) -> str:
    """What is known of a table, in the word that ``status`` has for it, as its own state tells."""
    if state.quarantined is not None:
        return "quarantined"
    if state.diverged_since is not None:
        return "skipped" if is_without_rows(state) else "diverged"
    if state.kept or state.dropped:
        return "kept" if state.kept else "dropped"
    if state.load is not None:
        return "snapshot"
    return "clean" if state.clean and not state.settles else "unverified"
