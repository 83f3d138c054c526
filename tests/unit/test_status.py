"""What status shows of a state folder, whatever the job is doing."""

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

from ticdc_spark.cli import main
from ticdc_spark.config.load import Identity, load_identity
from ticdc_spark.model import SchemaChange
from ticdc_spark.operate.status import JobStatus, check_code, describe, job_status
from ticdc_spark.replicate.state.lease import acquire
from ticdc_spark.replicate.state.lease_store import LeaseRecord, lease_store, this_process
from ticdc_spark.replicate.state.processes import Process
from ticdc_spark.replicate.state.progress import (
    Hold,
    PartitionState,
    PendingRows,
    Progress,
    QueuedDdl,
    Status,
    TableState,
)
from ticdc_spark.replicate.state.store import Store

NOW = 1_795_000_000.0
TSO = int((NOW - 100) * 1000) << 18
IDENTITY = Identity(Path("shop.toml"), "shop", Path("state"))

PROGRESS = Progress(
    job="shop",
    batch=7,
    applied=TSO,
    partitions=(
        PartitionState(topic="shop", partition=0, offset=10, watermark=TSO + (90_000 << 18)),
        PartitionState(topic="shop", partition=1, offset=20, watermark=TSO + (40_000 << 18)),
    ),
    tables=(
        TableState(schema="shop", name="orders", applied=TSO, clean=True, rows=5, snapshot_id=3),
        TableState(schema="shop", name="a", applied=TSO, clean=True, diverged_since=TSO - 1),
        TableState(schema="shop", name="b", quarantined="bad [json]"),
        TableState(schema="shop", name="c", dropped=True),
        TableState(schema="shop", name="d", dropped=True, kept=True),
        TableState(schema="shop", name="e"),
    ),
    ddls=(
        QueuedDdl(
            change=SchemaChange(commit_ts=TSO + 1, query="ALTER TABLE orders ADD x INT", kind="ALTER"),
            topic="shop",
            partition=0,
            offset=9,
        ),
    ),
    pending=tuple(
        PendingRows(
            batch=7, schema="shop", name=name, schema_key="1", rows=4, min_ts=1, max_ts=2, topic="shop", partition=1
        )
        for name in ("orders", "orders", "new")
    ),
    hold=Hold(kind="partition", what="shop-1 is behind", since=NOW - 30),
    rows=1234,
    ddls_applied=2,
    rejected=1,
)


def beat(state: str = "normal", **more: object) -> Status:
    return msgspec.convert({"state": state, "at": NOW - 3, "started_at": NOW - 900, "pid": 12345, **more}, Status)


def said(status: Status | None, lease: LeaseRecord | None = None) -> JobStatus:
    return describe(IDENTITY, PROGRESS, status, lease, NOW)


def lease(process: Process, released: bool = False) -> LeaseRecord:
    owner = msgspec.structs.replace(this_process("shop"), process=process)
    return LeaseRecord(owner=owner, epoch=1, heartbeat_at=NOW, ttl=30, released=released)


def gone() -> Process:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return Process(child.pid, "1")


def test_lag_is_split_at_what_was_received_when_the_topics_were_read_to_their_end() -> None:
    status = said(beat(read_at=NOW - 5))
    assert status.lag == pytest.approx(100)
    assert status.upstream_lag == pytest.approx(55), "5 seconds less than until now"
    assert status.own_lag == pytest.approx(45)
    assert status.slowest_partition == "shop-1"
    assert status.resolved_ts == TSO
    assert status.resolved_time.endswith("Z")


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


def test_a_job_that_never_ran_is_pending() -> None:
    status = describe(IDENTITY, Progress(job="shop"), None, None, NOW)
    assert (status.state, status.running) == ("pending", False)
    assert "ticdc-spark replicate shop.toml" in status.next
    assert (status.lag, status.heartbeat_age, status.resolved_time) == (None, None, "-")


WELL = msgspec.structs.replace(
    PROGRESS, tables=PROGRESS.tables[:1], pending=(), ddls=(), hold=Hold(kind="none", what=""), rejected=0
)
"""A progress without trouble."""


@pytest.mark.parametrize("state", ["normal", "warning", "pending"])
def test_a_living_job_is_as_its_heartbeat_has_it(state: str) -> None:
    me = this_process("shop").process
    status = describe(IDENTITY, WELL, beat(state, pid=me.pid), lease(me), NOW)
    assert (status.state, status.running) == (state, True)


def test_a_job_that_runs_with_tables_that_need_a_look_is_a_warning() -> None:
    me = this_process("shop").process
    status = said(beat(pid=me.pid), lease(me))
    assert (status.state, status.running) == ("warning", True)
    assert status.reason == (
        "1 of 4 tables stand still (quarantined), 1 of 4 tables have diverged; 1 messages or rows were left out"
    )
    dropped = tuple(msgspec.structs.replace(table, dropped=True) for table in PROGRESS.tables)
    progress = msgspec.structs.replace(PROGRESS, tables=dropped)
    assert describe(IDENTITY, progress, beat(pid=me.pid), lease(me), NOW).state == "normal"


def test_a_source_that_is_away_is_the_reason() -> None:
    me = this_process("shop").process
    status = describe(IDENTITY, WELL, beat("warning", pid=me.pid, error="no broker"), lease(me), NOW)
    assert (status.state, status.reason) == ("warning", "no broker")


def test_what_holds_a_table_back_is_named_where_nothing_holds_all() -> None:
    waiting = msgspec.structs.replace(PROGRESS.pending[0], name="b", rows=427)
    progress = msgspec.structs.replace(PROGRESS, hold=WELL.hold, pending=(waiting, PROGRESS.pending[0]), ddls=())
    status = describe(IDENTITY, progress, beat("finished"), None, NOW)
    what = "`shop`.`b` stands still with 427 changes waiting"
    assert (status.held_back_by.kind, status.held_back_by.what) == ("reject", what)
    assert (status.state, status.reason) == ("warning", "it finished, but not all is applied")
    assert "resume shop.toml" in status.next


def test_a_full_read_that_waits_needs_the_changefeed_and_not_a_person() -> None:
    read = msgspec.structs.replace(WELL.tables[0], settles=WELL.applied + 1, clean=False, origin="snapshot")
    progress = msgspec.structs.replace(WELL, tables=(read,))
    status = describe(IDENTITY, progress, beat("finished"), None, NOW)
    assert (status.state, status.held_back_by.kind) == ("warning", "snapshot")
    assert "see that the changefeed runs" in status.next and "replicate shop.toml" in status.next
    assert "resume" not in status.next and not status.tables[0].resnapshot


def test_what_a_full_read_would_cure_is_said() -> None:
    status = said(beat("finished"))
    assert "dead-letters shop.toml" in status.next and "resnapshot shop.toml" in status.next
    assert {table.condition for table in status.tables if table.resnapshot} >= {"quarantined", "diverged"}
    assert not any(table.resnapshot for table in status.tables if table.condition in ("clean", "snapshot"))
    arrival = describe(IDENTITY, msgspec.structs.replace(PROGRESS, mode="arrival"), beat("finished"), None, NOW)
    assert "resnapshot" not in arrival.next and not any(table.resnapshot for table in arrival.tables)


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
    status = said(beat(pid=process.pid), lease(process, released))
    assert (status.state, status.running) == ("failed", False)
    assert "is gone without a reason; last heartbeat 3 s ago" in status.reason
    assert "nothing is lost" in status.next


def test_a_silent_job_is_a_warning_while_its_process_lives_and_failed_when_nobody_sees_it() -> None:
    me = this_process("shop").process
    silent = beat(pid=me.pid, at=NOW - 600)
    assert said(silent, lease(me)).state == "warning"
    elsewhere = msgspec.structs.replace(lease(me), owner=msgspec.structs.replace(this_process("shop"), machine="other"))
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


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(
        '[job]\nname = "shop"\nstate = "state"\n[source]\nkind = "kafka"\n'
        '[sink]\nkind = "iceberg"\nwarehouse = "lake"\n"catalog.uri" = "${env:NO_SUCH_SECRET}"\n'
    )
    return path


def test_the_command_reads_only_files(job_file: Path) -> None:
    store = Store(job_file.parent / "state")
    store.save(PROGRESS)
    store.save_status(beat("failed", error="no [broker]", error_code="SourceFault", error_at=NOW))
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
    store = Store(job_file.parent / "state")
    store.save(PROGRESS)
    store.save_status(beat())
    done = CliRunner().invoke(main, ["status", str(job_file), "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    status = msgspec.json.decode(done.stdout, type=JobStatus)
    assert status.job == "shop"
    assert len(status.tables) == 7


def test_numbers_that_a_double_cannot_hold_stand_there_as_text_too(job_file: Path) -> None:
    snapshot = 2**63 - 1
    (first, *others) = PROGRESS.tables
    tables = (msgspec.structs.replace(first, snapshot_id=snapshot), *others)
    Store(job_file.parent / "state").save(msgspec.structs.replace(PROGRESS, tables=tables, applied=TSO + 1))
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
    me = this_process("shop").process
    catching_up = beat("normal", pid=me.pid, phase="apply", read_at=NOW - 900, left=120_000, rate=2_000.0)
    progress = msgspec.structs.replace(WELL, committed_at=NOW - 12)
    status = describe(IDENTITY, progress, catching_up, lease(me), NOW)
    assert (status.state, status.reason) == (
        "normal",
        "catching up, 120,000 messages to read, about 1 min left: writing the tables",
    )
    assert (status.messages_to_read, status.messages_per_second, status.seconds_left) == (120_000, 2_000.0, 60.0)
    assert (status.last_commit_at, status.last_commit_age) == (NOW - 12, pytest.approx(12))
    assert (status.upstream_lag, status.own_lag) == (None, None), "newer watermarks may be among what is left"
    store = Store(job_file.parent / "state")
    store.save(progress)
    store.save_status(catching_up)
    text = CliRunner().invoke(main, ["status", str(job_file)], catch_exceptions=False).stdout
    assert "to read            120,000 messages, 2,000 messages/s, about 1 min left\n" in text
    assert "last commit        " in text and "ago (2026-11-18 11:06:28Z), batch 7\n" in text


@pytest.mark.parametrize(
    ("error", "kind"),
    [("RejectedMessage", "reject"), ("UnsupportedDdl", "ddl"), ("SchemaMissing", "schema"), ("SinkFault", "error")],
)
def test_what_a_job_stopped_at_holds_it_back(job_file: Path, error: str, kind: str) -> None:
    text = "a message cannot be read: bad (topic shop, partition 0, offset 7)\n  To leave out exactly this one: …"
    failed = beat("failed", error=text, error_code=error, error_at=NOW - 9, exit_code=4)
    status = describe(IDENTITY, WELL, failed, None, NOW)
    assert (status.held_back_by.kind, status.held_back_by.what) == (kind, text.splitlines()[0])
    store = Store(job_file.parent / "state")
    store.save(WELL)
    store.save_status(failed)
    shown = CliRunner().invoke(main, ["status", str(job_file)], catch_exceptions=False).stdout
    assert f"held back by       {kind}: see the reason\n" in shown
    assert shown.count("offset 7") == shown.count("To leave out exactly this one") == 1, "an error is printed once"


def test_a_stop_is_forgotten_once_the_job_runs_again() -> None:
    me = this_process("shop").process
    status = describe(IDENTITY, WELL, beat(pid=me.pid, read_at=NOW), lease(me), NOW)
    assert (status.state, status.held_back_by.kind) == ("normal", "none")


def late(most: float, **more: object) -> JobStatus:
    """A job that runs, and its changefeed had sent nothing for a minute when it last looked."""
    me = this_process("shop").process
    identity = msgspec.structs.replace(IDENTITY, max_lag=most)
    return describe(identity, WELL, beat(pid=me.pid, read_at=NOW, **more), lease(me), NOW)


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
    me = this_process("shop").process
    for most, state in ((899, "warning"), (901, "normal")):
        identity = msgspec.structs.replace(IDENTITY, max_lag=most)
        status = describe(identity, Progress(job="shop"), beat(pid=me.pid), lease(me), NOW)
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
    store = Store(job_file.parent / "state")
    store.save(WELL)
    if state is not None:
        error = {"error": "it broke", "error_code": "SinkFault"} if state == "failed" else {}
        store.save_status(beat(state, pid=gone().pid, exit_code=exit_code, **error))
    for options, expected in (((), 0), (("--check",), code), (("--check", "--json"), code)):
        done = CliRunner().invoke(main, ["status", str(job_file), *options], catch_exceptions=False)
        assert done.exit_code == expected, options
        assert "shop" in done.stdout


def test_check_tells_a_job_that_runs_well_from_one_to_look_at() -> None:
    me = this_process("shop").process
    assert check_code(describe(IDENTITY, WELL, beat(pid=me.pid), lease(me), NOW)) == 0
    assert check_code(describe(IDENTITY, WELL, beat("pending", pid=me.pid), lease(me), NOW)) == 0
    assert check_code(describe(IDENTITY, WELL, beat("warning", pid=me.pid), lease(me), NOW)) == 3
    assert check_code(said(beat("finished"))) == 3, "tables need a look"


MANY = tuple(TableState(schema="shop", name=f"t{at:04}", applied=TSO, clean=True) for at in range(1000))


def print_status(job_file: Path, progress: Progress, *options: str) -> str:
    Store(job_file.parent / "state").save(progress)
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
    bad = tuple(msgspec.structs.replace(table, quarantined="bad") for table in MANY)
    text = print_status(job_file, msgspec.structs.replace(PROGRESS, tables=bad, pending=()))
    assert "and 980 more that need a look: --table '*.*' shows all\n" in text
    assert text.count("shop.t0") == 40 + 5, "a line of the grid and a reason each; five in the command"


def test_tables_are_chosen_by_rules(job_file: Path) -> None:
    dotted = TableState(schema="shop.eu", name="x", clean=True)
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
    held = TableState(schema="shop", name="b", quarantined="x" * 500)
    text = print_status(job_file, msgspec.structs.replace(PROGRESS, tables=(*PROGRESS.tables[:1], held)))
    assert sorted(len(line) > 200 for line in text.splitlines())[-2:] == [False, True]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_status_that_is_watched_changes(job_file: Path, options: list[str]) -> None:
    store = Store(job_file.parent / "state")
    store.save(PROGRESS)
    start = [sys.executable, "-c", "from ticdc_spark.cli import main; main()", "status", str(job_file), "--watch"]
    default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen([*start, *options], stdout=subprocess.PIPE, text=True, preexec_fn=default) as running:
        try:
            assert running.stdout is not None
            assert any("1234" in line.replace(",", "") for line in running.stdout)
            store.save(msgspec.structs.replace(PROGRESS, rows=5678))
            assert any("5678" in line.replace(",", "") for line in running.stdout)
            running.send_signal(signal.SIGINT)
            assert running.wait(timeout=30) == 0
        finally:
            running.kill()


def test_a_broken_state_folder_is_an_error_not_an_empty_status(job_file: Path) -> None:
    (job_file.parent / "state").mkdir()
    (job_file.parent / "state" / "progress.json").write_text("{")
    done = CliRunner().invoke(main, ["status", str(job_file)], catch_exceptions=False)
    assert done.exit_code == 1
    assert "progress.json cannot be read" in done.stderr


def test_the_lease_beside_the_lake_shows_whether_the_job_lives(job_file: Path) -> None:
    job_file.write_text(job_file.read_text().replace('"catalog.uri" = "${env:NO_SUCH_SECRET}"\n', ""))
    identity = load_identity(job_file)
    assert identity.warehouse is not None
    store = Store(identity.state)
    store.save_status(beat(pid=os.getpid(), at=time.time()))
    with acquire(lease_store(identity.warehouse, "lake", "shop", identity.state), this_process("shop")):
        assert job_status(identity).state == "normal"
    assert job_status(identity).state == "failed", "the lease was given back, and no status was written"
