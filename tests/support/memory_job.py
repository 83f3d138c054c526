"""A job without Spark: its messages are a list, and its tables and its state are in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.memory_sink.lake import Lake
from tests.memory_sink.letters import open_letters
from tests.memory_sink.rows import MemoryRows
from tests.memory_sink.sink import MemorySink
from tests.memory_sink.state import MemoryState
from tests.workload import Truth
from ticdc_spark.changes.opening import Opening
from ticdc_spark.config.job import FilesSource, IcebergConfig, Job
from ticdc_spark.model import Message, Offsets
from ticdc_spark.mysql import handle_key
from ticdc_spark.replicate.pipeline import OpenJob
from ticdc_spark.replicate.resources import Resources, RunEnd
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.progress import Plan, Progress
from ticdc_spark.replicate.state.requests import Request
from ticdc_spark.replicate.state.store import JobStore, ask, read_state, take_over
from ticdc_spark.replicate.step import Steps
from ticdc_spark.spark.types import LakeOptions, lake_columns, to_arrow


class ListSource:
    """Messages in a list."""

    has_more = False
    is_recorded = True

    def __init__(self, messages: Sequence[Message]) -> None:
        self.held: dict[tuple[str, int], list[Message]] = {}
        for message in messages:
            self.held.setdefault((message.topic, message.partition), []).append(message)

    def starting(self) -> Offsets:
        return self.beginning_offsets()

    def beginning_offsets(self) -> Offsets:
        return dict.fromkeys(self.held, 0)

    def end_offsets(self) -> Offsets:
        return {place: held[-1].offset + 1 for place, held in self.held.items()}

    def notes(self, read: Offsets) -> dict[tuple[str, str], str]:
        return {}

    def recall(self, memory: str) -> None:
        return

    def memory(self, offsets: Offsets, needed: Any) -> str:
        return ""

    def retention(self) -> dict[str, float]:
        return {}

    @property
    def unread(self) -> str:
        return ""

    def publish(self, offsets: Offsets) -> None:
        return None

    def cap(self, start: Offsets, end: Offsets, max_rows: int, max_bytes: int) -> Offsets:
        share = min(1.0, max_rows / max(1, sum(end[p] - start.get(p, 0) for p in end)))
        return {p: min(end[p], start.get(p, 0) + max(1, int((end[p] - start.get(p, 0)) * share))) for p in end}

    def offsets_since(self, commit_ts: int) -> Offsets:
        return self.beginning_offsets()

    def read(self, start: Offsets, end: Offsets, session: Any = None) -> list[Message]:
        return [m for p, last in end.items() for m in self.held[p] if start.get(p, 0) <= m.offset < last]

    def first_messages(self, start: Offsets, end: Offsets, limit: int) -> list[Any]:
        return [(message.key, message.value) for message in self.read(start, end)[:limit]]


class Kept:
    """The state of a job in memory."""

    def __init__(self) -> None:
        self.states = MemoryState("job")

    def owned(self) -> JobStore:
        """The state as the process has it that takes the job now, whoever had it."""
        return take_over(self.states, self.states.load(), "job", this_process())

    def ask(self, request: Request) -> None:
        ask(self.states, request)

    def load(self) -> Progress | None:
        return read_state(self.states).progress

    @property
    def progress(self) -> Progress | None:
        return self.load()

    @property
    def plan(self) -> Plan | None:
        return read_state(self.states).plan


def job_of(folder: Path, **keys: Any) -> Job:
    source, sink = FilesSource(path=folder, protocol="simple"), IcebergConfig(warehouse="memory")
    return Job(name="job", file=folder / "job.toml", source=source, sink=sink, **keys)


def started(job: Job, source: Any, lake: Lake, store: Kept, protocol: str = "simple") -> Steps:
    """A new process of a job, which runs up to where its source ends, on what earlier ones left."""
    return Steps(
        OpenJob(
            job=job,
            resources=Resources(
                source=source,
                sink=MemorySink(lake),
                rows=MemoryRows(source, Opening(protocol=protocol)),
                letters=open_letters(lake, job.name),
                store=store.owned(),
            ),
            protocol=protocol,
            end=RunEnd(bounded=True),
        )
    )


def run(job: Job, source: Any, lake: Lake, store: Kept, protocol: str = "simple") -> Steps:
    """Start a job, and let it read all that its source has."""
    steps = started(job, source, lake, store, protocol)
    while steps.batch(source.end_offsets(), lambda _phase, _batch: None).left:
        pass
    return steps


def lake_rows(truth: Truth) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The truth as values of the lake's types."""
    found = {}
    for name, (table, rows) in truth.items():
        columns = lake_columns(table, handle_key(table), LakeOptions())
        arrays = {
            column.name: to_arrow(column, LakeOptions())([row[column.source] for row in rows.values()])[0].to_pylist()
            for column in columns
        }
        found[name] = [dict(zip(arrays, values, strict=True)) for values in zip(*arrays.values(), strict=True)]
    return found


def in_order(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)
