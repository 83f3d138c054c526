"""A shop whose changes are replicated: its changefeed, the job, and what the operator of the job does and sees."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.memory_sink.letters import open_letters
from tests.memory_sink.rows import MemoryRows
from tests.memory_sink.sink import MemorySink
from tests.simulator.database import Database, Live
from tests.simulator.faults import Died, Fault
from tests.simulator.job_lab import BrokerSource, Fence, JobLab
from tests.simulator.seams import Clock, Copy, LakeTable, TableView
from tests.simulator.setup import JobSetup, job_of, scratch_folder, with_keys
from tests.simulator.snapshots import DatabaseView
from tests.support.changefeed import SCHEMA, Changefeed
from tests.support.faults import Faults
from ticdc_spark.capture.snapshot.base import SnapshotReader
from ticdc_spark.changes.opening import Opening
from ticdc_spark.ddl import Comments
from ticdc_spark.mysql import handle_key
from ticdc_spark.operate.requests import diverged, rebuild_from_topic, rebuild_of
from ticdc_spark.replicate.pipeline import OpenJob
from ticdc_spark.replicate.resources import Resources
from ticdc_spark.replicate.state.requests import Clear, Repair
from ticdc_spark.replicate.step import Steps
from ticdc_spark.sinks.recorded import of_job

_FOLDER = scratch_folder("shop")
_OF_SETUP = {field.name for field in msgspec.structs.fields(JobSetup)}


class Shop(Changefeed):
    """A changefeed, and one job over a lake and a state in memory. ``job``: keys of the job file."""

    make_rows: Callable[[Any, Opening], MemoryRows] = MemoryRows
    """How the job reads the rows of its topics."""

    def __init__(
        self, protocol: str = "simple", *, zone: str = "UTC", topic_per_table: bool = False, **job: Any
    ) -> None:
        super().__init__(protocol, zone, topic_per_table=topic_per_table)
        self.clock, self.faults = Clock(), Faults()
        self.lab = JobLab(self.broker, self.clock, self.faults)
        self.setup = JobSetup(protocol=protocol, source_timezone=zone)
        self.keys: dict[str, Any] = {}
        """Keys of the job file that ``JobSetup`` does not have."""
        self.comments: dict[str, Comments] = {}
        """Of columns, by their tables: what a full read sees."""
        self.steps: Steps | None = None
        self.fence: Fence | None = None
        self.configure(**job)

    # ---- the job

    def start(self) -> None:
        """Start a process. Raises: as ``Steps``"""
        self.stop()
        self.clock.advance(1.0)
        self.fence = self.lab.lease.take(self.lab.state, self.clock, 1)
        job = with_keys(job_of(self.setup, _FOLDER), **self.keys)
        source = self.open_source()
        try:
            self.steps = Steps(
                OpenJob(
                    job=job,
                    resources=Resources(
                        source=source,
                        sink=of_job(MemorySink(self.lab.tables, self.fence.check), job),
                        rows=self.make_rows(source, Opening(protocol=self.wire.name)),
                        letters=open_letters(self.lab.tables, job.name, self.fence.check),
                        store=self.fence.store,
                        reader=self.reader(),
                    ),
                    protocol=self.wire.name,
                    clock=lambda: self.clock.now,
                )
            )
        except BaseException:
            self.stop()
            raise

    def open_source(self) -> Any:
        """The source, as a new process opens it."""
        return BrokerSource(self.broker, self.setup)

    def batch(self, rows: int = 100_000) -> None:
        """One batch of at most so many messages, in a new process where none runs. Raises: as ``Steps.batch``"""
        if self.steps is None:
            self.start()
        assert self.steps is not None
        job = msgspec.structs.replace(self.steps.open.job, batch_rows=rows)
        self.steps.open = dataclasses.replace(self.steps.open, job=job)
        self.clock.advance(1.0)
        try:
            self.steps.take_requests()
            self.steps.load(lambda _phase, _batch: None)
            self.steps.batch(None, lambda _phase, _batch: None)
        except BaseException:
            self.stop()
            raise

    def run(self, rows: int = 100_000, *, again: bool = False) -> None:
        """Batches until everything that was sent is read. ``again``: in a new process."""
        if again:
            self.start()
        for _ in range(60):
            self.batch(rows)
            assert self.steps is not None
            known = {(one.topic, one.partition): one.offset for one in self.steps.progress.partitions}
            if all(known.get(at, 0) == end for at, end in self.steps.source.end_offsets().items()):
                return
        raise AssertionError("the job does not come to an end")

    def reader(self) -> DatabaseView | None:
        """Of whole tables, as they are now: what changes later is not seen."""
        live = ShopTables(self)
        database = cast(Database, SimpleNamespace(now=live.now, events=live.events, meanwhile=None))
        return DatabaseView(database, "now", 0) if self.setup.snapshot else None

    def rebuild(self, table: str) -> None:
        """``ticdc-spark rebuild`` of a table; a job that runs goes on."""
        self.ask_for(f"{SCHEMA}.{table}")

    def ask_for(self, table: str) -> None:
        """The same, of a table as the command names it."""
        reader, job = self.reader(), with_keys(job_of(self.setup, _FOLDER), **self.keys)
        assert reader is not None, "the job has a section [snapshot]"
        self.lab.state.ask(rebuild_of(job, self.lab.state.load(), [table], reader))
        self.follow_source()

    def repair(self, table: str, *keys: str) -> None:
        """``ticdc-spark verify --repair`` of the rows with these values of ``id``; a job that runs goes on."""
        images = tuple(msgspec.json.encode({"id": key}).decode() for key in keys)
        self.lab.state.ask(Repair(tables=((SCHEMA, table),), keys=images))
        self.follow_source()

    def follow_source(self, view: SnapshotReader | None = None) -> None:
        """From now on, full reads of the running job see what the tables are then, or a view."""
        if self.steps is not None and (loader := self.steps.loader) is not None:
            loader.gathering.source = view or DatabaseView(cast(Database, ShopTables(self)), "now", 0)

    def rebuild_from_topic(self, table: str) -> None:
        """``ticdc-spark rebuild --from topic`` of a table; a job that runs goes on."""
        job = job_of(self.setup, _FOLDER)
        self.lab.state.ask(rebuild_from_topic(job, self.lab.state.load(), [f"{SCHEMA}.{table}"]))

    def stop(self) -> None:
        if self.fence is not None:
            self.fence.release()
        self.steps = self.fence = None

    def dies(self, at: str, *, after: bool = False, rows: int = 100_000) -> None:
        """Run until the process is killed at a durable action, before it or after it."""
        self.faults.at, self.faults.happens_first = at, after
        with pytest.raises(Died):
            self.run(rows)
        self.stop()

    def dies_at(self, fault: Fault, rows: int = 100_000) -> bool:
        """Run; the process is killed at an action by its number. Returns: whether there was such an action"""
        self.faults.arm(fault)
        try:
            self.run(rows)
        except Died:
            self.stop()
        return self.faults.fired is not None

    def saved(self) -> Copy:
        """A backup of the lake with its change log."""
        return self.lab.lake.save()

    def rollback(self, table: str, back: int = 1) -> None:
        """Make an older snapshot the current one, with the lake's own tool."""
        self.lab.lake.rollback((SCHEMA, table), back)

    def clear(self, table: str) -> None:
        """``ticdc-spark resume --clear-diverged`` of a table; a job that runs goes on."""
        (found,) = diverged(job_of(self.setup, _FOLDER), self.lab.state.load(), [f"{SCHEMA}.{table}"], every=False)
        self.lab.state.ask(Clear(tables=((found.schema, found.name),)))

    def resume(self, *tables: str) -> None:
        """``ticdc-spark resume`` of some tables, or of every one; a job that runs goes on."""
        self.lab.resume(self.setup, [(SCHEMA, table) for table in tables] or None)

    def configure(self, **keys: Any) -> None:
        """Stop the job and change its file."""
        self.stop()
        known = {name: value for name, value in keys.items() if name in _OF_SETUP}
        self.setup = msgspec.structs.replace(self.setup, **known)
        self.keys |= {name: value for name, value in keys.items() if name not in _OF_SETUP}

    # ---- what a user sees

    def lake(self, table: str, schema: str = SCHEMA) -> LakeTable | None:
        return self.lab.lake.tables().get((schema, table))

    def rows(self, table: str, schema: str = SCHEMA) -> list[tuple[Any, ...]] | None:
        """The rows of a table of the lake in the order of its columns, sorted; ``None``: there is no such table."""
        found = self.lake(table, schema)
        return None if found is None else sorted((tuple(row[c] for c in found.columns) for row in found.rows), key=repr)

    def columns(self, table: str) -> tuple[str, ...]:
        found = self.lake(table)
        assert found is not None
        return found.columns

    def status(self, table: str, schema: str = SCHEMA) -> TableView:
        """A table as ``ticdc-spark status`` shows it."""
        return self.lab.view().tables[schema, table]

    def condition(self, table: str) -> str:
        return self.status(table).condition

    @property
    def applied(self) -> int:
        return self.lab.view().applied


class ShopTables:
    """The tables of a shop as a database, as they are whenever they are read."""

    meanwhile = None

    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    @property
    def now(self) -> dict[tuple[str, str], Live]:
        return {
            name: Live(
                uid=1,
                table=table,
                specs=(),
                keys=handle_key(table),
                rows={(key,): row for (at, key), row in self.shop.held.items() if at == name},
                comments=self.shop.comments.get(name[1], Comments()),
            )
            for name, table in self.shop.tables.items()
        }

    @property
    def events(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(ts=self.shop.ts)]


def after_every_death(make: Callable[[], Shop], judge: Callable[[Shop], None], rows: int = 100_000) -> int:
    """Kill the job before and after each durable action of a run, start it again, and judge. Returns: how often"""
    deaths = 0
    for kind in ("die_before", "die_after"):
        for at in range(200):
            shop = make()
            if not shop.dies_at(Fault(at=at, kind=kind), rows):
                break
            shop.run(rows, again=True)
            judge(shop)
            deaths += 1
    return deaths
