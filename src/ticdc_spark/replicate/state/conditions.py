"""The condition of a table: what is known of it and of its copy in the lake.

It has up to three layers. Innermost is what is known of the copy's rows (``Known``). Around it: the table is being
read in full, or is gone at the source. Outermost: it is quarantined. ``state.table`` has all that changes it.
"""

from typing import TypeAlias

import msgspec


class _Condition(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag=str.lower, forbid_unknown_fields=True):
    """In JSON it says what it is."""


class Clean(_Condition, frozen=True, kw_only=True):
    """The copy is known to equal the source at ``applied``: rows may be appended."""


class Unverified(_Condition, frozen=True, kw_only=True):
    """Changes are applied, and older rows may be missing."""

    columns_unsure: bool = False
    """Its columns may not be those of the source or of ``table``: it may lack a DDL, or others changed them."""


class Settling(_Condition, frozen=True, kw_only=True):
    """A full read of several moments was brought in: the copy equals the source once it has applied ``upto``."""

    upto: int


class Diverged(_Condition, frozen=True, kw_only=True):
    """The copy may differ from the source."""

    since: int
    """commit_ts."""
    why: str = ""
    """One sentence: what was left out, or what was done to the copy."""
    columns_unsure: bool = False
    """As in ``Unverified``."""
    settles: int = 0
    """As ``Settling.upto``, and it is that again once a person clears the mark; 0: it is then unverified."""


Known: TypeAlias = Clean | Unverified | Settling | Diverged
UNVERIFIED = Unverified()


class Loading(_Condition, frozen=True, kw_only=True):
    """A full read of it is under way."""

    base: int
    """commit_ts at which the table stands still until the read is brought in."""
    token: str
    """As in the note beside what was gathered."""
    exact: bool = False
    """It is read as of ``base``."""
    identity: str = ""
    """Which table of the source it is, whatever its name; ``""``: not known. Chunks read as of now check it."""
    began: int = 0
    """It is read from the topics: commit_ts of the CREATE or TRUNCATE that they begin with; 0: from another source."""
    gathered: int = 0
    """Rows that the read has gathered so far."""
    expected: int = 0
    """About how many it will gather; 0: not known."""
    rows: Known = UNVERIFIED
    """With the marks that it got since the read began."""
    before: Diverged | None = None
    """The mark that it has again where the read is given up."""


class Dropped(_Condition, frozen=True, kw_only=True):
    """The source has no such table, or not under this name; nor does the lake."""

    rows: Known = UNVERIFIED
    """With the marks that the next table of this name gets."""


class Kept(_Condition, frozen=True, kw_only=True):
    """Dropped at the source, or out of what ``tables`` names, and kept in the lake."""

    rows: Known = UNVERIFIED


Lifted: TypeAlias = Known | Loading | Dropped | Kept
"""A condition but for a quarantine."""


class Quarantined(_Condition, frozen=True, kw_only=True):
    """It does not advance, by ``on-reject = "quarantine"``."""

    why: str
    lifted: Lifted = UNVERIFIED
    """What it is once a person lets it go on."""


Condition: TypeAlias = Lifted | Quarantined
