"""Marks: how far a table is."""

from typing import TypeAlias

Mark: TypeAlias = tuple[int, int]
"""(commit_ts, step): what a table has applied, as in the commit that did it; compared as a pair."""
NO_MARK: Mark = (-1, 0)
"""Of a table that is not in the lake."""
