"""What a job's state folder shows of it, also while the job does not run. Reads files, starts nothing."""

import time
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.config.load import Identity
from ticdc_spark.config.secrets import redact
from ticdc_spark.config.values import ModeName
from ticdc_spark.errors import SinkFault
from ticdc_spark.mysql import tso_time
from ticdc_spark.operate.table_status import TableStatus, tables_status
from ticdc_spark.replicate.report import held, needs_a_look, reading
from ticdc_spark.replicate.state.lease_store import LeaseRecord, lease_store
from ticdc_spark.replicate.state.processes import machine, process, runs
from ticdc_spark.replicate.state.progress import Progress, Status
from ticdc_spark.replicate.state.store import Store

State: TypeAlias = Literal["normal", "warning", "pending", "failed", "stopped", "finished"]
"""TiCDC's words. warning: it goes on, or has finished, but look. failed: it ended with an error. stopped: as asked."""

_SILENT = 120.0
"""Seconds without a heartbeat after which a living process is suspicious, and an unseen one counts as gone."""


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
    """What keeps the resolved ts from rising, or, ``reject`` and ``snapshot``, single tables; ``kind`` none: nothing
    does."""

    kind: Literal["partition", "schema", "ddl", "reject", "snapshot", "none"]
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
    held_back = HeldBack(
        kind=hold.kind, what=redact(hold.what), seconds=max(0.0, now - hold.since) if hold.since else None
    )
    if hold.kind == "none" and still:
        kind: Literal["snapshot", "reject"] = "snapshot" if still == reading(progress) else "reject"
        held_back = HeldBack(kind=kind, what=redact(still))
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
        held_back_by=held_back,
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
        tables=tables_status(progress),
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
    todo = _ways_out(identity.file.name, progress) if look else ""
    if state == "finished" and still:
        if still == reading(progress) and not todo:
            todo = "see that the changefeed runs: the read is over once newer messages are applied. Then: "
            todo += f"ticdc-spark replicate {identity.file.name}"
        return "warning", f"it finished, but not all is applied: {redact(still)}", todo
    if look:
        done = "it finished, but " if state == "finished" else ""
        return "warning", f"{done}{look}", todo
    return state, reason, ""


def _ways_out(file: str, progress: Progress) -> str:
    """What to do about tables that stand still or have diverged."""
    stand = any(table.quarantined is not None and not table.dropped for table in progress.tables)
    parts = [
        f"look at what was left out: ticdc-spark dead-letters {file}" if progress.rejected else "",
        f"once what holds tables is mended: ticdc-spark resume {file} …" if stand else "",
        f"or read tables anew: ticdc-spark resnapshot {file} …" if progress.mode != "arrival" else "",
    ]
    return "; ".join(filter(None, parts)).removeprefix("or ") or "look at the tables below"


def _lives(beat: Status, lease: LeaseRecord | None, age: float) -> bool:
    if lease is not None and lease.owner.process.pid == beat.pid:
        if lease.released:
            return False
        if lease.owner.machine == machine():
            return runs(lease.owner.process)
    # Its machine is not known: a process that is seen here may be it, one that is not may run elsewhere.
    return age < _SILENT or (lease is None and process(beat.pid) is not None)


_PHASES = {"source": "asking the source for new messages", "waiting": "waiting for new messages"}
