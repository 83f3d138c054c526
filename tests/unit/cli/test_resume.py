"""``ticdc-spark resume`` and ``rebuild`` without Spark: what they ask of a job, and what they refuse."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.support.job_state import owned, put, read
from ticdc_spark.cli import main, verify
from ticdc_spark.config.load import load_job
from ticdc_spark.operate.requests import repair
from ticdc_spark.replicate.run.heartbeat import Heartbeat
from ticdc_spark.replicate.state.conditions import Diverged, Dropped, Quarantined
from ticdc_spark.replicate.state.progress import Progress, WantedLoad
from ticdc_spark.replicate.state.requests import take
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.verify.report import Report, TableReport

JOB = """
[job]
name = "shop"
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
        TableState(schema="s", name="a", applied=5, condition=Quarantined(why="bad row")),
        TableState(schema="s", name="b", applied=6, condition=Quarantined(why="bad message", lifted=Diverged(since=6))),
        TableState(schema="s", name="c", applied=9),
    )
    put(path, Progress(job="shop", batch=3, applied=9, tables=tables))
    return path


def taken(job_file: Path) -> Progress:
    """The progress once the job has taken what was asked of it."""
    with owned(job_file) as store:
        progress = store.load()
        assert progress is not None
        return take(store, progress, dict, reads=True) or progress


def quarantined(job_file: Path) -> list[str]:
    progress = taken(job_file)
    assert [table.applied for table in progress.tables] == [5, 6, 9]
    assert [table.diverged_since for table in progress.tables] == [None, 6, None]
    return [table.name for table in progress.tables if table.quarantined]


def test_the_named_table_goes_on(job_file: Path) -> None:
    done = CliRunner().invoke(main, ["resume", str(job_file), "--table", "s.a"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == [
        "requested: s.a resumes from commitTs 5; it was quarantined: bad row",
        "the job is not running: it takes this when it starts",
    ]
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


def test_a_running_job_is_asked_beside_its_owner_and_status_shows_what_waits(job_file: Path) -> None:
    run = CliRunner()
    with owned(job_file) as store:
        Heartbeat(store.states).beat("waiting", 3)
        done = run.invoke(main, ["resume", str(job_file), "--all"])
        cleared = run.invoke(main, ["resume", str(job_file), "s.b", "--clear-diverged"])
        shown = run.invoke(main, ["status", str(job_file)])
    when = "the job is running: it takes this within 11 s, or once the current batch is done"
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, when)
    assert cleared.output.splitlines() == [
        "requested: s.b no longer counts as diverged since 6; it had diverged: the reason was not kept",
        when,
    ]
    assert "resume s.a, s.b: the job takes it between two batches\n" in shown.output
    assert "clear s.b: the job takes it between two batches\n" in shown.output
    status = json.loads(run.invoke(main, ["status", str(job_file), "--json"]).output)
    assert status["requests"] == ["resume s.a, s.b", "clear s.b"]
    assert [(table.name, table.cleared) for table in taken(job_file).tables if table.cleared] == [("b", 6)]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (["s.a", "s.x"], r"'s\.x' is not a table of the source; write schema\.table"),
        (["s.b"], r"'s\.b': `tables` under \[job\] in \S*job\.toml excludes it"),
        (["s.k"], r"'s\.k' has no primary key .* with no-key = \"apply\" under \[job\]"),
        ([], "name the tables"),
    ],
)
def test_a_rebuild_that_is_not_possible_asks_for_nothing(
    job_file: Path, tables: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(job_file)
    done = CliRunner().invoke(main, ["rebuild", str(job_file), *tables])
    assert done.exit_code == 2
    assert re.search(message, " ".join((done.output + capsys.readouterr().err).split()))
    assert not read(job_file).requests


def test_a_table_without_a_key_is_read_from_a_dump_by_a_job_that_counts_equal_rows(job_file: Path) -> None:
    dump(job_file)
    job_file.write_text(job_file.read_text().replace("[job]", '[job]\nno-key = "apply"'))
    assert CliRunner().invoke(main, ["rebuild", str(job_file), "s.k"]).exit_code == 0
    assert read(job_file).requests


def test_verify_asks_for_the_tables_that_can_be_read_and_names_the_others(
    job_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(job_file)
    tables = [
        TableReport(table=name, target=name, result="different", condition="clean", differences=1)
        for name in ("s.k", "s.a")
    ]
    verify.repair_by(load_job(job_file), Report(job="shop", started="", tables=tuple(tables)))
    shown = capsys.readouterr().out
    assert "requested: s.a read in full" in shown and "not requested: 's.k' has no primary key" in shown
    assert [one.tables for one in read(job_file).requests] == [(("s", "a"),)]


@pytest.mark.parametrize(
    ("named", "meant"),
    [("copy_s.a", "did you mean s.a?: copy_s.a is its name in the target"), ("s.aa", "did you mean s.a?")],
)
def test_a_name_of_the_target_or_one_with_a_typing_error_is_told_with_the_name_that_is_meant(
    job_file: Path, named: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(job_file)
    job_file.write_text(f'{job_file.read_text()}\n[[route]]\ntables = ["*.*"]\ntarget-schema = "copy_{{schema}}"\n')
    for command in (["rebuild"], ["rebuild", "--from", "topic"], ["resume"]):
        done = CliRunner().invoke(main, [command[0], str(job_file), named, *command[1:]])
        assert done.exit_code == 2
        assert meant in " ".join((done.output + capsys.readouterr().err).split())


def test_tables_are_asked_to_be_read_again(job_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = CliRunner().invoke(main, ["rebuild", str(job_file), "s.a"])
    assert refused.exit_code == 2 and "[snapshot]: missing" in refused.output + capsys.readouterr().err
    dump(job_file)
    done = CliRunner().invoke(main, ["rebuild", str(job_file), "s.a", "--table", "s.a"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "the job is not running: it takes this when it starts"
    assert taken(job_file).wanted == (WantedLoad(schema="s", name="a", at=460000000000000000, asked=True),)


def test_tables_are_asked_to_be_read_again_from_their_topics(job_file: Path) -> None:
    """Without a section ``[snapshot]``, and also by a job that has none."""
    done = CliRunner().invoke(main, ["rebuild", str(job_file), "s.a", "s.c", "--from", "topic"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == [
        "requested: s.a is read in full from its topics",
        "requested: s.c is read in full from its topics",
        "the job is not running: it takes this when it starts",
    ]
    shown = CliRunner().invoke(main, ["status", str(job_file)]).output
    assert "rebuild s.a, s.c from the topics: the job takes it when it starts\n" in shown
    with owned(job_file) as store:
        progress = store.load()
        assert progress is not None
        progress = take(store, progress, dict, reads=False)
        assert progress is not None
    assert [(one.name, one.asked, one.from_topic) for one in progress.wanted] == [("a", True, True), ("c", True, True)]


def test_a_request_to_read_a_table_again_is_withdrawn_whether_the_job_took_it_or_not(
    job_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(job_file)
    progress = read(job_file).progress
    assert progress is not None
    taken_before = WantedLoad(schema="s", name="c", asked=True)
    put(job_file, msgspec.structs.replace(progress, wanted=(taken_before, WantedLoad(schema="s", name="d"))))
    CliRunner().invoke(main, ["rebuild", str(job_file), "s.a"])
    repair(load_job(job_file), {"s.a": ('{"id":"1"}',)})
    for name in ("s.b", "s.d"):
        done = CliRunner().invoke(main, ["rebuild", str(job_file), name, "--withdraw"])
        shown = " ".join((done.output + capsys.readouterr().err).split())
        assert (done.exit_code, "no request to read it again waits" in shown) == (2, True)
        assert "Waiting: s.a, s.c" in shown
    done = CliRunner().invoke(main, ["rebuild", str(job_file), "s.a", "s.c", "--withdraw"])
    assert done.output.splitlines()[0] == "withdrawn: s.a, s.c"
    assert [type(one).__name__ for one in read(job_file).requests] == ["Withdraw"]
    assert taken(job_file).wanted == (WantedLoad(schema="s", name="d"),)


@pytest.mark.parametrize(
    ("table", "more", "message"),
    [
        ("s.x", "", "'s.x' is not a table that the job replicates"),
        ("s.d", "", "'s.d' is not a table that the job replicates"),
        ("s.b", 'tables = ["*.*", "!s.b"]', "'s.b': `tables` under [job] in"),
    ],
)
def test_a_rebuild_from_a_topic_that_is_not_possible_asks_for_nothing(
    job_file: Path, table: str, more: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = read(job_file).progress
    assert progress is not None
    gone = TableState(schema="s", name="d", applied=9, condition=Dropped())
    put(job_file, msgspec.structs.replace(progress, tables=(*progress.tables, gone)))
    job_file.write_text(job_file.read_text().replace("[source]", f"{more}\n[source]"))
    done = CliRunner().invoke(main, ["rebuild", str(job_file), table, "--from", "topic"])
    assert done.exit_code == 2
    assert message in " ".join((done.output + capsys.readouterr().err).split())
    assert not read(job_file).requests


def dump(job_file: Path) -> None:
    """Have the job read tables from a dump; its own rules leave one of them out."""
    folder = job_file.parent / "dump"
    folder.mkdir()
    (folder / "metadata").write_text(
        "Started dump at: 2024-05-05 05:05:05\nSHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: 460000000000000000\n"
        "\tGTID:\n\nFinished dump at: 2024-05-05 05:05:06\n"
    )
    for name in "ab":
        (folder / f"s.{name}-schema.sql").write_text(f"CREATE TABLE `{name}` (`id` INT PRIMARY KEY);\n")
    (folder / "s.k-schema.sql").write_text("CREATE TABLE `k` (`id` INT);\n")
    text = job_file.read_text().replace("[source]", 'tables = ["*.*", "!s.b"]\n[source]')
    job_file.write_text(f'{text}[snapshot]\npath = "dump"\n')


def test_a_job_without_progress_has_nothing_to_resume(job_file: Path) -> None:
    job_file.write_text(job_file.read_text().replace('name = "shop"', 'name = "another"'))
    done = CliRunner().invoke(main, ["resume", str(job_file), "--all"])
    assert done.exit_code == 2
