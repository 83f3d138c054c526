"""One process per job, with real processes: killed, stopped, and outlived by a child as by a JVM."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.memory_sink.state import MemoryState
from tests.support.job_state import held_by, owned, read, state_of
from ticdc_spark.errors import LeaseHeld, SinkFault
from ticdc_spark.replicate.state.owner import Owner, Ownership, TakeoverWait, beat_of, describe, lives, this_process
from ticdc_spark.replicate.state.processes import Process, process, runs
from ticdc_spark.replicate.state.progress import Progress, Status
from ticdc_spark.replicate.state.store import JobStore, acquire, take_over

HOLDER = """
import subprocess, sys, time
from pathlib import Path
from tests.support.job_state import owned
from ticdc_spark.replicate.state.owner import this_process

with owned(Path(sys.argv[1]), this_process("ann")) as store:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    store.set_jvm(child.pid)
    print(store.held.epoch, child.pid, flush=True)
    time.sleep(60)
"""


class Holder:
    """Another process that runs the job, with a child in the place of its JVM."""

    def __init__(self, job_file: Path) -> None:
        command = [sys.executable, "-c", HOLDER, str(job_file)]
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
def job_file(tmp_path: Path) -> Path:
    (tmp_path / "topic").mkdir()
    path = tmp_path / "job.toml"
    path.write_text(
        '[job]\nname = "shop"\n[source]\nkind = "files"\npath = "topic"\n[sink]\nkind = "iceberg"\nwarehouse = "lake"\n'
    )
    return path


@pytest.fixture
def holder(job_file: Path) -> Iterator[Holder]:
    holder = Holder(job_file)
    yield holder
    holder.kill()
    holder.kill_child()


def take(job_file: Path, wait: TakeoverWait | None = None) -> int:
    """Take the job and give it back; returns the epoch."""
    with state_of(job_file) as states, acquire(states, "shop", this_process("bob"), wait) as store:
        return store.held.epoch


def test_the_epoch_rises_with_each_owner_and_survives_release(job_file: Path) -> None:
    for epoch in (1, 2, 3):
        with owned(job_file) as store:
            assert store.held.epoch == epoch
            assert read(job_file).held == store.held
        held = read(job_file).held
        assert held is not None and held.released


def test_a_living_owner_is_named_and_not_pushed_aside(job_file: Path, holder: Holder) -> None:
    before = read(job_file)
    with pytest.raises(LeaseHeld) as refused:
        take(job_file)
    assert before.held is not None
    owner = f"'shop' (ann), pid {holder.running.pid}, JVM pid {holder.child} on host {before.held.owner.host}, epoch 1"
    assert owner in str(refused.value) and f"kill {holder.running.pid}" in str(refused.value)
    assert read(job_file) == before
    assert refused.value.exit_code == 4


def test_after_a_kill_the_jvm_is_waited_for(job_file: Path, holder: Holder) -> None:
    holder.kill()
    timer = threading.Timer(0.8, holder.kill_child)
    timer.start()
    assert take(job_file, TakeoverWait(jvm=30)) == holder.epoch + 1
    assert process(holder.child) is None
    timer.join()


def test_a_jvm_that_does_not_end_is_named_after_the_wait(job_file: Path, holder: Holder) -> None:
    holder.kill()
    with pytest.raises(LeaseHeld, match=f"its JVM still runs and may commit; end it: kill -9 {holder.child}"):
        take(job_file, TakeoverWait(jvm=0.5))


def test_after_a_kill_of_both_the_job_is_free_at_once(job_file: Path, holder: Holder) -> None:
    holder.kill_child()
    holder.kill()
    assert take(job_file, TakeoverWait(ttl=1e9, jvm=1e9)) == 2


def test_a_stopped_process_still_lives(job_file: Path, holder: Holder) -> None:
    os.kill(holder.running.pid, signal.SIGSTOP)
    with pytest.raises(LeaseHeld):
        take(job_file)
    os.kill(holder.running.pid, signal.SIGCONT)


def test_a_process_number_given_to_another_process_is_not_the_owner(job_file: Path) -> None:
    gone = msgspec.structs.replace(this_process(), process=Process(os.getpid(), "1"), jvm=Process(os.getppid(), "1"))
    held_by(job_file, gone, Status(state="normal", at=time.time(), started_at=0, pid=os.getpid()))
    assert take(job_file) == 2


def test_a_run_that_ended_in_this_process_without_reaching_its_target_does_not_hold_the_job() -> None:
    states = MemoryState("shop")
    first = acquire(states, "shop", this_process())
    with pytest.raises(LeaseHeld):
        acquire(states, "shop", this_process())
    commit = states.commit
    states.commit = away  # type: ignore[method-assign,assignment]
    first.release()
    states.commit = commit  # type: ignore[method-assign]
    assert not lives(first.held, None)
    with acquire(states, "shop", this_process()) as second:
        assert second.held.epoch == 2


def away(*_: object) -> str:
    raise SinkFault("the catalog is away")


def elsewhere(states: MemoryState, at: float = 0.0) -> JobStore:
    """A job that another machine runs."""
    owner = Owner(host="other.example", machine="another", process=Process(1, "1"), label="bob", token="far")
    store = take_over(states, states.load(), "shop", owner)
    beats(states, at)
    return store


def beats(states: MemoryState, at: float) -> None:
    states.beat(msgspec.json.encode(Status(state="normal", at=at, started_at=0, pid=1, token="far")))


def test_a_silent_owner_elsewhere_is_waited_out_by_our_clock() -> None:
    states = MemoryState("shop")
    elsewhere(states, at=time.time() - 10**6)
    start = time.monotonic()
    with acquire(states, "shop", this_process(), TakeoverWait(ttl=0.3, commit_window=0.5)) as store:
        assert time.monotonic() - start >= 0.8
        assert store.held.epoch == 2


def test_an_owner_elsewhere_whose_heart_beats_is_refused() -> None:
    states = MemoryState("shop")
    first = elsewhere(states)
    beat = threading.Timer(0.4, beats, (states, 1.0))
    beat.start()
    with pytest.raises(LeaseHeld, match=r"'shop' \(bob\), pid 1 on host other\.example, epoch 1, last heartbeat"):
        acquire(states, "shop", this_process(), TakeoverWait(ttl=30))
    beat.join()
    first.check()


def test_an_owner_elsewhere_that_works_without_a_heartbeat_is_not_pushed_aside() -> None:
    """Its store takes no heartbeat, say; a commit of it begins the wait anew."""
    states = MemoryState("shop")
    first = elsewhere(states)
    work = threading.Timer(0.4, first.save, (Progress(job="shop", batch=1),))
    start = time.monotonic()
    work.start()
    with acquire(states, "shop", this_process(), TakeoverWait(ttl=1.5, commit_window=0.4)):
        assert time.monotonic() - start >= 2.3
    work.join()


def test_an_owner_elsewhere_that_gives_the_job_back_is_followed_at_once() -> None:
    states = MemoryState("shop")
    give_back = threading.Timer(0.4, elsewhere(states).release)
    give_back.start()
    start = time.monotonic()
    with acquire(states, "shop", this_process(), TakeoverWait(ttl=60)):
        assert time.monotonic() - start < 30
    give_back.join()


def test_waiting_ends_when_the_job_is_stopped() -> None:
    states = MemoryState("shop")
    elsewhere(states)
    stop = threading.Event()
    stop.set()
    with pytest.raises(LeaseHeld, match="stop it there first"):
        acquire(states, "shop", this_process(), stop=stop)


def test_of_many_processes_that_start_at_once_one_wins(job_file: Path) -> None:
    held: list[JobStore] = []
    refused: list[LeaseHeld] = []
    start = threading.Barrier(6)

    def run() -> None:
        with state_of(job_file) as states:
            start.wait()
            try:
                held.append(acquire(states, "shop", this_process()))
            except LeaseHeld as error:
                refused.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 5)


def test_a_zombie_does_not_run() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    alive = process(child.pid)
    assert alive is not None and runs(alive)
    child.kill()
    assert wait_for(lambda: not runs(alive)), "killed and not waited for"
    child.wait()


def test_who_may_still_write_is_known(job_file: Path, holder: Holder) -> None:
    held = read(job_file).held
    assert held is not None and lives(held, None)
    holder.kill()
    assert lives(held, None), "its JVM can still commit"
    holder.kill_child()
    assert wait_for(lambda: not lives(held, None))
    states = MemoryState("shop")
    far: Ownership = elsewhere(states, at=time.time() - 30).held
    assert lives(far, beat_of(states, far)) and "'shop' (bob)" in describe(far, None)
    beats(states, time.time() - 3600)
    assert not lives(far, beat_of(states, far)) and not lives(None, None)


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
