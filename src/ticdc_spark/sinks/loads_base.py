"""What a sink must know about a table's full read. See ``sinks.base.Loads``."""

import msgspec


class LoadNote(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a full read. Each commit of gathered rows carries the note of all rows gathered so far."""

    token: str
    """Names the read."""
    upto: str = ""
    """Where the read continues, in the reader's own format."""
    rows: int = 0
    zero_dates: int = 0
    settles: int = 0
    """From this commit_ts on, the gathered rows equal the source."""
    done: bool = False
