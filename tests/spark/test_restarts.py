"""A job that dies at any point inside its steps, again and again, ends where an undisturbed one ends (I1, I2, I3)."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.spark.deaths import (
    END,
    FIRST,
    POINTS,
    WRITERS,
    T,
    before_the_batch,
    delete,
    everywhere,
    once_at,
    run_with_deaths,
    tables,
    update,
)
from tests.spark.lake import make_topic, replicate, wild, write_job
from tests.spark.simple_topic import insert, topic
from tests.workload.compare import compare
from ticdc_spark import failpoints
from ticdc_spark.config.job import Job
from ticdc_spark.model import Change, TableName, Watermark
from ticdc_spark.replicate import step
from ticdc_spark.replicate.apply import batch as batch_module
from ticdc_spark.replicate.apply.look import Looked, look_at
from ticdc_spark.replicate.apply.timelines import TimelineResult
from ticdc_spark.replicate.modes.next_progress import Applied, committed
from ticdc_spark.replicate.pipeline import OpenJob, Planned
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.iceberg.rows import upsert


def test_the_failpoints_are_those_that_are_documented() -> None:
    reported = re.search(r"successor: (.*)\.", failpoints.__doc__ or "", re.DOTALL)
    assert reported is not None
    words = set(re.findall(r"\w+", re.sub(r"\(.*?\)", "", reported[1], flags=re.DOTALL)))
    assert words - {"of", "full", "reads", "repairs", "a", "changefeed", "database", "MySQL", "Iceberg"} == POINTS


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
@pytest.mark.parametrize("writer", ["python", pytest.param("spark", marks=pytest.mark.slow)])
def test_deaths_inside_the_steps_change_nothing(
    spark: SparkSession, folder: Path, writer: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upsert, "MIN_APPEND_ROWS", 10)
    truth = make_topic(folder, wild(seed))
    job_file = write_job(folder, folder / "topic", f'batch-rows = 200\nwriter = "{writer}"')
    chance = random.Random(seed)
    left = iter(range(12))
    died = run_with_deaths(job_file, lambda _: chance.random() < 0.12 and next(left, None) is not None, monkeypatch)
    assert len(died) >= 5, died
    assert set(died) <= WRITERS[writer]
    assert not {name: reported for name, reported in compare(job_file, truth).items() if reported}


@pytest.mark.parametrize("writer", ["python", pytest.param("spark", marks=pytest.mark.slow)])
def test_a_job_may_die_at_every_point_and_after_every_commit(
    spark: SparkSession, folder: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upsert, "MIN_APPEND_ROWS", 3)
    job_file = before_the_batch(folder, writer)
    died = run_with_deaths(job_file, everywhere(), monkeypatch)
    assert set(died) == WRITERS[writer], died
    assert len(died) > 15
    assert tables(spark, folder) == END


def _saves_progress_before_it_applies(patch: pytest.MonkeyPatch) -> None:
    ours = step.apply_batch

    def apply(job: OpenJob, before: Progress, planned: Planned, *, all_tables: bool) -> TimelineResult:
        decided = planned.decided
        progress = decided.advanced.progress
        states = {(table.schema, table.name): table for table in progress.tables}
        applied = Applied(batch=planned.plan.batch, states=states, resolved=decided.resolved, at=0.0)
        job.resources.store.save(committed(progress, applied))
        return ours(job, before, planned, all_tables=all_tables)

    patch.setattr(step, "apply_batch", apply)


def _forgets_marks(patch: pytest.MonkeyPatch) -> None:
    """After a restart the state of a table is that of the progress."""
    ours = look_at

    def look(sink: Sink, job: Job, name: TableName, promise: TableState | None, **more: Any) -> Looked:
        looked = ours(sink, job, name, promise, **more)
        if promise is None or looked.stamp is None:
            return looked
        stamp = msgspec.structs.replace(looked.stamp, mark=(promise.applied, 0))
        return msgspec.structs.replace(looked, state=promise, stamp=stamp)

    patch.setattr(batch_module, "look_at", look)


ROWS_ONLY: tuple[Change, ...] = (
    insert(T, 40, id="5", v="5"),
    insert(T, 41, id="6", v="6"),
    update(T, 42, {"id": "1", "v": "1"}, v="11"),
    delete(T, 43, id="2", v="2"),
    Watermark(100),
)
ROWS_END = [{"id": at, "v": 11 if at == 1 else at} for at in (1, 3, 4, 5, 6)]


@pytest.mark.parametrize(
    ("breaks", "point"),
    [(None, "advance"), (None, "merge"), (_saves_progress_before_it_applies, "write"), (_forgets_marks, "merge")],
    ids=["holds-1", "holds-2", "progress saved before apply", "marks forgotten"],
)
def test_i1_holds_and_the_check_sees_when_it_does_not(
    spark: SparkSession,
    folder: Path,
    breaks: Callable[[pytest.MonkeyPatch], None] | None,
    point: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_file = write_job(folder, topic(folder, FIRST))
    replicate(job_file)
    topic(folder, [*FIRST, *ROWS_ONLY])
    if breaks is not None:
        breaks(monkeypatch)
    assert run_with_deaths(job_file, once_at([point]), monkeypatch) == [point]
    assert (tables(spark, folder)["t"] == ROWS_END) == (breaks is None)
