"""The probe for executors: what it says of a cluster, and that a JVM that hangs does not hold up who asks."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from ticdc_spark.replicate.run.executors import ExecutorProbe


def context(master: str, executors: int, stages: list[int]) -> Any:
    """As much of Spark's context as is asked. The driver counts as an executor."""
    infos = SimpleNamespace(getExecutorInfos=lambda: ["driver", *["executor"] * executors])
    jvm = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: infos))
    tracker = SimpleNamespace(getActiveStageIds=lambda: stages)
    return SimpleNamespace(master=master, _jsc=jvm, statusTracker=lambda: tracker)


@pytest.mark.parametrize(
    ("master", "executors", "stages", "starved"),
    [
        ("spark://m:7077", 0, [3], True),
        ("yarn", 0, [3], True),
        ("spark://m:7077", 1, [3], False),
        ("spark://m:7077", 0, [], False),
        ("local[2]", 0, [3], False),
    ],
)
def test_only_tasks_without_an_executor_are_reported(
    master: str, executors: int, stages: list[int], starved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", context(master, executors, stages))
    found = ExecutorProbe()()
    assert bool(found) == starved
    assert not starved or master in found


def test_a_jvm_that_is_gone_or_hangs_is_no_report_and_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    asked: list[int] = []

    def hangs() -> list[int]:
        asked.append(1)
        released.wait(60)
        raise ConnectionError("the JVM is gone")

    tracker = SimpleNamespace(getActiveStageIds=hangs)
    monkeypatch.setattr(
        SparkContext, "_active_spark_context", SimpleNamespace(master="yarn", statusTracker=lambda: tracker)
    )
    probe = ExecutorProbe()
    before = time.monotonic()
    assert [probe(0.01), probe(0.01)] == ["", ""]
    assert (len(asked), time.monotonic() - before < 30) == (1, True)
    released.set()
    assert probe(30) == ""
