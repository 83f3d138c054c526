"""Everything of one story while it runs: the source, TiCDC, Kafka, the laboratory, the job's process."""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from random import Random

import msgspec
from msgspec.structs import replace

from tests.simulator.broker import Broker
from tests.simulator.database import Database, Event, Live, Name, Uid
from tests.simulator.ddl import create_table
from tests.simulator.excuses import Excuses
from tests.simulator.faults import Died, Fault, Injector
from tests.simulator.letters import Letters, folded
from tests.simulator.seams import Clock, Copy, LabMaker, LakeTable, Process
from tests.simulator.setup import Setup
from tests.simulator.ticdc import TiCdc
from tests.simulator.wire import WIRES
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import TicdcSparkError

TAKE_OVER = 200.0
"""Seconds that an owner sleeps until another may take its lease: more than ttl and commit window together."""
_LIKE = re.compile(r"^CREATE TABLE .* LIKE `(\w+)`\.`(\w+)`$")
_SKIP = re.compile(r'skip-ddl = \["(\d+):((?:[^"\\]|\\.)*)"\]')


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that must never happen."""

    kind: str
    """``wrong data``, ``lost table``, ``unexpected exception`` …"""
    where: str
    """What distinguishes it from other findings of its kind: the top frame, the error's class, the condition."""
    detail: str

    @property
    def signature(self) -> str:
        return f"{self.kind}: {self.where}"


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of lake and state, and what the world knew then."""

    lake: Copy
    state: Copy
    started: bool
    murky: tuple[int, bool]
    """``murky_until`` and ``unfinished``."""


class Silent(Exception):
    """The story ends here, with a finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.signature)
        self.finding = finding


class World:
    """A story's world. Moves change it; ``batch`` runs the job."""

    def __init__(self, setup: Setup, make_lab: LabMaker) -> None:
        feed = setup.feed
        self.setup, self.job = setup, setup.job
        self.clock, self.injector, self.excuses = Clock(), Injector(), Excuses()
        self.database = Database(
            zone=feed.zone, plain=setup.plain, raw_key_changes=setup.raw_key_changes, generated=setup.generated
        )
        self.database.keyless = feed.keyless
        if feed.letters:
            self.database.letters = Letters(feed.letters, 11)
        self.broker = Broker(feed.partitions)
        self.schema_sql = self._begin()
        self.ticdc_started = self.database.ts
        """What came until then is not sent."""
        self.ticdc = TiCdc(feed, self.database, self.broker, start=len(self.database.events))
        self.excuse_local_keys()
        self.begun_at = self.database.ts
        """When a dump was made."""
        self.lab = make_lab(self.broker, self.clock, self.injector)
        if setup.job.snapshot:
            self.lab.show(self.database)
        self.process: Process | None = None
        self.owners = 0
        self.overtaken = False
        """Another owner took the lease of the process: it must end, at the latest before its next commit."""
        self.started = False
        """A process has begun to read."""
        self.murky_until = 0
        """After a batch that was not finished: until the job has applied this, tables may be dropped or named ahead."""
        self.unfinished = False
        """The last batch was interrupted."""
        self.fired: Fault | None = None
        """The fault by which the last batch ended in an error."""
        self.was_refused = False
        """The catalog refused a commit of the last batch, which ended in an error."""
        self.stops: list[str] = []
        """Errors that ended a process, in order: class and text."""
        self.last_stop: TicdcSparkError | None = None
        self.left_alone: dict[Name, LakeTable] = {}
        """Tables that no job made, made by hand: as long as ``adopt`` is not set, and nothing touches them."""
        self.in_lake: set[Name] = set()
        """Names that the lake had a table of after some batch."""
        self.was_clean: set[Name] = set()
        """Names of which a table counted as equal to the source after some batch."""
        self.models: dict[Uid, Uid] = {}
        """Tables that are made like another one."""
        self.removed: dict[Uid, str] = {}
        """Tables of which messages are gone from the topics, and why."""
        self.made_anew: dict[Uid, set[Name]] = {}
        """Tables a topic of which was made anew after the job had read it: the names for which it was."""
        self.backup = self.save()
        self.gone_topics: set[str] = set()
        """Topics that were deleted, and that the job does not need any more."""
        self._back: set[str] = set()
        self.draws: Counter[str] = Counter()
        """What ``draw_more`` draws: how often it happened."""
        self.batches = 0
        self.notes: list[str] = []
        """What moves did, for people."""
        if feed.lacks >= 0:
            self.excuses.disturb("a column selector")
            self.excuses.weak[feed.lacks] = "rows lack a column of it"
        if setup.job.tables:
            self.excuses.disturb("tables of the job file")
        if setup.job.topics is not None:
            self.excuses.disturb("topics of the job file")

    def _begin(self) -> str:
        """Make the tables that no DDL describes, and return their CREATE statements."""
        rand = Random(7)
        for _ in range(self.setup.tables_before):
            create_table(self.database, rand)
        for _ in range(self.setup.rows_before):
            self.database.transaction(rand)
        if not self.setup.job.snapshot or self.setup.job.snapshot_tables:  # a RENAME may take it out of these
            before = "it was there before the job's first message"
            self.excuses.weak.update({live.uid: before for live in self.database.now.values()})
        changes = [event.change for event in self.database.events if event.change is not None and event.change.name]
        letters = self.database.letters
        own = {} if letters is None else letters.databases
        schemas = [own.get(change.schema.lower(), change.schema) for change in changes]
        text = "".join(f"USE `{schema}`;\n{one.query};\n" for schema, one in zip(schemas, changes, strict=True))
        if text and not self.setup.no_schema_file and not WIRES[self.setup.feed.protocol].tells_tables:
            if self.setup.schema_file_late:
                self.excuses.disturb("no schema file")
            else:
                self.job = replace(self.job, schema_sql=text)
        return text

    # ---- backups

    def save(self) -> Backup:
        """A copy of lake and state, of one moment."""
        lake, state = self.lab.lake.save(), self.lab.state.save()
        return Backup(lake=lake, state=state, started=self.started, murky=(self.murky_until, self.unfinished))

    def restore(self) -> None:
        """Put the last backup in place of lake and state. The first one is empty: a job begins from scratch."""
        self.stop()
        self.lab.lake.restore(self.backup.lake)
        self.lab.state.restore(self.backup.state)
        self.started = self.backup.started
        self.murky_until, self.unfinished = self.backup.murky
        self.in_lake = set(map(folded, self.lab.lake.tables()))
        self.was_clean &= {name for name, table in self.lab.view().tables.items() if table.condition == "clean"}
        self.excuses.unsettled.update(self.uids())
        # Of a topic that the older state does not know, it cannot know either that it was another one.
        self.excuses.unknowable.update(
            uid for uid, names in self.made_anew.items() if names and not names & self.in_lake and self.is_renamed(uid)
        )
        topics = {topic for topic, _ in self.lab.view().offsets}
        self.excuses.unknowable.update(
            uid for uid in self.made_anew.keys() & self.read_in_full() if not self.ticdc.sent[uid].topics <= topics
        )
        for uid, why in self.removed.items():
            self.weaken({uid}, why)
        # Nor that a topic was there which is gone by now.
        gone = {uid for topic in self.gone_topics for uid, sent in self.ticdc.sent.items() if topic in sent.topics}
        self.excuses.unknowable.update(filter(self.is_renamed, gone))

    def read_in_full(self) -> set[Uid]:
        """Tables that the job reads from a dump, or may have read from the database by now."""
        match self.setup.job.snapshot:
            case "":
                return set()
            case "dump":
                return {live.uid for live in self.database.truth_at(self.begun_at).values()}
        return {uid for uid, sent in self.ticdc.sent.items() if sent.names & self.in_lake}

    # ---- the job

    def batch(self, most: int, fault: Fault | None = None) -> str:
        """Run one batch, in a new process where none runs. Returns ``committed``, ``nothing``, ``died`` or ``stopped``.

        Raises: Silent for an exception that no user should ever see.
        """
        self.clock.advance(0.5)
        self._note_topics_that_are_back()
        self.fired = None
        refused_before = self.refused_commits()
        self.injector.arm(fault, self._another_owner)
        try:
            if self.process is None:
                self.overtaken = False
                self.process = self._start()
            committed = self.process.batch(most)
        except Died as died:
            self.note(f"the process died at: {died}")
            self.process = None
            self.murky_until, self.unfinished = self.database.ts, True
            return "died"
        except TicdcSparkError as error:
            self.fired = self.injector.fired
            self.was_refused = self.refused_commits() > refused_before
            self.injector.arm(None)
            self._end(error)
            return "stopped"
        except Exception as error:
            raise Silent(unexpected(error)) from error
        finally:
            self.injector.arm(None)
        self.batches += committed
        self.unfinished = self.unfinished and not committed
        return "committed" if committed else "nothing"

    def _note_topics_that_are_back(self) -> None:
        """A topic that was deleted has messages again, of a new table: the job may take it for one that was made anew
        before it was read."""
        for topic in sorted(self.gone_topics & self.broker.topics.keys() - self._back):
            self._back.add(topic)
            self.excuses.disturb(f"topic {topic} is back")

    def stop(self) -> None:
        """End the process in order."""
        process, self.process = self.process, None
        if process is not None:
            try:
                process.stop()
            except TicdcSparkError as error:
                self.stops.append(f"{type(error).__name__}: {error}")

    def kill(self) -> None:
        """The process is killed between two batches."""
        if self.process is not None:
            self.process.kill()
            self.process = None

    def _start(self) -> Process:
        self.owners += 1
        if self.setup.dump_at_start and not self.started:
            self.lab.show(self.database)
            self.begun_at = self.database.ts
        process = self.lab.start(self.job, self.owners)
        if not self.started:
            self.started = True
            if self.job.starting == "latest":
                self.excuses.disturb("starting at the latest offsets")
                self.excuses.weak.update(dict.fromkeys(self.ticdc.sent, "it began before the job did"))
                # The DROP of those that are gone may have been passed over.
                there = {live.uid for live in self.database.now.values()}
                self.weaken(self.ticdc.sent.keys() - there, "it was dropped before the job began")
        return process

    def _end(self, error: TicdcSparkError) -> None:
        self.note(f"the job stopped: {type(error).__name__}: {error}")
        self.stops.append(f"{type(error).__name__}: {error}")
        self.last_stop = error
        self.murky_until, self.unfinished = self.database.ts, True
        self.stop()

    def _another_owner(self, fault: Fault) -> None:
        """While the process sleeps over a durable action, another takes its lease and works."""
        self.overtaken = True
        self.ticdc.flush(Random(fault.at))
        self.clock.advance(TAKE_OVER)
        try:
            other = self._start()
            for _ in range(fault.others):
                self.batches += other.batch(1000)
            other.stop()
        except TicdcSparkError as error:
            self.note(f"the other owner stopped: {type(error).__name__}: {error}")

    # ---- what moves look up

    def wanted(self, name: tuple[str, str]) -> bool:
        """Whether the job file's filter includes a table of this name."""
        return table_filter(self.job.tables)(*name)

    def has_read_of_table(self, topic: str) -> bool:
        """Whether the job has read a message of a topic that is about a table."""
        number, offsets = self.broker.topics[topic].id, self.lab.view().offsets
        return any(
            (name, number) == (topic, of) and offset < offsets.get((name, partition), 0) and bool(uids)
            for (name, of, partition, offset), uids in self.ticdc.owners.items()
        )

    def has_read(self, topic: str) -> bool:
        """Whether the job has read anything of a topic, so that it stops where more is gone."""
        return self.started and topic in self.lab.view().read

    def known(self, uid: Uid) -> bool:
        """Whether the topics have had any message about a table."""
        return uid in self.ticdc.sent

    def all_read(self, uid: Uid) -> bool:
        """Whether every topic that ever had a message about a table is one of the job's, and about the one that it is
        made like."""
        topics, model = self.job.topics, self.models.get(uid)
        if topics is None:
            return True
        return self.ticdc.sent[uid].topics <= set(topics) and (model not in self.ticdc.sent or self.all_read(model))

    def is_unknowable(self, uid: Uid) -> bool:
        """Whether no job could see that something of a table is gone."""
        return uid in self.excuses.unknowable or uid in self.ticdc.unnamed or self.ticdc.is_hidden(uid)

    def is_renamed(self, uid: Uid) -> bool:
        """Whether messages have had several names of a table."""
        return len(self.ticdc.sent[uid].names) > 1

    def note_model(self, event: Event) -> None:
        """A table that is made like another one is to the job what that one is."""
        found = None if event.change is None else _LIKE.search(event.change.query)
        if found is None:
            return
        model = self.database.now.get(folded((found[1], found[2])))
        drops = self.database.hidden_drops
        for uid in event.uids if model is not None else ():
            self.models[uid] = model.uid
            if model.uid in drops:
                drops[uid] = [(event.ts, name) for _, name in drops[model.uid]]

    def weaken(self, uids: Iterable[Uid], why: str) -> None:
        """Excuse any condition but ``clean`` of tables, also once they are gone: their DROP may be what was removed."""
        for uid in uids:
            self.excuses.weak[uid] = why
            if uid in self.ticdc.sent:
                self.excuses.weak_names.update(self.ticdc.sent[uid].names)

    def excuse_local_keys(self) -> None:
        """A TIMESTAMP in a key, sent as local time, may be two times where clocks are set back: the job may stop."""
        feed = self.setup.feed
        if feed.zone != "America/New_York" or not WIRES[feed.protocol].local_times:
            return
        for live in self.database.now.values():
            if any(item.kind == "timestamp" for item in live.specs if item.column.name in live.keys):
                self.excuses.bad_messages = True
                self.excuses.disturb("a TIMESTAMP key in local time", live.uid)

    def named(self, name: Name) -> set[Uid]:
        """Every table that ever had a name."""
        return {uid for event in self.database.events for uid, had in event.live if had == name}

    def uids(self) -> list[Uid]:
        """Every table that ever was."""
        return list(self.database.versions)

    def live(self, rand: Random) -> Live | None:
        """Any table that exists now."""
        return rand.choice(tuple(self.database.now.values())) if self.database.now else None

    def proposed_skip(self) -> SkipDdl | None:
        """The line that the last stop proposes."""
        found = _SKIP.search(str(self.last_stop or ""))
        if found is None:
            return None
        return SkipDdl(int(found[1]), re.sub(r"\\(.)", r"\1", found[2]))

    def all_draws(self) -> Counter[str]:
        """What ``draw_more`` draws: how often it happened in this story."""
        draws = Counter(self.draws)
        if self.database.letters is not None:
            where = self.database.letters.where
            draws[f"stories with letters in {where}"] += 1
            draws["names in other letters"] += self.database.letters.typed
        if self.ticdc.lacked:
            draws["stories with a column selector"] += 1
            draws["rows that lack a column"] += self.ticdc.lacked
        files = getattr(self.lab, "files", None)
        if files is not None and self.setup.job.row_deltas:
            draws["stories with files"] += 1
            draws["files committed"] += len(files.committed)
            draws["files orphaned"] += files.orphans()
            draws["commits that met another writer"] += files.raced
            draws["commits refused by the catalog"] += files.refused
        return draws

    def refused_commits(self) -> int:
        """How many commits the catalog has refused."""
        return getattr(getattr(self.lab, "files", None), "refused", 0)

    def note(self, text: str) -> None:
        """Add a line to what the current move did."""
        self.notes.append(text)


def unexpected(error: BaseException) -> Finding:
    """A finding from an exception that is none of the product's."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "ticdc_spark" in PurePath(frame.filename).parts
    ]
    frames = frames or traceback.extract_tb(error.__traceback__)[-1:]
    top = frames[-1]
    where = f"{type(error).__name__} in {PurePath(top.filename).name}:{top.name}"
    detail = "".join(traceback.format_exception(error, limit=-6)).strip()
    return Finding(kind="unexpected exception", where=where, detail=detail)
