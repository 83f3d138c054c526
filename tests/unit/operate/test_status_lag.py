"""How far a job is behind and why: lag, catch-up, what it stopped at, and the exit codes of ``status --check``."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.support.job_state import put
from tests.support.status_examples import IDENTITY, NOW, TSO, WELL, beat, gone, held_by, said, write_job
from ticdc_spark.cli import main
from ticdc_spark.config.load import load_identity
from ticdc_spark.operate.status import JobStatus, check_code, describe
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.progress import PartitionState, Progress


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    return write_job(tmp_path)


def test_lag_is_split_at_what_was_received_when_the_topics_were_read_to_their_end() -> None:
    status = said(beat(read_at=NOW - 5))
    assert status.lag == pytest.approx(100)
    assert status.upstream_lag == pytest.approx(55), "5 seconds less than until now"
    assert status.own_lag == pytest.approx(45)
    assert status.slowest_partition == "shop-1"
    assert status.resolved_ts == TSO
    assert status.resolved_time.endswith("Z")


def test_the_commit_interval_is_the_job_s_part_of_the_lag() -> None:
    """A batch read everything 8 seconds ago, and the next one is not due yet: nobody knows what came since."""
    at = int((NOW - 9) * 1000) << 18
    partition = PartitionState(topic="shop", partition=0, offset=10, watermark=at)
    progress = msgspec.structs.replace(WELL, applied=at - 1, partitions=(partition,))
    status = describe(IDENTITY, progress, beat(read_at=NOW - 8), None, NOW)
    assert (status.upstream_lag, status.own_lag) == (pytest.approx(1, abs=0.01), pytest.approx(8, abs=0.01))
    looked = describe(IDENTITY, progress, beat(read_at=NOW), None, NOW)
    assert (looked.upstream_lag, looked.own_lag) == (pytest.approx(9, abs=0.01), pytest.approx(0, abs=0.01)), (
        "nothing newer was there"
    )


def test_a_partition_that_is_passed_over_says_nothing_of_the_lag() -> None:
    old = PartitionState(topic="dropped", partition=0, offset=3, watermark=TSO - (10_000_000 << 18), idle=True)
    progress = msgspec.structs.replace(WELL, partitions=(*WELL.partitions, old))
    status = describe(IDENTITY, progress, beat(read_at=NOW), None, NOW)
    assert (status.slowest_partition, status.upstream_lag) == ("shop-1", pytest.approx(60))


def test_a_job_that_catches_up_shows_what_is_left_and_how_long_that_takes(job_file: Path) -> None:
    me = this_process().process
    catching_up = beat("normal", pid=me.pid, phase="apply", read_at=NOW - 900, left=120_000, rate=2_000.0)
    progress = msgspec.structs.replace(WELL, committed_at=NOW - 12)
    status = describe(IDENTITY, progress, catching_up, held_by(me), NOW)
    assert (status.state, status.reason) == (
        "normal",
        "catching up, 120,000 messages to read, about 1 min left: writing the tables",
    )
    assert (status.messages_to_read, status.messages_per_second, status.seconds_left) == (120_000, 2_000.0, 60.0)
    assert (status.last_commit_at, status.last_commit_age) == (NOW - 12, pytest.approx(12))
    assert (status.upstream_lag, status.own_lag) == (None, None), "newer watermarks may be among what is left"
    put(job_file, progress, catching_up)
    text = CliRunner().invoke(main, ["status", str(job_file)], catch_exceptions=False).stdout
    assert "to read            120,000 messages, 2,000 messages/s, about 1 min left\n" in text
    assert "last commit        " in text and "ago (2026-11-18 11:06:28Z), batch 7\n" in text


@pytest.mark.parametrize(
    ("error", "kind"),
    [("RejectedMessage", "reject"), ("UnsupportedDdl", "ddl"), ("SchemaMissing", "schema"), ("SinkFault", "error")],
)
def test_what_a_job_stopped_at_holds_it_back(job_file: Path, error: str, kind: str) -> None:
    text = "a message cannot be read: bad (topic shop, partition 0, offset 7)\n  To skip exactly this one: …"
    failed = beat("failed", error=text, error_code=error, error_at=NOW - 9, exit_code=4)
    status = describe(IDENTITY, WELL, failed, None, NOW)
    assert (status.held_back_by.kind, status.held_back_by.what) == (kind, text.splitlines()[0])
    put(job_file, WELL, failed)
    shown = CliRunner().invoke(main, ["status", str(job_file)], catch_exceptions=False).stdout
    assert f"held back by       {kind}: see the reason\n" in shown
    assert shown.count("offset 7") == shown.count("To skip exactly this one") == 1, "an error is printed once"


def test_a_stop_is_forgotten_once_the_job_runs_again() -> None:
    me = this_process().process
    status = describe(IDENTITY, WELL, beat(pid=me.pid, read_at=NOW), held_by(me), NOW)
    assert (status.state, status.held_back_by.kind) == ("normal", "none")


def late(most: float, **more: object) -> JobStatus:
    """A job that runs, and its changefeed had sent nothing for a minute when it last looked."""
    me = this_process().process
    identity = msgspec.structs.replace(IDENTITY, max_lag=most)
    return describe(identity, WELL, beat(pid=me.pid, read_at=NOW, **more), held_by(me), NOW)


def test_a_source_that_is_silent_for_longer_than_max_lag_is_a_warning() -> None:
    assert late(101).state == "normal"
    status = late(50)
    assert (status.state, status.reason) == (
        "warning",
        "it is 1 min 40 s behind, and max-lag is 50 s: no newer watermark comes from topic shop, partition 1",
    )
    assert "changefeed" in status.next
    catching_up = late(50, left=9)
    assert (catching_up.state, "9 messages are to be read" in catching_up.reason) == ("warning", True)


def test_a_source_that_never_had_a_watermark_is_a_warning_after_max_lag() -> None:
    me = this_process().process
    for most, state in ((899, "warning"), (901, "normal")):
        identity = msgspec.structs.replace(IDENTITY, max_lag=most)
        status = describe(identity, Progress(job="shop"), beat(pid=me.pid), held_by(me), NOW)
        assert status.state == state


def test_max_lag_says_nothing_of_a_job_that_does_not_run() -> None:
    identity = msgspec.structs.replace(IDENTITY, max_lag=1)
    assert describe(identity, WELL, beat("finished"), None, NOW).state == "finished"


def test_max_lag_is_read_from_the_job_file(job_file: Path) -> None:
    assert load_identity(job_file).max_lag is None
    job_file.write_text(job_file.read_text().replace("[source]", 'max-lag = "10m"\n[source]'))
    assert load_identity(job_file).max_lag == 600


@pytest.mark.parametrize(
    ("state", "exit_code", "code"),
    [
        ("finished", 0, 0),
        ("stopped", 0, 0),
        ("failed", 1, 1),
        ("failed", 2, 2),
        ("failed", 4, 4),
        ("normal", None, 1),  # its process is gone
        (None, None, 3),  # it has never run
    ],
)
def test_check_exits_by_the_state(job_file: Path, state: str | None, exit_code: int | None, code: int) -> None:
    if state is not None:
        error = {"error": "it broke", "error_code": "SinkFault"} if state == "failed" else {}
        put(job_file, WELL, beat(state, pid=gone().pid, exit_code=exit_code, **error))
    for options, expected in (((), 0), (("--check",), code), (("--check", "--json"), code)):
        done = CliRunner().invoke(main, ["status", str(job_file), *options], catch_exceptions=False)
        assert done.exit_code == expected, options
        assert "shop" in done.stdout


def test_check_tells_a_job_that_runs_well_from_one_to_look_at() -> None:
    me = this_process().process
    assert check_code(describe(IDENTITY, WELL, beat(pid=me.pid), held_by(me), NOW)) == 0
    assert check_code(describe(IDENTITY, WELL, beat("pending", pid=me.pid), held_by(me), NOW)) == 0
    assert check_code(describe(IDENTITY, WELL, beat("warning", pid=me.pid), held_by(me), NOW)) == 3
    assert check_code(said(beat("finished"))) == 3, "tables need a look"
