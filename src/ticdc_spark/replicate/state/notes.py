"""Notes in the progress: what tables may lack, by their names; tables that catch up; and what the source was."""

from typing import Literal

import msgspec

from ticdc_spark.model import TableName


class MissedNote(msgspec.Struct, frozen=True, kw_only=True):
    """A name, and messages that the job did not apply and that tables of this name lack."""

    schema: str
    name: str
    kind: Literal["row", "any", "excluded"]
    """``row``: a change of the table, named by ``skip-messages``. ``any``: a message that may be of any table of its
    topic, and may be a DDL. ``excluded``: ``tables`` under [job] excludes it."""
    until: int
    """commit_ts of the row, or of the last row or DDL that waited for the name. Tables that get the name up to then are
    marked."""
    why: str
    quarantine: bool = False
    """Whether ``on-reject`` quarantines the table."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class CatchUp(msgspec.Struct, frozen=True, kw_only=True):
    """A table whose first messages were older than what the job had applied: its topic was added or found later, or the
    changefeed began to send it from an older checkpoint. It advances only as far as its own partitions allow."""

    schema: str
    name: str
    needs: tuple[tuple[str, int, int], ...]
    """(topic, partition, watermark) of the partitions of its topics. A partition bounds the table only with a watermark
    above this one. The partition had already passed it when older messages of the table came; 0: it had passed none."""
    until: int | None = None
    """commit_ts just before its first rows of unknown schema; ``None``: it has no such rows."""
    lacks: int = 0
    """commit_ts of the first row that it lacks, from a topic that is not read any more. Messages in other topics only
    show that they bring it, too, if they begin at or before it. 0: it lacks none."""

    @property
    def full_name(self) -> TableName:
        """Schema and name."""
        return self.schema, self.name


class SourceNote(msgspec.Struct, frozen=True, kw_only=True):
    """What must still be true when the job continues to read a source: the id of a topic, or what a recording held."""

    topic: str
    what: str
    value: str
