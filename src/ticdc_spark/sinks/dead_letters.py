"""The contract of dead letters: what cannot be read, kept for people."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or a row of it, that cannot be read or is left out."""

    topic: str
    partition: int
    offset: int
    seq: int
    """The place of the row in its message."""
    reason: str
    key: bytes | None
    value: bytes | None
    """The message, as it was sent."""


class DeadLetters(Protocol):
    """The dead letters of one job."""

    where: str
    """For messages."""

    def keep(self, batch: int, stage: str, letters: Sequence[DeadLetter], at: float) -> None:
        """Keep letters of one stage of one batch, in place of what a former try kept of the same rows. The others stay:
        they are of rows of the table before another DDL of the batch.

        ``stage``: ``decode`` for messages, else the table whose rows they are, ``schema.table``. ``at``: seconds since
        the epoch. Raises: SinkFault
        """
