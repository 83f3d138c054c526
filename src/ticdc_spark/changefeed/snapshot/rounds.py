"""One round of reading tables.

A round has one commit_ts, its base, above everything that was sent. It reads the present rows of ranges of tables, wave
by wave, and sends them with the base. Then the changes continue from the base. A row that changed between the base and
the read is newer than the base says, and each of these changes is sent again, in order. So after the last of them, the
row is equal to the source. No watermark is sent before that.

The first round, of a new changefeed, lasts until everything is read. Later rounds end after some seconds, so that other
tables do not wait for long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from ticdc_spark import failpoints
from ticdc_spark.capture.base import CaptureState
from ticdc_spark.capture.binlog.uri import ServerUri
from ticdc_spark.capture.snapshot.present import PresentTables
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.progress import StateFolder
from ticdc_spark.changefeed.report import Report, Show
from ticdc_spark.changefeed.sent import SentCounts
from ticdc_spark.changefeed.snapshot.announce import Announcer
from ticdc_spark.changefeed.snapshot.faults import raise_fault
from ticdc_spark.changefeed.snapshot.note import ReadNote
from ticdc_spark.changefeed.snapshot.plan import PartSent, Wave, fold_wave, plan_wave, without
from ticdc_spark.changefeed.snapshot.send import SendJob
from ticdc_spark.changefeed.topics import Topics
from ticdc_spark.model import TableName

PAUSE = 10.0
"""Seconds after which a later round ends, as other tables wait meanwhile."""
_LOG = logging.getLogger(__name__)


class Sender(Protocol):
    """Sends the parts of waves."""

    def __call__(self, job: SendJob) -> Sequence[PartSent]:
        """Send the parts. Returns: the result of each, in order. Raises: EnvironmentFault, UsageError"""

    def close(self) -> None:
        """Release what it needs for sending."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where the waves of a round go, and what sends them."""

    changefeed: Changefeed
    rules: Router
    server: ServerUri
    folder: StateFolder
    topics: Topics
    announcer: Announcer
    sender: Sender
    token: str
    """The token of this process. A sender stops if its token is not the last one."""

    def send(self, wave: Wave, base: int) -> Sequence[PartSent]:
        """Send the rows of a wave with the commit_ts ``base``. Raises: EnvironmentFault, UsageError, DecisionNeeded"""
        found = {part.found.table: None for part in wave.parts}
        ids = self.announcer.announce(found, base)
        topics = [self.rules.route(table).topic for table in found]
        sent = self.sender(
            SendJob(
                changefeed=self.changefeed,
                rules=self.rules,
                server=self.server,
                parts=wave.parts,
                base=base,
                facts={topic: self.topics.facts(topic) for topic in topics},
                ids=ids,
                folder=self.folder.path.absolute(),
                token=self.token,
            )
        )
        for one in sent:
            if one.fault:
                raise_fault(one.fault, one.text)
        return sent


class Round:
    """A round at the commit_ts of a stored state. Until it ends, nothing else is sent."""

    def __init__(
        self, outlet: Outlet, state: CaptureState, tables: PresentTables, show: Show, counts: SentCounts
    ) -> None:
        """``counts``: to which it adds."""
        self._counts = counts
        self._outlet, self._state, self._note = outlet, state, outlet.folder.reading
        self._tables, self._show = tables, show
        self._later: dict[TableName, str] = {}
        self.rows = self.messages = 0
        """Sent so far."""
        self._expected: dict[TableName, int] = {}
        self._rate = 0.0

    def work(self, stopped: Callable[[], bool]) -> None:
        """Read until everything is read, or until it is stopped. A later round ends after ``PAUSE`` seconds.

        Raises: EnvironmentFault, UsageError, DecisionNeeded
        """
        end = None if self._note.first else time.monotonic() + PAUSE
        if self._note.tables is None:
            known = self._tables.identities(self._state.position, self._state.unread)
            self._save(replace(self._note, tables=tuple(known.items())))
        while not stopped():
            wave = self._planned()
            if not wave.parts or (end is not None and time.monotonic() > end):
                # no row that an earlier process read without storing it is newer
                settles = max(self._note.settles, self._tables.now())
                self._save(replace(self._note, base=0, tables=None, settles=settles))
                return
            self._do(wave)

    @property
    def unread(self) -> tuple[TableName, ...]:
        """Tables that are still to be read."""
        return self._state.unread

    def _planned(self) -> Wave:
        snapshot = self._outlet.changefeed.snapshot
        wave = plan_wave(
            self._state,
            self._note,
            self._later,
            self._tables,
            self._outlet.rules.tables.why_left_out,
            parts=snapshot.parallelism,
            chunk_rows=snapshot.chunk_rows,
        )
        for name, why in wave.over.items():
            _LOG.warning("`%s`.`%s`: its existing rows are not sent: %s", *name, why)
        self._wait(wave.later)
        self._state = without(self._state, wave.over.keys())
        return wave

    def _do(self, wave: Wave) -> None:
        began = time.monotonic()
        self._report(wave)
        sent = self._outlet.send(wave, self._note.base)
        rows = sum(one.rows for one in sent)
        self.rows += rows
        self.messages += sum(one.messages for one in sent)
        for one in sent:
            self._counts.bytes += one.bytes
            self._counts.add_rows(one.counted)
        self._rate = rows / max(time.monotonic() - began, 1e-3)
        state, note, moved = fold_wave(self._state, self._note, wave, sent, self._tables.now())
        self._wait(moved)
        for stretch in wave.stretches:
            if stretch.name not in state.unread:
                _LOG.info("`%s`.`%s` is read", *stretch.name)
        self._state = state
        failpoints.point("wave")
        self._save(note)
        self._report(wave)

    def _wait(self, later: Mapping[TableName, str]) -> None:
        for name, why in later.items():
            _LOG.warning("`%s`.`%s` is read later, once the changefeed has sent its changes: %s", *name, why)
        self._later |= later

    def _save(self, note: ReadNote) -> None:
        self._outlet.folder.save(self._state, self._outlet.topics.used(), self.rows, note)
        self._note = note

    def _report(self, wave: Wave) -> None:
        name = wave.stretches[-1].name
        if name not in self._expected:
            self._expected[name] = self._tables.estimate(name)
        expected, there = self._expected[name], self._note.rows if self._note.table == name else 0
        of = f" of about {max(expected, there):,}" if expected else ""
        left = len(self._state.unread) - 1
        more = f", then {left} more" if left > 0 else ""
        self._show(
            Report(
                rows=self.rows,
                messages=self.messages,
                waiting=0,
                rows_per_second=self._rate,
                saved=self._state.commit_ts,
                reading=f"{name[0]}.{name[1]}, {there:,}{of} rows{more}",
            )
        )
