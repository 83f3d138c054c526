"""The page of a job."""

from heapq import nlargest

from ticdc_spark.config.durations import duration
from ticdc_spark.config.secrets import redact
from ticdc_spark.mysql import tso_time
from ticdc_spark.operate.page.job_source import Seen
from ticdc_spark.operate.page.samples import lags, rates
from ticdc_spark.operate.page.table_files import helped
from ticdc_spark.operate.page.tables import listing
from ticdc_spark.operate.page.view import (
    Cell,
    Chart,
    Code,
    Fact,
    Facts,
    Grid,
    Head,
    Headline,
    Part,
    Query,
    Section,
    Tone,
    View,
    moment,
    steps_of,
)
from ticdc_spark.operate.status import JobStatus

_TONES: dict[str, Tone] = {
    "normal": "good",
    "finished": "good",
    "warning": "warn",
    "pending": "quiet",
    "failed": "bad",
    "stopped": "quiet",
}
_PARTITIONS = 20
_DDLS = 30
_SQL = 300
"""Characters of a DDL that are shown."""


def job_view(seen: Seen, file: str, query: Query, more: tuple[Section, ...] = ()) -> View:
    """The page of a job at one moment. ``file``: the job file as commands name it; ``more``: further sections."""
    status = seen.status
    return View(
        kind="job",
        name=status.job,
        headline=_headline(seen),
        at=moment(seen.now),
        sections=(
            Section(name="progress", title="Progress and lag", parts=_progress(seen)),
            Section(name="tables", title="Tables", parts=(listing(status.tables, query, seen.told, seen.now),)),
            Section(name="held", title="What holds the tables back", parts=_held(seen)),
            Section(name="ddl", title="DDL", parts=_ddls(seen)),
            Section(name="dead-letters", title="Dead letters", parts=_letters(seen, file)),
            Section(name="maintenance", title="Maintenance", parts=_maintenance(seen, file)),
            *more,
        ),
    )


def _headline(seen: Seen) -> Headline:
    status = seen.status
    error = status.last_error
    told = error is not None and error.message.splitlines()[:1] == [status.reason]
    since = "" if seen.since is None else f"since {moment(seen.since)}"
    if status.heartbeat_age is not None and not status.running:
        since += f"{', ' if since else ''}last heartbeat {duration(status.heartbeat_age)} ago"
    return Headline(
        state=status.state,
        tone=_TONES[status.state],
        reason=error.message if error is not None and told else status.reason,
        since=since,
        steps=steps_of(status.next),
    )


def _progress(seen: Seen) -> tuple[Part, ...]:
    status = seen.status
    at = (
        (tso_time.utc(status.resolved_ts), f"commitTs {status.resolved_ts}") if status.resolved_ts else ("none yet", "")
    )
    is_arrival = status.mode == "arrival"
    committed = ""
    if status.last_commit_at is not None:
        committed = f"{duration(status.last_commit_age)} ago"
    first = (
        Fact("newest commitTs" if is_arrival else "resolved ts", at[0], more=at[1]),
        Fact("lag", _of(status.lag), more=_split(status)),
    )
    facts = (
        Fact("mode", "arrival: no watermarks, tables follow the messages" if is_arrival else "", "warn"),
        Fact("slowest partition", status.slowest_partition or ""),
        Fact("last commit", committed, more=f"batch {status.batch}"),
        Fact("last batch", _phases(seen)),
        Fact("to read", _to_read(status)),
        Fact("changes", f"{status.changes:,} applied", more=_waiting(status)),
        Fact("Kafka keeps it for", _of(status.retention_headroom), more="the oldest message that the job needs"),
        Fact("left out", _left_out(status)),
    )
    samples = seen.told.samples
    charts: tuple[Part, ...] = (
        Chart(title="Lag", points=lags(samples, seen.now, status.lag), unit="seconds"),
        Chart(title="Changes applied", points=rates(samples), unit="a second"),
    )
    return (Facts(first, "tiles"), Facts(facts), *charts, _partitions(status))


def _split(status: JobStatus) -> str:
    if status.upstream_lag is None or status.own_lag is None:
        return ""
    return f"upstream {duration(status.upstream_lag)}, this job {duration(status.own_lag)}"


def _of(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _phases(seen: Seen) -> str:
    report = seen.told.report
    if report is None or not report.messages:
        return ""
    phases = ", ".join(f"{name} {duration(spent)}" for name, spent in report.phases.items() if spent >= 0.05)
    return f"{report.messages:,} messages in {duration(report.seconds)}" + (f": {phases}" if phases else "")


def _to_read(status: JobStatus) -> str:
    if not status.messages_to_read:
        return ""
    rate = f", {status.messages_per_second:,.0f} messages/s" if status.messages_per_second else ""
    left = f", about {duration(status.seconds_left)} left" if status.seconds_left is not None else ""
    return f"{status.messages_to_read:,} messages{rate}{left}"


def _waiting(status: JobStatus) -> str:
    return f"{'at most ' if status.changes_waiting_at_most else ''}{status.changes_waiting:,} waiting"


def _left_out(status: JobStatus) -> str:
    numbers = {
        "rejected": status.rejected,
        "late": status.late,
        "replays": status.replays,
        "zero dates as NULL": status.zero_dates,
        "repeated watermarks (a few are harmless)": status.regressions,
    }
    return ", ".join(f"{number:,} {name}" for name, number in numbers.items() if number)


def _partitions(status: JobStatus) -> Grid:
    """The slowest partitions first."""
    slowest = sorted(status.partitions, key=lambda one: (one.idle, one.watermark_ts, one.topic, one.partition))
    rows = tuple(
        (
            Cell(f"{one.topic}/{one.partition}", more="read to its end, and no longer waited for" if one.idle else ""),
            one.watermark_time,
            f"{one.offset:,}",
        )
        for one in slowest[:_PARTITIONS]
    )
    rest = len(slowest) - len(rows)
    return Grid(
        heads=(Head("Partition, the slowest first"), Head("Watermark", "time"), Head("Next offset", "number")),
        rows=rows,
        empty="no partition is known yet",
        note=f"and {rest:,} more" if rest > 0 else "",
    )


def _held(seen: Seen) -> tuple[Part, ...]:
    held, status = seen.status.held_back_by, seen.status
    what = "see the reason above" if held.what == status.reason else held.what
    if held.kind == "none":
        facts = [Fact("held back by", "nothing", "good")]
    else:
        since = f"for {duration(held.seconds)}" if held.seconds is not None else ""
        # Some partition is always the slowest one, so that is no warning.
        tone: Tone = "" if held.kind == "partition" and status.state == "normal" else "warn"
        facts = [Fact("held back by", f"{held.kind}: {what}", tone, since)]
    facts += [Fact("asked for", request, more="and not taken yet") for request in status.requests]
    return (Facts(tuple(facts), "lines"),)


def _ddls(seen: Seen) -> tuple[Part, ...]:
    """Waiting DDLs first, then DDLs that this process applied, then the last DDL of each other table."""
    rows: list[tuple[Cell | str, ...]] = [
        (tso_time.utc(one.change.commit_ts), Cell("waits", "warn"), _sql(one.change.query))
        for one in seen.progress.ddls[:_DDLS]
    ]
    told = set()
    for applied in seen.told.ddls:
        change = applied.ddl.change
        told.add(change.commit_ts)
        done = Cell("done", "good", f"at {moment(applied.at)}")
        rows.append((tso_time.utc(change.commit_ts), done, _sql(change.query)))
    others = nlargest(_DDLS, ((ts, name) for name, ts in seen.ddl_times.items() if ts not in told))
    for ts, name in others:
        rows.append((tso_time.utc(ts), Cell("applied", "good"), f"the last one of {'.'.join(name)}"))
    rest = seen.status.ddls - len(told)
    grid = Grid(
        heads=(Head("At the source", "time"), Head("State", "time"), Head("SQL")),
        rows=tuple(rows[:_DDLS]),
        empty="no DDL yet",
        note="The text of a DDL is known while it waits, and to the process that applied it." if rest > 0 else "",
    )
    counted = Fact("DDL", f"{seen.status.ddls:,} applied", more=f"{len(seen.progress.ddls):,} waiting")
    return (Facts((counted,), "lines"), grid)


def _sql(query: str) -> str:
    text = redact(" ".join(query[: 4 * _SQL].split()))
    return text if len(text) <= _SQL and len(query) <= 4 * _SQL else text[:_SQL] + "…"


def _letters(seen: Seen, file: str) -> tuple[Part, ...]:
    number = seen.status.rejected
    if not number and not seen.told.letters:
        return (Facts((Fact("dead letters", "none", "good"),), "lines"),)
    rows = tuple(
        (
            Cell(f"{one.topic}/{one.partition}/{one.offset}", more=f"at {moment(one.at)}"),
            one.stage,
            Cell(redact(one.reason), more=redact(one.message)),
        )
        for one in seen.told.letters
    )
    grid = Grid(
        heads=(Head("Topic/partition/offset"), Head("Stage or table"), Head("Why, and the message")),
        rows=rows,
        empty="This process has kept none; the command below lists all.",
    )
    facts = Facts((Fact("dead letters", f"{number:,}", "warn", "rejected messages and rows"),), "lines")
    show = "TOPIC/PARTITION/OFFSET"
    if seen.told.letters:
        first = seen.told.letters[0]
        show = f"{first.topic}/{first.partition}/{first.offset}"
    return (
        facts,
        grid,
        Code(text="All of them", command=f"ticdc-spark dead-letters {file}"),
        Code(text="One of them, decoded", command=f"ticdc-spark dead-letters {file} --show {show}"),
    )


def _maintenance(seen: Seen, file: str) -> tuple[Part, ...]:
    rows = tuple(
        (
            Cell(".".join(one.upkeep.table), more=f"at {moment(one.at)}"),
            Cell("failed", "warn", redact(one.upkeep.fault))
            if one.upkeep.fault
            else Cell("; ".join(one.upkeep.result.done) or "nothing to do", more=helped(one.upkeep.result)),
            duration(one.upkeep.seconds),
        )
        for one in seen.told.maintained
    )
    grid = Grid(
        heads=(Head("Table"), Head("What was done"), Head("Took", "number")),
        rows=rows,
        empty="This process has maintained no table yet.",
    )
    return (grid, Code(text="By hand", command=f"ticdc-spark upkeep {file}"))
