"""A whole job over a source, a change log and a sink in memory: what the loop decides, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.memory_sink.lake import Lake
from tests.memory_sink.letters import open_letters
from tests.memory_sink.rows import MemoryRows
from tests.memory_sink.sink import MemorySink
from tests.memory_sink.state import MemoryState
from tests.reference.workloads import FAULTS, messages_of, truth_of
from tests.workload import Truth, WorkloadConfig, dispatch, generate
from ticdc_spark.changes.opening import Opening
from ticdc_spark.changes.scan import ScanPlan
from ticdc_spark.config.job import FilesSource, IcebergConfig, Job
from ticdc_spark.errors import SourceChanged
from ticdc_spark.model import Envelope, Message, Offsets
from ticdc_spark.mysql import handle_key
from ticdc_spark.names import escape
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.debezium import encode as debezium_encode
from ticdc_spark.protocols.debezium.encode import DebeziumConfig
from ticdc_spark.replicate.pipeline import OpenJob
from ticdc_spark.replicate.resources import Resources, RunEnd
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.progress import Plan, Progress
from ticdc_spark.replicate.state.requests import Request
from ticdc_spark.replicate.state.store import JobStore, ask, read_state, take_over
from ticdc_spark.replicate.step import Steps
from ticdc_spark.spark.decode.control import ControlEvent
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


def run(job: Job, source: ListSource, lake: Lake, store: Kept, rows: type[MemoryRows] = MemoryRows) -> Steps:
    steps = Steps(
        OpenJob(
            job=job,
            resources=Resources(
                source=source,
                sink=MemorySink(lake),
                rows=rows(source, Opening(protocol="simple")),
                letters=open_letters(lake, job.name),
                store=store.owned(),
            ),
            protocol="simple",
            end=RunEnd(bounded=True),
        )
    )
    targets = source.end_offsets()
    while steps.batch(targets, lambda _phase, _batch: None).left:
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


@pytest.mark.parametrize("batch_rows", [7, 60, 10_000])
def test_the_tables_equal_the_truth(tmp_path: Path, batch_rows: int) -> None:
    lake, source = Lake(), ListSource(messages_of(FAULTS))
    steps = run(job_of(tmp_path, batch_rows=batch_rows, parallel_tables=1), source, lake, Kept())
    expected = lake_rows(truth_of(FAULTS))
    found = {name: table.named_rows() for name, table in lake.tables.items()}
    assert found.keys() == {(escape(schema), escape(name)) for schema, name in expected}
    for name, rows in expected.items():
        assert in_order(found[name]) == in_order(rows), name
    assert all(table.is_clean for table in steps.progress.tables if not table.is_gone)


class Compacted(MemoryRows):
    """Between a scan and the time when rows are applied, Kafka removes every second row."""

    def scan(self, plan: ScanPlan, starts: Offsets, end_offsets: Offsets, count: int) -> list[ControlEvent]:
        found = super().scan(plan, starts, end_offsets, count)
        self.keep(())
        assert isinstance(self._source, ListSource)
        for messages in self._source.held.values():
            rows = [one for one in messages if is_row(one)]
            messages[:] = [one for one in messages if one not in rows[1:-1:2]]
        return found


def is_row(message: Message) -> bool:
    return any(isinstance(event, Envelope) for event in decoder("simple").open_message(message.key, message.value))


def test_rows_that_are_gone_when_they_are_to_be_applied_stop_the_job_before_it_writes(tmp_path: Path) -> None:
    lake, source, store = Lake(), ListSource(messages_of(FAULTS)), Kept()
    job = job_of(tmp_path, parallel_tables=1)
    with pytest.raises(
        SourceChanged, match=r"`\w+`\.`\w+`: \d+ rows were read, and the topic had \d+ .*rebuild job.toml"
    ):
        run(job, source, lake, store, Compacted)
    assert not any(table.named_rows() for table in lake.tables.values())
    whole = ListSource(messages_of(FAULTS))
    run(job, whole, lake, store)
    found = {name: table.named_rows() for name, table in lake.tables.items()}
    for name, rows in lake_rows(truth_of(FAULTS)).items():
        assert in_order(found[name]) == in_order(rows), name


@pytest.mark.parametrize(("seed", "batch_rows"), [(1, 60), (5, 40), (17, 40)])
def test_rows_that_came_before_the_first_watermark_are_applied_after_it(
    tmp_path: Path, seed: int, batch_rows: int
) -> None:
    # Debezium: schema blocks are the schema keys of rows while the mode is not known, and not afterwards.
    config = WorkloadConfig(changes=120, seed=seed, watermark_every=10, ddl_every=20, partitions=2, bootstrap_every=0)
    encoder = debezium_encode.encoder(DebeziumConfig(enable_tidb_extension=True))
    lake, source = Lake(), ListSource(list(dispatch(generate(config), config, encoder)))
    steps = Steps(
        OpenJob(
            job=job_of(tmp_path, batch_rows=batch_rows, parallel_tables=1),
            resources=Resources(
                source=source,
                sink=MemorySink(lake),
                rows=MemoryRows(source, Opening(protocol="debezium")),
                letters=open_letters(lake, "job"),
                store=Kept().owned(),
            ),
            protocol="debezium",
            end=RunEnd(bounded=True),
        )
    )
    while steps.batch(source.end_offsets(), lambda _phase, _batch: None).left:
        pass
    assert steps.progress.mode == "watermark"
    for name, rows in lake_rows(truth_of(config)).items():
        assert in_order(lake.tables[name].named_rows()) == in_order(rows)
