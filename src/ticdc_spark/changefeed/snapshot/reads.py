"""Decides which tables of a changefeed are read, and when: at its beginning, or on request while it runs.

Tables are read in rounds (``rounds``). Between rounds, changes are sent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from threading import Event

from msgspec.structs import replace

from ticdc_spark.capture.base import CaptureState
from ticdc_spark.capture.binlog.connection import Backoff
from ticdc_spark.capture.binlog.uri import parse_uri
from ticdc_spark.capture.snapshot.present import PresentTables, ServerTables
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.progress import StateFolder
from ticdc_spark.changefeed.report import Show
from ticdc_spark.changefeed.sent import SentCounts
from ticdc_spark.changefeed.snapshot.announce import Announcer
from ticdc_spark.changefeed.snapshot.fence import take_over
from ticdc_spark.changefeed.snapshot.note import ReadNote
from ticdc_spark.changefeed.snapshot.plan import readable, why_never
from ticdc_spark.changefeed.snapshot.requests import requested, taken
from ticdc_spark.changefeed.snapshot.rounds import Outlet, Round, Sender
from ticdc_spark.changefeed.topics import Topics
from ticdc_spark.errors import SourceFault
from ticdc_spark.model import TableName

_LOG_AGAIN = 60.0
_RETRY = 600.0
"""Seconds for which a server that does not answer is retried, as for its binlog."""
_LOG = logging.getLogger(__name__)


class TableReads:
    """Reads the tables of one changefeed, for one process."""

    def __init__(
        self,
        changefeed: Changefeed,
        uri: str,
        sender: Sender | None = None,
        tables: Callable[[], PresentTables] | None = None,
    ) -> None:
        """``uri``: the server's. ``sender``: of waves; ``None``: Spark, once needed. Raises: UsageError"""
        self._changefeed, self._given, self._ours = changefeed, sender, sender is None
        self._server = parse_uri(uri)
        self._open: Callable[[], PresentTables] = tables or partial(ServerTables, uri)
        self._rules = Router(changefeed)
        self._since = 0
        """No row that an earlier process sent is newer."""
        self._logged: dict[TableName, float] = {}

    def close(self) -> None:
        """Release Spark."""
        if self._ours and self._given is not None:
            self._given.close()

    def first(self, state: CaptureState) -> tuple[CaptureState, ReadNote]:
        """The state of a new changefeed, with the tables to read first.

        Raises: UsageError for a missing grant; SourceFault
        """
        if self._changefeed.snapshot.mode == "never":
            return state, ReadNote()
        with closing(self._open()) as tables:
            tables.check()
        chosen = []
        for table in sorted(state.tables, key=lambda table: table.full_name):
            if self._rules.tables.why_not_named(table.schema, table.name):
                continue
            why = why_never(table, self._rules.tables.why_left_out)
            if why:
                _LOG.warning("`%s`.`%s`: its existing rows are not sent: %s", table.schema, table.name, why)
            else:
                chosen.append(table.full_name)
        return replace(state, unread=tuple(chosen)), ReadNote(base=state.commit_ts, first=True)

    def is_due(self, state: CaptureState, folder: StateFolder) -> bool:
        """Whether a round should begin now, with ``state`` stored. Raises: EnvironmentFault, UsageError"""
        wanted = bool(requested(folder.path))
        if not state.unread and not wanted:
            return False
        try:
            with closing(self._open()) as tables:
                self._since = self._since or tables.now()
                if state.commit_ts < max(self._since, folder.reading.settles):
                    return False
                return wanted or self._has_work(state, tables)
        except SourceFault as fault:
            _LOG.debug("%s", fault)
            return False

    def begin_round(self, folder: StateFolder, topics: Topics) -> None:
        """Open a round. Everything that was taken must be sent and stored. Raises: EnvironmentFault, DecisionNeeded"""
        loaded = folder.load()
        assert loaded is not None, "the changefeed has begun"
        state = loaded[0]
        requests = requested(folder.path)
        names = dict.fromkeys((*state.unread, *(name for _, wanted in requests for name in wanted)))
        # a sent watermark says that everything below it was sent, so rows with the state's own commit_ts would be late;
        # and rows of the last DDL may already have the next version
        state = replace(state, commit_ts=state.commit_ts + 2, unread=tuple(names))
        folder.save(state, topics.used(), 0, replace(folder.reading, base=state.commit_ts, tables=None, first=False))
        taken(requests)

    def finish_round(
        self, folder: StateFolder, topics: Topics, stop: Event, show: Show, counts: SentCounts | None = None
    ) -> tuple[int, int]:
        """Finish an open round, also of an earlier process. Does nothing if none is open. ``counts``: to which it adds.

        A server that does not answer is retried. Returns: how many rows and messages were sent.

        Raises: EnvironmentFault, UsageError, DecisionNeeded
        """
        backoff, failing_since, counts = Backoff(), 0.0, counts or SentCounts()
        rows = messages = 0
        while (state := _open_round(folder)) is not None:
            before = folder.reading
            try:
                token = take_over(folder.path, stop.is_set)
                if token is None:
                    break
                with ExitStack() as stack:
                    tables = stack.enter_context(closing(self._open()))
                    announcer = stack.enter_context(Announcer(self._changefeed, self._rules, topics))
                    outlet = Outlet(
                        changefeed=self._changefeed,
                        rules=self._rules,
                        server=self._server,
                        folder=folder,
                        topics=topics,
                        announcer=announcer,
                        sender=self._sender(),
                        token=token,
                    )
                    round_ = Round(outlet, state, tables, show, counts)
                    try:
                        round_.work(stop.is_set)
                    finally:
                        rows, messages = rows + round_.rows, messages + round_.messages
                if stop.is_set():
                    break
                if not round_.unread:
                    self.close()  # a changefeed runs for long, and Spark takes much memory
            except SourceFault as fault:
                if folder.reading != before or not failing_since:
                    failing_since = time.monotonic()
                    backoff.reset()
                if time.monotonic() - failing_since > _RETRY:
                    raise
                counts.retries["SourceFault"] += 1
                for _ in backoff.waits(fault):
                    if stop.is_set():
                        raise
        return rows, messages

    def _sender(self) -> Sender:
        if self._given is None:
            from ticdc_spark.changefeed.snapshot.tasks import SparkSender  # imports Spark

            self._given = SparkSender(self._changefeed)
        return self._given

    def _has_work(self, state: CaptureState, tables: PresentTables) -> bool:
        known = {table.full_name: table for table in state.tables}
        for name in state.unread:
            if why_never(known.get(name), self._rules.tables.why_left_out):
                return True  # to be forgotten
            found, why = readable(name, known[name], tables)
            if found:
                return True
            if time.monotonic() - self._logged.get(name, float("-inf")) > _LOG_AGAIN:
                self._logged[name] = time.monotonic()
                _LOG.info("`%s`.`%s` is not read yet: %s", *name, why)
        return False


def _open_round(folder: StateFolder) -> CaptureState | None:
    """The state of a round that is still open. Raises: EnvironmentFault, DecisionNeeded"""
    loaded = folder.load()
    base = folder.reading.base
    return None if loaded is None or not base or base != loaded[0].commit_ts else loaded[0]
