"""The laboratory of a job whose tables have histories, and the verdict on them: every change of the source, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.simulator.broker import Broker
from tests.simulator.database import Live
from tests.simulator.faults import Injector
from tests.simulator.job_lab import Fence, JobLab
from tests.simulator.lake_of_lab import LakeOfLab
from tests.simulator.seams import Cells, Clock, LakeTable, TableName
from tests.simulator.setup import JobSetup
from tests.simulator.world import Finding, World
from ticdc_spark.config.job import Job, Recording
from ticdc_spark.model import RowChange
from ticdc_spark.mysql import handle_key
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.recorded import of_job

_PREFIX = "h_"
RULES = (Recording(tables=("*.*",), target=f"{_PREFIX}{{schema}}.{{table}}"),)


class RecordedLab(JobLab):
    """See ``job_lab.JobLab``."""

    def __init__(self, broker: Broker, clock: Clock, injector: Injector) -> None:
        super().__init__(broker, clock, injector)
        self.every = self.lake
        """The lake with the histories."""
        self.lake = _WithoutHistories(self.tables, self.files)

    def _job(self, setup: JobSetup) -> Job:
        job = super()._job(setup)
        return job if setup.keep_dropped else msgspec.structs.replace(job, histories=RULES)

    def _sink(self, setup: JobSetup, fence: Fence) -> Sink:
        return of_job(super()._sink(setup, fence), self._job(setup))


class _WithoutHistories(LakeOfLab):
    def tables(self) -> Mapping[TableName, LakeTable]:
        return {name: table for name, table in super().tables().items() if not name[0].startswith(_PREFIX)}


def judge_histories(world: World, judged: Counter[str]) -> Finding | None:
    """Whether histories have every change once. ``judged``: how many were looked at, of those that there are."""
    lab = world.lab
    assert isinstance(lab, RecordedLab)
    every, view = lab.every.tables(), lab.view()
    truth = world.database.truth_at(view.applied) if view.applied else {}
    for name, live in truth.items():
        history = every.get((_PREFIX + name[0], name[1]))
        if history is None:
            continue
        judged["there"] += 1
        mine = _rows(history, _made(world, live))
        twice = _twice([row for row in history.rows if row["_tidb_op"] in ("I", "U", "D", "S")])
        if twice and not world.excuses.lake_touched:
            return Finding(kind="a change twice", where="history", detail=f"{name}: {twice[:3]}")
        seen = view.tables.get(name)
        table = lab.lake.tables().get(name)
        is_read = seen is not None and seen.condition == "clean" and not world.excuses.lake_touched
        # A job that ended in a batch may be ahead of its state with some tables.
        if is_read and table is not None and (table.mark_ts or 0) <= view.applied:
            judged["folded"] += 1
            if wrong := _differing(_upto(history, view.applied), table, live.keys):
                detail = f"{name}: {wrong}"
                return Finding(kind="a history ends otherwise than its table", where="history", detail=detail)
        calm = not (world.excuses.disturbances or world.excuses.bad_messages or world.excuses.refused_ddl)
        if not calm or seen is None or seen.condition != "clean" or "R" in {row["_tidb_op"] for row in history.rows}:
            continue
        if _made(world, live) <= world.ticdc_started:
            continue
        judged["judged"] += 1
        found = Counter((row["_tidb_commit_ts"], row["_tidb_op"] == "D") for row in mine)
        sent = _sent(world, live, view.applied)
        if found != sent:
            lacks, more = sent - found, found - sent
            detail = f"{name} at {view.applied} lacks {dict(lacks)}, and has {dict(more)}"
            return Finding(kind="a history is not the source's", where="calm story", detail=detail)
    return None


def _made(world: World, live: Live) -> int:
    """When a table was made: its first event."""
    return next((event.ts for event in world.database.events if live.uid in event.uids), 0)


def _rows(history: LakeTable, since: int) -> list[Cells]:
    """The changes of a history since its table was made: one of its name may have had it before."""
    return [row for row in history.rows if row["_tidb_op"] in ("I", "U", "D") and row["_tidb_commit_ts"] >= since]


def _twice(rows: Sequence[Cells]) -> list[Any]:
    """Changes that are there more than once, value by value."""
    counts = Counter(repr(sorted(row.items())) for row in rows)
    return [one for one, count in counts.items() if count > 1]


def _upto(history: LakeTable, applied: int) -> LakeTable:
    """What a table's history has of what the table has applied: it is ahead of a job that ended in a batch."""
    rows = [row for row in history.rows if row["_tidb_commit_ts"] <= applied]
    return msgspec.structs.replace(history, rows=rows)


def _differing(history: LakeTable, table: LakeTable, keys: Sequence[str]) -> str:
    """How the last versions of a history's rows differ from the rows of its table; ``""``: they do not.

    Old rows have NULL in a column that is new or has a new type since. A table whose key has one is not judged.
    """
    ended = max((row["_tidb_commit_ts"] for row in history.rows if row["_tidb_op"] in ("T", "R")), default=0)
    ranks = {"D": 0, "P": 0, "I": 1, "U": 1, "S": 2}
    rows = [row for row in history.rows if row["_tidb_op"] in ranks and row["_tidb_commit_ts"] >= ended]
    if not keys or any(row[key] is None for row in rows for key in keys):
        return ""
    last = {
        repr([row[key] for key in keys]): row
        for row in sorted(rows, key=lambda row: (row["_tidb_commit_ts"], ranks[row["_tidb_op"]]))
    }
    mine = {key: row for key, row in last.items() if row["_tidb_op"] not in ("D", "P")}
    wanted = {repr([row[key] for key in keys]): row for row in table.rows}
    if mine.keys() != wanted.keys():
        return f"{sorted(mine)} for {sorted(wanted)}"
    cells = ((key, name, mine[key][name], row[name]) for key, row in wanted.items() for name in table.columns)
    wrong = [one for one in cells if one[2] is not None and repr(one[2]) != repr(one[3])]
    return str(wrong[:3]) if wrong else ""


def _sent(world: World, live: Live, upto: int) -> Counter[tuple[int, bool]]:
    found: Counter[tuple[int, bool]] = Counter()
    for event in world.database.events:
        if event.ts <= upto:
            for uid, change in event.rows:
                if uid == live.uid:
                    found.update((event.ts, gone) for gone in _parts(change))
    return found


def _parts(change: RowChange) -> list[bool]:
    """Whether each row that a change becomes is a delete: two rows, where an update changes the key."""
    if change.op == "delete":
        return [True]
    keys = handle_key(change.table)
    before, after = change.before, change.after
    moved = change.op == "update" and before and after and any(before[key] != after[key] for key in keys)
    return [True, False] if moved else [False]
