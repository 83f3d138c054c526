"""A change log in memory. It opens messages with the same decoders as the log of a lake, in this process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from ticdc_spark.model import Message, TableName
from ticdc_spark.sinks.changelog_base import LateRows, RowPlace
from ticdc_spark.sinks.memory.lake import Lake
from ticdc_spark.spark.decode.control import ControlEvent, Reject, WatermarkRead
from ticdc_spark.spark.decode.envelopes import LandingPlan
from ticdc_spark.spark.decode.log_files import LogScan
from ticdc_spark.spark.decode.plain_landing import LoggedRow, land_messages


class LoggedBatch(msgspec.Struct, frozen=True):
    """One batch: its rows by table, and its watermarks."""

    rows: dict[TableName, tuple[LoggedRow, ...]]
    watermarks: tuple[WatermarkRead, ...]
    is_empty: bool = False
    """Whether no message of it left anything."""


@dataclass(slots=True)
class Logged:
    """What a job's log holds: batches by (generation, batch), dead letters by (generation, batch, stage).

    What is in it never changes: a copy of the two dicts is a copy of the log.
    """

    batches: dict[tuple[int, int], LoggedBatch] = field(default_factory=dict)
    letters: dict[tuple[int, int, str], tuple[Reject, ...]] = field(default_factory=dict)

    def copy(self) -> "Logged":
        """The log as it is now, which no later batch changes."""
        return Logged(dict(self.batches), dict(self.letters))


class MemoryChangeLog:
    """See ``changelog_base.ChangeLog``. ``land`` takes a list of messages."""

    lands_here = False

    def __init__(self, lake: Lake, job: str, durable: Callable[[str, Callable[[], None]], None]) -> None:
        """``durable(what, action)`` carries out every change of the log."""
        self._durable = durable
        self.held: Logged = lake.logs.setdefault(job, Logged())
        self.dead_letters = f"memory, dead letters of {job}"

    def newest_generation(self) -> int:
        kept = [at for at, landed in self.held.batches.items() if not landed.is_empty]
        return max((generation for generation, _ in kept), default=0)

    def batches(self, generation: int) -> frozenset[int]:
        return frozenset(
            batch for (held, batch), landed in self.held.batches.items() if held == generation and not landed.is_empty
        )

    def land(self, messages: Sequence[Message], plan: LandingPlan) -> list[ControlEvent]:
        rows, controls = land_messages(messages, plan)
        by_table: dict[TableName, list[LoggedRow]] = {}
        for row in rows:
            by_table.setdefault((row.schema, row.table), []).append(row)
        landed = LoggedBatch(
            {name: tuple(found) for name, found in by_table.items()},
            tuple(event for event in controls if isinstance(event, WatermarkRead)),
            not rows and not controls,
        )
        self._durable("land", lambda: self._replace(plan.generation, plan.batch, landed))
        return controls

    def _replace(self, generation: int, batch: int, landed: LoggedBatch) -> None:
        self.held.batches[generation, batch] = landed

    def keep_rejects(self, generation: int, batch: int, stage: str, rejects: Sequence[Reject], job_time: float) -> None:
        kept = tuple(rejects)
        self._durable("dead letters", lambda: self._keep(generation, batch, stage, kept))

    def _keep(self, generation: int, batch: int, stage: str, kept: tuple[Reject, ...]) -> None:
        self.held.letters[generation, batch, stage] = kept

    def scan(self, scan: LogScan) -> list[LoggedRow]:
        """The rows of a scan."""
        name = (scan.schema, scan.table)
        return [
            row
            for (generation, batch), landed in self.held.batches.items()
            if generation == scan.generation and (scan.batches is None or batch in scan.batches)
            for row in landed.rows.get(name, ())
            if row.kind in scan.kinds
            and scan.above < row.commit_ts <= scan.upto
            and (scan.keys is None or row.schema_key in scan.keys)
        ]

    def has_rows(self, scan: LogScan) -> bool:
        return bool(self.scan(scan))

    def first_row(self, scan: LogScan) -> RowPlace | None:
        first = min(self.scan(scan), key=lambda row: (row.commit_ts, row.partition, row.offset), default=None)
        if first is None:
            return None
        return RowPlace(commit_ts=first.commit_ts, topic=first.topic, partition=first.partition, offset=first.offset)

    def late_rows(self, generation: int, batch: int) -> list[LateRows]:
        landed = self.held.batches[generation, batch]
        found: dict[tuple[str, str, str], list[LoggedRow]] = {}
        for name, rows in landed.rows.items():
            may_be = [row for row in rows if row.kind == "late"]
            if not may_be:
                continue
            older = {
                _identity(row)
                for (other, number), earlier in self.held.batches.items()
                if other == generation and number < batch
                for row in earlier.rows.get(name, ())
            }
            for row in may_be:
                if _identity(row) not in older and not any(_passed(row, mark) for mark in landed.watermarks):
                    found.setdefault((*name, row.schema_key), []).append(row)
        return [_late_rows(*name, late) for name, late in found.items()]

    def forget(self, generation: int, before: int) -> None:
        self._durable("forget", lambda: self._forget((generation, before)))

    def _forget(self, before: tuple[int, int]) -> None:
        for at in [at for at in self.held.batches if at < before]:
            del self.held.batches[at]


def _identity(row: LoggedRow) -> tuple[int, str, bytes | None, bytes | None]:
    return row.commit_ts, row.op, row.before, row.after


def _passed(row: LoggedRow, mark: WatermarkRead) -> bool:
    return (
        (row.topic, row.partition) == (mark.topic, mark.partition)
        and mark.offset < row.offset
        and mark.commit_ts > row.commit_ts
    )


def _late_rows(schema: str, table: str, key: str, rows: list[LoggedRow]) -> LateRows:
    first = min(rows, key=lambda row: (row.commit_ts, row.topic, row.partition, row.offset))
    return LateRows(
        schema=schema,
        table=table,
        schema_key=key,
        rows=len(rows),
        commit_ts=first.commit_ts,
        topic=first.topic,
        partition=first.partition,
        offset=first.offset,
    )
