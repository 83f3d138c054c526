"""The condition of a table: what the job knows about it and about its copy in the lake.

A condition has up to three layers. Innermost is what is known about the copy's rows (``Known``). Around it: a full
read of the table is under way, or the source has dropped the table. Outermost: the table is quarantined. Every
function that changes a condition is in ``state.table``.
"""

from typing import TypeAlias

import msgspec


class _Condition(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag=str.lower, forbid_unknown_fields=True):
    """In JSON, the field ``is`` names the condition."""


class Clean(_Condition, frozen=True, kw_only=True):
    """The copy is known to equal the source at ``applied``, so rows may be appended."""


class Unverified(_Condition, frozen=True, kw_only=True):
    """Changes are applied, and older rows may be missing."""

    columns_unsure: bool = False
    """Its columns may differ from the source's or from ``table``: a DDL may be missing, or others changed them."""


class Settling(_Condition, frozen=True, kw_only=True):
    """A full read with rows of several moments is loaded: the copy equals the source once ``upto`` is applied."""

    upto: int


class Diverged(_Condition, frozen=True, kw_only=True):
    """The copy may differ from the source."""

    since: int
    """commit_ts."""
    why: str = ""
    """One sentence: what was skipped, or what was done to the copy."""
    columns_unsure: bool = False
    """As in ``Unverified``."""
    settles: int = 0
    """As ``Settling.upto``: the table is settling again once a person clears the mark. 0: it is then unverified."""


Known: TypeAlias = Clean | Unverified | Settling | Diverged
UNVERIFIED = Unverified()


class Loading(_Condition, frozen=True, kw_only=True):
    """A full read of the table is under way."""

    base: int
    """commit_ts at which the table is paused until the read is loaded."""
    token: str
    """The same as in the note beside the gathered rows."""
    exact: bool = False
    """The read sees the table as of ``base``."""
    identity: str = ""
    """Identifies the source's table, whatever its name; ``""``: not known. Chunks that are read as of now check it."""
    began: int = 0
    """Read from the topics: commit_ts of the CREATE or TRUNCATE that they begin with. 0: read from another source."""
    gathered: int = 0
    """Rows that the read has gathered so far."""
    expected: int = 0
    """About how many rows it will gather; 0: not known."""
    rows: Known = UNVERIFIED
    """With the marks that the table got since the read began."""
    before: Diverged | None = None
    """The mark that the table gets back if the read is given up."""


class Dropped(_Condition, frozen=True, kw_only=True):
    """Neither the source nor the lake has a table of this name."""

    rows: Known = UNVERIFIED
    """With the marks that the next table of this name gets."""


class Kept(_Condition, frozen=True, kw_only=True):
    """Dropped at the source, or renamed to a name that ``tables`` excludes. The lake keeps it."""

    rows: Known = UNVERIFIED


Lifted: TypeAlias = Known | Loading | Dropped | Kept
"""A condition without its quarantine."""


class Quarantined(_Condition, frozen=True, kw_only=True):
    """The table does not advance: by ``on-reject = "quarantine"``, or because its key is not the source's."""

    why: str
    lifted: Lifted = UNVERIFIED
    """The condition it has again once a person resumes it."""


Condition: TypeAlias = Lifted | Quarantined
