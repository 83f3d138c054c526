"""The laboratory of a job whose tables are merged tables, each of one shard. People and the verdict see the shards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from tests.simulator.broker import Broker
from tests.simulator.faults import Injector
from tests.simulator.job_lab import Fence, JobLab
from tests.simulator.lake_of_lab import LakeOfLab
from tests.simulator.letters import folded
from tests.simulator.moves import CALM, Move, MoveKind
from tests.simulator.seams import Clock, JobView, LakeTable, TableName
from tests.simulator.setup import JobSetup
from tests.simulator.story import Story
from ticdc_spark.config.job import Job, Route
from ticdc_spark.config.routes import compiled
from ticdc_spark.config.shards import target_of
from ticdc_spark.model import Table
from ticdc_spark.replicate.plan.merging import by_source
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.routed import routed

RULES = (Route(tables=("*.*",), origin=("_database", "_table")),)
_DDL = frozenset(
    (
        *("create_table", "create_like", "create_database", "drop_table", "recreate_table", "drop_database"),
        *("truncate_table", "add_column", "add_index", "drop_index"),
    )
)
"""What a merged table follows."""
_MORE: frozenset[MoveKind] = frozenset(("garbage", "corrupt", "mangle", "widen", "hang", "older_start", "skip_ddl"))
_MOVES = (CALM | _MORE) - {"adopt", "drop_table", "rival"}


class MergedLab(JobLab):
    """See ``job_lab.JobLab``."""

    def __init__(self, broker: Broker, clock: Clock, injector: Injector) -> None:
        super().__init__(broker, clock, injector)
        self.lake = _LakeOfLab(self.tables, self.files)
        self.lake.shards = self.shards

    def shards(self) -> dict[TableName, Table]:
        """Those that the job knows."""
        progress = self.state.progress
        found = {} if progress is None else by_source(progress.shards)
        return {folded(name): one.table for name, one in found.items()}  # as their merged tables are named

    def _job(self, setup: JobSetup) -> Job:
        job = super()._job(setup)
        return msgspec.structs.replace(job, routes=RULES, ddl=msgspec.structs.replace(job.ddl, drop_table="apply"))

    def _sink(self, setup: JobSetup, fence: Fence) -> Sink:
        return routed(super()._sink(setup, fence), self._job(setup))

    def view(self) -> JobView:
        found = super().view()
        return msgspec.structs.replace(found, tables={target_of(name): one for name, one in found.tables.items()})

    def rebuild(self, setup: JobSetup, table: TableName) -> None:
        super().rebuild(setup, compiled(RULES).known_as(table))

    def resume(self, setup: JobSetup, tables: Collection[TableName] | None) -> None:
        known_as = compiled(RULES).known_as
        super().resume(setup, None if tables is None else [known_as(name) for name in tables])


class _LakeOfLab(LakeOfLab):
    shards: Callable[[], dict[TableName, Table]] = dict

    def tables(self) -> Mapping[TableName, LakeTable]:
        """Without what stays of shards that are dropped: tables without rows, and columns."""
        shards, found = self.shards(), super().tables()
        return {name: _of_shard(one, shards.get(name)) for name, one in found.items() if one.rows or name in shards}


def _of_shard(table: LakeTable, shard: Table | None) -> LakeTable:
    has = table.columns if shard is None else {column.name for column in shard.columns}
    columns = tuple(name for name in table.columns if name not in RULES[0].origin and name in has)
    rows = [{name: row[name] for name in columns} for row in table.rows]
    return msgspec.structs.replace(table, columns=columns, rows=rows)


def without_stops(story: Story) -> Story:
    """A story without the moves and DDLs that a merged table does not follow."""
    return msgspec.structs.replace(story, moves=tuple(filter(_is_followed, story.moves)))


def _is_followed(move: Move) -> bool:
    return move.kind in _MOVES and (move.kind != "ddl" or move.word in _DDL)
