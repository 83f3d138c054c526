"""SIGINT and SIGTERM: the first one stops the work after its step, a later one ends the process."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import NoReturn, TypeAlias, TypeVar

from ticdc_spark.cli.output.logging import console

SAME_SIGNAL_SECONDS = 1.0
"""A signal that follows the first one within this time is the same request.

GNU ``timeout`` sends SIGTERM to its child and then to the whole process group, which the child is a part of.
"""
_LOOK_UP_SECONDS = 0.5
"""How late a signal may be noticed."""
Caught: TypeAlias = tuple[int, float]
"""The number of a signal, and when it came (monotonic seconds)."""
T = TypeVar("T")
log = logging.getLogger(__name__)


def stoppable(work: Callable[[], T], stop: threading.Event) -> T:
    """Run ``work``. The first SIGINT or SIGTERM sets ``stop``, one that comes a second later ends the process.

    The work has its own thread, because Spark would set its own SIGINT handler in the main thread. And the main thread
    can then answer a signal at once, whatever the JVM is doing.
    """
    with ThreadPoolExecutor(1, "loop") as pool, _caught_signals() as caught:
        future = pool.submit(work)
        future.add_done_callback(lambda _: caught.put(None))
        first: float | None = None
        while (signalled := _next(caught)) is not None:
            number, second = signalled
            name = signal.Signals(number).name
            if first is None:
                first = second
                stop.set()
                log.warning("%s: stopping after the current step; a second signal ends it at once", name)
            elif not is_same_signal(first, second):
                _end_now(number)
        return future.result()


@contextmanager
def until_interrupted() -> Iterator[Callable[[float], bool]]:
    """Give a function that waits for some seconds and returns whether to go on: ``False`` after Ctrl-C.

    A second Ctrl-C ends the process at once. Ctrl-C is noted and not raised: an exception that is raised while the
    interpreter runs a callback is lost.
    """
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    def rest(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not seen and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_UP_SECONDS))
        return not seen

    before = signal.signal(signal.SIGINT, note)
    try:
        yield rest
    finally:
        signal.signal(signal.SIGINT, before)


def _next(caught: "SimpleQueue[Caught | None]") -> Caught | None:
    """The next item. A signal just before the thread begins to wait does not wake it, so it checks now and then."""
    while True:
        try:
            return caught.get(timeout=_LOOK_UP_SECONDS)
        except Empty:
            continue


def is_same_signal(first: float, second: float) -> bool:
    """Whether two signals are one request, by the monotonic seconds in which they came."""
    return second - first <= SAME_SIGNAL_SECONDS


def _end_now(number: int) -> NoReturn:
    console.show_cursor()
    log.warning("%s again: ending at once; the next start resumes from the last commit", signal.Signals(number).name)
    # Not sys.exit: threads that wait for the JVM would keep the process. The JVM ends when our pipe to it does.
    os._exit(128 + number)


@contextmanager
def _caught_signals() -> Iterator["SimpleQueue[Caught | None]"]:
    """The signals that come while this lasts.

    A handler interrupts the main thread anywhere, also while it prints or holds a lock. So the handler only notes the
    signal, in the one kind of queue whose ``put`` may interrupt itself.
    """
    caught: SimpleQueue[Caught | None] = SimpleQueue()
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return

    def note(number: int, frame: FrameType | None) -> None:
        caught.put((number, time.monotonic()))

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
