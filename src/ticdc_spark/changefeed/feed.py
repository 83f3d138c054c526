"""Reads the source in its own thread, so that watermarks and acknowledgements do not wait for it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Protocol, TypeAlias

from ticdc_spark.capture.base import Captured, CaptureState, Resolved
from ticdc_spark.changefeed.backlog.batch import Prepared

_CHUNK = 512
"""How many elements are handed over at once."""
_HAND_OVER = 0.01
"""Seconds after which fewer elements are handed over. With a steady flow, it is most of a change's latency."""
_WAIT = 0.05


Element: TypeAlias = Captured | Prepared


class Source(Protocol):
    """A ``Capture``, or one whose backlog is prepared by tasks."""

    def read(self, state: CaptureState) -> Iterator[Element]: ...


class End:
    """The source has no more elements."""


class Feed:
    """Reads the source in its own thread, so that watermarks do not wait for it."""

    def __init__(self, capture: Source, state: CaptureState) -> None:
        self._capture, self._state = capture, state
        self._queue: queue.Queue[list[Element] | End | BaseException] = queue.Queue(8)
        self._chunk: Iterator[Element] = iter(())
        self._closed = False
        self._thread = threading.Thread(target=self._read, name="capture", daemon=True)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._thread.join(10)

    def next(self, timeout: float) -> Element | End | None:
        """The next element; ``None`` if there is none yet. Raises: what the source raises."""
        found = next(self._chunk, None)
        if found is not None:
            return found
        try:
            got = self._queue.get(timeout=timeout) if timeout else self._queue.get_nowait()
        except queue.Empty:
            return None
        if isinstance(got, BaseException):
            raise got
        if isinstance(got, End):
            return got
        self._chunk = iter(got)
        return next(self._chunk, None)

    def _read(self) -> None:
        last: End | BaseException = End()
        chunk: list[Element] = []
        try:
            since = time.monotonic()
            with closing(self._elements()) as elements:
                for captured in elements:
                    chunk.append(captured)
                    # a source that waits has given a Resolved first
                    full = len(chunk) >= _CHUNK or time.monotonic() - since > _HAND_OVER
                    if full or isinstance(captured, Resolved | Prepared):
                        if not self._put(chunk):
                            return
                        chunk, since = [], time.monotonic()
        except BaseException as error:  # noqa: BLE001  raised again where the elements are taken
            last = error
        if self._put(chunk):  # elements before an error are still given
            self._put(last)

    def _elements(self) -> Generator[Element, None, None]:
        yield from self._capture.read(self._state)

    def _put(self, what: list[Element] | End | BaseException) -> bool:
        while not self._closed:
            try:
                self._queue.put(what, timeout=_WAIT)
            except queue.Full:
                continue
            return True
        return False
