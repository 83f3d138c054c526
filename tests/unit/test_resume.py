"""``ticdc-spark resume`` without Spark: what it changes in the progress, and what it refuses."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ticdc_spark.cli import main
from ticdc_spark.config.load import load_job
from ticdc_spark.replicate.state.lease import acquire
from ticdc_spark.replicate.state.lease_store import lease_store, this_process
from ticdc_spark.replicate.state.progress import Progress, TableState
from ticdc_spark.replicate.state.store import Store

JOB = """
[job]
name = "shop"
state = "state"
[source]
kind = "files"
path = "topic"
protocol = "simple"
[sink]
kind = "iceberg"
warehouse = "lake"
"""


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    (tmp_path / "topic").mkdir()
    (tmp_path / "lake").mkdir()
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    tables = (
        TableState(schema="s", name="a", applied=5, quarantined="bad row"),
        TableState(schema="s", name="b", applied=6, quarantined="bad message", diverged_since=6),
        TableState(schema="s", name="c", applied=9),
    )
    Store(tmp_path / "state").save(Progress(job="shop", generation=1, batch=3, applied=9, tables=tables))
    return path


def quarantined(job_file: Path) -> list[str]:
    progress = Store(job_file.parent / "state").load()
    assert progress is not None
    assert [table.applied for table in progress.tables] == [5, 6, 9]
    assert [table.diverged_since for table in progress.tables] == [None, 6, None]
    return [table.name for table in progress.tables if table.quarantined]


def test_the_named_table_goes_on(job_file: Path) -> None:
    done = CliRunner().invoke(main, ["resume", str(job_file), "--table", "s.a"])
    assert done.exit_code == 0, done.output
    assert "s.a goes on from commitTs 5; it stood still: bad row" in done.output
    assert quarantined(job_file) == ["b"]


def test_all_of_them_go_on(job_file: Path) -> None:
    done = CliRunner().invoke(main, ["resume", str(job_file), "--all"])
    assert done.exit_code == 0, done.output
    assert quarantined(job_file) == []
    again = CliRunner().invoke(main, ["resume", str(job_file), "--all"])
    assert (again.exit_code, again.output) == (0, "no table is quarantined\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--table", "s.c"], "'s.c' is not quarantined; quarantined: s.a, s.b"),
        (["--table", "s.a", "--table", "s.x"], "'s.x' is not quarantined"),
        ([], "name the tables"),
        (["--all", "--table", "s.a"], "name the tables"),
        (["--all", "s.a"], "name the tables"),
    ],
)
def test_what_is_not_meant_changes_nothing(
    job_file: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = CliRunner().invoke(main, ["resume", str(job_file), *options])
    assert done.exit_code == 2
    assert message in " ".join((done.output + capsys.readouterr().err).split())
    assert quarantined(job_file) == ["a", "b"]


def test_a_running_job_is_left_alone(job_file: Path) -> None:
    job = load_job(job_file)
    with acquire(lease_store(job.sink.warehouse, job.sink.catalog, job.name, job.state), this_process("shop", None)):
        done = CliRunner().invoke(main, ["resume", str(job_file), "--all"])
    assert done.exit_code == 4
    assert quarantined(job_file) == ["a", "b"]


def test_a_job_without_progress_has_nothing_to_resume(job_file: Path) -> None:
    (job_file.parent / "state" / "progress.json").unlink()
    done = CliRunner().invoke(main, ["resume", str(job_file), "--all"])
    assert done.exit_code == 2
