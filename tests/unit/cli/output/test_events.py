"""The log as JSON: one object a line, with names that stay, and no secret in it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tests.support.status_examples import PROGRESS
from tests.unit.sinks.iceberg.test_upkeep import Clock, Tables, job, progress
from ticdc_spark.cli import main
from ticdc_spark.cli.output import logging as output
from ticdc_spark.cli.output.events import json_line
from ticdc_spark.cli.output.run_events import RunEvents
from ticdc_spark.config.secrets import remember
from ticdc_spark.errors import SourceFault
from ticdc_spark.log_events import EVENTS, event
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.retry import RetryPolicy
from ticdc_spark.replicate.run.upkeep import UpkeepScheduler
from ticdc_spark.replicate.state.table import diverge
from ticdc_spark.sinks.upkeep import UpkeepResult

DOCS = Path(__file__).resolve().parents[4] / "docs"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What is written to the log, read back."""
    found: list[dict[str, Any]] = []

    def keep(text: str, end: str = "\n") -> None:
        assert "\n" not in text
        found.append(json.loads(text))

    monkeypatch.setattr(output.console, "print", keep)
    output.set_up(verbose=False, log_format="json")
    yield found
    output.set_up(verbose=False)


def test_a_batch_and_the_tables_that_change_their_condition_are_events(written: list[dict[str, Any]]) -> None:
    watcher = RunEvents("shop").watcher
    report = BatchReport(progress=PROGRESS, messages=5, changes=4, seconds=0.5, phases={"scan": 0.25})
    watcher.committed(report)
    (batch, *tables) = written
    assert (batch["event"], batch["level"], batch["job"]) == ("batch", "info", "shop")
    assert (batch["messages"], batch["changes"], batch["phases"]) == (5, 4, {"scan": 0.25})
    assert (batch["resolved_ts"], batch["changes_waiting"]) == (PROGRESS.applied, 12)
    assert [(one["event"], one["table"]) for one in tables] == [("table", one.name) for one in PROGRESS.tables]
    written.clear()
    watcher.committed(report)
    assert [one["event"] for one in written] == ["batch"]
    written.clear()
    worse = (diverge(PROGRESS.tables[0], 7, "a message was left out"), *PROGRESS.tables[1:])
    watcher.committed(msgspec.structs.replace(report, progress=msgspec.structs.replace(PROGRESS, tables=worse)))
    (changed,) = (one for one in written if one["event"] == "table")
    assert (changed["level"], changed["condition"], changed["reason"]) == (
        "warning",
        "diverged",
        "a message was left out",
    )


def test_a_fault_that_is_tried_again_and_upkeep_are_one_event_each(written: list[dict[str, Any]]) -> None:
    retries, clock = RetryPolicy("j", 600.0), Clock()
    retries.worked()
    retries.pause_after(SourceFault("the broker does not answer"))
    tables, care = Tables(clock), UpkeepScheduler(job(interval=1.0), clock)
    care.finish(tables, progress(t=1), [("s", "t")])
    tables.result = UpkeepResult(done=("compacted 9 files",))
    care.finish(tables, progress(t=1), [("s", "t")])
    tables.failing = {"t"}
    care.finish(tables, progress(t=1), [("s", "t")])
    assert [(one["event"], one["level"], one["job"]) for one in written] == [
        ("retry", "warning", "j"),
        ("upkeep", "info", "j"),
        ("upkeep", "warning", "j"),
    ]
    assert written[0]["error"] == "SourceFault"
    assert written[0]["message"] == "the broker does not answer; retrying in 1 s, giving up in 600 s"
    assert [(one["schema"], one["table"], one["done"], one["reason"]) for one in written[1:]] == [
        ("s", "t", ["compacted 9 files"], ""),
        ("s", "t", [], "another writer was faster"),
    ]


def test_an_error_that_ends_a_command_is_an_event(tmp_path: Path) -> None:
    job = tmp_path / "no\njob.toml"
    done = CliRunner().invoke(main, ["--log-format", "json", "check", str(job)])
    (line,) = done.stderr.splitlines()
    found = json.loads(line)
    assert (found["event"], found["error"], found["exit_code"], done.exit_code) == ("error", "UsageError", 2, 2)


RUN = """
import logging, subprocess, sys
from ticdc_spark.cli.output.logging import redacted_children, set_up
from ticdc_spark.config.secrets import remember

remember(sys.argv[1])
set_up(verbose=False, log_format="json")
log = logging.getLogger("ticdc_spark.test")
try:
    raise OSError(sys.argv[1])
except OSError:
    log.exception("it failed with %s", sys.argv[1])
with redacted_children():
    subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write(sys.argv[1])", sys.argv[1]], check=True)
raise RuntimeError(sys.argv[1])
"""


def test_every_line_is_json_without_a_secret_also_of_child_processes_and_faults() -> None:
    secret = 'hunter2"\\quoted'
    done = subprocess.run([sys.executable, "-c", RUN, secret], capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert [one["event"] for one in found] == ["log", "output", "fault"]
    assert "OSError" in found[0]["traceback"]
    assert "hunter2" not in done.stderr


def test_a_secret_with_a_quote_is_not_in_a_line() -> None:
    remember('hunter2"json')
    line = json_line("log", "info", 'it is hunter2"json', fields=['hunter2"json', {"x": 'hunter2"json'}])
    assert "hunter2" not in line


def test_an_event_has_a_name_that_is_documented() -> None:
    with pytest.raises(KeyError):
        event("something")
    page = (DOCS / "reference" / "log.md").read_text(encoding="utf-8")
    for name, what in EVENTS.items():
        assert f"| `{name}` | {what} |" in page
