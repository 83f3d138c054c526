"""The first commit_ts of the rows of a table without a version."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ticdc_spark.model import RowChange, Table


def first_rows(places: Iterable[Collection[RowChange]]) -> dict[int, int]:
    """The commit_ts of the first row of each schema without a version, by the ``id`` of its table.

    ``places``: rows in the order of commit_ts. Rows of one schema may be in several places. They get one version, which
    is not above any of them.
    """
    tables: dict[int, Table] = {}
    first: dict[int, int] = {}
    for changes in places:
        for change in changes:
            table = change.table
            if table.version is None and change.commit_ts < first.get(id(table), change.commit_ts + 1):
                tables[id(table)], first[id(table)] = table, change.commit_ts
    lowest: dict[Table, int] = {}
    for at, table in tables.items():
        lowest[table] = min(first[at], lowest.get(table, first[at]))
    return {at: lowest[table] for at, table in tables.items()}
