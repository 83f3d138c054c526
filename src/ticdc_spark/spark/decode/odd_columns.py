"""Rows whose columns differ from their table's: how a task reports them, and how the driver learns of them.

A task cannot change or mark a table. So it stops at the first such rows. The driver changes or marks the table, and the
rows are read again.
"""

from __future__ import annotations

import json

import msgspec

MARK = "ticdc-odd-columns"
_DECODER = json.JSONDecoder()


class OddColumns(msgspec.Struct, frozen=True):
    """How the columns of rows differ from their table's."""

    lacking: tuple[str, ...] = ()
    """Columns of the table that the rows lack."""
    hidden: tuple[str, ...] = ()
    """TiDB's hidden columns that the rows have and the table lacks."""

    def __bool__(self) -> bool:
        return bool(self.lacking or self.hidden)

    @property
    def text(self) -> str:
        """The text of the task's error."""
        return f"{MARK} {msgspec.json.encode(self).decode()}"


def odd_columns(text: str) -> OddColumns | None:
    """What a task found, from the text of its error; ``None``: it is another error."""
    _, mark, rest = text.partition(MARK)
    if not mark:
        return None
    found, _ = _DECODER.raw_decode(rest.strip())
    return msgspec.convert(found, OddColumns)
