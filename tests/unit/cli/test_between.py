"""``verify --between``: a topic and what it was converted to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.recorded_topics import write_json
from tests.unit.cli.test_convert import ENCODERS
from tests.unit.cli.test_inspect import ZONE, lines, topic
from ticdc_spark.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.mark.parametrize("source", ENCODERS)
@pytest.mark.parametrize("target", ENCODERS)
def test_a_topic_equals_what_it_is_converted_to(source: str, target: str, tmp_path: Path) -> None:
    path, out = write_json(tmp_path / "topic.jsonl", lines(topic(ENCODERS[source]))), tmp_path / "out"
    zone = [] if target == "debezium" else ["-O", f"time-zone={ZONE}"]  # Debezium's TIMESTAMP is in UTC
    assert run("convert", path, "--source-timezone", ZONE, "--to", target, "--out", out, *zone).exit_code == 0
    done = run("verify", "--between", path, out, "--source-timezone", ZONE)
    assert done.exit_code == 0, done.output
    assert "0 with differences" in done.output


def test_a_changed_value_is_shown_and_reported(tmp_path: Path) -> None:
    sent = lines(topic(ENCODERS["canal-json"]))
    path = write_json(tmp_path / "topic.jsonl", sent)
    other = write_json(tmp_path / "other.jsonl", [one for one in sent if b"INSERT" not in (one.value or b"")])
    report = tmp_path / "report.json"
    done = run("verify", "--between", path, other, "--source-timezone", ZONE, "--report", report)
    assert done.exit_code == 3, done.output
    assert "missing" in done.output
    assert json.loads(report.read_text())["found"][0]["kind"] == "missing"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name a job file, or two topics"),
        (["job.toml", "--between", "a", "b"], "takes no JOB.toml"),
        (["--between", "kafka://broker:9092", "b"], "kafka://HOST:PORT/TOPIC"),
        (["--between", "nowhere", "b"], "nowhere"),
    ],
)
def test_what_cannot_be_compared_is_an_error(arguments: list[str], says: str) -> None:
    done = run("verify", *arguments)
    assert done.exit_code in (1, 2)
    assert says in done.output + str(done.exception)
