"""Asks the server of a running changefeed now and then how much binlog it keeps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ticdc_spark.capture.binlog.kept import Kept, ask_kept
from ticdc_spark.capture.binlog.position import read_position
from ticdc_spark.capture.binlog.uri import parse_uri
from ticdc_spark.changefeed.progress import read_stored
from ticdc_spark.errors import TicdcSparkError

log = logging.getLogger(__name__)
EVERY = 60.0
"""Seconds between two questions: the server looks at each of its files."""


@contextmanager
def watching_binlog(
    uri: str, folder: Path, tell: Callable[[Kept | None], None], *, every: float = EVERY
) -> Iterator[None]:
    """Ask in a thread of its own while this lasts. ``folder``: of the state; ``tell`` gets ``None`` without an answer.

    Raises: UsageError for a wrong URI
    """
    server, stop = parse_uri(uri), threading.Event()

    def ask() -> None:
        while True:
            stored = None
            try:
                stored = read_stored(folder)
                tell(None if stored is None else ask_kept(server, read_position(stored.position)))
            except TicdcSparkError as fault:  # the changefeed itself says what is wrong
                log.debug("%s", fault)
                tell(None)
            if stop.wait(every if stored else min(every, 1.0)):
                return

    threading.Thread(target=ask, name="binlog-kept", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
