"""Stories of the simulator through real Kafka, Spark and Iceberg, judged by the same verdict.

A story is chosen for what happens in it: the shortest of some that the laboratory in memory has found first. Only time
and the lease are the simulator's (``tests.simulator.spark_lab``). ``test_stories_of_targets`` has the other targets.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from tests.simulator.draw import draw
from tests.simulator.faults import FAULT_KINDS
from tests.simulator.iceberg_target import IcebergTarget
from tests.simulator.job_lab import JobLab
from tests.simulator.moves import CALM
from tests.simulator.operator import MOVES
from tests.simulator.runner import quietly
from tests.simulator.spark_lab import spark_lab
from tests.simulator.story import Outcome, run
from tests.support.kafka_broker import Broker

STEPS = 18
LOOKED_AT = (100, 500)
"""A story is chosen among so many, and among more only if none of these is about what is wanted."""
BATCHES = range(4, 8)
FEW = ("rollback", "restore_lake", "recreate_topic", "die_after:sink", "suspended:log")
"""What a story is about: a move, or a fault at a kind of durable action."""
LONG = ("rollback", "die_after:sink", "suspended:log")
"""Of these, the stories that are slow, or long to find."""
MORE = sorted(
    {
        *(kind for kind in MOVES if kind not in CALM | IcebergTarget.lacks),
        *(f"{fault}:{action}" for fault in FAULT_KINDS for action in ("store", "log", "sink", "lease")),
        *(
            "ddl rename_table",
            "ddl swap_tables",
            "ddl modify_column",
            "ddl truncate_table",
            "ddl drop_column",
            "compact",
        ),
    }
    - set(FEW)
)


@cache
def stories(looked_at: int) -> tuple[tuple[int, Outcome], ...]:
    """Stories in memory, the shortest first, without those in which little happens, and long ones."""
    with quietly():
        outcomes = [(seed, run(draw(seed, STEPS), JobLab)) for seed in range(looked_at)]
    assert not [seed for seed, outcome in outcomes if outcome.finding]
    return tuple(sorted((one for one in outcomes if one[1].batches in BATCHES), key=lambda one: one[1].actions))


def story_about(what: str) -> tuple[int, Outcome]:
    for looked_at in LOOKED_AT:
        for seed, outcome in stories(looked_at):
            if outcome.moves[what] or outcome.faults[what]:
                return seed, outcome
    pytest.skip(f"no story of the first {LOOKED_AT[-1]} is about {what}")


def judge(what: str, spark: SparkSession, broker: Broker, folder: Path, writer: Literal["python", "spark"]) -> None:
    seed, in_memory = story_about(what)
    with quietly():
        outcome = run(draw(seed, STEPS), spark_lab(spark, broker, folder, writer), trace=True)
    again = f"python -m tests.simulator --lab tests.simulator.spark_lab:make_lab --steps {STEPS} --seeds {seed}"
    story = "\n".join((again, *outcome.trace))
    assert outcome.finding is None, f"{outcome.finding}\n{story}"
    possible = {kind: count for kind, count in in_memory.moves.items() if kind not in IcebergTarget.lacks}
    assert outcome.moves == possible and outcome.batches, story


@pytest.mark.parametrize("what", [pytest.param(one, marks=pytest.mark.slow if one in LONG else ()) for one in FEW])
def test_a_story_ends_as_it_should(what: str, spark: SparkSession, broker: Broker, folder: Path) -> None:
    judge(what, spark, broker, folder, "python")


@pytest.mark.slow
@pytest.mark.parametrize("what", MORE)
def test_more_stories_end_as_they_should(what: str, spark: SparkSession, broker: Broker, folder: Path) -> None:
    judge(what, spark, broker, folder, "python")


@pytest.mark.slow
@pytest.mark.parametrize("what", FEW)
def test_stories_in_which_spark_writes(what: str, spark: SparkSession, broker: Broker, folder: Path) -> None:
    judge(what, spark, broker, folder, "spark")
