"""Reads the rows of one commit_ts from a topic's messages, and sorts them as a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from ticdc_spark.errors import RejectedMessage
from ticdc_spark.model import Envelope, Event, Message, Rejected, RowChange
from ticdc_spark.mysql import handle_key
from ticdc_spark.streams.reader import EventReader


class Entry(Protocol):
    """An event and its place."""

    @property
    def message(self) -> Message:
        """The event's message."""

    @property
    def seq(self) -> int:
        """Its place in the message."""

    @property
    def event(self) -> Event:
        """The event."""


def read_rows(
    reader: EventReader, entries: Iterable[Entry], met: Callable[[RowChange], None] = lambda _: None
) -> tuple[list[RowChange], int]:
    """The rows of one commit_ts, deletes first, and how many copies were skipped.

    ``entries``: its row changes, in the order of their messages. ``met`` is called with each row that stays.

    Raises: RejectedMessage for a row that cannot be read.
    """
    rows: list[RowChange] = []
    seen: set[tuple[object, ...]] = set()
    copies = 0
    for entry in entries:
        event = entry.event
        assert isinstance(event, Envelope)
        for found in reader.read_event(entry.message, entry.seq, event):
            change = found.event
            if isinstance(change, Rejected):
                raise RejectedMessage(f"{place_of(entry.message)}: a row cannot be read: {change.reason}")
            assert isinstance(change, RowChange)
            if handle_key(change.table):  # without a key, equal rows may be different rows
                identity = (event.schema, event.table, event.op, event.key, event.before, event.after)
                if identity in seen:
                    copies += 1
                    continue
                seen.add(identity)
            met(change)
            rows.append(change)
    # deletes first: another partition may reuse their keys
    rows.sort(key=lambda row: row.op != "delete")
    return rows, copies


def place_of(message: Message) -> str:
    """The place of a message, for errors."""
    return f"topic {message.topic!r}, partition {message.partition}, offset {message.offset}"
