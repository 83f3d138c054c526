"""The real command, killed with SIGKILL inside its steps and at any moment, then run to its end."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import make_topic, wild, write_job
from tests.workload.compare import compare
from ticdc_spark.failpoints import ENVIRONMENT

COMMAND = (sys.executable, "-c", "from ticdc_spark.cli import main; main()")


def replicate(job_file: Path, kill_at: str = "", kill_after: float | None = None) -> int:
    """Run the command; returns its exit code, negative for the signal that ended it."""
    environment = os.environ | {ENVIRONMENT: kill_at}
    with subprocess.Popen(
        [*COMMAND, "replicate", str(job_file), "--once"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        if kill_after is not None:
            time.sleep(kill_after)
            process.kill()
        _, errors = process.communicate(timeout=300)
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode


@pytest.mark.parametrize(
    "points", [("merge:3", "progress"), pytest.param(("scan", "merge:3", "ddl:4", "progress"), marks=pytest.mark.slow)]
)
def test_killed_inside_its_steps_it_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, points: tuple[str, ...]
) -> None:
    truth = make_topic(tmp_path, wild(11))
    job_file = write_job(tmp_path, tmp_path / "topic", "batch-rows = 250")
    # A restart comes at once, while the killed one's JVM may still live.
    codes = [replicate(job_file, kill_at) for kill_at in points]
    assert codes == [-signal.SIGKILL] * len(points)
    assert replicate(job_file) == 0
    assert not {name: reported for name, reported in compare(job_file, truth).items() if reported}


@pytest.mark.slow
def test_killed_at_ten_random_times(spark: SparkSession, tmp_path: Path) -> None:
    truth = make_topic(tmp_path, wild(12))
    job_file = write_job(tmp_path, tmp_path / "topic", "batch-rows = 250")
    chance = random.Random(5)
    for _ in range(10):
        replicate(job_file, kill_after=chance.uniform(6, 25))
    assert replicate(job_file) == 0
    assert not {name: reported for name, reported in compare(job_file, truth).items() if reported}
