"""Runs work in a thread that its caller need not wait for."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Start ``work`` in a daemon thread. The process can end while it still runs, unlike with an executor's threads."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  whoever waits for the result raises it
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
