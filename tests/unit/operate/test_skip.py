"""``ticdc-spark skip``: what it adds to a job file, and what it leaves as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.job_state import put
from ticdc_spark.cli import main
from ticdc_spark.config.load import load_job
from ticdc_spark.config.values import MessagePlace, SkipDdl
from ticdc_spark.errors import UsageError
from ticdc_spark.operate.skip import no_effect, skip
from ticdc_spark.replicate.state.progress import PartitionState, PendingRows, Progress

SOURCE = '[source]\nkind = "kafka"\nbootstrap-servers = "broker:9092"\ntopics = ["shop"]\n'
SINK = '[sink]\nkind = "iceberg"\nwarehouse = "lake"\n'
JOB = f'# ours\n[job]\nname = "shop"  # the shop\n\n{SOURCE}{SINK}'
DDL = '462354011751161858:ALTER TABLE `a` DROP "b" \\ c'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(JOB)
    return path


def test_messages_and_ddls_are_added_where_each_belongs(file: Path) -> None:
    assert skip(file, ["shop/0/1042", DDL]) == [("skip-messages", "shop/0/1042"), ("skip-ddl", DDL)]
    job = load_job(file)
    assert job.skip_messages == (MessagePlace("shop", 0, 1042),)
    assert job.skip_ddl == (SkipDdl(462354011751161858, DDL.partition(":")[2]),)


def test_the_file_keeps_its_comments_and_its_mode(file: Path) -> None:
    file.chmod(0o640)
    skip(file, ["shop/0/1042"])
    assert file.stat().st_mode & 0o777 == 0o640
    text = file.read_text()
    assert text.startswith('# ours\n[job]\nname = "shop"  # the shop\n')
    assert text.endswith(SOURCE + SINK)
    assert [path.name for path in file.parent.iterdir()] == ["shop.toml"]


@pytest.mark.parametrize(
    "line",
    ['skip-messages = ["shop/0/1"]', 'skip-messages = [\n    "shop/0/1",  # a bad row\n]', "skip-messages = []"],
)
def test_what_is_there_stays_and_nothing_is_added_twice(file: Path, line: str) -> None:
    file.write_text(JOB.replace('name = "shop"', f'name = "shop"\n{line}'))
    before = load_job(file).skip_messages
    assert skip(file, ["shop/0/2", "shop/0/2"]) == [("skip-messages", "shop/0/2")]
    assert load_job(file).skip_messages == (*before, MessagePlace("shop", 0, 2))
    assert ("# a bad row" in file.read_text()) == ("# a bad row" in line)
    assert skip(file, ["shop/0/2"]) == []


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    link = tmp_path / "jobs" / "job.toml"
    link.symlink_to(file)
    skip(link, ["shop/0/1042"])
    assert link.is_symlink()
    assert load_job(file).skip_messages


@pytest.mark.parametrize("wrong", ["shop/0", "shop/x/1", "1:", "0:*", "", "99999999999999999999:*"])
def test_a_wrong_entry_changes_nothing(file: Path, wrong: str) -> None:
    with pytest.raises(UsageError, match="allowed: a list of"):
        skip(file, ["shop/0/1042", wrong])
    assert file.read_text() == JOB


def test_a_job_section_of_another_form_is_changed_or_refused_and_never_spoilt(file: Path) -> None:
    file.write_text(f'job = {{name = "shop"}}\n{SOURCE}{SINK}')
    skip(file, ["shop/0/1042"])
    assert load_job(file).skip_messages == (MessagePlace("shop", 0, 1042),)
    file.write_text(f'job.name = "shop"\n{SOURCE}{SINK}')
    skip(file, ["shop/0/1042"])
    assert load_job(file).skip_messages == (MessagePlace("shop", 0, 1042),)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_that_cannot_be_written_names_the_line_to_add(file: Path) -> None:
    file.parent.chmod(0o555)
    try:
        with pytest.raises(UsageError, match='Add to \\[job\\] by hand: "shop/0/1042" to skip-messages'):
            skip(file, ["shop/0/1042"])
    finally:
        file.parent.chmod(0o755)


def test_the_command_says_what_was_added_and_when_it_is_taken(file: Path) -> None:
    done = CliRunner().invoke(main, ["skip", str(file), "shop/0/1042"])
    assert done.exit_code == 0, done.output
    assert f"added to skip-messages of {file}: shop/0/1042" in done.output
    assert "the job is not running" in done.output
    assert "has all of them already" in CliRunner().invoke(main, ["skip", str(file), "shop/0/1042"]).output


ROWS = PendingRows(
    schema="shop", name="t", schema_key="1", rows=1, min_ts=1, max_ts=2, topic="shop", partition=0, first=20, end=30
)
PROGRESS = Progress(job="shop", partitions=(PartitionState(topic="shop", partition=0, offset=1000),), pending=(ROWS,))
ENDS = {("shop", 0): 2000, ("shop", 1): 5}


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("shop/0/1000", ""),
        ("shop/0/25", ""),  # its row waits
        ("shop/1/4", ""),  # of a partition that the job has not read yet
        ("shop/0/999", "was read before"),
        ("shop/0/30", "was read before"),
        ("shop/0/2000", "the next one will have offset 2,000"),
        ("shop/2/0", "topic 'shop' has no partition 2"),
        ("shp/0/0", "there is no such topic"),
    ],
)
def test_a_message_that_was_applied_or_is_not_there_is_not_skipped(place: str, why: str) -> None:
    topic, partition, offset = place.split("/")
    at = MessagePlace(topic, int(partition), int(offset))
    ends = {of: end for of, end in ENDS.items() if of[0] == topic}
    found = no_effect(at, PROGRESS, ends)
    assert found == why or (why and why in found)
    assert no_effect(at, None, None) == "", "nothing is known"


def test_the_command_refuses_a_message_that_was_applied_and_changes_nothing(file: Path) -> None:
    put(file, PROGRESS)
    before = file.read_text()
    done = CliRunner().invoke(main, ["skip", str(file), "shop/0/1000", "shop/0/12"])
    assert (done.exit_code, file.read_text()) == (2, before), done.output
    assert "shop/0/12: the message was read before" in done.output
    assert CliRunner().invoke(main, ["skip", str(file), "shop/0/1000"]).exit_code == 0
