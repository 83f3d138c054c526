"""A job that dies at any point inside its steps, again and again, ends where an undisturbed one ends (I1, I2, I3)."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import make_topic, wild, write_job
from ticdc_spark.cli.demo import compare
from ticdc_spark.replicate import faults, loop
from ticdc_spark.replicate.config import load_job

POINTS = ("plan", "land", "advance", "append", "merge", "intent", "ddl", "fill", "stamp", "apply", "progress")


class Death(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


def run_with_deaths(job_file: Path, seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run to the end, dying at random points on the way; returns them."""
    chance = random.Random(seed)
    died: list[str] = []

    def point(name: str) -> None:
        if len(died) < most and chance.random() < 0.12:
            died.append(name)
            raise Death(name)

    monkeypatch.setattr(faults, "point", point)
    while True:
        try:
            assert loop.run(load_job(job_file), once=True).finished
        except Death:
            continue
        return died


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_deaths_inside_the_steps_change_nothing(
    spark: SparkSession, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = make_topic(folder, wild(seed))
    job_file = write_job(folder, folder / "topic", "batch-rows = 200")
    died = run_with_deaths(job_file, seed, 12, monkeypatch)
    assert len(died) >= 5, died
    assert set(died) <= set(POINTS)
    assert not {name: told for name, told in compare(job_file, truth).items() if told}
