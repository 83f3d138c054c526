"""Sends the backlog of one changefeed by tasks, for one process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from ticdc_spark.capture.stream import StreamCapture
from ticdc_spark.changefeed.backlog.batch import Tasks
from ticdc_spark.changefeed.backlog.sender import BatchSender
from ticdc_spark.changefeed.backlog.source import BacklogCapture
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.snapshot.fence import take_over
from ticdc_spark.changefeed.topics import Topics

_FILES = "backlog"


class Backlog:
    """The parts of a backlog that remain when a producer is replaced."""

    def __init__(self, changefeed: Changefeed, capture: StreamCapture, tasks: Tasks | None = None) -> None:
        """``tasks``: what runs them; ``None``: Spark, once it is needed."""
        self._changefeed, self._capture = changefeed, capture
        self._given, self._ours = tasks, tasks is None
        self._token = ""

    def take_over(self, folder: Path, stopped: Callable[[], bool]) -> bool:
        """Wait until no task of an earlier process sends, and delete its files. Returns: ``False`` if stopped first.

        ``folder``: the state folder. Raises: EnvironmentFault
        """
        token = take_over(folder, stopped)
        if token is None:
            return False
        self._token = token
        shutil.rmtree(folder / _FILES, ignore_errors=True)
        return True

    def source(self, rules: Router, topics: Topics, folder: Path) -> tuple[BacklogCapture, BatchSender]:
        """The source and the sender of its batches, for the life of one producer."""
        tasks = self._tasks()
        files = (folder / _FILES).absolute()
        source = BacklogCapture(self._capture, self._changefeed, rules, topics, tasks, files)
        return source, BatchSender(self._changefeed.kafka, tasks, folder, self._token, source.sent)

    def close(self) -> None:
        """Release Spark."""
        if self._ours and self._given is not None:
            self._given.close()

    def _tasks(self) -> Tasks:
        if self._given is None:
            from ticdc_spark.changefeed.spark_tasks import SparkTasks  # imports Spark

            self._given = SparkTasks(self._changefeed, "send a backlog")
        return self._given
