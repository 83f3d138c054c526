"""The contract of dead letters: messages and rows that cannot be read, kept for people."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or one of its rows, that cannot be read or is skipped."""

    topic: str
    partition: int
    offset: int
    seq: int
    """The place of the row in its message."""
    reason: str
    key: bytes | None
    value: bytes | None
    """The message as it was sent."""


class DeadLetters(Protocol):
    """The dead letters of one job."""

    where: str
    """The place, for messages."""

    def keep(self, batch: int, stage: str, letters: Sequence[DeadLetter], at: float) -> None:
        """Keep the letters of one stage of one batch. They replace letters of the same rows from an earlier try.

        Other letters stay: they are from rows of the table before another DDL in the batch.

        ``stage``: ``decode`` for messages, else the table of the rows, as ``schema.table``. ``at``: seconds since the
        epoch. Raises: SinkFault
        """
