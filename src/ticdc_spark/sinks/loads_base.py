"""What a sink needs to know of a table's full read. See ``sinks.base.Loads``."""

import msgspec


class LoadNote(msgspec.Struct, frozen=True, kw_only=True):
    """How far a full read is. Each commit of gathered rows carries the note of all that was gathered."""

    token: str
    """Names the read."""
    upto: str = ""
    """Where it goes on, in the reader's own words."""
    rows: int = 0
    zero_dates: int = 0
    settles: int = 0
    """The commit_ts from which on what was gathered equals the source."""
    done: bool = False
