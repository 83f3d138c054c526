"""The state of a job as a Delta table, without a JVM."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.contract.state import StateContract, rows, values
from tests.support.arrow_threads import printed_with_threads_left
from ticdc_spark.config.job import DeltaConfig
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.sinks.delta.dead_letters import DeltaDeadLetters
from ticdc_spark.sinks.delta.python_tables import storage_options
from ticdc_spark.sinks.delta.state import KEPT, DeltaState
from ticdc_spark.sinks.states import open_state


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], DeltaState]:
    def open_one() -> DeltaState:
        one = open_state(DeltaConfig(warehouse=str(tmp_path / "la ke")), "job é", {})
        assert isinstance(one, DeltaState)
        return one

    return open_one


class TestOnDelta(StateContract):
    @pytest.fixture
    def opened(self, opened: Callable[[], DeltaState]) -> Callable[[], DeltaState]:
        return opened


def test_a_look_at_a_job_that_never_ran_makes_nothing(tmp_path: Path, opened: Callable[[], DeltaState]) -> None:
    states = opened()
    assert (states.load().version, states.heartbeat(), states.as_of(9).version) == (None, None, None)
    states.beat(b"1")
    assert [*tmp_path.iterdir()] == []


def test_a_reader_leaves_no_arrow_thread_that_may_abort_the_exit(opened: Callable[[], DeltaState]) -> None:
    states = opened()
    states.commit({"a": rows("1")}, None, 5)
    warehouse = str(Path(states.location).parent.parent)
    code = (
        "from ticdc_spark.config.job import DeltaConfig\n"
        "from ticdc_spark.sinks.states import open_state\n"
        f"print(open_state(DeltaConfig(warehouse={warehouse!r}), 'job é', {{}}).load().version)"
    )
    assert printed_with_threads_left(code) == "0\n0\n"


@pytest.mark.slow
def test_a_state_does_not_grow_with_its_versions_and_the_last_ones_can_be_read(
    opened: Callable[[], DeltaState],
) -> None:
    """However rarely it is written."""
    states, version = opened(), None
    folder, then = Path(states.location), time.time() - 7200
    for ts in range(1, 4 * KEPT):
        version = states.commit({"a": rows(str(ts))}, version, ts)
        for file in folder.rglob("*.*"):
            os.utime(file, (then, then))
    states.beat(b"9")
    assert len([*folder.glob("*.parquet")]) <= 2 * KEPT
    assert len([*folder.glob("_delta_log/*.json")]) <= 2 * KEPT
    newest = 4 * KEPT - 1
    assert values(opened().load()) == {"a": [str(newest)]}
    assert values(opened().as_of(newest - KEPT + 1)) == {"a": [str(newest - KEPT + 1)]}
    assert opened().heartbeat() == b"9"


def test_what_another_process_is_about_to_commit_is_not_removed(opened: Callable[[], DeltaState]) -> None:
    states, version = opened(), None
    for ts in range(1, KEPT):
        version = states.commit({"a": rows(str(ts))}, version, ts)
    its = Path(states.location, "part-of-another.parquet")
    its.touch()
    states.commit({"a": rows("last")}, version, KEPT)
    assert its.exists()


def test_a_state_that_another_tool_has_rewritten_is_refused(opened: Callable[[], DeltaState]) -> None:
    states = opened()
    version = states.commit({"a": rows("1")}, None, 5)
    for value in ("2", "3"):
        version = states.commit({"a": rows(value)}, version, 5)
    DeltaTable(states.location).restore(0)
    with pytest.raises(DecisionNeeded, match="another tool has rewritten it"):
        opened().load()


def test_spark_s_options_of_a_store_are_those_of_python() -> None:
    spark = {
        "spark.hadoop.fs.s3a.access.key": "a",
        "spark.hadoop.fs.s3a.bucket.lake.secret.key": "b",
        "spark.hadoop.fs.s3a.endpoint": "store:9000",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    assert storage_options("s3a://lake/x", spark) == {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_ENDPOINT_URL": "http://store:9000",
        "AWS_ALLOW_HTTP": "true",
    }
    assert storage_options("/lake", spark) == {}


def test_dead_letters_of_a_job_that_kept_none_are_none(tmp_path: Path) -> None:
    assert DeltaDeadLetters(str(tmp_path), "job", {}).read() == []
    assert [*tmp_path.iterdir()] == []
