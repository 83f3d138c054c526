"""The binlog of a MySQL-compatible server as a source of changes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from ticdc_spark.capture.base import Captured, CaptureState, Resolved
from ticdc_spark.capture.binlog.assemble import Assembler
from ticdc_spark.capture.binlog.checks import (
    check_prepared,
    check_same_server,
    check_server,
    check_settings,
    warn_of_cascades,
)
from ticdc_spark.capture.binlog.connection import Backoff, Connection
from ticdc_spark.capture.binlog.dump import Dump
from ticdc_spark.capture.binlog.position import Place, Position, read_position, write_position
from ticdc_spark.capture.binlog.row_events import RowEvents
from ticdc_spark.capture.binlog.schemas import read_charsets, read_tables
from ticdc_spark.capture.binlog.server import Facts, now_ms, place_now, read_facts
from ticdc_spark.capture.binlog.since import statements_since
from ticdc_spark.capture.binlog.unlogged import Unlogged, hidden_writes
from ticdc_spark.capture.binlog.uri import parse_uri
from ticdc_spark.capture.binlog.wire.events import Kind
from ticdc_spark.capture.binlog.written import Written
from ticdc_spark.capture.table_ids import first_ids
from ticdc_spark.errors import SourceFault
from ticdc_spark.mysql import tso

_RESOLVED_SECONDS = 0.5
_HEARTBEATS = (Kind.HEARTBEAT, Kind.HEARTBEAT_2)
_BEGINS = (Kind.GTID, Kind.ANONYMOUS_GTID, Kind.GTID_TAGGED)
_TRIES = 20
_RETRY_SECONDS = 600.0
"""How long a server that cannot be reached is retried."""


def _everything(schema: str, name: str) -> bool:
    return True


class BinlogCapture:
    """A ``Capture`` of all tables of a server except its system tables."""

    def __init__(self, uri: str, *, wanted: Callable[[str, str], bool] = _everything) -> None:
        """``wanted``: (schema, table) → whether its rows are needed. Other rows are not read; their DDL is given.

        Raises: UsageError for a wrong URI, or without PyMySQL.
        """
        self._server = parse_uri(uri)
        self._server_id = self._server.server_id or random.randrange(1 << 30, 1 << 31)
        self._wanted = wanted
        self._dump: Dump | None = None
        self._closed = False
        self._clock = (0.0, 0.0)
        self.retries = 0

    def begin(self) -> CaptureState:
        with Connection(self._server) as connection:
            facts = read_facts(connection, self._server)
            check_server(connection, self._server, facts)
            check_prepared(connection, self._server)
            warn_of_cascades(connection, self._server, self._wanted)
            for _ in range(_TRIES):
                before = place_now(connection, facts)
                tables = read_tables(connection, self._wanted, mariadb=facts.mariadb)
                charsets = read_charsets(connection)
                after = place_now(connection, facts)
                if before == after or not self._has_ddl(before, facts):
                    physical = now_ms(connection) // 1000 * 1000
                    position = Position(server=facts.identity, place=after, created=self._made(after, facts))
                    commit_ts = tso(physical) - 1
                    return CaptureState(
                        position=write_position(position),
                        commit_ts=commit_ts,
                        tables=first_ids(tables, commit_ts),
                        last_table_id=len(tables),
                        charsets=charsets,
                    )
        raise SourceFault(f"{self._server.where}: tables keep changing, so their schemas cannot be read at one moment")

    def read(self, state: CaptureState) -> Iterator[Captured]:
        backoff, failing_since = Backoff(), 0.0
        while not self._closed:
            assembler: Assembler | None = None
            try:
                with Connection(self._server) as connection:
                    facts = read_facts(connection, self._server)
                    check_settings(connection, self._server, facts)
                    check_same_server(connection, self._server, facts, read_position(state.position))
                    self._clock = (now_ms(connection) / 1000, time.monotonic())
                    assembler = self._assembler(state, facts)
                for captured in self._captured(assembler, facts):
                    failing_since = 0.0
                    backoff.reset()
                    yield captured
            except SourceFault as error:
                if self._closed:
                    return
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > _RETRY_SECONDS:
                    raise
                self.retries += 1
                state = state if assembler is None else assembler.state()
                for _ in backoff.waits(error):
                    if self._closed:
                        return
                    yield Resolved(commit_ts=state.commit_ts, position=state.position)

    def close(self) -> None:
        self._closed = True
        if self._dump is not None:
            self._dump.interrupt()

    def _assembler(self, state: CaptureState, facts: Facts) -> Assembler:
        events = RowEvents(
            facts=facts,
            wanted=self._wanted,
            max_bytes=self._server.max_transaction_bytes,
        )
        unlogged = Unlogged(self._wanted, facts.names, self._hidden_writes)
        return Assembler(state, facts, events, unlogged, frozenset(self._server.skip))

    def _hidden_writes(self, written: Written) -> str:
        with Connection(self._server) as connection:
            return hidden_writes(connection, written)

    def _captured(self, assembler: Assembler, facts: Facts) -> Iterator[Captured]:
        dump = self._dump = Dump(
            self._server, assembler.begin, self._server_id, mariadb=facts.mariadb, heartbeat=_RESOLVED_SECONDS
        )
        given = time.monotonic()
        # MySQL skips by GTID what was already read, and then sends a heartbeat at the very place where reading resumes.
        # Before anything else was sent, this heartbeat looks like the end, but is not.
        passed = facts.mariadb
        try:
            for event in dump.events():
                if self._closed:
                    return
                if event.kind in _HEARTBEATS:
                    at_end = assembler.is_end(dump.file, event.end)
                    passed = passed or (at_end and self._ends_at(dump.file, event.end, facts))
                    at_end = at_end and passed
                    given = time.monotonic()
                    yield assembler.resolved(self._clock_ts() if at_end else 0)
                    continue
                passed = passed or event.kind in _BEGINS
                yield from assembler.feed(event, dump.file, dump.origin)
                now = time.monotonic()
                if now - given >= _RESOLVED_SECONDS:
                    given = now
                    yield assembler.resolved()
        finally:
            self._dump = None
            dump.close()

    def _ends_at(self, file: str, offset: int, facts: Facts) -> bool:
        """Whether the server's binlog ends there."""
        with Connection(self._server) as connection:
            end = place_now(connection, facts)
        return (end.file, end.offset) == (file, offset)

    def _clock_ts(self) -> int:
        """A TSO just below the server's previous whole second. Everything that commits from now on has a later time."""
        server, ours = self._clock
        return tso((int(server + time.monotonic() - ours) - 1) * 1000) - 1

    def _made(self, place: Place, facts: Facts) -> int:
        """When the server created the file of ``place``, in seconds since 1970; 0: unknown."""
        begin = Place(place.file, 4)
        dump = Dump(
            self._server, begin, self._server_id, mariadb=facts.mariadb, heartbeat=_RESOLVED_SECONDS, wait=False
        )
        try:
            return next((event.timestamp for event in dump.events() if event.kind == Kind.FORMAT_DESCRIPTION), 0)
        finally:
            dump.close()

    def _has_ddl(self, place: Place, facts: Facts) -> bool:
        """Whether a statement that may change tables is between ``place`` and the end."""
        return any(True for _ in statements_since(self._server, place, self._server_id, facts))
