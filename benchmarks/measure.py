"""Seconds of the clock and of the processors, and the peak memory of Python and of the JVM, from ``/proc``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_EVERY = 0.5


@dataclass(slots=True)
class Measured:
    """One stretch of work. Memory in bytes, the peak of samples: resident pages, of workers by their share of each."""

    seconds: float = 0.0
    cpu: float = 0.0
    """Seconds of processor time, of this process and all below it: what stays the same on a machine that others use."""
    jvm: int = 0
    driver: int = 0
    workers: int = 0


@contextmanager
def measured() -> Iterator[Measured]:
    """Measure what is done meanwhile."""
    result, over = Measured(), threading.Event()
    sampler = threading.Thread(target=_sample, args=(result, over), daemon=True)
    sampler.start()
    began, used = time.monotonic(), _cpu()
    try:
        yield result
    finally:
        result.seconds, result.cpu = time.monotonic() - began, _cpu() - used
        over.set()
        sampler.join()


def _sample(result: Measured, over: threading.Event) -> None:
    while True:
        jvm = workers = 0
        for pid, name in _descendants(os.getpid()):
            if name == "java":
                jvm += _resident(pid)
            elif name.startswith("python"):
                workers += _memory(pid)
        result.jvm, result.workers = max(result.jvm, jvm), max(result.workers, workers)
        result.driver = max(result.driver, _memory(os.getpid()))
        if over.wait(_EVERY):
            return


def _cpu() -> float:
    """Processor time so far; of processes that have ended too, as their parents have it."""
    ticks = 0
    for pid in (os.getpid(), *(pid for pid, _ in _descendants(os.getpid()))):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


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
