"""The servers that read the same SQL in different ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

Dialect: TypeAlias = Literal["tidb", "mysql", "mariadb"]
"""The server that runs a statement."""
Replacement: TypeAlias = tuple[int, int, str]
"""Start and end in a statement, and the text to put there."""


def clarified(sql: str, replacements: Iterable[Replacement]) -> str:
    """A statement with replacements, from its last one to its first."""
    for start, end, text in sorted(replacements, reverse=True):
        before, after = sql[:start], sql[end:]
        sql = before + (text[1:] if text[:1] == " " and before[-1:].isspace() else text) + after
    return sql
