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


def readable(value: bytes | None, most: int | None = None) -> str:
    """The key or the value of a message for people: its text, with escapes for what is no text. ``most``: how many
    bytes to show; ``None``: all."""
    if value is None:
        return "none"
    text = value[:most].decode("utf-8", errors="backslashreplace")
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    return shown if most is None or len(value) <= most else f"{shown} … ({len(value):,} bytes)"


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
