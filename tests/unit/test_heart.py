"""What a run writes into its status: while it runs, while its source is away, and how it ended."""

import logging
import socket
import time
from pathlib import Path

import pytest

from ticdc_spark.config.job import FilesSource, KafkaSource
from ticdc_spark.errors import LeaseHeld, SourceFault
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.heart import Heart
from ticdc_spark.replicate.run.outage import silent
from ticdc_spark.replicate.run.pace import Pace
from ticdc_spark.replicate.state.progress import Progress, Status
from ticdc_spark.replicate.state.store import Store


def status(folder: Path) -> Status:
    found = Store(folder).load_status()
    assert found is not None
    return found


def wait_for(folder: Path, state: str) -> Status:
    end = time.monotonic() + 10
    while status(folder).state != state and time.monotonic() < end:
        time.sleep(0.01)
    return status(folder)


def test_a_start_that_fails_before_it_has_the_lease_is_written_down(tmp_path: Path) -> None:
    with pytest.raises(LeaseHeld), Heart(Store(tmp_path)):
        raise LeaseHeld("held by ann")
    found = status(tmp_path)
    assert (found.state, found.error, found.error_code, found.exit_code) == ("failed", "held by ann", "LeaseHeld", 4)


@pytest.mark.parametrize(("before", "written"), [("normal", False), ("pending", False), ("finished", True)])
def test_the_status_of_a_run_that_lives_is_left_alone(tmp_path: Path, before: str, written: bool) -> None:
    now = time.time()
    Store(tmp_path).save_status(Status(state=before, at=now, started_at=now, pid=1))  # type: ignore[arg-type]
    with pytest.raises(LeaseHeld), Heart(Store(tmp_path)):
        raise LeaseHeld("held by ann")
    assert (status(tmp_path).state == "failed") == written


def test_a_source_that_is_away_is_a_warning_while_it_is_tried_and_a_failure_after(tmp_path: Path) -> None:
    away = ["no broker accepts a connection"]

    def go_on() -> None:
        with Heart(Store(tmp_path), lambda: away[0], every=0.05, suspicious=0.02) as heart:
            heart.start()
            heart.beat("source", 7)
            assert wait_for(tmp_path, "warning").error == away[0]
            away[0] = ""
            assert wait_for(tmp_path, "normal").error is None
            away[0] = "gone again"
            assert wait_for(tmp_path, "warning").error == "gone again"
            heart.beat("plan", 7)
            assert wait_for(tmp_path, "normal").error is None
            raise SourceFault("timed out")

    with pytest.raises(SourceFault):
        go_on()
    found = status(tmp_path)
    assert (found.state, found.error, found.exit_code) == ("failed", "timed out", 1)


def test_a_long_step_that_does_not_read_the_source_is_not_suspected(tmp_path: Path) -> None:
    scans = []
    with Heart(Store(tmp_path), lambda: scans.append(1) or "away", every=0.02, suspicious=0.01) as heart:  # type: ignore[func-returns-value]
        heart.start()
        heart.beat("apply", 7)
        time.sleep(0.2)
        assert (status(tmp_path).state, scans) == ("normal", [])


def test_an_end_without_an_error_forgets_the_outage_before_it(tmp_path: Path) -> None:
    with Heart(Store(tmp_path), lambda: "away", every=0.02, suspicious=0.01) as heart:
        heart.start()
        heart.beat("source", 7)
        wait_for(tmp_path, "warning")
    heart.end("stopped")
    assert (status(tmp_path).state, status(tmp_path).error) == ("stopped", None)


def test_what_ended_a_run_is_not_hidden_by_a_status_that_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").touch()  # no folder
    with caplog.at_level(logging.WARNING), pytest.raises(LeaseHeld), Heart(Store(tmp_path / "state")):
        raise LeaseHeld("held by ann")
    assert "status.json cannot be" in caplog.text


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


def test_a_wait_is_written_at_once(tmp_path: Path) -> None:
    with Heart(Store(tmp_path), every=1e9, suspicious=1e9) as heart:
        heart.start()
        heart.beat("source", 7)
        heart.beat("plan", 7)
        assert status(tmp_path).phase == "source", "a phase of a moment is not"
        heart.beat("waiting", 7)
        assert status(tmp_path).phase == "waiting"


def test_how_far_the_source_is_read_is_stored_with_the_next_beat(tmp_path: Path) -> None:
    progress = Progress(job="shop")
    with Heart(Store(tmp_path)) as heart:
        heart.start()
        heart.note(BatchReport(progress=progress, left=0, looked_at=50.0), None)
        heart.note(BatchReport(progress=progress, messages=10, left=7, full=True, looked_at=60.0), 5.0)
        heart.beat("waiting", 7)
        found = status(tmp_path)
        assert (found.read_at, found.left, found.rate) == (50.0, 7, 5.0), "at 60 something was left to read"
        heart.note(BatchReport(progress=progress, messages=7, left=3, looked_at=70.0), 5.0)
        heart.end("stopped")
    found = status(tmp_path)
    assert (found.read_at, found.left) == (70.0, 0), "what came meanwhile is no backlog"
    with Heart(Store(tmp_path)) as heart:
        heart.start()
    assert status(tmp_path).read_at == 70.0, "a restart forgets nothing of it"


def test_the_pace_is_that_of_the_last_batches() -> None:
    pace = Pace()
    assert pace.rate is None
    pace.add(0, 60.0)
    assert pace.rate is None, "a look that found nothing is no batch"
    for messages, seconds in ((1, 99.0), (100, 1.0), (100, 1.0), (200, 1.0), (300, 1.0), (300, 1.0)):
        pace.add(messages, seconds)
    assert pace.rate == 200.0
