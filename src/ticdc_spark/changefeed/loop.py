"""A changefeed at work: source → route → sequence → encode → produce → progress."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ticdc_spark.capture.base import Capture, Captured, CaptureState, Resolved
from ticdc_spark.changefeed.actions import Save
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.encoders import cadence, encoders
from ticdc_spark.changefeed.feed import End, Feed
from ticdc_spark.changefeed.outbox import Outbox
from ticdc_spark.changefeed.producer import KafkaProducer, ProducerLost
from ticdc_spark.changefeed.progress import StateFolder
from ticdc_spark.changefeed.route import Placer
from ticdc_spark.changefeed.sequence import Sequencer
from ticdc_spark.changefeed.topics import Topics
from ticdc_spark.errors import SinkFault

STUCK = 1800.0
"""Seconds without an acknowledgement after which a run gives up, as TiCDC's changefeed-error-stuck-duration."""
_POLL = 0.05
_CHUNK = 512
"""Elements of the source that are handed over at once, and taken before actions are done."""
_REPORT = 1.0
_BACK_OFF = (1.0, 2.0, 5.0, 10.0, 30.0)
_LOOK_AT_TOPICS = 60.0
_LOG = logging.getLogger(__name__)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands."""

    rows: int
    """Sent by this process."""
    messages: int
    waiting: int
    """Rows that are not acknowledged."""
    rows_per_second: float
    saved: int
    """commitTs up to which all is acknowledged and stored."""
    outage: str = ""
    """What the broker's connections say, while nothing is acknowledged."""
    finished: bool = False
    """The source has ended, or ``target-ts`` is reached."""


Show: TypeAlias = Callable[[Report], None]


def run(
    changefeed: Changefeed,
    capture: Capture,
    state: Path,
    *,
    source: str,
    stop: threading.Event,
    show: Show = lambda _: None,
) -> Report:
    """Send what the source gives until it ends, ``target_ts`` is reached, or ``stop`` is set.

    ``source`` names the source in the state folder; no secrets in it. What is taken when ``stop`` is set is still sent
    and stored. Raises: every error of the tree; started again, it goes on from what is stored.
    """
    totals = _Totals()
    target = changefeed.kafka.topic
    with StateFolder(state, changefeed=changefeed.id, target=target, source=source) as folder:
        failures = 0
        while True:
            try:
                with _Run(changefeed, capture, folder, totals, stop, show) as once:
                    return once.work()
            except ProducerLost as error:
                failures = 0 if totals.acknowledged_since_start else failures + 1
                pause = _BACK_OFF[min(failures, len(_BACK_OFF) - 1)]
                _LOG.warning("%s; going on from what is stored in %.0f s", error, pause)
                if stop.wait(pause):
                    raise


def begin(capture: Capture, folder: StateFolder) -> CaptureState:
    """The stored state, or a new one, which is stored at once: a changefeed begins in one place only."""
    loaded = folder.load()
    if loaded is not None:
        return loaded[0]
    state = capture.begin()
    folder.save(state, {}, 0)
    return state


class _Totals:
    """What lasts when a producer is replaced."""

    def __init__(self) -> None:
        self.rows = 0
        self.messages = 0
        self.acknowledged_since_start = False


class _Run:
    """The work with one producer."""

    def __init__(
        self,
        changefeed: Changefeed,
        capture: Capture,
        folder: StateFolder,
        totals: _Totals,
        stop: threading.Event,
        show: Show,
    ) -> None:
        self._changefeed, self._folder, self._totals = changefeed, folder, totals
        self._stop, self._show = stop, show
        self._capture = capture
        self._stack = ExitStack()

    def __enter__(self) -> _Run:
        totals = self._totals
        totals.acknowledged_since_start = False
        changefeed = self._changefeed
        with ExitStack() as stack:
            self._topics = Topics(changefeed.kafka)
            # before anything is stored: a target that cannot be used is no beginning
            self._topics.facts(changefeed.kafka.topic)
            state = begin(self._capture, self._folder)
            self._router = Placer(changefeed, self._topics)
            encoder_for = stack.enter_context(encoders(changefeed, self._router.rules.topic))
            self._producer = KafkaProducer(changefeed.kafka)
            stack.callback(self._producer.close, drop=True)
            self._outbox = Outbox(
                changefeed.protocol,
                encoder_for,
                lambda topic: self._topics.facts(topic).max_message_bytes,
                self._producer,
            )
            self._sequencer = Sequencer(state, self._router, cadence(changefeed), time.monotonic())
            self._feed = stack.enter_context(Feed(self._capture, state))
            self._stack = stack.pop_all()
        self._rows_before, self._messages_before = totals.rows, totals.messages
        self._last_ack = time.monotonic()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def work(self) -> Report:
        """Send until the source ends or is stopped."""
        sequencer = self._sequencer
        next_report = next_look = time.monotonic()
        shown_rows, shown_at = self._totals.rows, time.monotonic()
        ended = False
        while not sequencer.done:
            if not ended and self._stop.is_set():
                ended = True
                sequencer.end()
            ended = self._take(ended) or ended
            self._do()
            now = time.monotonic()
            self._check(now)
            if now >= next_report:
                rate = (self._totals.rows - shown_rows) / max(now - shown_at, 1e-3)
                shown_rows, shown_at, next_report = self._totals.rows, now, now + _REPORT
                self._show(self._report(rate))
            if now - next_look > _LOOK_AT_TOPICS:
                next_look = now
                self._look_at_topics()
        return self._report(0.0, finished=not self._stop.is_set())

    def _take(self, ended: bool) -> bool:
        """Offer what the source has given; whether it has ended."""
        sequencer = self._sequencer
        taken = 0
        while not ended and taken < _CHUNK and sequencer.wants():
            captured = self._feed.next(0.0 if taken or sequencer.waiting else _POLL)
            if captured is None:
                break
            if isinstance(captured, End) or self._is_beyond(captured):
                sequencer.end()
                return True
            sequencer.offer(self._router.route(captured))
            taken += 1
        self._producer.poll(0.0 if taken or not sequencer.waiting else _POLL / 5)
        return False

    def _is_beyond(self, captured: Captured) -> bool:
        """Whether ``target_ts`` is reached: all up to it has been given when something above it comes."""
        target = self._changefeed.target_ts
        if target is None or captured.commit_ts < target:
            return False
        state = self._sequencer.state
        if captured.commit_ts == target:
            self._sequencer.offer(self._router.route(captured))
        elif state.commit_ts < target:
            self._sequencer.offer(self._router.route(Resolved(commit_ts=target, position=state.position)))
        return True

    def _do(self) -> None:
        sequencer, outbox = self._sequencer, self._outbox
        while True:
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
                    self._folder.save(action.state, self._topics.used(), outbox.rows)
                    sequencer.saved(action.state)
                else:
                    outbox.do(action)
        self._totals.rows = self._rows_before + outbox.rows
        self._totals.messages = self._messages_before + outbox.messages

    def _check(self, now: float) -> None:
        """Raises: SinkFault when nothing was acknowledged for too long."""
        if not self._sequencer.waiting:
            self._last_ack = now
        elif now - self._last_ack > STUCK:
            servers = ",".join(self._changefeed.kafka.servers)
            raise SinkFault(f"Kafka at {servers} has acknowledged nothing for {STUCK:.0f} s: {self._producer.heard}")

    def _look_at_topics(self) -> None:
        try:
            self._topics.say_growth()
        except SinkFault as error:
            _LOG.debug("%s", error)

    def _report(self, rate: float, *, finished: bool = False) -> Report:
        quiet = time.monotonic() - self._last_ack > 5.0
        return Report(
            rows=self._totals.rows,
            messages=self._totals.messages,
            waiting=self._sequencer.waiting,
            rows_per_second=rate,
            saved=self._sequencer.saved_state.commit_ts,
            outage=self._producer.heard if quiet and self._sequencer.waiting else "",
            finished=finished,
        )


__all__ = ["Report", "begin", "run"]
