"""What becomes of a table that is not, or may not be, equal to the source any more. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ticdc_spark.model import Table
from ticdc_spark.mysql import HIDDEN_NAMES, handle_key
from ticdc_spark.replicate.state.progress import TableState

if TYPE_CHECKING:  # it imports the decoders, which `status` does not need
    from ticdc_spark.spark.decode.versions import ExpectedColumns


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
