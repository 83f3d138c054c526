"""Asks a job to apply rejected or skipped messages, after their cause is fixed."""

from collections.abc import Sequence
from contextlib import ExitStack, closing

from ticdc_spark.clients.registry_file import open_registry
from ticdc_spark.config.job import Job
from ticdc_spark.config.routes import compiled
from ticdc_spark.ddl.known_names import KnownNames
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Envelope, Rejected
from ticdc_spark.operate.dead_letters import Letter
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import Decoder
from ticdc_spark.replicate.plan.spelling import scan_names
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.requests import Replay, ReplayedRow, why_not_replayed
from ticdc_spark.replicate.state.store import ask, read_state
from ticdc_spark.sinks.states import open_state

_BACK = "Name it in `topics` under [source], let the job read it, and replay again"


def replay(job: Job, letters: Sequence[Letter]) -> tuple[Replay, tuple[str, ...]]:
    """Ask the job to read dead letters again, and to apply rows whose keys have no newer change.

    Returns: the request, and a reason for each message that cannot be replayed

    Raises: UsageError as ``replay_of``, for a job without progress, and if no message can be replayed;
    EnvironmentFault
    """
    with ExitStack() as stack:
        states = stack.enter_context(closing(open_state(job.sink, job.name, job.spark)))
        progress = read_state(states).progress
        if progress is None:
            raise UsageError(f"{job.file}: the job has no progress yet")
        protocol = job.source.protocol or progress.protocol
        where = job.source.schema_registry
        registry = None
        if where is not None:
            registry = stack.enter_context(closing(open_registry(where, job.source.schema_registry_options)))
        request, refused = replay_of(job, progress, letters, decoder(protocol, registry))
        if refused and not request.rows:
            raise UsageError("\n".join(refused))
        if request.rows:
            ask(states, request)
    return request, refused


def replay_of(
    job: Job, progress: Progress, letters: Sequence[Letter], opener: Decoder
) -> tuple[Replay, tuple[str, ...]]:
    """The request to replay messages, each as a whole, and a reason for each message that cannot be replayed.

    Possible reasons: it is not a row, or it still cannot be read. Its table is gone, has changed since or is
    quarantined. The job does not read its topic.

    Raises: UsageError for a job in arrival mode
    """
    if progress.mode == "arrival":
        raise UsageError(f"{job.file}: the job is in mode arrival, where the newest change of a key is not known")
    known = KnownNames(scan_names(progress))
    found: dict[ReplayedRow, None] = {}
    refused: dict[str, None] = {}
    for letter in letters:
        try:
            found |= dict.fromkeys(_rows_of(letter, opener, progress, known))
        except _Refused as why:
            place = f"{letter['topic']}/{letter['partition']}/{letter['offset']}"
            refused[f"{place} cannot be replayed: {why}"] = None
    return Replay(tables=tuple(dict.fromkeys(row.table for row in found)), rows=tuple(found)), tuple(refused)


class _Refused(Exception):
    """Why a message cannot be replayed."""


def _rows_of(letter: Letter, opener: Decoder, progress: Progress, known: KnownNames) -> list[ReplayedRow]:
    """The rows of a message. Raises: _Refused"""
    topic, partition, offset = letter["topic"], letter["partition"], letter["offset"]
    if not any((one.topic, one.partition) == (topic, partition) for one in progress.partitions):
        raise _Refused(f"the job does not read topic {topic} now. {_BACK}")
    found = []
    for event in opener.open_message(letter["key"], letter["value"]):
        if not isinstance(event, Envelope) or not event.commit_ts:
            raise _Refused(f"{_why_not(event)}. `rebuild` reads its table again")
        name = known.of_rows((event.schema, event.table))
        if compiled(progress.routes).merged(name) is not None:
            raise _Refused(f"{'.'.join(name)} is merged with other tables by [[route]] origin")
        table = next((one for one in progress.tables if one.full_name == name), None)
        if why := why_not_replayed(name, event.commit_ts, table):
            raise _Refused(why)
        if table is not None and table.is_quarantined:
            raise _Refused(f"{'.'.join(name)} is quarantined. `resume` applies its waiting rows")
        row = ReplayedRow(
            table=name,
            sent=(event.schema, event.table),
            schema_key=event.schema_key,
            commit_ts=event.commit_ts,
            topic=topic,
            partition=partition,
            offset=offset,
        )
        found.append(row)
    return found


def _why_not(event: object) -> str:
    if isinstance(event, Rejected):
        return event.reason
    return "it has no commitTs" if isinstance(event, Envelope) else "it is not a row change"
