"""Seconds of the clock and of the processors, and the peak memory of Python and of the JVM, from ``/proc``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_EVERY = 0.5


class Processors(NamedTuple):
    """Seconds of one stretch of work: by the clock, and of the processors by Python workers and by the JVM."""

    clock: float
    workers: float
    jvm: float


@dataclass(slots=True)
class Measured:
    """One stretch of work. Memory in bytes, the peak of samples: resident pages, of workers by their share of each."""

    seconds: float = 0.0
    cpu: float = 0.0
    """Seconds of processor time, of a process and all below it: what stays the same on a machine that others use."""
    jvm: int = 0
    driver: int = 0
    workers: int = 0


@contextmanager
def measured(root: int | None = None) -> Iterator[Measured]:
    """Measure what a process and all below it do meanwhile: by default this one."""
    root = os.getpid() if root is None else root
    result, over = Measured(), threading.Event()
    before = _cpu(root)
    latest = dict(before)
    sampler = threading.Thread(target=_sample, args=(root, result, latest, over), daemon=True)
    sampler.start()
    began = time.monotonic()
    try:
        yield result
    finally:
        result.seconds = time.monotonic() - began
        over.set()
        sampler.join()
        latest.update(_cpu(root))
        result.cpu = sum(seconds - before.get(pid, 0.0) for pid, seconds in latest.items())


@contextmanager
def processors() -> Iterator[list[Processors]]:
    """Measure what the processes below this one do meanwhile; the result is there at the end."""
    result: list[Processors] = []
    before, began = _by_name(), time.monotonic()
    yield result
    clock, after = time.monotonic() - began, _by_name()
    result.append(Processors(clock, after["python"] - before["python"], after["java"] - before["java"]))


def processor_seconds(root: int | None = None, without: Collection[int] = ()) -> float:
    """Of a process (by default this one) and all below it, ended children included, but for some: servers."""
    root = os.getpid() if root is None else root
    pids = {root, *(pid for pid, _ in _descendants(root))}
    return sum(_seconds(pid, 4) for pid in pids - {*without})


def resident_of(pid: int) -> int:
    """Resident bytes of a process and all below it; of Python's, which share pages, their share."""
    found = [(pid, "python"), *_descendants(pid)]
    return sum(_resident(below) if name == "java" else _memory(below) for below, name in found)


def _by_name() -> dict[str, float]:
    """Processor seconds of the JVM and of all else below this process, ended children included."""
    found = {"java": 0.0, "python": 0.0}
    for pid, name in _descendants(os.getpid()):
        found["java" if name == "java" else "python"] += _seconds(pid, 4)
    return found


def _sample(root: int, result: Measured, latest: dict[int, float], over: threading.Event) -> None:
    while True:
        latest.update(_cpu(root))
        jvm = workers = 0
        for pid, name in _descendants(root):
            if name == "java":
                jvm += _resident(pid)
            elif name.startswith("python"):
                workers += _memory(pid)
        result.jvm, result.workers = max(result.jvm, jvm), max(result.workers, workers)
        result.driver = max(result.driver, _memory(root))
        if over.wait(_EVERY):
            return


def _cpu(root: int) -> dict[int, float]:
    """Processor seconds of each process that lives; those of a worker that ended are lost with it."""
    pids = (root, *(pid for pid, _ in _descendants(root)))
    return {pid: seconds for pid in pids if (seconds := _seconds(pid, 2))}


def _seconds(pid: int, kinds: int) -> float:
    """User's and system's of a process; with 4 ``kinds``, also those of its children that ended. 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 11 + kinds])) / os.sysconf("SC_CLK_TCK")


def _descendants(root: int) -> list[tuple[int, str]]:
    children: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name, rest = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            except OSError:
                continue
            children.setdefault(int(rest.split()[1]), []).append((int(folder.name), name))
    found: list[tuple[int, str]] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [pid for pid, _ in below]
    return found


def _resident(pid: int) -> int:
    # for a large process quick, which its share of pages is not
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _memory(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
