"""What the driver reads of a landed batch: control events, and what could not be read."""

import msgspec

from ticdc_spark.model import Rejected


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the change log's control slot."""

    kind: str
    topic: str
    partition: int
    offset: int
    seq: int
    schema: str
    table: str
    schema_key: str | None
    commit_ts: int
    control: str | None


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or a row of it, that cannot be read; where it stands and why."""

    topic: str
    partition: int
    offset: int
    seq: int
    reason: str


def reject_of(event: Control) -> Reject:
    """Where an unreadable message stands, and why it is one."""
    rejected = msgspec.json.decode(event.control or "", type=Rejected)
    return Reject(
        topic=event.topic, partition=event.partition, offset=event.offset, seq=event.seq, reason=rejected.reason
    )
