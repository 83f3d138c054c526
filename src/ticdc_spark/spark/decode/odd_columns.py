"""Rows that do not have the columns of their table: what a task finds, and how the driver learns of it.

A task cannot change a table or mark it. So it stops at the first such rows, the driver does what is to be done, and the
rows are read again.
"""

from __future__ import annotations

import json

import msgspec

MARK = "ticdc-odd-columns"
_DECODER = json.JSONDecoder()


class OddColumns(msgspec.Struct, frozen=True):
    """Columns of rows that are not those of their table."""

    lacking: tuple[str, ...] = ()
    """Columns of the table that rows lack."""
    hidden: tuple[str, ...] = ()
    """TiDB's hidden columns that rows have, and the table has not."""

    def __bool__(self) -> bool:
        return bool(self.lacking or self.hidden)

    @property
    def text(self) -> str:
        """What a task raises."""
        return f"{MARK} {msgspec.json.encode(self).decode()}"


def odd_columns(text: str) -> OddColumns | None:
    """What a task found, from the text of its error; ``None``: another error."""
    _, mark, rest = text.partition(MARK)
    if not mark:
        return None
    found, _ = _DECODER.raw_decode(rest.strip())
    return msgspec.convert(found, OddColumns)
