"""The command line: quick, quiet, exit codes, and how a run is stopped and shown."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console

from ticdc_spark import errors
from ticdc_spark.cli import _COMMANDS, main
from ticdc_spark.cli.output.progress import LogLines, View, details, line
from ticdc_spark.cli.output.text import count, noun
from ticdc_spark.cli.replicate import last_line
from ticdc_spark.cli.signals import SAME_SIGNAL_SECONDS, stoppable
from ticdc_spark.config.durations import duration
from ticdc_spark.mysql.tso_time import LARGEST, lag, seconds, utc
from ticdc_spark.replicate.report import BatchReport, Summary
from ticdc_spark.replicate.state.conditions import Dropped
from ticdc_spark.replicate.state.progress import Counters, Hold, PendingRows, Progress
from ticdc_spark.replicate.state.table import TableState

TSO = 462_354_011_751_161_858
PROGRESS = Progress(
    job="shop",
    batch=3,
    applied=TSO,
    counters=Counters(rows=12_345),
    tables=(
        *(TableState(schema="shop", name=f"t{i}[b]", applied=TSO, rows=i) for i in range(20)),
        TableState(schema="shop", name="old", condition=Dropped()),
    ),
    pending=(
        PendingRows(
            first=0, end=9, schema="s", name="t", schema_key="", rows=9, min_ts=1, max_ts=2, topic="x", partition=0
        ),
    ),
    hold=Hold(kind="schema", what="no schema of shop.new, version 7"),
)
FREE = msgspec.structs.replace(PROGRESS, hold=Hold(kind="none", what=""))


LISTS_MODULES = """
import atexit, sys
from ticdc_spark.cli import main
atexit.register(lambda: sys.stderr.write(" ".join(sorted({"pyspark", "pyarrow"} & set(sys.modules)))))
main()
"""
"""The command, which then writes to standard error which of these it has loaded."""


def run(*arguments: str, code: str = "from ticdc_spark.cli import main; main()") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["status", "--help"], ["replicate", "--help"], ["--version"]])
def test_help_loads_no_spark(arguments: list[str]) -> None:
    done = run(*arguments, code=LISTS_MODULES)
    assert done.returncode == 0
    assert done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("name", _COMMANDS)
def test_each_command_is_there_and_describes_itself(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.help
    shown = CliRunner().invoke(main, ["--help"]).stdout
    assert name in shown
    assert _COMMANDS[name].split()[0] in shown


def test_an_option_of_all_commands_that_stands_behind_one_is_told_its_place() -> None:
    result = CliRunner().invoke(main, ["replicate", "--log-format", "json", "shop.toml"])
    assert result.exit_code == 2
    assert "It goes before the command: ticdc-spark --log-format …" in result.output


def test_a_command_that_is_none_is_a_usage_error() -> None:
    done = CliRunner().invoke(main, ["replicat"])
    assert done.exit_code == 2
    assert "replicat" in done.stderr


def subclasses(kind: type[errors.TicdcSparkError]) -> list[type[errors.TicdcSparkError]]:
    return [kind, *(deeper for direct in kind.__subclasses__() for deeper in subclasses(direct))]


@pytest.mark.parametrize("kind", subclasses(errors.TicdcSparkError))
def test_each_error_ends_with_its_exit_code_and_in_one_line(
    kind: type[errors.TicdcSparkError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: object) -> None:
        error = kind("it is [so]")
        error.add_note("and then this")
        raise error

    monkeypatch.setattr("ticdc_spark.cli.status.load_identity", fail)
    done = CliRunner().invoke(main, ["status", "x"])
    assert done.exit_code == kind.exit_code
    assert done.exit_code in (1, 2, 4)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d error: it is \[so\]\nand then this\n", done.stderr)
    assert done.stdout == ""
    verbose = CliRunner().invoke(main, ["-v", "status", "x"])
    assert "Traceback" in verbose.stderr


def test_a_wrong_job_file_is_reported_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("[job]\nnam = 1\n")
    done = run("replicate", str(tmp_path / "job.toml"), code=LISTS_MODULES)
    assert done.returncode == 2
    assert "did you mean `name`?" in done.stderr
    assert "Traceback" not in done.stderr
    assert "pyspark" not in done.stderr


@pytest.mark.parametrize("ts", ["0", "-1", "9223372036854775808", "soon"])
def test_until_ts_is_a_tso(ts: str) -> None:
    done = CliRunner().invoke(main, ["replicate", "x.toml", "--until-ts", ts])
    assert done.exit_code == 2


STOPPED = """
import sys, threading, time
from ticdc_spark.cli.output.logging import redacted_children, set_up
from ticdc_spark.cli.signals import stoppable

stop = threading.Event()

def work():
    print("working", flush=True)
    stop.wait()
    time.sleep(float(sys.argv[1]))
    print("clean", flush=True)
    return 5

set_up(verbose=False)
with redacted_children():
    print(stoppable(work, stop))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_after_the_step(number: signal.Signals) -> None:
    with started("0.3") as running:
        running.send_signal(number)
        out, err = running.communicate(timeout=20)
    assert (running.returncode, out) == (0, "clean\n5\n")
    assert f"{number.name}: stopping after the current step" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_later_second_signal_stops_at_once(number: signal.Signals) -> None:
    with started("60") as running:
        running.send_signal(number)
        assert running.stderr is not None
        assert "stopping after the current step" in running.stderr.readline()
        time.sleep(SAME_SIGNAL_SECONDS + 0.3)
        running.send_signal(number)
        out, err = running.communicate(timeout=20)
    assert (running.returncode, out) == (128 + number, "")
    assert f"{number.name} again: ending at once" in err


@pytest.mark.parametrize("pause", [0.0, 0.01])
def test_signals_within_a_second_are_one_request(pause: float) -> None:
    with started("1") as running:
        for number in [signal.SIGTERM, signal.SIGINT] * 10:
            running.send_signal(number)
            time.sleep(pause)
        out, err = running.communicate(timeout=20)
    assert (running.returncode, out) == (0, "clean\n5\n")
    assert err.count("stopping after the current step") == 1
    assert "Traceback" not in err


def test_timeout_of_gnu_lets_the_step_end() -> None:
    """It sends SIGTERM to the command and then to the command's group, so the command gets it twice."""
    with started("0.3", before=("timeout", "600")) as running:
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=20)
    assert (running.returncode, out) == (0, "clean\n5\n"), err


@contextmanager
def started(*arguments: str, before: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    command = [*before, sys.executable, "-c", STOPPED, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "working\n"
            yield running
        finally:
            running.kill()


def test_what_the_work_raises_is_raised() -> None:
    import threading

    def fail() -> None:
        raise errors.LeaseHeld("taken")

    with pytest.raises(errors.LeaseHeld, match="taken"):
        stoppable(fail, threading.Event())


def test_a_report_is_one_short_line() -> None:
    tables = {("shop", f"t{at}"): 1 for at in range(4)}
    done = BatchReport(progress=FREE, messages=10, left=0, changes=2000, seconds=2.0, commits=tables)
    now = seconds(TSO) + 90
    assert line(done, now) == f"batch 3: 2,000 changes in 4 tables, 2.0 s, lag 1 min 30 s, resolved {utc(TSO)}"
    behind = msgspec.structs.replace(done, full=True, left=5_000)
    assert line(behind, now).endswith("lag 1 min 30 s, 5,000 messages to read, about 16 min 40 s left")
    held = msgspec.structs.replace(behind, progress=PROGRESS, changes=0)
    assert line(held, now) == (
        "batch 3: 10 messages, no change to apply, 2.0 s, lag 1 min 30 s, held back by no schema of shop.new, version 7"
    )
    assert max(len(line(one, now)) for one in (done, behind, held)) <= 110
    hold = msgspec.structs.replace(PROGRESS.hold, what="the DDL ALTER TABLE shop.orders " + 9 * "ADD COLUMN c INT, ")
    long = msgspec.structs.replace(held, progress=msgspec.structs.replace(PROGRESS, hold=hold))
    assert len(line(long, now)) < 140 and line(long, now).endswith("…")
    assert hold.what in details(long)
    assert line(BatchReport(progress=Progress(job="shop")), 0.0) == "idle: no new messages"


def test_verbose_adds_the_rest_of_a_report(caplog: pytest.LogCaptureFixture) -> None:
    report = BatchReport(
        progress=PROGRESS, messages=10, left=5, full=True, changes=2000, seconds=2.0, phases={"scan": 0.5}
    )
    with caplog.at_level("DEBUG", "ticdc_spark.cli.output.progress"):
        LogLines()(report)
    short, rest = caplog.records
    assert (short.levelname, rest.levelname) == ("INFO", "DEBUG")
    assert rest.getMessage() == (
        f"batch 3: 10 messages, 1,000 changes/s, scan 0.5 s, resolved ts {TSO} ({utc(TSO)}), 20 tables, "
        "9 changes waiting, 5 messages to read, about 1.0 s left, held back by no schema of shop.new, version 7"
    )


def test_idle_looks_are_logged_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(
        "ticdc_spark.cli.output.progress.log.info", lambda text, *values: reported.append(text % values)
    )
    show: Callable[[BatchReport], None] = LogLines()
    for messages in (0, 0, 0, 1, 1, 0):
        show(BatchReport(progress=PROGRESS, messages=messages))
    assert [text.split(":")[1].split(",")[0].strip() for text in reported] == [
        "no new messages",
        "1 message",
        "1 message",
    ]


def test_the_live_view_shows_changes_time_lag_and_tables() -> None:
    view = View("shop")
    console = Console(width=120, record=True, force_terminal=False)
    with console.capture() as starting:
        console.print(view)
    assert "shop: starting" in starting.get()
    view(BatchReport(progress=PROGRESS, messages=10, left=0, changes=2000, seconds=2.0))
    with console.capture() as captured:
        console.print(view)
    text = captured.get()
    for part in (
        "12,345",
        "this run 2,000",
        str(TSO),
        utc(TSO),
        "lag",
        "9 changes",
        "shop.t19[b]",
        "8 more tables",
    ):
        assert part in text
    assert "shop.old" not in text


def test_the_last_line_sums_up_the_run() -> None:
    summary = Summary(progress=PROGRESS, batches=1, changes=7, ddls=1, seconds=61)
    done = f"7 changes and 1 DDL applied in 1 batch, 1 min 1 s; 20 tables at resolved ts {TSO} ({utc(TSO)})"
    assert last_line(summary) == f"stopped: {done}"
    finished = msgspec.structs.replace(summary, finished=True)
    assert last_line(finished) == f"finished: {done}; not all is applied: {PROGRESS.hold.what}"
    unread = msgspec.structs.replace(summary, unread="2 files are not read")
    assert last_line(unread) == f"stopped: {done}; 2 files are not read"
    nothing_waits = msgspec.structs.replace(PROGRESS, pending=(), ddls=())
    assert last_line(msgspec.structs.replace(finished, progress=nothing_waits)) == f"finished: {done}"


def test_numbers_and_times_are_for_people() -> None:
    assert [duration(seconds) for seconds in (None, 0.04, 9.96, 59, 60, 75, 3600, 90061)] == [
        "-",
        "0.0 s",
        "10.0 s",
        "59 s",
        "1 min",
        "1 min 15 s",
        "1 h",
        "1 d 1 h",
    ]
    assert count(1234567) == "1,234,567"
    assert (noun(1, "batch", "batches"), noun(0, "batch", "batches")) == ("1 batch", "0 batches")


def test_a_tso_is_a_time() -> None:
    assert utc(TSO) == "2025-11-21 15:56:24.377Z"
    assert utc(0) == "-"
    assert utc(LARGEST).startswith("3084-")
    assert lag(0, 1.0) is None
    assert lag(TSO, 0.0) == 0.0


def test_the_package_runs_as_a_module() -> None:
    ran = subprocess.run([sys.executable, "-m", "ticdc_spark", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("ticdc-spark ")
