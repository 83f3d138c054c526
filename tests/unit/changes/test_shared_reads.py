"""Threads that read rows together, and a read that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ticdc_spark.changes.ranges import RowScan
from ticdc_spark.changes.shared_reads import Read, SharedReads


def test_a_thread_that_is_done_does_not_get_the_fault_of_the_others() -> None:
    def fails(reads: Sequence[Read]) -> None:
        raise OSError("the broker is away")

    shared, goes_on = SharedReads(2, fails), threading.Event()
    task: Any = None  # it is never run

    def done() -> str:
        with shared.worker():
            goes_on.wait()
            time.sleep(0.2)  # the other one waits by then, so that this one reads for it
        return "done"

    def reads() -> None:
        with shared.worker():
            goes_on.set()
            shared.rows(Read(RowScan(table=("s", "t"), ranges=(), above=0, upto=9), task, (), task, 1))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(done)
        time.sleep(0.1)
        second = pool.submit(reads)
        assert first.result() == "done"
        with pytest.raises(OSError, match="the broker is away"):
            second.result()
