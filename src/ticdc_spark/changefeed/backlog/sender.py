"""Sends batches by tasks, in parallel to the loop."""

from __future__ import annotations

import shutil
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ticdc_spark import failpoints
from ticdc_spark.changefeed.backlog.batch import FileBatch, Tasks
from ticdc_spark.changefeed.backlog.sending import SendJob, Sent, send_part
from ticdc_spark.changefeed.config.settings import KafkaTarget
from ticdc_spark.changefeed.sent import SentCounts
from ticdc_spark.changefeed.snapshot.faults import raise_fault


class BatchSender:
    """Sends one batch at a time. Use it from one thread, and close it."""

    def __init__(self, kafka: KafkaTarget, tasks: Tasks, folder: Path, token: str, sent: Callable[[], None]) -> None:
        """``folder``: of the state. ``token``: ours, by ``snapshot.fence``. ``sent``: called after each batch."""
        self._kafka, self._tasks, self._folder, self._token, self._on_sent = kafka, tasks, folder, token, sent
        self._done: deque[tuple[int, FileBatch, BaseException | None]] = deque()
        self._thread: threading.Thread | None = None
        self.rows = 0
        self.messages = 0
        self.counts = SentCounts()
        """To which it adds."""

    @property
    def is_busy(self) -> bool:
        """Whether a batch is being sent."""
        return self._thread is not None

    def begin(self, ticket: int, batch: FileBatch) -> None:
        """Send a batch."""
        assert self._thread is None, "one batch at a time"
        self._thread = threading.Thread(target=self._send, args=(ticket, batch), name="batch", daemon=True)
        self._thread.start()

    def finished(self) -> list[int]:
        """The tickets of acknowledged batches. Raises: the error of a task"""
        tickets = []
        while self._done:
            ticket, batch, error = self._done.popleft()
            assert self._thread is not None
            self._thread.join()
            self._thread = None
            if error is not None:
                raise error
            self.rows += batch.rows
            self.messages += batch.messages
            self.counts.bytes += batch.bytes
            self.counts.add_rows(batch.counted)
            tickets.append(ticket)
            self._on_sent()
        return tickets

    def close(self) -> None:
        """Wait until nothing is sent any more, so that nothing overtakes later messages."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _send(self, ticket: int, batch: FileBatch) -> None:
        error: BaseException | None = None
        try:
            job = SendJob(kafka=self._kafka, parts=batch.parts, folder=self._folder.absolute(), token=self._token)
            for one in self._tasks.run(send_part, job, len(batch.parts), Sent):
                if one.fault:
                    raise_fault(one.fault, one.text)
            failpoints.point("batch")
        except BaseException as raised:  # noqa: BLE001 - whatever it is, the loop's thread raises it
            error = raised
        shutil.rmtree(batch.folder, ignore_errors=True)
        self._done.append((ticket, batch, error))
