"""A laboratory around the reference applier: it shows that stories and verdict work before the real job is attached.

The reference promises nothing about operators: it does not notice a lake that was changed under it. So calm stories end
in the truth, and those with such moves must end in findings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from tests.reference.applier import Applier
from tests.reference.state import Lake as ReferenceTables
from tests.reference.state import Name, Place, Progress
from tests.simulator.broker import Broker
from tests.simulator.faults import Injector
from tests.simulator.moves import MoveKind
from tests.simulator.reference import FreesFirst
from tests.simulator.seams import Cells, Clock, Copy, JobView, Lake, LakeTable, StateFolder, TableName, TableView
from tests.simulator.setup import IDLE_TIMEOUT, JobSetup
from tests.simulator.wire import WIRES
from ticdc_spark.config.values import skip_ddl_line
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import SchemaMissing, UnsupportedDdl
from ticdc_spark.model import Message, SchemaChange, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.base import ReadOptions


class ReferenceLab:
    """A lab. State folder and lake are the reference's own, copied whole."""

    where = ""
    lacks: frozenset[MoveKind] = frozenset()

    def __init__(self, broker: Broker, clock: Clock, injector: Injector) -> None:
        self.broker, self.clock, self.injector = broker, clock, injector
        self.progress, self.batches = Progress(), 0
        self.log: set[tuple[object, ...]] = set()
        self.tables, self.marked = ReferenceTables(), set[Name]()
        self.history: list[dict[Name, tuple[Table, dict[object, object]]]] = []
        self.risen: dict[Place, tuple[int, float]] = {}
        """Each partition's watermark and since when it stands there."""
        self.lake: Lake = _Lake(self)
        self.state: StateFolder = _State(self)

    def start(self, setup: JobSetup, owner: int) -> _Process:
        """See ``Lab``. There is no lease."""
        return _Process(self, setup)

    def view(self) -> JobView:
        tables = {
            name: TableView(applied=self.progress.applied, condition="diverged" if name in self.marked else "clean")
            for name in self.tables.tables
        }
        waiting = f"{len(self.progress.waiting)} rows wait" if self.progress.waiting else "no newer watermark"
        read = frozenset(self.broker.topics) if self.batches else frozenset()
        return JobView(applied=self.progress.applied, batch=self.batches, tables=tables, read=read, hold=waiting)

    def resume(self, setup: JobSetup, tables: Collection[TableName] | None) -> None:
        """See ``Lab``. Nothing is ever quarantined."""


class _Applier(FreesFirst):
    """Reads as the reference does, and stops at a DDL that no message replays."""

    lab: ReferenceLab
    setup: JobSetup

    def watermark(self, progress: Progress, place: Place) -> int:
        """A partition that is read to its end counts as the highest when it has stood still for long."""
        mark, clock = progress.watermarks.get(place, 0), self.lab.clock.now
        stood, since = self.lab.risen.get(place, (-1, clock))
        self.lab.risen[place] = (mark, since if stood == mark else clock)
        idle = stood == mark and clock - since >= IDLE_TIMEOUT
        at_end = progress.consumed.get(place, -1) >= self.ends[place]
        return max(progress.watermarks.values(), default=0) if idle and at_end else mark

    def due(self, progress: Progress, resolved: int) -> list[SchemaChange]:
        """Leaves out what ``skip-ddl`` names."""
        kept = []
        for change in super().due(progress, resolved):
            if any(skip.matches(change.commit_ts, change.query) for skip in self.setup.skip_ddl):
                tables = [table for table in (change.table, change.pre_table) if table is not None]
                self.lab.marked.update((table.schema, table.name) for table in tables)
                continue
            if "EXCHANGE" in change.query:
                raise UnsupportedDdl(f"{change.query}: under [job]: {skip_ddl_line(change.commit_ts, change.query)}")
            kept.append(change)
        return kept


class _Process:
    def __init__(self, lab: ReferenceLab, setup: JobSetup) -> None:
        self.lab, self.setup = lab, setup
        self.decoder = WIRES[setup.protocol].decoder
        for statement in setup.schema_sql.split(";\n"):
            if statement.startswith("USE"):
                schema = statement.split("`")[1]
            elif statement:
                table = parse_create(statement, schema, "escape")
                lab.progress.schemas.setdefault((table.schema, table.name, ""), table)

    def batch(self, most: int) -> bool:
        lab = self.lab
        topics = None if self.setup.topics is None else frozenset(self.setup.topics)
        ends, beginning = lab.broker.end_offsets(topics), lab.broker.beginning_offsets(topics)
        share = max(1, most // max(1, len(ends)))
        read: list[Message] = []
        for place, end in ends.items():
            start = lab.progress.consumed.get(place, beginning[place] - 1) + 1
            read += lab.broker.read(place, start, min(end, start + share))
        applier = _Applier(
            self.decoder, ReadOptions(source_timezone=self.setup.source_timezone), {p: e - 1 for p, e in ends.items()}
        )
        applier.lab, applier.setup = lab, self.setup
        applier.progress, applier.lake, applier.log = lab.progress, lab.tables, lab.log
        applier.at_commit = self._commit
        before = lab.progress.applied
        applier.batch(read)
        lab.progress = applier.progress
        lab.batches += bool(read) or lab.progress.applied != before
        lab.history.append(dict(lab.tables.tables))  # type: ignore[arg-type]
        self._check_schemas(applier)
        return bool(read) or lab.progress.applied != before

    def _check_schemas(self, applier: Applier) -> None:
        waiting = [row.envelope for row in applier.progress.waiting]
        if any(not applier.has_schema(applier.progress, row) for row in waiting) and self.lab.clock.now > 2e9:
            raise SchemaMissing("[schema] file")

    def _commit(self, _applier: Applier) -> None:
        self.lab.injector.act("sink", "a commit", _nothing)

    def stop(self) -> None:
        """Nothing is held."""

    def kill(self) -> None:
        """Nothing is held."""


def _nothing() -> None:
    """The reference changes its own dicts afterwards."""


class _State:
    def __init__(self, lab: ReferenceLab) -> None:
        self.lab = lab

    def save(self) -> Copy:
        return self.lab.progress.copy()

    def restore(self, copy: Copy) -> None:
        self.lab.progress = copy.copy()


class _Lake:
    def __init__(self, lab: ReferenceLab) -> None:
        self.lab = lab

    @property
    def _held(self) -> dict[Name, tuple[Table, dict[object, object]]]:
        return self.lab.tables.tables  # type: ignore[return-value]

    def tables(self) -> Mapping[TableName, LakeTable]:
        return {
            name: LakeTable(
                columns=tuple(column.name for column in table.columns),
                rows=list(rows.values()),  # type: ignore[arg-type]
                mark_ts=self.lab.tables.marks.get(name, (None, 0))[0],
            )
            for name, (table, rows) in self._held.items()
        }

    def save(self) -> Copy:
        return dict(self._held), dict(self.lab.tables.marks)

    def restore(self, copy: Copy) -> None:
        self._held.clear()
        self._held.update(copy[0])
        self.lab.tables.marks = dict(copy[1])

    def restore_table(self, table: TableName, copy: Copy) -> None:
        if table in copy[0]:
            self._held[table] = copy[0][table]

    def rollback(self, table: TableName, back: int) -> None:
        older = [state[table] for state in self.lab.history[: -back or None] if table in state]
        if older:
            self._held[table] = (self._held[table][0], older[-1][1])

    def compact(self, table: TableName) -> None:
        """The reference has no snapshots."""

    def expire(self, table: TableName) -> None:
        """The reference has no snapshots."""

    def insert(self, table: TableName, row: Cells) -> None:
        held, rows = self._held[table]
        self._held[table] = (held, {**rows, tuple(row[name] for name in handle_key(held)): dict(row)})

    def delete(self, table: TableName, at: int) -> None:
        held, rows = self._held[table]
        keys = list(rows)
        if keys:
            self._held[table] = (held, {key: rows[key] for key in keys if key != keys[at % len(keys)]})

    def drop_column(self, table: TableName, column: str) -> None:
        held, rows = self._held[table]
        left = tuple(one for one in held.columns if one.name != column)
        self._held[table] = (replace(held, columns=left), rows)

    def drop(self, table: TableName) -> None:
        self._held.pop(table, None)

    def create(self, table: Table, rows: Sequence[Cells], required: Collection[str] = ()) -> None:
        keys = handle_key(table)
        self._held[table.schema, table.name] = (table, {tuple(row[name] for name in keys): dict(row) for row in rows})
