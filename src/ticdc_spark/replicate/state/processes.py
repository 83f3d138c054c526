"""Identify a process even after its pid was reused, and see whether it still runs."""

import socket
import subprocess
from pathlib import Path

import msgspec


class Process(msgspec.Struct, frozen=True):
    """A process of this machine."""

    pid: int
    started: str
    """Its start time in the machine's format. With ``pid`` it identifies one process between two boots."""


def process(pid: int) -> Process | None:
    """Return the process that has this pid now; ``None``: none runs. A zombie does not run."""
    if not Path("/proc/self/stat").exists():
        return _process_of_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        threads = sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return None
    # The program's name, in parentheses, may contain any character; the fields after it do not.
    fields = stat.rpartition(")")[2].split()
    # A process whose main thread has ended shows as a zombie, even while its other threads work.
    if fields[0] in "ZX" and threads <= 1:
        return None
    return Process(pid, fields[19])


def runs(which: Process) -> bool:
    """Whether this process still runs, and not a later one with the same pid."""
    return process(which.pid) == which


def machine() -> str:
    """Identify this machine, boot and container, among others of the same host name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _process_of_ps(pid: int) -> Process | None:
    found = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = found.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else Process(pid, " ".join(started.split()))
