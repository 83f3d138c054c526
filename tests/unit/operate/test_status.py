"""What status shows of the state of a job, whatever the job is doing."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.support.arrow_threads import printed_with_threads_left
from tests.support.job_state import heartbeat, owned, put, read, state_of
from tests.support.status_examples import IDENTITY, NOW, PROGRESS, TSO, WELL, beat, gone, held_by, said, write_job
from ticdc_spark.cli import main
from ticdc_spark.config.load import load_identity
from ticdc_spark.model import SchemaChange
from ticdc_spark.operate.status import JobStatus, describe, job_status
from ticdc_spark.replicate.state.conditions import Clean, Diverged, Dropped, Quarantined, Settling
from ticdc_spark.replicate.state.notes import CatchUp
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.processes import Process
from ticdc_spark.replicate.state.progress import Counters, Hold, Progress, QueuedDdl
from ticdc_spark.replicate.state.store import take_over
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.state import StateRow


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    return write_job(tmp_path)


def test_what_holds_back_and_what_waits_is_named() -> None:
    status = said(beat())
    assert (status.held_back_by.kind, status.held_back_by.what) == ("partition", "shop-1 is behind")
    assert status.held_back_by.seconds == pytest.approx(30)
    assert status.changes_waiting == 12
    assert status.ddls_waiting == (f"{TSO + 1}: ALTER TABLE orders ADD x INT",)


def test_tables_show_whether_they_equal_the_source() -> None:
    tables = {table.name: table for table in said(beat()).tables}
    assert {name: table.condition for name, table in tables.items()} == {
        "shop.orders": "clean",
        "shop.a": "diverged",
        "shop.b": "quarantined",
        "shop.c": "dropped",
        "shop.d": "kept",
        "shop.e": "unverified",
        "shop.new": "unverified",
    }
    assert tables["shop.orders"].changes_waiting == 8
    assert tables["shop.new"].changes_waiting == 4
    assert str(TSO - 1) in tables["shop.a"].detail


def test_a_table_whose_create_waits_needs_no_full_read() -> None:
    made = SchemaChange(commit_ts=TSO + 1, query="CREATE TABLE new (id INT)", kind="CREATE", schema="shop", name="new")
    waits = QueuedDdl(change=made, topic="shop", partition=1, offset=9)
    status = describe(IDENTITY, msgspec.structs.replace(PROGRESS, ddls=(waits,)), beat(), None, NOW)
    (new,) = [table for table in status.tables if table.name == "shop.new"]
    assert (new.condition, new.rebuild, new.changes_waiting) == ("unverified", False, 4)
    assert new.detail == "the DDL that makes it waits, and so do its rows"


def test_a_job_that_never_ran_is_pending() -> None:
    status = describe(IDENTITY, Progress(job="shop"), None, None, NOW)
    assert (status.state, status.running) == ("pending", False)
    assert "ticdc-spark replicate shop.toml" in status.next
    assert (status.lag, status.heartbeat_age, status.resolved_time) == (None, None, "-")


@pytest.mark.parametrize("state", ["normal", "warning", "pending"])
def test_a_living_job_is_as_its_heartbeat_has_it(state: str) -> None:
    me = this_process().process
    status = describe(IDENTITY, WELL, beat(state, pid=me.pid), held_by(me), NOW)
    assert (status.state, status.running) == (state, True)


def test_a_job_that_runs_with_tables_that_need_a_look_is_a_warning() -> None:
    me = this_process().process
    status = said(beat(pid=me.pid), held_by(me))
    assert (status.state, status.running) == ("warning", True)
    assert status.reason == "1 of 4 tables is quarantined, 1 of 4 tables has diverged; 1 message or row was rejected"
    dropped = tuple(msgspec.structs.replace(table, condition=Dropped()) for table in PROGRESS.tables)
    progress = msgspec.structs.replace(PROGRESS, tables=dropped)
    assert describe(IDENTITY, progress, beat(pid=me.pid), held_by(me), NOW).state == "normal"


def test_a_source_that_is_away_is_the_reason() -> None:
    me = this_process().process
    status = describe(IDENTITY, WELL, beat("warning", pid=me.pid, error="no broker"), held_by(me), NOW)
    assert (status.state, status.reason) == ("warning", "no broker")
    assert status.next.endswith("the job continues by itself")


def test_what_holds_a_table_back_is_named_where_nothing_holds_all() -> None:
    waiting = msgspec.structs.replace(PROGRESS.pending[0], name="b", rows=427)
    progress = msgspec.structs.replace(PROGRESS, hold=WELL.hold, pending=(waiting, PROGRESS.pending[0]), ddls=())
    status = describe(IDENTITY, progress, beat("finished"), None, NOW)
    what = "`shop`.`b` is held back with 427 changes waiting"
    assert (status.held_back_by.kind, status.held_back_by.what) == ("reject", what)
    assert (status.state, status.reason) == ("warning", "it finished, but not all is applied")
    assert "resume shop.toml" in status.next


def test_a_full_read_that_waits_needs_the_changefeed_and_not_a_person() -> None:
    read = msgspec.structs.replace(WELL.tables[0], condition=Settling(upto=WELL.applied + 1), origin="snapshot")
    progress = msgspec.structs.replace(WELL, tables=(read,))
    status = describe(IDENTITY, progress, beat("finished"), None, NOW)
    assert (status.state, status.held_back_by.kind) == ("warning", "snapshot")
    assert "see that the changefeed runs" in status.next and "replicate shop.toml" in status.next
    assert "resume" not in status.next and not status.tables[0].rebuild


def test_what_a_full_read_would_cure_is_said() -> None:
    status = said(beat("finished"))
    assert "dead-letters shop.toml" in status.next and "rebuild shop.toml" in status.next
    assert {table.condition for table in status.tables if table.rebuild} >= {"quarantined", "diverged"}
    assert not any(table.rebuild for table in status.tables if table.condition in ("clean", "snapshot"))
    arrival = describe(IDENTITY, msgspec.structs.replace(PROGRESS, mode="arrival"), beat("finished"), None, NOW)
    assert "rebuild" not in arrival.next and not any(table.rebuild for table in arrival.tables)


def test_a_run_that_finished_while_rows_wait_for_a_schema_reports_it() -> None:
    hold = Hold(kind="schema", what="`s`.`t` waits for the schema of version 3")
    progress = msgspec.structs.replace(WELL, hold=hold, pending=PROGRESS.pending[:1])
    status = describe(IDENTITY, progress, beat("finished"), None, NOW)
    assert (status.state, status.held_back_by.what) == ("warning", hold.what)
    idle = msgspec.structs.replace(progress, pending=())
    assert describe(IDENTITY, idle, beat("finished"), None, NOW).state == "finished", "nothing waits"
    above = msgspec.structs.replace(progress, hold=WELL.hold)
    assert describe(IDENTITY, above, beat("finished"), None, NOW).state == "finished", "above the watermark"


@pytest.mark.parametrize("released", [False, True])
def test_a_job_whose_process_is_gone_has_failed(released: bool) -> None:
    process = Process(os.getpid(), "an earlier process of this number") if released else gone()
    status = said(beat(pid=process.pid, phase="apply", batch=12), held_by(process, released))
    assert (status.state, status.running) == ("failed", False)
    said_last = "last heartbeat 3 s ago, in batch 12: writing the tables"
    assert f"is gone and wrote down no end; {said_last}" in status.reason
    assert "nothing is lost" in status.next


def test_a_silent_job_is_a_warning_while_its_process_lives_and_failed_when_nobody_sees_it() -> None:
    me = this_process().process
    silent = beat(pid=me.pid, at=NOW - 600)
    assert said(silent, held_by(me)).state == "warning"
    elsewhere = msgspec.structs.replace(held_by(me), owner=msgspec.structs.replace(this_process(), machine="other"))
    assert said(silent, elsewhere).state == "failed"
    assert describe(IDENTITY, WELL, beat(pid=me.pid), elsewhere, NOW).state == "normal"


@pytest.mark.parametrize(
    ("exit_code", "todo"), [(1, "correct what the reason names"), (4, "decide: the reason names the ways out")]
)
def test_an_error_is_shown_with_what_to_do(exit_code: int, todo: str) -> None:
    error = "disk full\nmore of it"
    status = said(beat("failed", error=error, error_code="SinkFault", error_at=NOW - 9, exit_code=exit_code))
    assert (status.state, status.reason) == ("failed", "disk full")
    assert status.next.startswith(todo)
    assert status.last_error is not None
    assert (status.last_error.message, status.last_error.code) == (error, "SinkFault")


@pytest.mark.parametrize("state", ["stopped", "finished"])
def test_an_end_that_was_wanted_needs_nothing(state: str) -> None:
    status = describe(IDENTITY, WELL, beat(state), None, NOW)
    assert (status.state, status.running, status.next) == (state, False, "")


def test_the_command_reads_only_files(job_file: Path) -> None:
    put(job_file, PROGRESS, beat("failed", error="no [broker]", error_code="SourceFault", error_at=NOW))
    done = CliRunner().invoke(main, ["status", str(job_file)], catch_exceptions=False)
    assert done.exit_code == 0
    text = done.stdout
    for part in (
        "state              failed\n",
        "last error         SourceFault at ",
        "reason             no [broker]\n",
        "held back by       error: see the reason",
        "changes            1,234 applied, 12 waiting",
        f"{TSO} (",
        "shop.b is quarantined: bad [json]\n",
        "1 rejected message",
    ):
        assert part in text
    assert "\x1b" not in text


def test_the_command_prints_json(job_file: Path) -> None:
    put(job_file, PROGRESS, beat())
    done = CliRunner().invoke(main, ["status", str(job_file), "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    status = msgspec.json.decode(done.stdout, type=JobStatus)
    assert status.job == "shop"
    assert len(status.tables) == 7


def test_numbers_that_a_double_cannot_hold_stand_there_as_text_too(job_file: Path) -> None:
    snapshot = 2**63 - 1
    (first, *others) = PROGRESS.tables
    tables = (msgspec.structs.replace(first, snapshot_id=snapshot), *others)
    put(job_file, msgspec.structs.replace(PROGRESS, tables=tables, applied=TSO + 1))
    text = CliRunner().invoke(main, ["status", str(job_file), "--json"], catch_exceptions=False).stdout
    # as JavaScript and jq read it
    rounded = json.loads(text, parse_int=lambda digits: int(float(digits)))
    assert rounded["resolved_ts"] != TSO + 1
    assert rounded["resolved_ts_text"] == str(TSO + 1)
    (orders,) = (table for table in rounded["tables"] if table["name"] == "shop.orders")
    assert (orders["applied_ts_text"], orders["snapshot_id_text"]) == (str(TSO), str(snapshot))
    assert rounded["partitions"][0]["watermark_ts_text"] == str(TSO + (90_000 << 18))

    def named(found: object) -> list[str]:
        """Every number that is too large, of those without a text."""
        if isinstance(found, list):
            return [name for item in found for name in named(item)]
        if not isinstance(found, dict):
            return []
        large = [key for key, value in found.items() if isinstance(value, int) and value > 2**53]
        return [key for key in large if f"{key}_text" not in found] + [
            n for item in found.values() for n in named(item)
        ]

    assert named(json.loads(text)) == []


MANY = tuple(TableState(schema="shop", name=f"t{at:04}", applied=TSO, condition=Clean()) for at in range(1000))


def print_status(job_file: Path, progress: Progress, *options: str) -> str:
    put(job_file, progress)
    return CliRunner().invoke(main, ["status", str(job_file), *options], catch_exceptions=False).stdout


def test_of_many_tables_those_are_shown_that_need_a_look(job_file: Path) -> None:
    progress = msgspec.structs.replace(PROGRESS, tables=(*MANY, *PROGRESS.tables), pending=())
    text = print_status(job_file, progress)
    expected = "1,006: 1,001 clean, 1 diverged, 1 quarantined, 1 dropped, 1 kept, 1 unverified"
    assert f"tables             {expected} (--table '*.*' shows all)\n" in text
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("shop.")]
    assert rows == ["shop.a", "shop.b", "shop.a", "shop.b"]
    assert len(text.splitlines()) < 40
    assert "shop.t0999" in print_status(job_file, progress, "--table", "*.*")


def test_a_thousand_tables_that_need_a_look_do_not_fill_the_screen(job_file: Path) -> None:
    bad = tuple(msgspec.structs.replace(table, condition=Quarantined(why="bad")) for table in MANY)
    text = print_status(job_file, msgspec.structs.replace(PROGRESS, tables=bad, pending=()))
    assert "and 980 more that need a look: --table '*.*' shows all\n" in text
    assert text.count("shop.t0") == 40 + 5, "a line of the grid and a reason each; five in the command"


def test_tables_are_chosen_by_rules(job_file: Path) -> None:
    dotted = TableState(schema="shop.eu", name="x", condition=Clean())
    progress = msgspec.structs.replace(PROGRESS, tables=(*MANY, dotted), pending=())
    text = print_status(job_file, progress, "--table", "shop.t000?", "--table", "!shop.t0005")
    assert [line.split()[0] for line in text.splitlines() if line.startswith("shop.")] == [
        f"shop.t000{at}" for at in range(10) if at != 5
    ]
    status = json.loads(print_status(job_file, progress, "--table", "`shop.eu`.*", "--json"))
    assert [(table["schema"], table["table"]) for table in status["tables"]] == [("shop.eu", "x")]
    wrong = CliRunner().invoke(main, ["status", str(job_file), "--table", "shop"])
    assert wrong.exit_code == 2
    assert "write schema.table" in wrong.stderr


def test_one_long_reason_does_not_widen_every_row(job_file: Path) -> None:
    held = TableState(schema="shop", name="b", condition=Quarantined(why="x" * 500))
    text = print_status(job_file, msgspec.structs.replace(PROGRESS, tables=(*PROGRESS.tables[:1], held)))
    assert sorted(len(line) > 200 for line in text.splitlines())[-2:] == [False, True]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_status_that_is_watched_changes(job_file: Path, options: list[str]) -> None:
    put(job_file, PROGRESS)
    start = [sys.executable, "-c", "from ticdc_spark.cli import main; main()", "status", str(job_file), "--watch"]
    default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen([*start, *options], stdout=subprocess.PIPE, text=True, preexec_fn=default) as running:
        try:
            assert running.stdout is not None
            assert any("1234" in line.replace(",", "") for line in running.stdout)
            put(job_file, msgspec.structs.replace(PROGRESS, counters=Counters(rows=5678)))
            assert any("5678" in line.replace(",", "") for line in running.stdout)
            running.send_signal(signal.SIGINT)
            assert running.wait(timeout=30) == 0
        finally:
            running.kill()


def test_a_state_of_another_version_is_an_error_not_an_empty_status(job_file: Path) -> None:
    with state_of(job_file) as states:
        states.commit({"job": [StateRow(kind="progress", value="[]")]}, None, 0)
    done = CliRunner().invoke(main, ["status", str(job_file)], catch_exceptions=False)
    assert done.exit_code == 4
    assert "the state _ticdc_spark.state_shop" in done.stderr and "cannot be read" in done.stderr


def test_the_owner_in_the_state_shows_whether_the_job_lives(job_file: Path) -> None:
    identity = load_identity(job_file)
    with owned(job_file) as store:
        starting = job_status(identity)
        assert (starting.state, starting.running, starting.pid) == ("pending", True, os.getpid())
        store.states.beat(msgspec.json.encode(beat(at=time.time(), pid=1, token="of an owner that was overtaken")))
        assert job_status(identity).pid == os.getpid()
        store.states.beat(msgspec.json.encode(beat(at=time.time(), pid=os.getpid(), token=store.held.owner.token)))
        assert job_status(identity).state == "normal"
    assert job_status(identity).state == "failed", "the job was given back, and how it ended was not written"


def test_a_job_that_is_gone_before_its_first_heartbeat_has_failed(job_file: Path) -> None:
    with state_of(job_file) as states:
        take_over(states, states.load(), "shop", msgspec.structs.replace(this_process(), process=gone()))
    status = job_status(load_identity(job_file))
    assert (status.state, status.running) == ("failed", False)
    assert "is gone; it sent no heartbeat and wrote down no end" in status.reason


def test_a_look_at_the_status_changes_nothing(job_file: Path) -> None:
    assert job_status(load_identity(job_file)).state == "pending"
    assert [path.name for path in job_file.parent.iterdir()] == [job_file.name]
    put(job_file, PROGRESS, beat("stopped"))
    before = read(job_file), heartbeat(job_file)
    job_status(load_identity(job_file))
    assert (read(job_file), heartbeat(job_file)) == before


def test_the_status_needs_no_jvm_and_no_spark(job_file: Path) -> None:
    put(job_file, PROGRESS, beat("stopped"))
    code = (
        "import sys; from ticdc_spark.config.load import load_identity\n"
        "from ticdc_spark.operate.status import job_status\n"
        f"print(job_status(load_identity({str(job_file)!r})).batch, 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "7 False\n"


def test_the_status_leaves_no_arrow_thread_that_may_abort_the_exit(job_file: Path) -> None:
    put(job_file, PROGRESS, beat("stopped"))
    code = (
        "from ticdc_spark.config.load import load_identity\n"
        "from ticdc_spark.operate.status import job_status\n"
        f"print(job_status(load_identity({str(job_file)!r})).batch)"
    )
    assert printed_with_threads_left(code) == "7\n0\n"


def test_a_table_that_waits_for_a_topic_shows_it_also_behind_a_full_read() -> None:
    """It does not settle as long as the topic is not read."""
    table = TableState(schema="shop", name="t", applied=7, origin="snapshot", condition=Settling(upto=9))
    needs = CatchUp(schema="shop", name="t", needs=(("of_t", 0, 0),))
    progress = Progress(job="shop", applied=8, tables=(table,), catching_up=(needs,))
    (shown,) = describe(IDENTITY, progress, None, None, NOW).tables
    assert shown.condition == "unverified"
    assert "topic of_t, which it came from, is not read" in shown.detail


def test_a_table_that_waits_for_a_topic_shows_it_also_if_it_has_diverged() -> None:
    """Other tables that share a DDL with it wait for it."""
    table = TableState(schema="shop", name="t", applied=7, condition=Diverged(since=5, why="a row was left out"))
    needs = CatchUp(schema="shop", name="t", needs=(("of_t", 0, 0),))
    progress = Progress(job="shop", applied=8, tables=(table,), catching_up=(needs,))
    (shown,) = describe(IDENTITY, progress, None, None, NOW).tables
    assert shown.condition == "diverged"
    assert "a row was left out; it is behind the others: topic of_t" in shown.detail
