"""What a run does between two batches: a job file that changes, and faults meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ticdc_spark.config.job import Job
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import SourceFault
from ticdc_spark.model import Offsets
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run import retry
from ticdc_spark.replicate.run.heartbeat import Heartbeat
from ticdc_spark.replicate.run.job_file import RunningJob
from ticdc_spark.replicate.run.upkeep import UpkeepScheduler
from ticdc_spark.replicate.run.watch import UNWATCHED, Watcher
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.step import Steps

JOB = """\
[job]
name = "shop"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["{topic}"]
[sink]
kind = "iceberg"
warehouse = "lake"
"""


class Run:
    """A run whose job file is edited; each batch notes which topics it was to read."""

    def __init__(self, folder: Path, *, once: bool = False) -> None:
        self.file = folder / "job.toml"
        self.write()
        self.job = load_job(self.file)
        self.targets: list[Offsets | None] = []
        self.servers: list[str] = []
        self.stop = threading.Event()
        self.before_batch: Callable[[int], object] = lambda _number: None
        heartbeat = SimpleNamespace(store=SimpleNamespace(pause=1e9))
        seconds = iter(range(0, 10_000, 2))
        self.state = loop._RunState(
            RunningJob(self.job, clock=lambda: float(next(seconds))),
            cast(Heartbeat, heartbeat),
            UpkeepScheduler(self.job),
            UNWATCHED,
            once=once,
            until_ts=None,
            stop=self.stop,
        )

    def write(self, topic: str = "a", servers: str = "kafka:9092") -> None:
        self.file.write_text(JOB.format(topic=topic, servers=servers))

    def opened(self, job: Job) -> Steps:
        self.servers.append(cast(Any, job.source).bootstrap_servers)
        if "away" in self.servers[-1]:
            self.before_batch(-len(self.servers))
            raise SourceFault("no broker answers")
        topic = cast(Any, job.source).topics[0]
        progress = Progress(job="shop")

        def batch(targets: Offsets | None, _beat: object) -> BatchReport:
            self.targets.append(targets)
            self.before_batch(len(self.targets))
            return BatchReport(progress=progress, left=1 if len(self.targets) < 4 else 0, looked_at=0.0)

        steps = SimpleNamespace(
            progress=progress,
            in_batch=False,
            is_due=False,
            registry=None,
            source=SimpleNamespace(close=lambda: None, is_recorded=True, retention=dict, unread=""),
            ends=lambda: {(topic, 0): 7},
            sink=SimpleNamespace(capabilities=SimpleNamespace(upkeep=False)),
            take_requests=lambda: None,
            load=lambda _beat: "idle",
            batch=batch,
            lagging=lambda _targets: None,
        )
        return cast(Steps, steps)


def test_each_report_names_the_epoch_of_its_owner(tmp_path: Path) -> None:
    run, reports = Run(tmp_path, once=True), list[BatchReport]()
    run.state.epoch, run.state.watcher = 5, Watcher(committed=reports.append)
    assert loop._run(run.state, run.opened).finished
    assert [report.epoch for report in reports] == [5] * len(run.targets)


def test_a_run_to_an_end_goes_by_the_topics_of_a_changed_file(tmp_path: Path) -> None:
    run = Run(tmp_path, once=True)
    run.before_batch = lambda number: run.write(topic="b") if number == 1 else None
    assert loop._run(run.state, run.opened).finished
    assert run.targets == [{("a", 0): 7}, {("a", 0): 7}, {("b", 0): 7}, {("b", 0): 7}]


def test_a_changed_file_that_leads_nowhere_can_be_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(retry, "LONGEST_PAUSE", 0.0)
    run = Run(tmp_path, once=True)

    def edit(number: int) -> None:
        if number == 1:
            run.write(servers="away:9092")
        elif number < 0 and run.servers.count("away:9092") == 1:
            run.write(servers="other:9092")

    run.before_batch = edit
    assert loop._run(run.state, run.opened).finished
    assert run.servers[-1] == "other:9092"
