"""What the progress notes: of names, what may be missing in the tables that have them; of the source, what it was."""

from typing import Literal

import msgspec

from ticdc_spark.model import TableName


class MissedNote(msgspec.Struct, frozen=True, kw_only=True):
    """A name, and messages that the job did not read and that tables of the name lack."""

    schema: str
    name: str
    kind: Literal["row", "any", "excluded"]
    """A change of the table that ``skip-messages`` names; a message that may be of any table of its topic, and may be
    a DDL; what ``tables`` under [job] excludes."""
    until: int
    """commit_ts of the row, or of the last of what waited for the name: tables that have it until then are marked."""
    why: str
    quarantine: bool = False
    """By ``on-reject``."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


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

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class SourceNote(msgspec.Struct, frozen=True, kw_only=True):
    """What must still be so when a source is read on: the id of a topic, or what a recording held."""

    topic: str
    what: str
    value: str
