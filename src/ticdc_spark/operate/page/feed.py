"""The page of a changefeed: from its state folder, and from the reports of a run in this process."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from ticdc_spark.changefeed.progress import Owner, Stored, is_owned, read_owner, read_stored
from ticdc_spark.changefeed.report import Report
from ticdc_spark.config.durations import duration
from ticdc_spark.config.secrets import redact
from ticdc_spark.errors import EnvironmentFault
from ticdc_spark.mysql import tso_time
from ticdc_spark.operate.page.samples import Sample, Samples, lags, rates
from ticdc_spark.operate.page.view import (
    Chart,
    Fact,
    Facts,
    Grid,
    Head,
    Headline,
    Listing,
    Part,
    Query,
    Section,
    View,
    moment,
    steps_of,
)

LOOK_EVERY = 5.0
"""Least seconds between two looks at a folder, for any number of browsers."""
_POSITION = 1000
"""Characters of a position that are shown."""


class FeedSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a changefeed at one moment."""

    now: float
    name: str
    stored: Stored | None = None
    owner: Owner | None = None
    is_running: bool = False
    fault: str = ""
    """Why the state folder cannot be read."""
    report: Report | None = None
    """The last report of a run in this process."""
    samples: tuple[Sample, ...] = ()
    since: float | None = None


class FeedHistory:
    """Watches a run. Call it with each report. Threads may read it at any time."""

    def __init__(
        self,
        name: str,
        folder: Path,
        told: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``told``: called after each report; it must return at once."""
        self._name, self._folder, self._told, self._clock = name, folder, told, clock
        self._lock = threading.Lock()
        self._samples = Samples()
        self._report: Report | None = None
        self._since = clock()

    def __call__(self, report: Report) -> None:
        now = self._clock()
        with self._lock:
            if self._report is None or bool(self._report.outage) != bool(report.outage):
                self._since = now
            self._report = report
            self._samples.add(now, tso_time.lag(report.saved, now), report.rows)
        self._told()

    def seen(self) -> FeedSeen:
        """The current state of the changefeed."""
        with self._lock:
            report, samples, since = self._report, self._samples.all(), self._since
        found = _stored(self._name, self._folder, self._clock())
        return msgspec.structs.replace(found, is_running=True, report=report, samples=samples, since=since)


class FeedFolder:
    """A changefeed that another process runs, or none. Reads its state folder at most every ``LOOK_EVERY`` seconds."""

    def __init__(self, name: str, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._name, self._folder, self._clock = name, folder, clock
        self._lock = threading.Lock()
        self._samples = Samples()
        self._last: FeedSeen | None = None

    def seen(self) -> FeedSeen:
        """The current state of the changefeed."""
        now = self._clock()
        with self._lock:
            if self._last is None or now - self._last.now >= LOOK_EVERY:
                found = _stored(self._name, self._folder, now)
                if found.stored is not None:
                    self._samples.add(now, tso_time.lag(found.stored.commit_ts, now), found.stored.rows)
                # Checking the lock takes it for a moment, so it is done rarely.
                is_running = is_owned(self._folder)
                self._last = msgspec.structs.replace(found, is_running=is_running, samples=self._samples.all())
            return self._last


def _stored(name: str, folder: Path, now: float) -> FeedSeen:
    """The stored state of a changefeed."""
    try:
        return FeedSeen(now=now, name=name, stored=read_stored(folder), owner=read_owner(folder))
    except EnvironmentFault as fault:
        return FeedSeen(now=now, name=name, fault=redact(str(fault)))


def feed_view(seen: FeedSeen, query: Query, more: tuple[Section, ...] = ()) -> View:
    """The page of a changefeed at one moment. ``more``: further sections at the end."""
    return View(
        kind="changefeed",
        name=seen.name,
        headline=_headline(seen),
        at=moment(seen.now),
        sections=(
            Section(name="progress", title="Progress and lag", parts=_progress(seen)),
            Section(name="topics", title="Topics", parts=(_topics(seen, query),)),
            Section(name="tables", title="Tables that are still to be read", parts=_unread(seen)),
            *more,
        ),
    )


def _headline(seen: FeedSeen) -> Headline:
    report, since = seen.report, "" if seen.since is None else f"since {moment(seen.since)}"
    if seen.fault:
        return Headline(state="warning", tone="warn", reason=seen.fault)
    if report is not None and report.outage:
        steps = steps_of("make Kafka reachable; the changefeed continues by itself")
        reason = f"it waits for Kafka: {redact(report.outage)}"
        return Headline(state="warning", tone="warn", reason=reason, since=since, steps=steps)
    if seen.is_running:
        if seen.stored is None and report is None:
            return Headline(state="pending", tone="quiet", reason="it is starting", since=since)
        reading = f"reads {report.reading}" if report is not None and report.reading else "sends what comes"
        return Headline(state="normal", tone="good", reason=reading, since=since)
    if seen.stored is None:
        return Headline(
            state="pending", tone="quiet", reason="nothing is stored: it has not run", steps=steps_of("start it")
        )
    at = moment(seen.stored.saved_at)
    return Headline(state="stopped", tone="quiet", reason="no process runs it", since=f"last stored {at}")


def _progress(seen: FeedSeen) -> tuple[Part, ...]:
    stored, report = seen.stored, seen.report
    saved = report.saved if report is not None else stored.commit_ts if stored is not None else 0
    lag = tso_time.lag(saved, seen.now)
    nothing = "unknown" if seen.fault else "none yet"
    first = (
        Fact("sent up to", tso_time.utc(saved) if saved else nothing, more=f"commitTs {saved}" if saved else ""),
        Fact("lag", "" if lag is None else duration(lag)),
    )
    facts = (
        Fact("stored", f"{duration(max(0.0, seen.now - stored.saved_at))} ago" if stored is not None else ""),
        Fact("rows", f"{stored.rows:,} sent" if stored is not None else "", more="repetitions included"),
        Fact("speed", f"{report.rows_per_second:,.0f} rows/s" if report is not None else ""),
        Fact("not acknowledged", f"{report.waiting:,} rows" if report is not None and report.waiting else ""),
        Fact("source", redact(stored.source) if stored is not None else ""),
        Fact("position", redact(stored.position[:_POSITION]) if stored is not None else ""),
        Fact("process", _process(seen)),
    )
    return (
        Facts(first, "tiles"),
        Facts(facts),
        Chart(title="Lag", points=lags(seen.samples, seen.now, lag), unit="seconds"),
        Chart(title="Rows sent", points=rates(seen.samples), unit="a second"),
    )


def _process(seen: FeedSeen) -> str:
    if seen.owner is not None and seen.is_running:
        return f"{seen.owner.pid} on {seen.owner.host}"
    return str(os.getpid()) if seen.report is not None else ""


def _topics(seen: FeedSeen, query: Query) -> Listing:
    """Every partition has the same watermark: the stored commit_ts up to which everything was sent."""
    stored = seen.stored
    text = query.search.casefold().strip()
    every = sorted(stored.partitions.items()) if stored is not None else []
    fitting = [(topic, number) for topic, number in every if text in topic.casefold()]
    watermark = tso_time.utc(stored.commit_ts) if stored is not None else "-"
    rows = tuple(
        (topic, f"{number:,}", watermark) for topic, number in fitting[query.offset : query.offset + query.limit]
    )
    return Listing(
        query=query,
        grid=Grid(
            heads=(Head("Topic"), Head("Partitions", "number"), Head("Watermark of each", "time")),
            rows=rows,
            empty="no topic fits" if every else "nothing is sent yet",
        ),
        found=len(fitting),
    )


def _unread(seen: FeedSeen) -> tuple[Part, ...]:
    stored = seen.stored
    unread = () if stored is None else stored.unread
    there = None if stored is None else stored.reading
    rows = tuple(
        (".".join(name), f"{there.rows:,} rows sent" if there is not None and there.table == name else "waits")
        for name in unread[:50]
    )
    note = f"and {len(unread) - len(rows):,} more" if len(unread) > len(rows) else ""
    return (Grid(heads=(Head("Table"), Head("State")), rows=rows, empty="none", note=note),)
