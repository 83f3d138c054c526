"""What a topic holds, counted: by kind, table and partition, with time ranges and the schemas of rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from ticdc_spark.cli.output.text import count, noun
from ticdc_spark.model import Bootstrap, RowChange
from ticdc_spark.mysql import tso_time
from ticdc_spark.streams.event_lines import EventLine
from ticdc_spark.streams.reader import Found

_VERSIONS = 1000
"""How many different schemas of one table are kept. Of more, only the fact is kept that there are more."""
_SHOWN = 3


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Events, and the range of their commit ts; ``None``: none of them has one. Times are UTC."""

    events: int
    kinds: dict[str, int]
    first_commit_ts: int | None
    first_time: str
    last_commit_ts: int | None
    last_time: str


class TableCounts(Counts, frozen=True, kw_only=True):
    """The events of a table."""

    schema: str
    table: str
    schema_versions: tuple[str, ...]
    """TiDB's versions or a registry's ids, as rows and BOOTSTRAPs name them. Empty if they name none."""


class PartitionCounts(Counts, frozen=True, kw_only=True):
    """The events of a partition."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int


class EventSummary(Counts, frozen=True, kw_only=True):
    """What ``inspect --summary --json`` prints."""

    tables: tuple[TableCounts, ...]
    partitions: tuple[PartitionCounts, ...]


@dataclass
class _Counting:
    kinds: Counter[str] = field(default_factory=Counter)
    first: int | None = None
    last: int | None = None
    versions: dict[str, None] = field(default_factory=dict)
    first_offset: int = 0
    last_offset: int = -1

    def add(self, line: EventLine) -> None:
        if not self.kinds:
            self.first_offset = line.offset
        self.kinds[line.kind] += 1
        self.first_offset = min(self.first_offset, line.offset)
        self.last_offset = max(self.last_offset, line.offset)
        if line.commit_ts:
            self.first = line.commit_ts if self.first is None else min(self.first, line.commit_ts)
            self.last = line.commit_ts if self.last is None else max(self.last, line.commit_ts)

    def counts(self) -> Counts:
        return Counts(
            events=self.kinds.total(),
            kinds=dict(self.kinds.most_common()),
            first_commit_ts=self.first,
            first_time=tso_time.utc(self.first or 0),
            last_commit_ts=self.last,
            last_time=tso_time.utc(self.last or 0),
        )


class Summarizer:
    """Counts events. Its memory depends on the number of tables and partitions only."""

    def __init__(self) -> None:
        self._all = _Counting()
        self._tables: dict[tuple[str, str], _Counting] = {}
        self._partitions: dict[tuple[str, int], _Counting] = {}

    def add(self, line: EventLine, found: Found) -> None:
        """Count an event."""
        self._all.add(line)
        self._partitions.setdefault((line.topic, line.partition), _Counting()).add(line)
        if line.table is None:
            return
        table = self._tables.setdefault((line.schema or "", line.table), _Counting())
        table.add(line)
        version = _version(found)
        if version and len(table.versions) < _VERSIONS:
            table.versions[version] = None

    def summary(self) -> EventSummary:
        """What was counted so far, tables and partitions by name."""
        tables = (
            TableCounts(schema=name[0], table=name[1], schema_versions=tuple(one.versions), **_fields(one.counts()))
            for name, one in sorted(self._tables.items())
        )
        partitions = (
            PartitionCounts(
                topic=place[0],
                partition=place[1],
                first_offset=one.first_offset,
                last_offset=one.last_offset,
                **_fields(one.counts()),
            )
            for place, one in sorted(self._partitions.items())
        )
        return EventSummary(tables=tuple(tables), partitions=tuple(partitions), **_fields(self._all.counts()))


def _fields(counts: Counts) -> dict[str, Any]:
    return msgspec.structs.asdict(counts)


def _version(found: Found) -> str:
    if isinstance(found.event, Bootstrap):
        return str(found.event.table.version or "")
    if found.envelope is not None and found.envelope.schema_key:
        return found.envelope.schema_key
    return str(found.event.table.version or "") if isinstance(found.event, RowChange) else ""


def print_summary(console: Console, summary: EventSummary) -> None:
    """Print it for people."""
    console.print(f"{noun(summary.events, 'event')}, {summary.first_time} to {summary.last_time}: {_kinds(summary)}")
    if summary.tables:
        grid = _grid("table", "events", "kinds", "first", "last", "schemas")
        for table in summary.tables:
            grid.add_row(Text(f"{table.schema}.{table.table}"), *_cells(table), Text(_versions(table.schema_versions)))
        console.print(grid)
    if summary.partitions:
        grid = _grid("partition", "events", "kinds", "first", "last", "offsets")
        for one in summary.partitions:
            grid.add_row(
                Text(f"{one.topic}/{one.partition}"),
                *_cells(one),
                f"{count(one.first_offset)}-{count(one.last_offset)}",
            )
        console.print(grid)


def _grid(*titles: str) -> Grid:
    grid = Grid(box=None, padding=(0, 2, 0, 0))
    for title in titles:
        grid.add_column(title, justify="right" if title == "events" else "left")
    return grid


def _cells(counts: Counts) -> tuple[str, str, str, str]:
    return count(counts.events), _kinds(counts), counts.first_time, counts.last_time


def _kinds(counts: Counts) -> str:
    return ", ".join(f"{count(number)} {kind}" for kind, number in counts.kinds.items()) or "none"


def _versions(versions: tuple[str, ...]) -> str:
    if len(versions) >= _VERSIONS:
        return f"{count(_VERSIONS)} or more"
    if len(versions) > _SHOWN:
        return f"{count(len(versions))}: {', '.join(versions[:_SHOWN])} …"
    return ", ".join(versions) or "-"
