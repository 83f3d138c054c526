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


class PastName(msgspec.Struct, frozen=True, kw_only=True):
    """What the DDLs up to ``replay_below`` say of a name, after the state was lost."""

    schema: str
    name: str
    """``""``: every name of the database."""
    born: int = 0
    """commit_ts of the last DDL after which a table has this name; 0: none."""
    gone: int = 0
    """commit_ts of the last DDL that took it away; 0: none."""


class DoubtedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that counts as equal to the source, and no message of which was read that is as old as it is."""

    schema: str
    name: str
    reached: int
    """commit_ts up to which it has everything."""


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """After the state was lost: whose topic may be another than the one that the table came from."""

    tables: tuple[DoubtedTable, ...]
    topics: tuple[tuple[str, int], ...] = ()
    """The topics, each with the lowest commit_ts of a watermark or DDL in it."""
    cut: bool = False
    """First messages were removed, and may have been all that a table had."""


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

    what: str
    value: str
