"""A database that changes while its tables are read for a changefeed that dies, in memory and from a seed.

What decides is real: rounds, their plan, the state folder, the rules and the sequence. The database, Kafka and the
tasks are not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from threading import Event
from typing import Any, NamedTuple

from msgspec.structs import replace

from tests.changefeed.database import Database, PresentNow, Tables
from tests.changefeed.world import Wrong
from ticdc_spark import failpoints
from ticdc_spark.capture.base import CaptureState, Resolved
from ticdc_spark.changefeed import loop
from ticdc_spark.changefeed.actions import Cadence, Place, Save, SendDdl, SendRows, SendWatermark
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.progress import StateFolder
from ticdc_spark.changefeed.route import Placer
from ticdc_spark.changefeed.sequence import Sequencer
from ticdc_spark.changefeed.snapshot.plan import PartSent
from ticdc_spark.changefeed.snapshot.reads import TableReads
from ticdc_spark.changefeed.snapshot.requests import request_tables
from ticdc_spark.changefeed.snapshot.send import SendJob
from ticdc_spark.changefeed.topics import TopicFacts
from ticdc_spark.model import RowChange, SchemaChange, TableName

FEED = '[sink]\ndispatchers = [{matcher = ["*.*"], partition = "index-value"}]\n'


class Death(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


class Sent(NamedTuple):
    """A message in a partition: a row, a DDL, or a watermark."""

    what: RowChange | SchemaChange | int
    life: int


class Reading:
    """Runs a changefeed over a database until all is sent, with deaths, and judges what is in its topic."""

    def __init__(self, seed: int, folder: Path, *, deaths: int = 4) -> None:
        rand = self._rand = Random(seed)
        self.database = Database(rand)
        file = folder / "feed.toml"
        file.write_text(FEED)
        uri = "kafka://nowhere:9092/main?protocol=canal-json&enable-tidb-extension=true"
        more = {"snapshot": rand.choice(("initial", "initial", "never"))}
        self._changefeed = load_changefeed(file, uri, more)
        small = replace(self._changefeed.snapshot, parallelism=rand.randint(1, 3), chunk_rows=rand.randint(1, 5))
        self._changefeed = replace(self._changefeed, snapshot=small)
        self._state = folder / "state"
        self._deaths = rand.randint(0, deaths)
        self._asks = rand.randint(1, 3) if more["snapshot"] == "never" else rand.randint(0, 1)
        self.logs: dict[Place, list[Sent]] = {("main", number): [] for number in range(3)}
        self.life = 0
        self._complete = more["snapshot"] == "initial"

    # Topics

    def facts(self, topic: str) -> TopicFacts:
        return TopicFacts(3, 3, 10**6)

    def partitions(self, topic: str) -> int:
        return 3

    def used(self) -> dict[str, int]:
        return {}

    # The tasks

    def __call__(self, job: SendJob) -> Sequence[PartSent]:
        placer, found = Placer(self._changefeed, job, job.rules), []
        for part in self._rand.sample([*enumerate(job.parts)], len(job.parts)):
            self.database.change()
            found.append((part[0], self._send(job, placer, part[1])))
            self._may_die()
        return [sent for _, sent in sorted(found)]

    def _send(self, job: SendJob, placer: Placer, part: Any) -> PartSent:
        name = (part.found.table.schema, part.found.table.name)
        if repr(self.database.live.get(name)) != part.found.create:
            return PartSent(moved="it was altered")
        if str(self.database.ids[name]) != part.found.identity:
            return PartSent(moved="it is another table")
        low, high = (None if end is None else int(str(end[0])) for end in (part.of.above, part.of.upto))
        rows = [
            dict(row)
            for key, row in self.database.rows[name].items()
            if (low is None or int(key) > low) and (high is None or int(key) <= high)
        ]
        for place, change in placer.inserts(part.found.table, rows, job.base):
            self.logs[place].append(Sent(change, self.life))
        return PartSent(rows=len(rows))

    def close(self) -> None:
        return

    def _may_die(self, chance: float = 0.1) -> None:
        if self._deaths > 0 and self._rand.random() < chance:
            self._deaths -= 1
            raise Death

    # The process

    def run(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(os, "fsync", lambda _: None)
        monkeypatch.setattr(failpoints, "point", lambda name: self._may_die(0.05 if name == "wave" else 0.01))
        for _ in range(40):
            self.life += 1
            try:
                with StateFolder(
                    self._state, changefeed="feed", target="main", protocol="simple", source="binlog"
                ) as folder:
                    self._live(folder)
                return
            except Death:
                self.database.change()
        raise Wrong("it does not come to an end")

    def _live(self, folder: StateFolder) -> None:
        reads = TableReads(self._changefeed, "mysql://root@nowhere", self, lambda: PresentNow(self.database))
        loop.begin(self.database, folder, None, reads)  # type: ignore[arg-type]
        for _ in range(200):
            reads.finish_round(folder, self, Event(), lambda _: None)  # type: ignore[arg-type]
            if folder.reading.base:
                raise Wrong("a round that is not over")
            if not self._stream(folder, reads):
                return
            reads.begin_round(folder, self)  # type: ignore[arg-type]
        raise Wrong("rounds without end")

    def _stream(self, folder: StateFolder, reads: TableReads) -> bool:
        """Send changes; whether a round is due."""
        loaded = folder.load()
        assert loaded is not None
        placer = Placer(self._changefeed, self)
        sequencer = Sequencer(
            loaded[0], placer, Cadence(ddl_to_first_partition=True), 0.0, consistent_from=folder.reading.settles
        )
        source, now, paused, ended, quiet = self.database.read(loaded[0]), 0.0, False, False, 0
        for step in range(3000):
            now += self._rand.choice((0.05, 0.4, 1.2))
            if step < 60:
                self.database.change(2)
            else:
                self.database.clock += 1
            if self._asks and self._rand.random() < 0.05 and self.database.live:
                self._asks -= 1
                request_tables(self._state, [self._rand.choice([*self.database.live])])
            for _ in range(self._rand.choice((0, 1, 4))):
                if ended or not sequencer.wants():
                    break
                element = next(source)
                sequencer.offer(placer.route(element))
                if isinstance(element, Resolved):
                    break
            while actions := sequencer.actions(now):
                for action in actions:
                    self._do(action, sequencer, folder)
            if sequencer.done:
                return paused
            if not ended and reads.is_due(sequencer.saved_state, folder):
                paused = ended = True
                sequencer.end()
            saved = sequencer.saved_state
            behind = saved.position != str(len(self.database.log)) or saved.commit_ts < folder.reading.settles
            quiet = 0 if behind or saved.unread or step < 60 else quiet + 1
            if quiet > 3 and not ended:
                ended = True
                sequencer.end()
        raise Wrong("the changes do not come to an end")

    def _do(self, action: Any, sequencer: Any, folder: StateFolder) -> None:
        match action:
            case Save():
                folder.save(action.state, {}, 0)
                sequencer.saved(action.state)
            case SendRows():
                self.logs[action.place] += [Sent(change, self.life) for change in action.changes]
                sequencer.acknowledge(action.ticket)
                self._may_die(0.02)
            case SendDdl():
                for place in action.places:
                    self.logs[place].append(Sent(action.change, self.life))
                sequencer.acknowledge(action.ticket)
            case SendWatermark():
                self._check(action.commit_ts, sequencer.saved_state)
                for place in action.places:
                    self.logs[place].append(Sent(action.commit_ts, self.life))
                sequencer.acknowledge(action.ticket)

    # What a consumer has

    def _check(self, watermark: int, state: CaptureState) -> None:
        """What lies below a watermark is the database at its place, but for tables that are not read yet."""
        truth = self.database.contents(state.position)
        if not self._complete:
            return
        there = self.folded(watermark)
        for name, rows in truth.items():
            if name not in state.unread and there.get(name, {}) != rows:
                raise Wrong(f"below watermark {watermark} {name} is {there.get(name)}, and was {rows}")

    def folded(self, below: int) -> Tables:
        """Everything below a commit_ts, merged by key in the order of the commit_ts."""
        found: Tables = {}
        columns = {name: [column.name for column in table.columns] for name, table in self.database.begun.items()}
        seen: set[tuple[int, TableName]] = set()
        ddls: list[SchemaChange] = []
        events = [one.what for log in self.logs.values() for one in log if not isinstance(one.what, int)]
        events = [one for one in events if one.commit_ts < below]
        for one in sorted(events, key=_order):
            if ddls and (isinstance(one, RowChange) or one.commit_ts != ddls[0].commit_ts):
                _alter(found, columns, ddls)
                ddls = []
            if isinstance(one, RowChange):
                rows, key = found.setdefault((one.table.schema, one.table.name), {}), lambda row: str(row["id"])
                if one.before is not None:
                    rows.pop(key(one.before), None)
                if one.after is not None:
                    if [*one.after] != columns[one.table.schema, one.table.name]:
                        raise Wrong(
                            f"a row at {one.commit_ts} with other columns than {one.table.name} has: {one.after}"
                        )
                    rows[key(one.after)] = dict(one.after)  # type: ignore[arg-type]
            elif (place := (one.commit_ts, (one.schema, one.name))) not in seen:
                seen.add(place)
                ddls.append(one)
        _alter(found, columns, ddls)
        return found

    def check_logs(self) -> None:
        """No row below a watermark before it; in one life of the process rows are in order."""
        for place, log in self.logs.items():
            mark, life, ts = 0, 0, 0
            for what, lived in log:
                if isinstance(what, int):
                    if what < mark:
                        raise Wrong(f"watermarks of {place} go back")
                    mark = what
                    continue
                if what.commit_ts < mark:
                    raise Wrong(f"{place}: {what.commit_ts} after the watermark {mark}")
                if lived == life and what.commit_ts < ts:
                    raise Wrong(f"{place}: {what.commit_ts} after {ts}")
                life, ts = lived, what.commit_ts

    def check_end(self) -> None:
        if not self._complete:
            return
        found, truth = self.folded(2**63), self.database.rows
        for name, rows in truth.items():
            if found.get(name, {}) != rows:
                raise Wrong(f"{name} is {found.get(name)}, and should be {rows}")
        last = max(one.what for log in self.logs.values() for one in log if isinstance(one.what, int))
        if last <= max(
            one.what.commit_ts for log in self.logs.values() for one in log if not isinstance(one.what, int)
        ):
            raise Wrong("no watermark at the end")


def _order(event: RowChange | SchemaChange) -> tuple[int, int]:
    return event.commit_ts, (event.op != "delete") if isinstance(event, RowChange) else 2


def _alter(found: Tables, columns: dict[TableName, list[str]], ddls: Sequence[SchemaChange]) -> None:
    """What one statement does to tables, which may exchange their names by it."""
    old = [found.pop((one.pre_table.schema, one.pre_table.name), {}) if one.pre_table else {} for one in ddls]
    for one, rows in zip(ddls, old, strict=True):
        if (after := one.table) is not None:
            names = columns[after.schema, after.name] = [column.name for column in after.columns]
            kept = {key: {name: row.get(name) for name in names} for key, row in rows.items()}
            found[after.schema, after.name] = kept
