"""What the progress notes: of names, what may be missing in the tables that have them; of the source, what it was."""

import msgspec


class SkippedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a table that is not known yet, or not as far yet, which ``skip-messages`` left out."""

    schema: str
    name: str
    commit_ts: int
    why: str


class UnreadNote(msgspec.Struct, frozen=True, kw_only=True):
    """A name that waiting rows or DDLs have, and a message that is not read: one that cannot be, of a topic of that
    name; or any of a name that ``tables`` under [job] leaves out by now."""

    schema: str
    name: str
    until: int
    """commit_ts of the last of what waited: the tables that have the name until then are marked."""
    why: str
    quarantine: bool
    """By ``on-reject``."""


class CatchUp(msgspec.Struct, frozen=True, kw_only=True):
    """A table that was first seen by messages below what the job had applied: its topic was added or found later, or
    the changefeed began to send it from an older checkpoint. It goes as far as its own partitions show."""

    schema: str
    name: str
    needs: tuple[tuple[str, int, int], ...]
    """(topic, partition, watermark): the partitions of its topics, each with the watermark that it must exceed to
    bound the table: the one that it had passed already when older messages of the table came; 0: none."""
    until: int | None = None
    """commit_ts before its first rows whose schema is not known; ``None``: there are none."""


class SourceNote(msgspec.Struct, frozen=True, kw_only=True):
    """What must still be so when a source is read on: the id of a topic, or what a recording held."""

    topic: str
    what: str
    value: str
