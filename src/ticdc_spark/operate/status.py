"""What a job's state folder shows of it, also while the job does not run. Reads files, starts nothing."""

import time
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.config.load import Identity
from ticdc_spark.config.secrets import redact
from ticdc_spark.config.values import ModeName
from ticdc_spark.errors import SinkFault
from ticdc_spark.mysql import tso_time
from ticdc_spark.replicate.plan.names import tables_of
from ticdc_spark.replicate.report import held, needs_a_look
from ticdc_spark.replicate.state.lease_store import LeaseRecord, lease_store
from ticdc_spark.replicate.state.processes import machine, process, runs
from ticdc_spark.replicate.state.progress import Hold, Progress, Status, TableState
from ticdc_spark.replicate.state.store import Store

State: TypeAlias = Literal["normal", "warning", "pending", "failed", "stopped", "finished"]
"""TiCDC's words. warning: it goes on, or has finished, but look. failed: it ended with an error. stopped: as asked."""

_SILENT = 120.0
"""Seconds without a heartbeat after which a living process is suspicious, and an unseen one counts as gone."""


class TableStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One table."""

    name: str
    """``schema.table``; as either may have dots, both stand apart too."""
    schema: str
    table: str
    applied_ts: int
    applied_ts_text: str
    applied_time: str
    condition: Literal["clean", "unverified", "diverged", "quarantined", "snapshot", "dropped", "kept"]
    """clean: known to equal the source. unverified: up to date, but from a start that this job did not make.
    diverged: a message or a DDL was left out. quarantined: it does not advance. snapshot: a full read of it is under
    way."""
    detail: str = ""
    rows: int = 0
    rows_waiting: int = 0
    snapshot_id: int | None = None
    snapshot_id_text: str | None = None

    @property
    def needs_a_look(self) -> bool:
        """Whether it does not equal the source and will not by itself."""
        return self.condition in ("diverged", "quarantined")


class PartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a topic."""

    topic: str
    partition: int
    offset: int
    watermark_ts: int
    watermark_ts_text: str
    watermark_time: str
    idle: bool


class HeldBack(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps the resolved ts from rising; ``kind`` none: nothing does."""

    kind: Literal["partition", "schema", "ddl", "reject", "none"]
    what: str
    seconds: float | None = None


class LastError(msgspec.Struct, frozen=True, kw_only=True):
    """The error that the job ended with."""

    code: str
    message: str
    at: float | None = None
    exit_code: int | None = None


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a job, as ``status --json`` prints it. Lags and ages are seconds, times are UTC.

    Numbers of 64 bits have a text beside them: JavaScript and jq round what is above 2^53.
    """

    job: str
    state: State
    reason: str
    next: str
    """What to do, where something is to be done."""
    running: bool
    pid: int | None = None
    heartbeat_age: float | None = None
    phase: str = ""
    batch: int = 0
    mode: ModeName | Literal[""] = ""
    """arrival: there are no watermarks, and ``resolved_ts`` is only the highest commitTs that was applied."""
    resolved_ts: int = 0
    resolved_ts_text: str = "0"
    resolved_time: str = "-"
    lag: float | None = None
    upstream_lag: float | None = None
    """Now less the lowest watermark received: TiCDC's and Kafka's part of the lag."""
    own_lag: float | None = None
    """The lowest watermark received less the resolved ts: this job's part of the lag."""
    held_back_by: HeldBack
    slowest_partition: str | None = None
    rows: int = 0
    rows_waiting: int = 0
    rows_waiting_at_most: bool = False
    """Some of them may be applied: the sink did not count rows, or a batch was interrupted."""
    ddls: int = 0
    ddls_waiting: tuple[str, ...] = ()
    rejected: int = 0
    replays: int = 0
    late: int = 0
    zero_dates: int = 0
    regressions: int = 0
    tables: tuple[TableStatus, ...] = ()
    partitions: tuple[PartitionStatus, ...] = ()
    last_error: LastError | None = None


def job_status(identity: Identity, now: float | None = None) -> JobStatus:
    """Read the state of a job. Raises: EnvironmentFault when a file of the state folder is broken."""
    store = Store(identity.state)
    return describe(
        identity, store.load() or Progress(job=identity.name), store.load_status(), _lease(identity), now or time.time()
    )


def describe(
    identity: Identity, progress: Progress, beat: Status | None, lease: LeaseRecord | None, now: float
) -> JobStatus:
    """Derive a job's status from what is written about it."""
    state, reason, todo, running = _state(identity, beat, lease, now)
    if state in ("normal", "finished"):
        state, reason, todo = _troubled(identity, progress, state, reason)
    slowest = min(progress.partitions, key=lambda one: one.watermark, default=None)
    received = slowest.watermark if slowest else 0
    hold, still = progress.hold, held(progress)
    if hold.kind == "none" and still:
        hold = Hold(kind="reject", what=still)
    return JobStatus(
        job=identity.name,
        state=state,
        reason=reason,
        next=todo,
        running=running,
        pid=beat.pid if beat else None,
        heartbeat_age=max(0.0, now - beat.at) if beat else None,
        phase=beat.phase if beat and running else "",
        batch=progress.batch,
        mode=progress.mode,
        resolved_ts=progress.applied,
        resolved_ts_text=str(progress.applied),
        resolved_time=tso_time.utc(progress.applied),
        lag=tso_time.lag(progress.applied, now),
        upstream_lag=tso_time.lag(received, now),
        own_lag=tso_time.lag(progress.applied, tso_time.seconds(received)) if received else None,
        held_back_by=HeldBack(
            kind=hold.kind, what=redact(hold.what), seconds=max(0.0, now - hold.since) if hold.since else None
        ),
        slowest_partition=f"{slowest.topic}-{slowest.partition}" if slowest else None,
        rows=progress.rows,
        rows_waiting=sum(one.waiting for one in progress.pending),
        rows_waiting_at_most=any(one.uncounted for one in progress.pending),
        ddls=progress.ddls_applied,
        ddls_waiting=tuple(f"{one.change.commit_ts}: {redact(one.change.query)}" for one in progress.ddls),
        rejected=progress.rejected,
        replays=progress.replays,
        late=progress.late,
        zero_dates=progress.zero_dates,
        regressions=progress.regressions,
        tables=_tables(progress),
        partitions=tuple(
            PartitionStatus(
                topic=one.topic,
                partition=one.partition,
                offset=one.offset,
                watermark_ts=one.watermark,
                watermark_ts_text=str(one.watermark),
                watermark_time=tso_time.utc(one.watermark),
                idle=one.idle,
            )
            for one in progress.partitions
        ),
        last_error=LastError(
            code=beat.error_code or "", message=redact(beat.error), at=beat.error_at, exit_code=beat.exit_code
        )
        if beat and beat.error
        else None,
    )


def _lease(identity: Identity) -> LeaseRecord | None:
    if identity.warehouse is None:
        return None
    try:
        record, _ = lease_store(identity.warehouse, identity.catalog, identity.name, identity.state).read()
    except SinkFault:
        # The lake is away; the heartbeat in the state folder must do.
        return None
    return record


def _state(
    identity: Identity, beat: Status | None, lease: LeaseRecord | None, now: float
) -> tuple[State, str, str, bool]:
    again = f"ticdc-spark replicate {identity.file.name}"
    if beat is None:
        return "pending", "it has not run yet", f"start it: {again}", False
    age = now - beat.at
    if beat.state in ("failed", "stopped", "finished"):
        if beat.state == "failed":
            first = redact(beat.error or "it ended with an error").splitlines()[0]
            decide = beat.exit_code == 4
            todo = (
                "decide; the error names the ways out. Then start it again"
                if decide
                else "mend what the error names, then"
            )
            return "failed", first, f"{todo}: {again}", False
        outcome = "it was stopped on request" if beat.state == "stopped" else "it did all that it was to do"
        return beat.state, outcome, "", False
    if not _lives(beat, lease, age):
        reason = f"its process, pid {beat.pid}, is gone without a reason; last heartbeat {age:.0f} s ago"
        return "failed", reason, f"look at its log (memory?), then start it again, nothing is lost: {again}", False
    if age > _SILENT:
        reason = f"its process, pid {beat.pid}, runs but has been silent for {age:.0f} s"
        return "warning", reason, f"look at its log; a stack dump of its JVM: jstack (phase {beat.phase!r})", True
    return beat.state, redact(beat.error or _PHASES.get(beat.phase, beat.phase)), "", True


def _troubled(identity: Identity, progress: Progress, state: State, reason: str) -> tuple[State, str, str]:
    """The state, reason and next step of a job that runs, or has finished, in the light of its tables."""
    still, look = held(progress), needs_a_look(progress)
    file = identity.file.name
    if state == "finished" and still:
        todo = f"ticdc-spark resume {file} --table …, once what holds them is mended" if look else ""
        return "warning", f"it finished, but not all is applied: {redact(still)}", todo
    if look:
        done = "it finished, but " if state == "finished" else ""
        return "warning", f"{done}{look}", "look at the tables below, and at what was left out"
    return state, reason, ""


def _lives(beat: Status, lease: LeaseRecord | None, age: float) -> bool:
    if lease is not None and lease.owner.process.pid == beat.pid:
        if lease.released:
            return False
        if lease.owner.machine == machine():
            return runs(lease.owner.process)
    # Its machine is not known: a process that is seen here may be it, one that is not may run elsewhere.
    return age < _SILENT or (lease is None and process(beat.pid) is not None)


_PHASES = {"source": "asking the source for new messages", "waiting": "waiting for new messages"}


def _tables(progress: Progress) -> tuple[TableStatus, ...]:
    waiting: dict[tuple[str, str], int] = {}
    for one in progress.pending:
        waiting[one.schema, one.name] = waiting.get((one.schema, one.name), 0) + one.waiting
    read = {state.topic for state in progress.partitions}
    behind = {
        (one.schema, one.name): next((topic for topic, _, _ in one.needs if topic not in read), "")
        for one in progress.catching_up
    }
    if progress.mode != "arrival":
        for table in progress.tables:
            if table.applied < progress.applied:
                behind.setdefault((table.schema, table.name), "")
    queued = {
        name for ddl in progress.ddls if ddl.change.commit_ts <= progress.applied for name in tables_of(ddl.change)
    }
    known = [
        table_status(
            table if name not in queued or table.kept else msgspec.structs.replace(table, dropped=False),
            waiting.pop(name, 0),
            behind=behind.get(name),
            replaced=name in queued,
        )
        for table in progress.tables
        for name in ((table.schema, table.name),)
    ]
    seen = {(table.schema, table.name) for table in progress.tables}
    unknown = [
        table_status(TableState(schema=name[0], name=name[1]), waiting.get(name, 0), behind=behind.get(name))
        for name in waiting.keys() | (behind.keys() - seen)
    ]
    wanted = {(one.schema, one.name) for one in progress.wanted}
    listed = {(table.schema, table.table) for table in (*known, *unknown)}
    unknown += [table_status(TableState(schema=schema, name=name)) for schema, name in wanted - listed]
    every = [_wanted(table) if (table.schema, table.table) in wanted else table for table in (*known, *unknown)]
    return tuple(sorted(every, key=lambda table: table.name))


def _wanted(table: TableStatus) -> TableStatus:
    """The status of a table that is to be read in full."""
    if table.condition != "unverified":
        return table
    return msgspec.structs.replace(
        table, condition="snapshot", detail="it is to be read in full, and that has not begun"
    )


_UNVERIFIED = {
    "create": "rows came late, or were applied again, so that it is no longer known to equal the source",
    "bootstrap": "the job did not see it created, or its topics lost their first messages: older rows may be missing",
    "adopted": "the lake had it before this job",
    "snapshot": "rows came late since its full read, so that it is no longer known to equal the source",
}
"""What makes a table unverified, by its origin."""
_UNCERTAIN = "its columns are those of `[schema] file`, or of a table that may lack a DDL, and may not be the source's"


def _why_unverified(table: TableState) -> str:
    why = _UNVERIFIED[table.origin]
    if not table.misshapen or table.origin == "adopted":
        return why
    return _UNCERTAIN if table.emptied else f"{_UNCERTAIN}; {why}"


_KEPT = "dropped at the source, kept in the lake"
_KEPT_AND_REPLACED = f"{_KEPT}; a newer one of its name waits for a table that stands still, with which it shares a DDL"


def _gathered(table: TableState) -> str:
    assert table.load is not None, "its read is under way"
    share = (
        f" of about {table.expected:,} ({min(99, 100 * table.gathered // table.expected)}%)" if table.expected else ""
    )
    return f"a full read of it is under way, at {table.load.base}: {table.gathered:,} rows{share}"


def table_status(
    table: TableState, waiting: int = 0, *, behind: str | None = None, replaced: bool = False
) -> TableStatus:
    """The status of one table. ``waiting``: its rows that were received and are not applied; ``behind``: it is behind
    the others; the topic that it came from and that is not read, or ``""``; ``None``: it is not behind. ``replaced``:
    DDLs of its name wait."""
    condition: Literal["clean", "unverified", "diverged", "quarantined", "snapshot", "dropped", "kept"] = "unverified"
    detail = ""
    if table.quarantined is not None:
        condition, detail = "quarantined", redact(table.quarantined)
    elif table.diverged_since is not None:
        why = f": {redact(table.diverged_why)}" if table.diverged_why else ""
        condition, detail = "diverged", f"since {table.diverged_since} ({tso_time.utc(table.diverged_since)}){why}"
    elif table.kept:
        condition, detail = "kept", _KEPT_AND_REPLACED if replaced else _KEPT
    elif table.dropped:
        condition = "dropped"
    elif table.load is not None:
        condition, detail = "snapshot", _gathered(table)
    elif table.settles:
        detail = f"it was read in full while it changed: it equals the source from {table.settles} "
        detail += f"({tso_time.utc(table.settles)}) on"
    elif behind:
        detail = f"it is behind the others: topic {behind}, which it came from, is not read"
    elif behind is not None:
        detail = (
            "it is behind the others: it came late, or the state was lost, and it catches up; or it shares a DDL with "
            "a table that stands still"
        )
    elif table.clean and table.origin == "snapshot" and not table.topics:
        detail = "it was read in full, and no message of it has come since: does the changefeed send it?"
    elif table.clean:
        condition = "clean"
    elif table.cleared is not None:
        detail = f"it had diverged since {table.cleared}, which a person has looked at and cleared"
    else:
        detail = _why_unverified(table)
    return TableStatus(
        name=f"{table.schema}.{table.name}",
        schema=table.schema,
        table=table.name,
        applied_ts=table.applied,
        applied_ts_text=str(table.applied),
        applied_time=tso_time.utc(table.applied),
        condition=condition,
        detail=detail,
        rows=table.rows,
        rows_waiting=waiting,
        snapshot_id=table.snapshot_id,
        snapshot_id_text=None if table.snapshot_id is None else str(table.snapshot_id),
    )
