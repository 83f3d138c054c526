"""Runs a changefeed: source → route → sequence → encode → produce → progress."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ticdc_spark.capture.base import Capture, CapturedDdl, CaptureState, Resolved, follow
from ticdc_spark.changefeed.actions import Routed, Save, SendBatch
from ticdc_spark.changefeed.backlog.backlog import Backlog
from ticdc_spark.changefeed.backlog.batch import FileBatch, Prepared
from ticdc_spark.changefeed.backlog.sender import BatchSender
from ticdc_spark.changefeed.backlog.source import BacklogCapture
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.encoders import ask_registry, cadence, encoders
from ticdc_spark.changefeed.feed import Element, End, Feed, Source
from ticdc_spark.changefeed.notices import notices
from ticdc_spark.changefeed.outbox import Outbox
from ticdc_spark.changefeed.producer import KafkaProducer, ProducerLost
from ticdc_spark.changefeed.progress import StateFolder
from ticdc_spark.changefeed.report import Report, Show
from ticdc_spark.changefeed.route import Placer
from ticdc_spark.changefeed.sent import SentCounts
from ticdc_spark.changefeed.sequence import Sequencer
from ticdc_spark.changefeed.snapshot.note import ReadNote
from ticdc_spark.changefeed.snapshot.reads import TableReads
from ticdc_spark.changefeed.topics import Topics
from ticdc_spark.errors import SinkFault, TicdcSparkError, UsageError
from ticdc_spark.mysql import tso_time

_POLL = 0.05
_CHUNK = 512
"""How many elements of the source are taken at once, before actions are done."""
_REPORT = 1.0
_SILENT = 5.0
"""Seconds without an acknowledgement after which Kafka counts as not reachable."""
_BACK_OFF = (1.0, 2.0, 5.0, 10.0, 30.0)
_LOOK_AT_TOPICS = 60.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Upstream:
    """The source of a changefeed."""

    capture: Capture
    name: str
    """Its name in the state folder, without secrets."""
    reads: TableReads | None = None
    """Reads existing tables, if the source has tables."""
    backlog: Backlog | None = None
    """Sends a long backlog of ``capture`` by tasks; ``None``: this process sends it."""


def run(
    changefeed: Changefeed,
    upstream: Upstream,
    state: Path,
    *,
    stop: threading.Event,
    show: Show = lambda _: None,
) -> Report:
    """Send the source's changes until it ends, ``target_ts`` is reached, or ``stop`` is set.

    ``state``: the state folder. Elements that are taken when ``stop`` is set are still sent and stored.

    Raises: any TicdcSparkError. The next start resumes from the stored state.
    """
    totals, reads, backlog = _Totals(upstream.capture), upstream.reads, upstream.backlog
    target = changefeed.kafka.topic
    with StateFolder(
        state, changefeed=changefeed.id, target=target, protocol=changefeed.protocol, source=upstream.name
    ) as folder:
        ask_registry(changefeed)
        failures, first = 0, True
        if backlog is not None and not backlog.take_over(folder.path, stop.is_set):
            stored = folder.load()
            return totals.report(0 if stored is None else stored[0].commit_ts)
        while True:
            try:
                # before anything is stored: a changefeed does not begin with a target that cannot be used
                Topics(changefeed.kafka, create=False).facts(target)
                begun = begin(upstream.capture, folder, changefeed.start_ts, reads)
                topics = Topics(changefeed.kafka)
                topics.facts(target)
                if first:
                    first = False
                    for notice in notices(changefeed, begun.tables, all_known=reads is not None):
                        _LOG.warning("%s", notice)
                if reads is not None:
                    totals.add(
                        *reads.finish_round(folder, topics, stop, lambda one: show(totals.added_to(one)), totals.counts)
                    )
                if folder.reading.base:  # an earlier run was stopped within a round: go on with it
                    return totals.report(begun.commit_ts)
                with _Run(changefeed, upstream, folder, topics, totals) as once:
                    report = once.work(stop, show)
                if not once.is_paused or reads is None:
                    return report
                reads.begin_round(folder, topics)
            except ProducerLost as error:
                failures = 0 if totals.acknowledged_since_start else failures + 1
                totals.counts.retries["SinkFault"] += 1
                pause = _BACK_OFF[min(failures, len(_BACK_OFF) - 1)]
                _LOG.warning("%s; resuming from the stored state in %.0f s", error, pause)
                if stop.wait(pause):
                    raise


def begin(
    capture: Capture, folder: StateFolder, start_ts: int | None = None, reads: TableReads | None = None
) -> CaptureState:
    """The stored state, or a new one, which is stored at once, so that a changefeed begins only once.

    Raises: UsageError if the source does not have all changes after ``start_ts``.
    """
    loaded = folder.load()
    if loaded is not None:
        return loaded[0]
    state = capture.begin()
    if start_ts is not None and start_ts < state.commit_ts:
        raise UsageError(
            f"start-ts is {start_ts} ({tso_time.utc(start_ts)}), and a new changefeed begins at {state.commit_ts} "
            f"({tso_time.utc(state.commit_ts)}), where the source is now: changes between them would be missing. "
            "Remove start-ts, or resume from the state folder that has this point"
        )
    note = ReadNote()
    if reads is not None:
        state, note = reads.first(state)
    folder.save(state, {}, 0, note)
    return state


class _Totals:
    """Counts that remain when a producer is replaced."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self.rows = 0
        self.messages = 0
        self.counts = SentCounts()
        self.acknowledged_since_start = False

    def add(self, rows: int, messages: int) -> None:
        self.rows += rows
        self.messages += messages

    def added_to(self, report: Report) -> Report:
        return self.counted(replace(report, rows=self.rows + report.rows, messages=self.messages + report.messages))

    def counted(self, report: Report) -> Report:
        """A report with the counts of bytes, DDL, retries, and rows by table."""
        counts, retries = self.counts, Counter({"SourceFault": self._capture.retries})
        return replace(
            report, bytes=counts.bytes, ddls=counts.ddls, retries=retries + counts.retries, counted=counts.rows
        )

    def report(self, saved: int) -> Report:
        return self.counted(Report(rows=self.rows, messages=self.messages, waiting=0, rows_per_second=0.0, saved=saved))


class _Run:
    """The work with one producer."""

    def __init__(
        self, changefeed: Changefeed, upstream: Upstream, folder: StateFolder, topics: Topics, totals: _Totals
    ) -> None:
        self._changefeed, self._upstream, self._folder, self._totals = changefeed, upstream, folder, totals
        self._topics = topics
        self.is_paused = False
        """Whether it has ended so that tables can be read."""
        self._stack = ExitStack()
        self._broken: TicdcSparkError | None = None

    def __enter__(self) -> _Run:
        totals = self._totals
        totals.acknowledged_since_start = False
        changefeed = self._changefeed
        with ExitStack() as stack:
            state = begin(self._upstream.capture, self._folder, changefeed.start_ts)
            reading = self._folder.reading
            self._target = changefeed.target_ts
            if self._target is not None and self._target < reading.settles:
                _LOG.warning("continuing past target-ts to %d: tables were read at that time", reading.settles)
                self._target = reading.settles
            self._router = Placer(changefeed, self._topics)
            self._router.refuse_conflict(state.tables)
            encoder_for = stack.enter_context(encoders(changefeed, self._router.rules.topic))
            self._producer = KafkaProducer(changefeed.kafka)
            stack.callback(self._producer.close, drop=True)
            self._outbox = Outbox(
                changefeed.protocol,
                encoder_for,
                lambda topic: self._topics.facts(topic).max_message_bytes,
                self._producer,
                counts=totals.counts,
            )
            self._sequencer = Sequencer(
                state, self._router, cadence(changefeed), time.monotonic(), consistent_from=reading.settles
            )
            self._batches: BatchSender | None = None
            source: Source = self._upstream.capture
            if self._upstream.backlog is not None:
                source, self._batches = self._upstream.backlog.source(
                    self._router.rules, self._topics, self._folder.path
                )
                self._batches.counts = totals.counts
                stack.callback(self._batches.close)
            self._feed = stack.enter_context(Feed(source, state))
            if isinstance(source, BacklogCapture):
                stack.callback(source.close)
            self._stack = stack.pop_all()
        self._rows_before, self._messages_before = totals.rows, totals.messages
        self._last_ack = self._rows_since = time.monotonic()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def work(self, stop: threading.Event, show: Show) -> Report:
        """Send until the source ends, or ``stop`` is set.

        On an error of the source, everything before it is sent and stored before the error is raised.
        """
        sequencer = self._sequencer
        next_report = next_look = next_read = time.monotonic()
        shown_rows, shown_at = self._totals.rows, time.monotonic()
        ended = False
        while not sequencer.done:
            if not ended and stop.is_set():
                ended = True
                sequencer.end()
            ended = self._take(ended) or ended
            self._do()
            now = time.monotonic()
            self._check(now)
            if now >= next_report:
                rate = (self._totals.rows - shown_rows) / max(now - shown_at, 1e-3)
                shown_rows, shown_at, next_report = self._totals.rows, now, now + _REPORT
                show(self._report(rate))
            if now - next_look > _LOOK_AT_TOPICS:
                next_look = now
                self._look_at_topics()
            if self._upstream.reads is not None and not ended and now >= next_read:
                next_read = now + _REPORT
                if self._upstream.reads.is_due(sequencer.saved_state, self._folder):
                    self.is_paused = ended = True
                    sequencer.end()
        if self._broken is not None:
            raise self._broken
        return self._report(0.0, finished=not stop.is_set())

    def _take(self, ended: bool) -> bool:
        """Offer the source's elements to the sequence. Returns: whether the source has ended."""
        sequencer = self._sequencer
        taken = 0
        while not ended and taken < _CHUNK and sequencer.wants():
            try:
                captured = self._feed.next(0.0 if taken or sequencer.waiting else _POLL)
            except TicdcSparkError as error:
                self._broken = error
                sequencer.end()
                return True
            if captured is None:
                break
            if isinstance(captured, End) or self._is_beyond(captured):
                sequencer.end()
                return True
            sequencer.offer(self._routed(captured))
            taken += 1
        self._producer.poll(0.0 if taken or not sequencer.waiting else _POLL / 5)
        return False

    def _routed(self, element: Element) -> Routed:
        if isinstance(element, Prepared):
            return Routed(element.end, batch=element.batch)
        routed = self._router.route(element)
        if isinstance(element, CapturedDdl) and self._router.rules.targets:
            tables = follow(self._sequencer.state, element).tables
            self._router.refuse_conflict(tables)
            self._router.refuse_shared_drop(routed, tables)
        return routed

    def _is_beyond(self, captured: Element) -> bool:
        """Whether ``target_ts`` is reached: an element above it means that all up to it was given."""
        target = self._target
        if target is None or captured.commit_ts < target:
            return False
        state = self._sequencer.state
        if captured.commit_ts == target:
            self._sequencer.offer(self._routed(captured))
        elif state.commit_ts < target:
            self._sequencer.offer(self._router.route(Resolved(commit_ts=target, position=state.position)))
        return True

    def _do(self) -> None:
        sequencer, outbox = self._sequencer, self._outbox
        batches = self._batches
        while True:
            if batches is not None:
                outbox.acknowledged += batches.finished()
            if outbox.acknowledged:
                tickets, outbox.acknowledged[:] = [*outbox.acknowledged], []
                self._last_ack = time.monotonic()
                self._totals.acknowledged_since_start = True
                for ticket in tickets:
                    sequencer.acknowledge(ticket)
            actions = sequencer.actions(time.monotonic())
            if not actions:
                break
            for action in actions:
                if isinstance(action, Save):
                    self._folder.save(action.state, self._topics.used(), self._sent[0])
                    sequencer.saved(action.state)
                elif isinstance(action, SendBatch):
                    assert batches is not None and isinstance(action.batch, FileBatch)
                    batches.begin(action.ticket, action.batch)
                else:
                    outbox.do(action)
        rows, messages = self._sent
        self._totals.rows = self._rows_before + rows
        self._totals.messages = self._messages_before + messages

    @property
    def _sent(self) -> tuple[int, int]:
        """The numbers of rows and messages."""
        rows, messages = self._outbox.rows, self._outbox.messages
        if self._batches is not None:
            rows, messages = rows + self._batches.rows, messages + self._batches.messages
        return rows, messages

    def _check(self, now: float) -> None:
        """Raises: SinkFault if rows wait and nothing was acknowledged for too long."""
        is_busy = self._batches is not None and self._batches.is_busy  # tasks check their own messages
        if is_busy or not self._sequencer.is_waiting:
            self._last_ack = now
        if is_busy or not self._sequencer.waiting:
            self._rows_since = now
        else:
            self._producer.check_silence(max(self._last_ack, self._rows_since))

    def _look_at_topics(self) -> None:
        try:
            self._topics.say_growth()
        except SinkFault as error:
            _LOG.debug("%s", error)

    def _report(self, rate: float, *, finished: bool = False) -> Report:
        is_out = self._sequencer.is_waiting and time.monotonic() - self._last_ack > _SILENT
        return self._totals.counted(
            Report(
                rows=self._totals.rows,
                messages=self._totals.messages,
                waiting=self._sequencer.waiting,
                rows_per_second=rate,
                saved=self._sequencer.saved_state.commit_ts,
                # A broker that hangs keeps its connections, so nothing is heard.
                outage=(self._producer.heard or "it acknowledges nothing") if is_out else "",
                finished=finished,
            )
        )
