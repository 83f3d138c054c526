"""The tables of a job that match a query, and their presentation."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ticdc_spark.config.durations import duration
from ticdc_spark.operate.page.job_history import Told
from ticdc_spark.operate.page.table_files import made_of, size
from ticdc_spark.operate.page.view import Cell, Grid, Head, Listing, Query, Tone
from ticdc_spark.operate.table_status import TableStatus
from ticdc_spark.replicate.state.table import ConditionName

TONES: dict[ConditionName, Tone] = {
    "clean": "good",
    "unverified": "quiet",
    "snapshot": "quiet",
    "diverged": "bad",
    "quarantined": "bad",
    "skipped": "warn",
    "dropped": "quiet",
    "kept": "quiet",
}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The tables that match a query."""

    tables: tuple[TableStatus, ...]
    """The tables of the page."""
    number: int
    """The number of all matching tables."""
    states: Mapping[str, int]
    """The number of all tables of the job, by condition."""


def find(tables: Sequence[TableStatus], query: Query) -> Found:
    """Tables whose name in the source or target contains the text, ignoring case. Tables that need a look come
    first."""
    text = query.search.casefold().strip()
    fitting = [
        table
        for table in tables
        if (not query.state or table.condition == query.state)
        and (not text or text in table.name.casefold() or text in table.target.casefold())
    ]
    fitting.sort(key=lambda table: not table.needs_a_look)  # the sort is stable: they stay in the order of names
    states = Counter(table.condition for table in tables)
    page = tuple(fitting[query.offset : query.offset + query.limit])
    return Found(tables=page, number=len(fitting), states=dict(sorted(states.items())))


def listing(tables: Sequence[TableStatus], query: Query, told: Told, now: float) -> Listing:
    """Tables for the page. ``told``: times of changes, and files, if known."""
    found = find(tables, query)
    rows = tuple(_row(table, told, now) for table in found.tables)
    heads = (
        Head("Table"),
        Head("State"),
        Head("Equals the source at", "time"),
        Head("Changes", "number"),
        Head("Waiting", "number"),
        Head("Last change", "time"),
        Head("Files"),
    )
    empty = "no table fits" if tables else "no table yet"
    return Listing(
        query=query,
        choices=tuple(TONES),
        grid=Grid(heads=heads, rows=rows, empty=empty),
        found=found.number,
        counts=", ".join(f"{number:,} {state}" for state, number in found.states.items()),
    )


def _row(table: TableStatus, told: Told, now: float) -> tuple[Cell | str, ...]:
    name = (table.schema, table.table)
    changed, files = told.changed.get(name), told.files.get(name)
    waiting = Cell(f"{table.changes_waiting:,}", "warn" if table.changes_waiting and table.needs_a_look else "")
    return (
        Cell(table.name, more=f"→ {table.target}" if table.target else ""),
        Cell(table.condition, TONES[table.condition], table.detail),
        table.applied_time,
        f"{table.changes:,}",
        waiting,
        f"{duration(max(0.0, now - changed))} ago" if changed is not None else "-",
        Cell(size(files.bytes), more=made_of(files)) if files is not None else "-",
    )
