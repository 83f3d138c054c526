"""A change log in memory. It opens messages with the same code as the log of a lake, in this process."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from ticdc_spark.model import Message
from ticdc_spark.sinks.changelog_base import LateRows
from ticdc_spark.sinks.memory.lake import Lake
from ticdc_spark.spark.decode.control import Control, ControlEvent, Reject, read_control
from ticdc_spark.spark.decode.envelopes import CONTROL_SLOT, LandingPlan, land
from ticdc_spark.spark.decode.log_files import CONTROL_COLUMNS, LogScan
from ticdc_spark.spark.decode.rows import LOG_COLUMNS

LogRow: TypeAlias = dict[str, Any]
MESSAGES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
_SCANNED = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("seq", pa.int32()),
        ("op", pa.string()),
        ("schema_key", pa.string()),
        ("commit_ts", pa.int64()),
        ("partial", pa.bool_()),
        ("before", pa.binary()),
        ("after", pa.binary()),
        ("checksum", pa.int64()),
        ("corrupted", pa.bool_()),
    ]
)
assert _SCANNED.names == list(LOG_COLUMNS)


@dataclass(slots=True)
class Logged:
    """What a job's log holds: rows by (generation, batch), dead letters by (generation, batch, stage)."""

    batches: dict[tuple[int, int], list[LogRow]] = field(default_factory=dict)
    letters: dict[tuple[int, int, str], tuple[Reject, ...]] = field(default_factory=dict)


class MemoryChangeLog:
    """See ``changelog_base.ChangeLog``. ``land`` takes a list of messages."""

    def __init__(self, lake: Lake, job: str, durable: Callable[[str, Callable[[], None]], None]) -> None:
        """``durable(what, action)`` carries out every change of the log."""
        self._durable = durable
        self.held: Logged = lake.logs.setdefault(job, Logged())
        self.dead_letters = f"memory, dead letters of {job}"

    def newest_generation(self) -> int:
        """See ``ChangeLog``."""
        return max((generation for (generation, _), rows in self.held.batches.items() if rows), default=0)

    def batches(self, generation: int) -> frozenset[int]:
        """See ``ChangeLog``."""
        return frozenset(batch for (held, batch), rows in self.held.batches.items() if held == generation and rows)

    def land(self, messages: Sequence[Message], plan: LandingPlan) -> list[ControlEvent]:
        """See ``ChangeLog``."""
        rows = [row for part in land(plan)(_batches(messages)) for row in part.to_pylist()] if messages else []
        self._durable("land", lambda: self._replace(plan.generation, plan.batch, rows))
        controls = (row for row in rows if row["slot"] == CONTROL_SLOT)
        return [read_control(Control(**{name: row[name] for name in CONTROL_COLUMNS})) for row in controls]

    def _replace(self, generation: int, batch: int, rows: list[LogRow]) -> None:
        self.held.batches[generation, batch] = rows

    def keep_rejects(self, generation: int, batch: int, stage: str, rejects: Sequence[Reject], job_time: float) -> None:
        """See ``ChangeLog``."""
        kept = tuple(rejects)
        self._durable("dead letters", lambda: self._keep(generation, batch, stage, kept))

    def _keep(self, generation: int, batch: int, stage: str, kept: tuple[Reject, ...]) -> None:
        self.held.letters[generation, batch, stage] = kept

    def scan(self, scan: LogScan) -> pa.RecordBatch:
        """The rows of a scan, as ``LOG_COLUMNS``."""
        found = [
            {name: row[name] for name in LOG_COLUMNS}
            for (generation, batch), rows in self.held.batches.items()
            if generation == scan.generation and (scan.batches is None or batch in scan.batches)
            for row in rows
            if row["slot"] != CONTROL_SLOT and _is_wanted(row, scan)
        ]
        return pa.RecordBatch.from_pylist(found, schema=_SCANNED)

    def late_rows(self, generation: int, batch: int) -> list[LateRows]:
        """See ``ChangeLog``."""
        rows = self.held.batches[generation, batch]
        marks = [row for row in rows if row["kind"] == "watermark"]
        older = {
            _identity(row)
            for (other, number), landed in self.held.batches.items()
            if other == generation and number < batch
            for row in landed
            if row["slot"] != CONTROL_SLOT
        }
        found: dict[tuple[str, str, str], list[LogRow]] = {}
        for row in rows:
            if row["kind"] == "late" and _identity(row) not in older and not any(_passed(row, mark) for mark in marks):
                found.setdefault((row["schema"], row["table"], row["schema_key"]), []).append(row)
        return [_late_rows(*name, late) for name, late in found.items()]

    def forget(self, generation: int, before: int) -> None:
        """See ``ChangeLog``."""
        self._durable("forget", lambda: self._forget((generation, before)))

    def _forget(self, before: tuple[int, int]) -> None:
        for at in [at for at in self.held.batches if at < before]:
            del self.held.batches[at]


def _batches(messages: Sequence[Message]) -> Iterable[pa.RecordBatch]:
    columns = [[getattr(message, name) for message in messages] for name in MESSAGES.names]
    yield pa.RecordBatch.from_arrays(
        [pa.array(cells, kind.type) for cells, kind in zip(columns, MESSAGES, strict=True)], schema=MESSAGES
    )


def _is_wanted(row: LogRow, scan: LogScan) -> bool:
    return (
        (row["schema"], row["table"]) == (scan.schema, scan.table)
        and row["kind"] in scan.kinds
        and scan.above < row["commit_ts"] <= scan.upto
        and (scan.keys is None or row["schema_key"] in scan.keys)
    )


def _identity(row: LogRow) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("schema", "table", "commit_ts", "op", "before", "after"))


def _passed(row: LogRow, mark: LogRow) -> bool:
    return (
        (row["topic"], row["partition"]) == (mark["topic"], mark["partition"])
        and mark["offset"] < row["offset"]
        and mark["commit_ts"] > row["commit_ts"]
    )


def _late_rows(schema: str, table: str, key: str, rows: list[LogRow]) -> LateRows:
    first = min(rows, key=lambda row: (row["commit_ts"], row["topic"], row["partition"], row["offset"]))
    place = {name: first[name] for name in ("commit_ts", "topic", "partition", "offset")}
    return LateRows(schema=schema, table=table, schema_key=key, rows=len(rows), **place)


__all__ = ["Logged", "MemoryChangeLog"]
