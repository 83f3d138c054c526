"""Encodes many row changes. One that cannot be written does not stop the others."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ticdc_spark.errors import MessageError
from ticdc_spark.model import RowChange
from ticdc_spark.protocols.base import Encoded, Encoder

UNWRITABLE = (MessageError, ValueError, ArithmeticError, struct.error)
"""Errors of an encoder for a change that it cannot write. Values are not verified when they are read, so an invalid
text fails with errors of Python's own functions."""


def write_changes(encoder: Encoder, changes: Sequence[RowChange]) -> tuple[list[Encoded], dict[int, str]]:
    """The messages of the changes that can be written. By place, why other changes cannot."""
    try:
        return list(encoder.rows(changes)), {}
    except UNWRITABLE:
        bad = dict(_unwritable(encoder, changes, 0))
        return list(encoder.rows([change for at, change in enumerate(changes) if at not in bad])), bad


def _unwritable(encoder: Encoder, changes: Sequence[RowChange], first: int) -> Iterator[tuple[int, str]]:
    """The changes that cannot be written, found by bisection."""
    try:
        list(encoder.rows(changes))
    except UNWRITABLE as error:
        if len(changes) == 1:
            yield first, _blame(encoder, changes[0], str(error))
            return
        half = len(changes) // 2
        yield from _unwritable(encoder, changes[:half], first)
        yield from _unwritable(encoder, changes[half:], first + half)


def _blame(encoder: Encoder, change: RowChange, reason: str) -> str:
    """A reason with the table and the guilty column: without its value the row is written, or fails differently."""
    cured, changed = [], []
    for name in {**(change.before or {}), **(change.after or {})}:
        before, after = (row and {**row, name: None} for row in (change.before, change.after))
        try:
            list(encoder.rows([replace(change, before=before, after=after)]))
            cured.append(name)
        except UNWRITABLE as error:
            if str(error) != reason:
                changed.append(name)
    blamed = cured or changed
    table = f"`{change.table.schema}`.`{change.table.name}`"
    text = reason if table in reason else f"{table}: {reason}"
    return f"{text} (column `{blamed[0]}`)" if len(blamed) == 1 and f"`{blamed[0]}`" not in text else text
