"""Marks: how much a table has applied."""

from typing import TypeAlias

Mark: TypeAlias = tuple[int, int]
"""(commit_ts, step): what a table has applied, as written by the commit that applied it; compared as a pair."""
NO_MARK: Mark = (-1, 0)
"""The mark of a table that is not in the lake."""
ROWS_APPENDED, ROWS_MERGED = 1, 2
"""Steps of a range of rows, at the commit_ts where the range ends."""
