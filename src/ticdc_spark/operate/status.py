"""The status of a job, from its state in the target, even while it does not run. Starts nothing."""

import time
from contextlib import closing
from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.config.durations import duration
from ticdc_spark.config.job import Identity
from ticdc_spark.config.secrets import redact
from ticdc_spark.config.values import ModeName
from ticdc_spark.mysql import tso_time
from ticdc_spark.operate.held_back import HeldBack, first_line, held_back
from ticdc_spark.operate.lag import lag_of, seconds_left, slowest_partition, too_late
from ticdc_spark.operate.retention import headroom_of, too_short
from ticdc_spark.operate.table_status import TableStatus, tables_status
from ticdc_spark.replicate.report import held, needs_a_look, reading
from ticdc_spark.replicate.state.owner import Ownership, beat_of, load_status
from ticdc_spark.replicate.state.processes import machine, runs
from ticdc_spark.replicate.state.progress import Progress, Status
from ticdc_spark.replicate.state.requests import words
from ticdc_spark.replicate.state.store import read_state
from ticdc_spark.sinks.states import open_state

State: TypeAlias = Literal["normal", "warning", "pending", "failed", "stopped", "finished"]
"""TiCDC's words. warning: it runs or has finished, but look. failed: it ended with an error. stopped: on request."""

_SILENT = 120.0
"""After so many seconds without a heartbeat, a living process is suspicious, and an unseen one counts as gone."""


class PartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a topic."""

    topic: str
    partition: int
    offset: int
    watermark_ts: int
    watermark_ts_text: str
    watermark_time: str
    idle: bool


class LastError(msgspec.Struct, frozen=True, kw_only=True):
    """The error that the job ended with."""

    code: str
    message: str
    at: float | None = None
    exit_code: int | None = None


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a job, as ``status --json`` prints it. Lags and ages are in seconds, times in UTC.

    64-bit numbers also have a text field: JavaScript and jq round numbers above 2^53.
    """

    job: str
    state: State
    reason: str
    next: str
    """What to do, if anything."""
    running: bool
    pid: int | None = None
    heartbeat_age: float | None = None
    phase: str = ""
    batch: int = 0
    mode: ModeName | Literal[""] = ""
    """arrival: there are no watermarks, and ``resolved_ts`` is only the highest applied commitTs."""
    resolved_ts: int = 0
    resolved_ts_text: str = "0"
    resolved_time: str = "-"
    lag: float | None = None
    upstream_lag: float | None = None
    """The part of the lag from TiCDC and Kafka; see ``operate.lag``."""
    own_lag: float | None = None
    """The part of the lag from this job."""
    messages_to_read: int | None = None
    """After the last batch."""
    messages_per_second: float | None = None
    """Over the last batches."""
    seconds_left: float | None = None
    """Until all messages are read, at that rate."""
    last_commit_at: float | None = None
    """Seconds since the epoch."""
    last_commit_age: float | None = None
    held_back_by: HeldBack
    slowest_partition: str | None = None
    retention_headroom: float | None = None
    """Seconds until Kafka may delete what the job needs; ``null``: nothing is needed, or there is no limit."""
    changes: int = 0
    """Applied row changes."""
    changes_waiting: int = 0
    changes_waiting_at_most: bool = False
    """Some of them may be applied already: the sink did not count them, or a batch was interrupted."""
    ddls: int = 0
    ddls_waiting: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    """Requests of people that the job has not taken yet."""
    rejected: int = 0
    replays: int = 0
    late: int = 0
    zero_dates: int = 0
    regressions: int = 0
    tables: tuple[TableStatus, ...] = ()
    partitions: tuple[PartitionStatus, ...] = ()
    last_error: LastError | None = None


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What the target stores of a job."""

    progress: Progress
    beat: Status | None = None
    held: Ownership | None = None
    requests: tuple[str, ...] = ()
    """As text."""


def stored(identity: Identity) -> Stored:
    """Read the state of a job. Raises: SinkFault, DecisionNeeded, UsageError"""
    with closing(open_state(identity.sink, identity.name, identity.spark)) as states:
        found = read_state(states)
        runs_now = found.held is not None and not found.held.released
        beat = beat_of(states, found.held) if found.held is not None and runs_now else load_status(states)
    progress = found.progress or Progress(job=identity.name)
    requests = tuple(words(request) for request in found.requests)
    return Stored(progress=progress, beat=beat, held=found.held, requests=requests)


def job_status(identity: Identity) -> JobStatus:
    """Read the state of a job and derive its status. Raises: SinkFault, DecisionNeeded, UsageError"""
    return status_of(identity, stored(identity), time.time())


def status_of(
    identity: Identity, found: Stored, now: float, tables: tuple[TableStatus, ...] | None = None
) -> JobStatus:
    """A job's status, with open requests. ``tables``: the status of its tables, if already known."""
    status = describe_job(identity, found.progress, found.beat, found.held, now)
    tables = tables_status(found.progress) if tables is None else tables
    return msgspec.structs.replace(status, requests=found.requests, tables=tables)


def describe(
    identity: Identity, progress: Progress, beat: Status | None, held: Ownership | None, now: float
) -> JobStatus:
    """Derive a job's status from what is stored."""
    status = describe_job(identity, progress, beat, held, now)
    return msgspec.structs.replace(status, tables=tables_status(progress))


def describe_job(
    identity: Identity, progress: Progress, beat: Status | None, held: Ownership | None, now: float
) -> JobStatus:
    """Derive a job's status without its tables. There may be many."""
    state, reason, todo, running = _state(identity, beat, held, now)
    if state in ("normal", "finished"):
        state, reason, todo = _troubled(identity, progress, state, reason)
    lag = lag_of(progress, beat, now)
    if running and state in ("normal", "warning") and (late := too_late(identity.max_lag, progress, beat, now)):
        reason = f"{reason}; {late}" if state == "warning" else late
        state, todo = "warning", todo or _LATE
    headroom = headroom_of(progress, beat.retention, now) if beat else None
    if short := too_short(headroom):
        reason = short if state == "normal" else f"{reason}; {short}"
        state = "failed" if state == "failed" else "warning"
        todo = f"{_SHORT}; {todo}" if todo else _SHORT
    slowest = slowest_partition(progress)
    return JobStatus(
        job=identity.name,
        state=state,
        reason=reason,
        next=todo,
        running=running,
        pid=beat.pid if beat else held.owner.process.pid if held and running else None,
        heartbeat_age=max(0.0, now - beat.at) if beat else None,
        phase=beat.phase if beat and running else "",
        batch=progress.batch,
        mode=progress.mode,
        resolved_ts=progress.applied,
        resolved_ts_text=str(progress.applied),
        resolved_time=tso_time.utc(progress.applied),
        lag=lag.whole,
        upstream_lag=lag.upstream,
        own_lag=lag.own,
        messages_to_read=beat.left if beat else None,
        messages_per_second=beat.rate if beat else None,
        seconds_left=seconds_left(beat),
        last_commit_at=progress.committed_at or None,
        last_commit_age=max(0.0, now - progress.committed_at) if progress.committed_at else None,
        held_back_by=held_back(progress, beat if state == "failed" else None, now),
        slowest_partition=f"{slowest.topic}-{slowest.partition}" if slowest else None,
        retention_headroom=headroom.seconds if headroom else None,
        changes=progress.counters.rows,
        changes_waiting=sum(one.waiting for one in progress.pending),
        changes_waiting_at_most=any(one.uncounted for one in progress.pending),
        ddls=progress.counters.ddls,
        ddls_waiting=tuple(f"{one.change.commit_ts}: {redact(one.change.query)}" for one in progress.ddls),
        rejected=progress.counters.rejected,
        replays=progress.counters.replays,
        late=progress.counters.late,
        zero_dates=progress.counters.zero_dates,
        regressions=progress.counters.regressions,
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


def _state(identity: Identity, beat: Status | None, held: Ownership | None, now: float) -> tuple[State, str, str, bool]:
    again = f"ticdc-spark replicate {identity.file.name}"
    if beat is None and held is not None and not held.released:
        if held.owner.machine == machine() and not runs(held.owner.process):
            reason = f"its process, pid {held.owner.process.pid}, is gone; it sent no heartbeat and wrote down no end"
            return "failed", reason, f"{_LOG}; nothing is lost; then run: {again}", False
        return "pending", f"pid {held.owner.process.pid} on host {held.owner.host} starts it", "", True
    if beat is None:
        return "pending", "it has not run yet", f"run: {again}", False
    age = now - beat.at
    if beat.state in ("failed", "stopped", "finished"):
        if beat.state == "failed":
            decide = beat.exit_code == 4
            todo = "decide: the reason names the ways out" if decide else "correct what the reason names"
            return "failed", first_line(beat), f"{todo}; then run: {again}", False
        reached = "it reached the end that --once or --until-ts set"
        return beat.state, "it was stopped on request" if beat.state == "stopped" else reached, "", False
    if not _lives(held, age):
        doing = redact(beat.error or _PHASES.get(beat.phase, beat.phase))
        last = f"last heartbeat {age:.0f} s ago, in batch {beat.batch}: {doing}"
        reason = f"its process, pid {beat.pid}, is gone and wrote down no end; {last}"
        return "failed", reason, f"{_LOG}; nothing is lost; then run: {again}", False
    if age > _SILENT:
        reason = f"its process, pid {beat.pid}, runs but has been silent for {age:.0f} s"
        return "warning", reason, f"look at its log; a stack dump of its JVM: jstack (phase {beat.phase!r})", True
    return beat.state, redact(beat.error or _doing(beat)), _OUTAGE if beat.error else "", True


def _doing(beat: Status) -> str:
    """What a job does now, as text."""
    doing = _PHASES.get(beat.phase, beat.phase)
    if not beat.left:
        return doing
    left = seconds_left(beat)
    time_left = "" if left is None else f", about {duration(left)} left"
    return f"catching up, {beat.left:,} messages to read{time_left}: {doing}"


def _troubled(identity: Identity, progress: Progress, state: State, reason: str) -> tuple[State, str, str]:
    """The state, reason and next step of a job that runs or has finished, considering its tables."""
    still, look = held(progress), needs_a_look(progress)
    todo = _ways_out(identity.file.name, progress) if look else ""
    if state == "finished" and still:
        if still == reading(progress) and not todo:
            todo = "see that the changefeed runs: the read is complete once newer messages are applied. Then: "
            todo += f"ticdc-spark replicate {identity.file.name}"
        return "warning", "it finished, but not all is applied", todo
    if look:
        done = "it finished, but " if state == "finished" else ""
        return "warning", f"{done}{look}", todo
    return state, reason, ""


def _ways_out(file: str, progress: Progress) -> str:
    """What to do about tables that are quarantined or have diverged."""
    stand = any(table.is_quarantined and not table.is_gone for table in progress.tables)
    parts = [
        f"look at rejected messages: ticdc-spark dead-letters {file}" if progress.counters.rejected else "",
        f"once the cause is fixed: ticdc-spark resume {file} …" if stand else "",
        f"or read tables in full: ticdc-spark rebuild {file} …" if progress.mode != "arrival" else "",
    ]
    return "; ".join(filter(None, parts)).removeprefix("or ") or "look at the tables below"


def _lives(held: Ownership | None, age: float) -> bool:
    if held is None or held.released:
        return False
    if held.owner.machine == machine():
        return runs(held.owner.process)
    return age < _SILENT


def check_code(status: JobStatus) -> int:
    """The exit code of ``status --check``: 0 good, 1 or 2 failed with that code, 3 look at it, 4 failed and a person
    must decide."""
    if status.state == "failed":
        code = status.last_error.exit_code if status.last_error else None
        return code if code in (2, 4) else 1
    well = status.state in ("normal", "finished", "stopped") or (status.state == "pending" and status.running)
    return 0 if well else 3


_LOG = "look at its log (memory, a full disk?)"
_OUTAGE = "if it lasts, correct what the reason names; the job continues by itself"
_PHASES = {
    "starting": "starting",
    "source": "asking the source for new messages",
    "scan": "reading the messages of a batch",
    "advance": "planning what to apply",
    "apply": "writing the tables",
    "snapshot": "reading tables in full",
    "upkeep": "maintaining the files of a table",
    "waiting": "waiting for new messages",
}
_SHORT = "raise retention.ms of the topic, so that the job can read or apply these messages first"
_LATE = "see that the changefeed runs: cdc cli changefeed query"
