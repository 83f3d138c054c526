"""The heartbeat of a run: written beside the state at intervals, and once more when the run ends."""

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ticdc_spark.errors import DecisionNeeded, EnvironmentFault, SinkFault, TicdcSparkError
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.beats import in_phase, in_trouble, with_report
from ticdc_spark.replicate.run.watch import Watcher
from ticdc_spark.replicate.state.owner import load_status
from ticdc_spark.replicate.state.progress import Status
from ticdc_spark.sinks.state import StateStore

log = logging.getLogger(__name__)
HEARTBEAT = 10.0
"""Seconds between heartbeats."""
SUSPICIOUS = 10.0
"""Seconds in one phase after which the heartbeat probes what the phase may wait for: the source, and Spark."""
_READS = ("source", "scan")
_NO_TASKS = ("starting", "waiting")
_END_PAUSES = (1.0, 2.0, 4.0, 0.0)
"""Seconds between tries to write how a run ended, if an object store does not answer."""


_NO_ERROR: dict[str, Any] = {"error": None, "error_code": None, "error_at": None}


class Heartbeat:
    """The status of a run. Use it as a context manager, which writes an error that leaves it to the status."""

    def __init__(
        self,
        store: StateStore,
        silent: Callable[[], str] = lambda: "",
        starved: Callable[[], str] = lambda: "",
        *,
        every: float = HEARTBEAT,
        suspicious: float = SUSPICIOUS,
    ) -> None:
        """``silent`` probes the source, and returns one sentence if it does not answer. ``starved`` does so for tasks
        that no executor runs. They are called when a phase that may wait for them takes ``suspicious`` seconds."""
        self.store = store
        now = time.time()
        self.status = Status(state="pending", at=now, started_at=now, pid=os.getpid(), phase="starting")
        self._silent, self._starved = silent, starved
        self._every, self._suspicious = every, suspicious
        self._since = time.monotonic()
        self._written = ""  # the phase that is stored
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._go_on, name="status-heartbeat", daemon=True)
        self._alive = False
        self._fence: Callable[[], None] = lambda: None
        self.suspected: Callable[[str], None] = lambda _: None
        """Called when what the job waits for does not answer, see ``Watcher.suspected``."""

    def __enter__(self) -> "Heartbeat":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._stop.set()
        if error is None:
            return
        code = error.exit_code if isinstance(error, TicdcSparkError) else 1
        text = str(error) or type(error).__name__
        try:
            if self._alive or self._is_over():
                self.end("failed", error=text, error_code=type(error).__name__, error_at=time.time(), exit_code=code)
        except EnvironmentFault as fault:
            # This must neither hide the error that ended the run, nor repeat it.
            if str(fault) != text:
                log.warning("cannot write the end of the run to the status: %s", fault)

    def start(self, token: str = "", fence: Callable[[], None] = lambda: None) -> None:
        """Begin to write: this process owns the job now. ``token``: of the owner; ``fence``: raises DecisionNeeded once
        it is no longer the owner."""
        self._alive, self._fence = True, fence
        self.status = msgspec.structs.replace(self.status, token=token)
        if before := load_status(self.store):
            self.status = msgspec.structs.replace(self.status, read_at=before.read_at, left=before.left)
        self._write()
        self._thread.start()

    @property
    def watcher(self) -> Watcher:
        """The watcher that updates this status."""
        return Watcher(phase=self.beat, committed=self.note, trouble=self.trouble)

    def beat(self, phase: str, batch: int) -> None:
        """Record what the job is doing. It is written once per ``pause`` of the store. On a disk, a wait is written at
        once, since it lasts."""
        with self._lock:
            before = self.status
            self.status = in_phase(before, phase, batch)
            self._since = time.monotonic()
        waits = phase == "waiting" != self._written and self.store.pause <= 1.0
        if waits or before.state != "normal" or time.time() - before.at >= self.store.pause:
            self._write()

    def note(self, report: BatchReport) -> None:
        """Record how far the source is read. It is stored with the next beat."""
        with self._lock:
            self.status = with_report(self.status, report)

    def trouble(self, fault: EnvironmentFault) -> None:
        """Record what holds the job up while it retries."""
        with self._lock:
            self.status = in_trouble(self.status, fault, time.time())
        try:
            self._write()
        except EnvironmentFault as unwritten:
            # The state's own store may be the one that does not answer.
            log.warning("cannot write the status: %s", unwritten)

    def end(self, state: str, **more: Any) -> None:
        """Write the final status."""
        self._stop.set()
        with self._lock:
            last = {"state": state, "exit_code": 0, **_NO_ERROR}
            self.status = msgspec.convert(msgspec.structs.asdict(self.status) | last | more, Status)
        unwritten = ""
        for pause in _END_PAUSES:
            try:
                self._write()
                return
            except SinkFault as fault:
                unwritten = str(fault)
            time.sleep(pause)
        # The run's work stays done, even if its end cannot be written.
        log.warning("cannot write the end of the run to the status: %s", unwritten)

    def _is_over(self) -> bool:
        """Whether the stored status is of a run that has ended. The status of a live run is not overwritten."""
        there = load_status(self.store)
        return there is None or there.state in ("failed", "stopped", "finished")

    def _go_on(self) -> None:
        while not self._stop.wait(min(self._every, self._suspicious)):
            try:
                if time.time() - self.status.at >= self._every:
                    self._fence()  # stops the heartbeat once another process has taken the job over
                    self._write()
            except DecisionNeeded as taken:
                log.error("%s", taken)
                return
            except EnvironmentFault as fault:
                log.warning("no heartbeat: %s", fault)
            self._suspect()

    def _suspect(self) -> None:
        """Probe what a long phase may wait for: clients of a source, and Spark, retry silently."""
        with self._lock:
            phase, since = self.status.phase, self._since
        if phase in _NO_TASKS or time.monotonic() - since < self._suspicious:
            return
        silent = (self._silent() if phase in _READS else "") or self._starved()
        with self._lock:
            if self._since != since or not (silent or self.status.error):
                return
            if silent and self.status.error != silent:
                log.warning("%s", silent)
            state = "warning" if silent else "normal"
            self.status = msgspec.convert(
                msgspec.structs.asdict(self.status) | {"state": state, "error": silent or None, "at": 0.0}, Status
            )
        self.suspected(silent)

    def _write(self) -> None:
        with self._lock:
            self.status = msgspec.structs.replace(self.status, at=time.time())
            self._written = self.status.phase
            self.store.beat(msgspec.json.encode(self.status))
