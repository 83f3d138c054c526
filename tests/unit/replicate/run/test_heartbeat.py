"""What a run writes into its status: while it runs, while its source is away, and how it ended."""

import logging
import socket
import threading
import time
from pathlib import Path

import msgspec
import pytest

from tests.memory_sink.state import MemoryState
from ticdc_spark.config.job import FilesSource, KafkaSource
from ticdc_spark.errors import LeaseHeld, SinkFault, SourceFault
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run import heartbeat
from ticdc_spark.replicate.run.heartbeat import Heartbeat
from ticdc_spark.replicate.run.outage import silent
from ticdc_spark.replicate.run.pace import Pace
from ticdc_spark.replicate.state.owner import load_status
from ticdc_spark.replicate.state.progress import Progress, Status
from ticdc_spark.sinks.state import StateStore


@pytest.fixture
def state() -> MemoryState:
    made = MemoryState("shop")
    made.commit({}, None, 0)
    made.pause = 1.0
    return made


def status(states: StateStore) -> Status:
    found = load_status(states)
    assert found is not None
    return found


def wait_for(states: StateStore, state: str) -> Status:
    end = time.monotonic() + 10
    while status(states).state != state and time.monotonic() < end:
        time.sleep(0.01)
    return status(states)


def test_a_start_that_fails_before_it_has_the_lease_is_written_down(state: MemoryState) -> None:
    with pytest.raises(LeaseHeld), Heartbeat(state):
        raise LeaseHeld("held by ann")
    found = status(state)
    assert (found.state, found.error, found.error_code, found.exit_code) == ("failed", "held by ann", "LeaseHeld", 4)


@pytest.mark.parametrize(("before", "written"), [("normal", False), ("pending", False), ("finished", True)])
def test_the_status_of_a_run_that_lives_is_left_alone(state: MemoryState, before: str, written: bool) -> None:
    now = time.time()
    state.beat(msgspec.json.encode(Status(state=before, at=now, started_at=now, pid=1)))  # type: ignore[arg-type]
    with pytest.raises(LeaseHeld), Heartbeat(state):
        raise LeaseHeld("held by ann")
    assert (status(state).state == "failed") == written


def test_a_source_that_is_away_is_a_warning_while_it_is_tried_and_a_failure_after(state: MemoryState) -> None:
    away = ["no broker accepts a connection"]

    def go_on() -> None:
        with Heartbeat(state, lambda: away[0], every=0.05, suspicious=0.02) as heart:
            heart.start()
            heart.beat("source", 7)
            assert wait_for(state, "warning").error == away[0]
            away[0] = ""
            assert wait_for(state, "normal").error is None
            away[0] = "gone again"
            assert wait_for(state, "warning").error == "gone again"
            heart.beat("plan", 7)
            assert wait_for(state, "normal").error is None
            raise SourceFault("timed out")

    with pytest.raises(SourceFault):
        go_on()
    found = status(state)
    assert (found.state, found.error, found.exit_code) == ("failed", "timed out", 1)


def test_a_long_step_that_does_not_read_the_source_is_not_suspected(state: MemoryState) -> None:
    scans = []
    with Heartbeat(state, lambda: scans.append(1) or "away", every=0.02, suspicious=0.01) as heart:  # type: ignore[func-returns-value]
        heart.start()
        heart.beat("apply", 7)
        time.sleep(0.2)
        assert (status(state).state, scans) == ("normal", [])


def test_tasks_that_no_executor_runs_are_a_warning_in_any_phase_of_a_batch(state: MemoryState) -> None:
    starved, told = ["no executor"], list[str]()
    with Heartbeat(state, starved=lambda: starved[0], every=0.02, suspicious=0.01) as heart:
        heart.suspected = told.append
        heart.start()
        for phase in ("scan", "apply", "snapshot"):
            heart.beat(phase, 7)
            assert wait_for(state, "warning").error == "no executor"
        starved[0] = ""
        assert wait_for(state, "normal").error is None
    assert (told[0], told[-1]) == ("no executor", "")


def test_a_job_that_waits_for_messages_needs_no_executor(state: MemoryState) -> None:
    with Heartbeat(state, starved=lambda: "no executor", every=0.02, suspicious=0.01) as heart:
        heart.start()
        heart.beat("waiting", 7)
        time.sleep(0.2)
        assert status(state).state == "normal"


def test_an_end_without_an_error_forgets_the_outage_before_it(state: MemoryState) -> None:
    with Heartbeat(state, lambda: "away", every=0.02, suspicious=0.01) as heart:
        heart.start()
        heart.beat("source", 7)
        wait_for(state, "warning")
    heart.end("stopped")
    assert (status(state).state, status(state).error) == ("stopped", None)


def test_what_ended_a_run_is_not_hidden_by_a_status_that_cannot_be_written(
    state: MemoryState, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> bytes:
        raise SinkFault("the state does not answer")

    monkeypatch.setattr(state, "heartbeat", fails)
    with caplog.at_level(logging.WARNING), pytest.raises(LeaseHeld), Heartbeat(state):
        raise LeaseHeld("held by ann")
    assert "the state does not answer" in caplog.text


def test_an_end_that_cannot_be_written_down_is_told_once(
    state: MemoryState, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: bytes) -> None:
        raise SinkFault("the disk is full")

    monkeypatch.setattr(heartbeat, "_END_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(state, "beat", fails)
    with caplog.at_level(logging.WARNING):
        Heartbeat(state).end("failed")
    assert caplog.messages == ["cannot write the end of the run to the status: the disk is full"]


def test_a_catalog_that_does_not_answer_is_reported_once_by_whoever_needs_it(
    state: MemoryState, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> bytes:
        raise SinkFault("the catalog does not answer")

    monkeypatch.setattr(state, "heartbeat", fails)
    with caplog.at_level(logging.WARNING), pytest.raises(SinkFault), Heartbeat(state):
        fails()
    assert caplog.text == ""


def test_the_heart_of_an_owner_that_was_overtaken_beats_no_more(
    state: MemoryState, caplog: pytest.LogCaptureFixture
) -> None:
    taken = threading.Event()

    def fence() -> None:
        taken.set()
        raise LeaseHeld("taken by bob")

    with Heartbeat(state, every=0.02, suspicious=0.02) as heart:
        heart.start("mine", fence)
        assert taken.wait(10)
        heart._thread.join(10)
        assert status(state).token == "mine" and not heart._thread.is_alive()
    assert "taken by bob" in caplog.text


def kafka(*ports: int) -> KafkaSource:
    return KafkaSource(bootstrap_servers=",".join(f"127.0.0.1:{port}" for port in ports), topics=("shop",))


def test_a_source_is_silent_if_none_of_its_brokers_accepts_a_connection(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as dead:
        free = dead.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as there:
        assert silent(kafka(free, there.getsockname()[1])) == ""
    assert f"cannot reach Kafka at 127.0.0.1:{free}: 127.0.0.1:{free}: Connection refused" in silent(kafka(free))
    assert "Connection refused" in silent(kafka(free))
    assert "127.0.0.1:99999" in silent(kafka(99999))
    assert silent(FilesSource(path=tmp_path)) == ""
    assert "is not there" in silent(FilesSource(path=tmp_path / "gone"))


def test_a_wait_is_written_at_once(state: MemoryState) -> None:
    with Heartbeat(state, every=1e9, suspicious=1e9) as heart:
        heart.start()
        heart.beat("source", 7)
        heart.beat("plan", 7)
        assert status(state).phase == "source", "a phase of a moment is not"
        heart.beat("waiting", 7)
        assert status(state).phase == "waiting"


def test_how_far_the_source_is_read_is_stored_with_the_next_beat(state: MemoryState) -> None:
    progress = Progress(job="shop")
    with Heartbeat(state) as heart:
        heart.start()
        heart.note(BatchReport(progress=progress, left=0, looked_at=50.0))
        heart.note(BatchReport(progress=progress, messages=10, left=7, full=True, looked_at=60.0, rate=5.0))
        heart.beat("waiting", 7)
        found = status(state)
        assert (found.read_at, found.left, found.rate) == (50.0, 7, 5.0), "at 60 something was left to read"
        heart.note(BatchReport(progress=progress, messages=7, left=3, looked_at=70.0, rate=5.0))
        heart.end("stopped")
    found = status(state)
    assert (found.read_at, found.left) == (70.0, 0), "what came meanwhile is no backlog"
    with Heartbeat(state) as heart:
        heart.start()
    assert status(state).read_at == 70.0, "a restart forgets nothing of it"


def test_the_pace_is_that_of_the_last_batches() -> None:
    pace = Pace()
    assert pace.rate is None
    pace.add(0, 60.0)
    assert pace.rate is None, "a look that found nothing is no batch"
    for messages, seconds in ((1, 99.0), (100, 1.0), (100, 1.0), (200, 1.0), (300, 1.0), (300, 1.0)):
        pace.add(messages, seconds)
    assert pace.rate == 200.0
