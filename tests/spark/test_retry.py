"""A catalog that goes away while the job runs, and comes back."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from tests.spark.lake import write_job
from tests.spark.simple_topic import topic
from tests.spark.test_row_delta import END, FIRST, MORE, rows
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import SinkFault
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.watch import Watcher
from ticdc_spark.replicate.state.progress import Status


class Running:
    """A job that runs until it is stopped, in a thread of this process."""

    def __init__(self, job_file: Path) -> None:
        self.job = load_job(job_file)
        self.rows = 0
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            loop.run(self.job, stop=self._stop, watchers=[Watcher(committed=self._count)])
        except SinkFault as error:
            self.error = error

    def _count(self, report: BatchReport) -> None:
        self.rows += report.changes

    @property
    def status(self) -> Status:
        """By the file: the catalog, by which it is found, may be away."""
        (file,) = self.job.file.parent.rglob("_ticdc_spark/state_job/heartbeat.json")
        return msgspec.json.decode(file.read_bytes(), type=Status)

    def wait(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not until():
            assert time.monotonic() < deadline and self._thread.is_alive(), self.error
            time.sleep(0.05)

    def end(self) -> None:
        self._stop.set()
        self.join()

    def join(self) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive()


def begun(folder: Path, retry_for: str) -> Running:
    more = f'retry-for = "{retry_for}"\ncommit-interval = "100ms"\npoll-interval = "100ms"'
    running = Running(write_job(folder, topic(folder, FIRST), more))
    try:
        running.wait(lambda: running.rows == 4)
        running.wait(lambda: running.status.phase == "waiting")
    except AssertionError:
        running.end()
        raise
    catalog = folder / "lake" / "catalog.db"
    # At once, else SQLite would make a new one: it cannot make one behind this link.
    (folder / "nowhere").symlink_to(folder / "no" / "folder")
    os.link(catalog, folder / "away")
    (folder / "nowhere").replace(catalog)
    topic(folder, [*FIRST, *MORE])
    return running


def restore(folder: Path) -> None:
    (folder / "away").replace(folder / "lake" / "catalog.db")


def test_a_catalog_that_comes_back_is_written_on(spark: SparkSession, folder: Path) -> None:
    running = begun(folder, "5m")
    try:
        running.wait(lambda: running.status.state == "warning")
        assert "database" in str(running.status.error), "the cause itself"
        time.sleep(2)
        restore(folder)
        running.wait(lambda: running.rows >= 4 + 4)
        running.wait(lambda: running.status.state == "normal" and running.status.error is None)
    finally:
        running.end()
    assert running.error is None
    assert rows(spark, folder) == END


def test_the_run_ends_when_the_time_to_retry_is_over(spark: SparkSession, folder: Path) -> None:
    running = begun(folder, "2s")
    running.join()
    assert running.error is not None
    assert (running.status.state, running.status.exit_code) == ("failed", 1)
    restore(folder)
    loop.run(running.job, once=True)
    assert rows(spark, folder) == END
