"""The members of an ENUM or SET in a schema, where TiCDC lists them separated by commas.

Source: ``EscapeEnumAndSetOptions`` in TiCDC's ``pkg/sink/codec/common``. It is meant for the text of a DDL, so it also
changes quotes and backslashes that are part of a name.
"""

from __future__ import annotations

from collections.abc import Iterable


def listed(members: Iterable[str]) -> str:
    """The members in one text."""
    return ",".join(shortened(member.replace(",", "\\,")) for member in members)


def shortened(member: str) -> str:
    """A member's name as a list has it, except for its commas. Rows have the whole name."""
    return member.replace("\\'", "'").replace("''", "'")
