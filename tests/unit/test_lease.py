"""One process per job and target, with real processes: killed, stopped, and outlived by a child as by a JVM."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ticdc_spark.config.paths import local_folder
from ticdc_spark.errors import LeaseHeld, SinkFault
from ticdc_spark.replicate.state.lease import Lease, acquire, living
from ticdc_spark.replicate.state.lease_store import (
    FileLeaseStore,
    LeaseRecord,
    LeaseStore,
    Owner,
    lease_store,
    this_process,
)
from ticdc_spark.replicate.state.processes import Process, process, runs

HOLDER = """
import subprocess, sys, time
from pathlib import Path
from ticdc_spark.replicate.state.lease import acquire
from ticdc_spark.replicate.state.lease_store import FileLeaseStore, this_process

lease = acquire(FileLeaseStore(Path(sys.argv[1]), "lake"), this_process("first", "ann"), ttl=float(sys.argv[2]))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
lease.set_jvm(child.pid)
print(lease.epoch, child.pid, flush=True)
time.sleep(60)
"""


class Holder:
    """A job of another process that holds the lease, with a child in the place of its JVM."""

    def __init__(self, warehouse: Path, ttl: float = 30.0) -> None:
        command = [sys.executable, "-c", HOLDER, str(warehouse), str(ttl)]
        self.running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.running.stdout is not None
        epoch, child = self.running.stdout.readline().split()
        self.epoch, self.child = int(epoch), int(child)

    def kill(self) -> None:
        self.running.kill()
        self.running.wait()
        assert self.running.stdout is not None
        self.running.stdout.close()

    def kill_child(self) -> None:
        if process(self.child) is not None:
            os.kill(self.child, signal.SIGKILL)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    holder = Holder(tmp_path)
    yield holder
    holder.kill()
    holder.kill_child()


def store(folder: Path) -> FileLeaseStore:
    return FileLeaseStore(folder, "lake")


def read(folder: Path) -> LeaseRecord:
    record, _ = store(folder).read()
    assert record is not None
    return record


def elsewhere(folder: Path, heartbeat_at: float, ttl: float = 0.3) -> LeaseRecord:
    """Write the lease of a job on another machine."""
    owner = Owner(job="far", host="other.example", machine="another", process=Process(1, "1"), label="bob")
    record = LeaseRecord(owner=owner, epoch=7, heartbeat_at=heartbeat_at, ttl=ttl)
    there = store(folder)
    assert there.swap(there.read()[1], record) is not None
    return record


def test_the_epoch_rises_with_each_owner_and_survives_release(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        with acquire(store(tmp_path), this_process("shop")) as lease:
            assert lease.epoch == epoch
            assert not read(tmp_path).released
        assert read(tmp_path).released


def test_a_living_owner_is_named_and_not_pushed_aside(tmp_path: Path, holder: Holder) -> None:
    before = read(tmp_path)
    with pytest.raises(LeaseHeld) as refused:
        acquire(store(tmp_path), this_process("second"))
    text = str(refused.value)
    for part in (
        "'first'",
        "(ann)",
        f"pid {holder.running.pid}",
        f"JVM pid {holder.child}",
        before.owner.host,
        "0 s ago",
    ):
        assert part in text
    assert f"kill {holder.running.pid}" in text
    assert read(tmp_path) == before
    assert refused.value.exit_code == 4


def test_two_jobs_of_one_process_are_two_jobs(tmp_path: Path) -> None:
    with acquire(store(tmp_path), this_process("first")), pytest.raises(LeaseHeld):
        acquire(store(tmp_path), this_process("second"))


def test_after_a_kill_the_jvm_is_waited_for(tmp_path: Path, holder: Holder) -> None:
    holder.kill()
    ended = []

    def end_it() -> None:
        time.sleep(0.8)
        ended.append(time.monotonic())
        holder.kill_child()

    thread = threading.Thread(target=end_it)
    thread.start()
    with acquire(store(tmp_path), this_process("second"), jvm_patience=30) as lease:
        assert ended and time.monotonic() >= ended[0]
        assert lease.epoch == holder.epoch + 1
    thread.join()


def test_a_jvm_that_does_not_end_is_named_after_the_patience(tmp_path: Path, holder: Holder) -> None:
    holder.kill()
    with pytest.raises(LeaseHeld, match=f"its JVM still runs and may commit; end it: kill -9 {holder.child}"):
        acquire(store(tmp_path), this_process("second"), jvm_patience=0.5)


def test_after_a_kill_of_both_the_lease_is_free_at_once(tmp_path: Path, holder: Holder) -> None:
    holder.kill_child()
    holder.kill()
    start = time.monotonic()
    with acquire(store(tmp_path), this_process("second")) as lease:
        assert lease.epoch == 2
    assert time.monotonic() - start < 5


def test_a_stopped_process_still_lives(tmp_path: Path, holder: Holder) -> None:
    os.kill(holder.running.pid, signal.SIGSTOP)
    with pytest.raises(LeaseHeld):
        acquire(store(tmp_path), this_process("second"))
    os.kill(holder.running.pid, signal.SIGCONT)


def test_a_process_number_given_to_another_process_is_not_the_owner(tmp_path: Path) -> None:
    me = this_process("first")
    owner = msgspec.structs.replace(me, process=Process(os.getpid(), "1"), jvm=Process(os.getppid(), "1"))
    there = store(tmp_path)
    there.swap(b"", LeaseRecord(owner=owner, epoch=4, heartbeat_at=time.time(), ttl=30))
    with acquire(there, me) as lease:
        assert lease.epoch == 5


def test_a_silent_owner_elsewhere_is_waited_out_by_our_clock(tmp_path: Path) -> None:
    elsewhere(tmp_path, heartbeat_at=time.time() - 10**6)
    start = time.monotonic()
    with acquire(store(tmp_path), this_process("second"), commit_window=0.5) as lease:
        assert time.monotonic() - start >= 0.8
        assert lease.epoch == 8


def test_an_owner_elsewhere_whose_heart_beats_is_refused(tmp_path: Path) -> None:
    record = elsewhere(tmp_path, heartbeat_at=0)
    beat = threading.Timer(0.4, elsewhere, (tmp_path, 1.0))
    beat.start()
    with pytest.raises(LeaseHeld, match=r"'far' \(bob\), pid 1 on host other\.example, epoch 7"):
        acquire(store(tmp_path), this_process("second"), commit_window=5)
    beat.join()
    assert read(tmp_path) == msgspec.structs.replace(record, heartbeat_at=1.0)


def test_an_owner_elsewhere_that_gives_the_lease_back_is_followed_at_once(tmp_path: Path) -> None:
    record = elsewhere(tmp_path, heartbeat_at=0)
    there = store(tmp_path)
    version = there.read()[1]
    give_back = threading.Timer(0.4, there.swap, (version, msgspec.structs.replace(record, released=True)))
    give_back.start()
    start = time.monotonic()
    with acquire(store(tmp_path), this_process("second"), commit_window=30):
        assert time.monotonic() - start < 10
    give_back.join()


def test_waiting_ends_when_the_job_is_stopped(tmp_path: Path) -> None:
    elsewhere(tmp_path, heartbeat_at=0, ttl=60)
    stop = threading.Event()
    stop.set()
    with pytest.raises(LeaseHeld):
        acquire(store(tmp_path), this_process("second"), stop=stop)


def test_the_heart_beats(tmp_path: Path) -> None:
    with acquire(store(tmp_path), this_process("shop"), ttl=0.3) as lease:
        first = read(tmp_path).heartbeat_at
        assert wait_for(lambda: read(tmp_path).heartbeat_at > first)
        lease.check()


def take_away(folder: Path) -> None:
    there = store(folder)
    record, version = there.read()
    assert record is not None
    assert there.swap(version, msgspec.structs.replace(record, epoch=record.epoch + 1)) is not None


def test_a_lease_taken_away_is_noticed_by_the_heartbeat(tmp_path: Path) -> None:
    with acquire(store(tmp_path), this_process("shop"), ttl=0.3) as lease:
        take_away(tmp_path)
        assert wait_for(lambda: lost(lease))
    assert not read(tmp_path).released, "what another job holds is not released"


def test_a_check_reads_the_store(tmp_path: Path) -> None:
    # The thread beats every 10 minutes.
    with acquire(store(tmp_path), this_process("shop"), ttl=1800) as lease:
        lease.check()
        take_away(tmp_path)
        assert lost(lease)


def test_a_lease_file_that_is_no_lease_is_a_fault_of_the_sink(tmp_path: Path) -> None:
    there = store(tmp_path)
    Path(there.where).parent.mkdir()
    Path(there.where).write_text("{}")
    with pytest.raises(SinkFault, match=r"lake\.lease\.json cannot be read"):
        acquire(there, this_process("shop"))


def test_a_warehouse_that_cannot_be_written_is_a_fault_of_the_sink(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SinkFault):
        acquire(FileLeaseStore(tmp_path / "file", "lake"), this_process("shop"))


def test_of_many_jobs_that_start_at_once_one_wins(tmp_path: Path) -> None:
    held: list[Lease] = []
    refused: list[LeaseHeld] = []
    start = threading.Barrier(8)

    def run(job: str) -> None:
        start.wait()
        try:
            held.append(acquire(store(tmp_path), this_process(job)))
        except LeaseHeld as error:
            refused.append(error)

    threads = [threading.Thread(target=run, args=(f"job{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 1
    assert len(refused) == 7
    held[0].release()


def test_a_zombie_does_not_run() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    alive = process(child.pid)
    assert alive is not None and runs(alive)
    child.kill()
    assert wait_for(lambda: not runs(alive)), "killed and not waited for"
    child.wait()


@pytest.mark.parametrize(
    ("warehouse", "folder"),
    [
        ("/data/lake", "/data/lake"),
        ("file:/data/my%20lake", "/data/my lake"),
        ("file:///data", "/data"),
        ("s3a://b/l", None),
    ],
)
def test_local_warehouses_are_known(warehouse: str, folder: str | None) -> None:
    assert local_folder(warehouse) == (Path(folder) if folder else None)


def test_a_lease_lies_beside_the_lake_or_else_in_the_state_folder(tmp_path: Path) -> None:
    state, beside = tmp_path / "state", f"{tmp_path}/lake/_ticdc_spark/c.shop.lease.json"
    assert lease_store(f"file:{tmp_path}/lake", "c", "shop", state).where == beside
    assert lease_store("s3a://bucket/lake", "c", "shop", state).where == f"{state}/_ticdc_spark/c.shop.lease.json"


def of_job(folder: Path, job: str, state: str = "state") -> LeaseStore:
    return lease_store(str(folder), "lake", job, folder / state)


def test_jobs_of_one_lake_do_not_keep_each_other_out(tmp_path: Path) -> None:
    with acquire(of_job(tmp_path, "a"), this_process("a")), acquire(of_job(tmp_path, "b"), this_process("b")):
        pass
    with acquire(of_job(tmp_path, "a"), this_process("a")), pytest.raises(LeaseHeld, match="'a'"):
        acquire(of_job(tmp_path, "a", "another state"), this_process("a"))


def test_a_lease_that_an_earlier_version_holds_keeps_out_its_job_only(tmp_path: Path, holder: Holder) -> None:
    with pytest.raises(LeaseHeld, match=f"'first'.*kill {holder.running.pid}"):
        acquire(of_job(tmp_path, "first"), this_process("first"))
    with acquire(of_job(tmp_path, "second"), this_process("second")):
        assert not read(tmp_path).released
    holder.kill()
    with pytest.raises(LeaseHeld, match="its JVM still runs"):
        acquire(of_job(tmp_path, "first"), this_process("first"), jvm_patience=0.2)
    holder.kill_child()
    with acquire(of_job(tmp_path, "first"), this_process("first")) as lease:
        assert lease.epoch == 1
        assert read(tmp_path).released, "it is not waited for at each start"


def test_who_may_still_write_is_named(tmp_path: Path, holder: Holder) -> None:
    assert "'first'" in living(store(tmp_path))
    holder.kill()
    assert f"JVM pid {holder.child}" in living(store(tmp_path)), "its JVM can still commit"
    holder.kill_child()
    assert wait_for(lambda: living(store(tmp_path)) == "")
    elsewhere(tmp_path, heartbeat_at=time.time() - 30)
    assert "'far'" in living(store(tmp_path))
    elsewhere(tmp_path, heartbeat_at=time.time() - 3600)
    assert living(store(tmp_path)) == ""
    assert living(of_job(tmp_path, "nobody")) == ""


def lost(lease: Lease) -> bool:
    try:
        lease.check()
    except LeaseHeld as error:
        return "stops and writes nothing more" in str(error)
    return False


def wait_for(condition, seconds: float = 10) -> bool:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
