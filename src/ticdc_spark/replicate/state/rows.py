"""Convert the state of a job to rows of its target, and back."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from ticdc_spark.config.routes import compiled
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import TableName
from ticdc_spark.replicate.state.owner import Ownership
from ticdc_spark.replicate.state.progress import KnownSchema, PartitionState, Plan, Progress
from ticdc_spark.replicate.state.requests import Request
from ticdc_spark.replicate.state.table import TableState, condition_of
from ticdc_spark.sinks.state import StateRow, StoredState

T = TypeVar("T")
JOB, PROGRESS = "job", "progress"
"""The parts: ``JOB`` is small and changes often, ``PROGRESS`` changes with each batch."""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a target stores about a job."""

    held: Ownership | None = None
    progress: Progress | None = None
    plan: Plan | None = None
    """Of the batch under way."""
    requests: tuple[Request, ...] = ()
    """The oldest first."""


def job_rows(state: JobState) -> list[StateRow]:
    """The part ``JOB``."""
    rows = [] if state.held is None else [_row("job", state.held)]
    rows += [] if state.plan is None else [_row("plan", state.plan)]
    return rows + [_row("request", request) for request in state.requests]


def progress_rows(progress: Progress) -> list[StateRow]:
    """The part ``PROGRESS``. Its tables have their target names, for users who query the state by SQL."""
    target = compiled(progress.routes).target
    rest = msgspec.structs.replace(progress, tables=(), partitions=(), schemas=())
    return [
        _row("progress", rest, resolved_ts=progress.applied),
        *(_row("partition", one, resolved_ts=one.watermark) for one in progress.partitions),
        *(_table_row(one, target(one.full_name)) for one in progress.tables),
        *(_row("schema", one, **_named(target(one.full_name))) for one in progress.schemas),
    ]


def job_state(stored: StoredState, where: str) -> JobState:
    """The state in a store. Raises: DecisionNeeded when another version of this program wrote it"""
    rows = [row for part in stored.parts.values() for row in part]
    try:
        progress = _only(_values(rows, "progress", Progress))
        if progress is not None:
            progress = msgspec.structs.replace(
                progress,
                partitions=_values(rows, "partition", PartitionState),
                tables=_values(rows, "table", TableState),
                schemas=_values(rows, "schema", KnownSchema),
            )
        return JobState(
            held=_only(_values(rows, "job", Ownership)),
            progress=progress,
            plan=_only(_values(rows, "plan", Plan)),
            requests=_values(rows, "request", Request),
        )
    except msgspec.DecodeError as error:
        raise DecisionNeeded(
            f"the state {where} cannot be read: {error}. Another version of this program wrote it: continue with that "
            "version, or drop the state table and every table of the job, and read the topic from its start"
        ) from error


def _row(kind: str, value: object, **columns: Any) -> StateRow:
    return StateRow(kind=kind, value=msgspec.json.encode(value).decode(), **columns)


def _named(target: TableName) -> dict[str, str]:
    return {"schema": target[0], "table": target[1]}


def _table_row(table: TableState, target: TableName) -> StateRow:
    return _row(
        "table",
        table,
        **_named(target),
        resolved_ts=table.applied,
        snapshot_id=table.snapshot_id,
        condition=condition_of(table),
    )


def _values(rows: Iterable[StateRow], kind: str, type_: Any) -> tuple[Any, ...]:
    decode: Callable[[str], Any] = msgspec.json.Decoder(type_).decode
    return tuple(decode(row.value) for row in rows if row.kind == kind)


def _only(found: tuple[T, ...]) -> T | None:
    return found[0] if found else None
