"""``convert``: recorded topics in another protocol."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.recorded_topics import read_back, write_json
from tests.unit.test_inspect import CANAL, CHANGES, NEW, OLD, OPEN, SIMPLE, TABLE, ZONE, lines, shown, topic
from ticdc_spark.cli import main
from ticdc_spark.model import RowChange
from ticdc_spark.protocols.base import Encoded, Encoder
from ticdc_spark.protocols.detect import detect

ENCODERS = {"open": OPEN, "simple": SIMPLE, "canal-json": CANAL}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "parquet"])
@pytest.mark.parametrize("source", ENCODERS)
@pytest.mark.parametrize("target", ENCODERS)
def test_events_stay_what_they_are(source: str, target: str, form: str, tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(ENCODERS[source])))
    arguments = [path, "--source-timezone", ZONE, "--to", target, "--format", form, "--out", tmp_path / "out"]
    result = run("convert", *arguments, "-O", "time-zone=+05:30")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"converted {source} to {target}: ")
    messages = read_back(tmp_path / "out")
    assert detect([(line.key, line.value) for line in messages]) == target
    assert [line.offset for line in messages] == list(range(len(messages)))
    found = shown(run("inspect", "--json", "--source-timezone", "+05:30", tmp_path / "out"))
    before = shown(run("inspect", "--json", "--source-timezone", ZONE, path))

    def told(events: list[dict[str, object]]) -> list[tuple[object, ...]]:
        names = ("commit_ts", "schema", "table", "before", "after", "query")
        return [tuple(event[name] for name in names) for event in events if event["kind"] != "bootstrap"]

    assert told(found) == told(before)


def test_what_cannot_be_read_or_written_is_counted_and_fails(tmp_path: Path) -> None:
    large = RowChange(op="insert", table=TABLE, commit_ts=1 << 40, after={**OLD, "id": "9" * 900})
    sent = [*topic(SIMPLE), *SIMPLE.rows([large, CHANGES[0]]), Encoded(None, b"{")]
    path = write_json(tmp_path / "topic.jsonl", lines(sent))
    result = run("convert", path, "--to", "canal-json", "--out", tmp_path / "out", "-O", "max-message-bytes=900")
    assert result.exit_code == 1
    assert "2 events rejected" in result.stderr
    assert "1 × cannot be written: a row of `shop`.`t` takes" in result.stderr
    assert "1 × not valid JSON" in result.stderr
    assert len(read_back(tmp_path / "out")) == len(sent) - 2


def test_options_of_the_target(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(SIMPLE)))
    arguments = ["convert", path, "--to", "canal-json", "--format", "jsonl", "--out", tmp_path / "out"]
    result = run(*arguments, "-O", "enable-tidb-extension=false", "-O", "content-compatible=true")
    assert result.exit_code == 0, result.stderr
    update = [json.loads(line.value or b"") for line in read_back(tmp_path / "out")][2]
    assert "_tidb" not in update
    changed = [name for name in OLD if OLD[name] != NEW[name]]  # type: ignore[literal-required]
    assert list(update["old"][0]) == changed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-O", "colour=red"], "has no option 'colour'; allowed: build-ts"),
        (["-O", "max-message-bytes=many"], "option max-message-bytes"),
        (["-O", "compression"], "write key=value"),
        (["--to", "morse"], "morse"),
    ],
)
def test_usage_errors(arguments: list[str], words: str, tmp_path: Path) -> None:
    result = run("convert", tmp_path, "--to", "open", "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert words.replace("build-ts", "compression") in result.stderr


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(SIMPLE)))
    result = run("convert", path, "--to", "open", "--out", tmp_path)
    assert result.exit_code == 2
    assert "a conversion goes to a new folder" in result.stderr


@pytest.mark.parametrize("to", [OPEN, CANAL], ids=["open", "canal-json"])
def test_rows_without_a_schema_become_simple_with_one(to: Encoder, tmp_path: Path) -> None:
    path = write_json(tmp_path / "topic.jsonl", lines(topic(to)[1:]))
    arguments = ["--source-timezone", ZONE, "--to", "simple", "--out", tmp_path / "out"]
    assert run("convert", path, *arguments).exit_code == 0
    found = shown(run("inspect", "--json", tmp_path / "out"))
    assert [event["kind"] for event in found] == ["bootstrap", "insert", "update", "delete", "watermark"]
