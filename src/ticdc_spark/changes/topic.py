"""The rows of a job's topics: a batch scans them once, and reads them when they are applied."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Protocol

import msgspec

from ticdc_spark.changes.opening import Opening
from ticdc_spark.changes.ranges import RowRange, RowScan
from ticdc_spark.changes.raw import RawChanges
from ticdc_spark.changes.scan import ScanPlan
from ticdc_spark.model import Message, Offsets
from ticdc_spark.spark.decode.control import ControlEvent


class RowIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a row in a topic, and a digest of its contents."""

    topic: str
    partition: int
    offset: int
    schema_key: str
    commit_ts: int
    content: bytes
    """A digest of its operation and images."""


def content_of(op: str, before: bytes | None, after: bytes | None) -> bytes:
    """``RowIdentity.content`` of a row."""
    digest = blake2b(op.encode(), digest_size=16)
    for image in (before, after):
        digest.update(b"\0" if image is None else b"\1%d:" % len(image := bytes(image)) + image)
    return digest.digest()


class Workers(Protocol):
    """Limits the threads that work on a batch."""

    def worker(self) -> AbstractContextManager[None]:
        """Work in this thread, once a slot is free."""


class TopicRows(Protocol):
    """The topics of a job. Every call raises SourceFault when they cannot be read."""

    opening: Opening
    """How messages are opened now. It changes as the job learns schemas."""

    def share(self, parallel: int) -> AbstractContextManager[Workers]:
        """Read rows for several threads of a batch together. ``parallel``: how many threads work at a time."""

    def scan(self, plan: ScanPlan, starts: Offsets, end_offsets: Offsets, count: int) -> list[ControlEvent]:
        """The control events of the messages [starts, end_offsets), about ``count`` of them."""

    def keep(self, needed: Iterable[RowRange]) -> None:
        """Drop messages from memory that no range needs."""

    def raw(self, wanted: RowScan) -> RawChanges:
        """The rows of a scan, for tasks to read."""

    def has_rows(self, wanted: RowScan) -> bool:
        """Whether a scan has a row."""

    def identities(self, wanted: RowScan) -> Sequence[RowIdentity]:
        """Every row of a scan."""

    def ranges_since(self, commit_ts: int, until: Offsets, topics: Iterable[str]) -> tuple[RowRange, ...]:
        """Where rows of a commit_ts and later can be, in topics that were read up to ``until``."""

    def messages(self, places: Iterable[tuple[str, int, int]]) -> Sequence[Message]:
        """Messages by topic, partition and offset."""
