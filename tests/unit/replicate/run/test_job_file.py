"""A job that runs follows its file."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from ticdc_spark.config.job import Job
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import SourceFault, UsageError
from ticdc_spark.replicate.run.job_file import RunningJob

JOB = """\
[job]
name = "shop"
tables = ["shop.a"]
[source]
kind = "kafka"
bootstrap-servers = "kafka:9092"
topics = ["cdc"]
[sink]
kind = "iceberg"
warehouse = "lake"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "job.toml"
    made.write_text(JOB)
    return made


def running_job(file: Path) -> RunningJob:
    """Two seconds pass between two looks."""
    return RunningJob(load_job(file), clock=count(0, 2.0).__next__)


def changed(running: RunningJob) -> Job | None:
    """What is found once a file does not change any more."""
    assert running.changed() is None
    return running.changed()


def test_a_file_that_is_being_written_is_read_once_it_is_whole(file: Path) -> None:
    """A part of it is a valid job, without the rules."""
    whole = JOB + '[[route]]\ntables = ["shop.*"]\ndrop-columns = ["secret"]\n'
    running = running_job(file)
    for size in (len(JOB), len(JOB) + 35, len(whole)):
        file.write_text("#\n" + whole[:size])
        assert running.changed() is None
    found = running.changed()
    assert found is not None and found.routes


def test_a_file_settles_while_it_may_still_be_written(file: Path) -> None:
    running = running_job(file)
    assert running.changed() is None and not running.is_settling
    file.write_text(JOB.replace('"shop.a"', '"shop.b"'))
    assert running.changed() is None and running.is_settling
    assert running.changed() is not None and not running.is_settling
    file.write_text("#")
    assert running.changed() is None and running.is_settling
    file.write_text(JOB)
    assert running.changed() is None
    assert running.changed() is None and not running.is_settling, "it is as the job knows it"


def test_a_change_is_found_once(file: Path) -> None:
    running = running_job(file)
    assert changed(running) is None
    file.write_text(JOB.replace('"shop.a"', '"shop.a", "shop.b"').replace('["cdc"]', '["cdc", "more"]'))
    found = changed(running)
    assert found is not None
    assert found.tables == ("shop.a", "shop.b")
    assert running.take_over(found, lambda job: job.tables) == found.tables
    assert (running.job, changed(running)) == (found, None)


def test_a_file_that_says_the_same_is_no_change(file: Path) -> None:
    running = running_job(file)
    file.write_text("# a comment\n" + JOB)
    assert changed(running) is None


def test_a_file_with_a_mistake_leaves_the_job_as_it_is(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = load_job(file)
    running = running_job(file)
    file.write_text(JOB.replace("tables =", "tabels ="))
    assert changed(running) is None
    assert "tabels" in caplog.text
    assert "the job continues with the old one" in caplog.text
    file.write_text(JOB.replace('"shop.a"', '"shop.b"'))
    found = changed(running)
    assert found is not None
    assert running.job == job  # until it is opened


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('name = "shop"', 'name = "other"', "[job] name"),
        ('warehouse = "lake"', 'warehouse = "lake2"', "[sink]"),
        ("[sink]", '[spark]\n"spark.executor.cores" = 2\n[sink]', "[spark]"),
        ("[sink]", '[metrics]\nlisten = "127.0.0.1:9464"\n[sink]', "[metrics]"),
        ("[sink]", '[[notice]]\ncommand = ["page"]\n[sink]', "[[notice]]"),
    ],
)
def test_what_cannot_change_while_the_job_runs_is_named(
    file: Path, caplog: pytest.LogCaptureFixture, old: str, new: str, named: str
) -> None:
    running = running_job(file)
    file.write_text(JOB.replace(old, new))
    assert changed(running) is None
    assert f"{named} cannot change while the job runs" in caplog.text


def test_a_file_that_is_gone_for_a_moment_is_read_once_it_is_there(file: Path) -> None:
    running = running_job(file)
    file.unlink()
    assert changed(running) is None
    file.write_text(JOB.replace('"shop.a"', '"shop.b"'))
    assert changed(running) is not None


def test_a_file_that_does_not_fit_what_the_job_has_done_is_given_up(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = load_job(file)
    running = running_job(file)
    file.write_text(JOB.replace('"shop.a"', '"shop.b"'))
    found = changed(running)
    assert found is not None

    def opened(_job: Job) -> str:
        raise UsageError("no")

    assert running.take_over(found, opened) is None
    assert running.job == job
    assert "does not fit" in caplog.text


def test_a_change_is_not_lost_to_an_outage(file: Path) -> None:
    running = running_job(file)
    file.write_text(JOB.replace('"shop.a"', '"shop.b"'))
    found = changed(running)
    assert found is not None

    def opened(_job: Job) -> str:
        raise SourceFault("away")

    with pytest.raises(SourceFault):
        running.take_over(found, opened)
    assert running.job == found
