"""Decides which process's tasks may send: tasks of a killed process must not send after its successor has begun.

A file in the state folder has the process's token. A task sends only while it holds a shared lock of the file, and only
if the token is its own process's. A new process waits until the lock is free, then writes another token. A lock ends
with its process, also after ``kill -9``.
"""

from __future__ import annotations

import fcntl
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ticdc_spark.errors import EnvironmentFault, SinkFault

_FILE = "sending"
_POLL = 0.1
_LONGEST = 120.0


def take_over(folder: Path, stopped: Callable[[], bool] = lambda: False) -> str | None:
    """Wait until no task of an earlier process sends. Returns: the token for ours; ``None`` if stopped first.

    Raises: EnvironmentFault if such a task does not end.
    """
    token, end = uuid.uuid4().hex, time.monotonic() + _LONGEST
    try:
        with (folder / _FILE).open("a+") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if stopped():
                        return None
                    if time.monotonic() > end:
                        raise EnvironmentFault(
                            f"tasks of an earlier process still send (they hold {folder / _FILE}); end them"
                        ) from error
                time.sleep(_POLL)
            file.truncate(0)
            file.write(token)
            file.flush()
    except OSError as error:
        raise EnvironmentFault(f"state folder {folder}: {error.strerror or error}") from error
    return token


@contextmanager
def sending(folder: Path, token: str) -> Iterator[None]:
    """Let a task send while this lasts. Raises: SinkFault if another process has taken over"""
    try:
        file = (folder / _FILE).open()
    except OSError as error:
        raise SinkFault(f"state folder {folder}, as a task sees it: {error.strerror or error}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_SH)
        if file.read() != token:
            raise SinkFault("another process has taken over the changefeed")
        yield
