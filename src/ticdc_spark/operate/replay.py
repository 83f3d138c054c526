"""Ask a job to apply what it could not read, or left out, once the cause is gone."""

from collections.abc import Sequence
from contextlib import ExitStack, closing

from ticdc_spark.clients.registry_file import open_registry
from ticdc_spark.config.job import Job
from ticdc_spark.ddl.known_names import KnownNames
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Envelope, Rejected
from ticdc_spark.operate.dead_letters import Letter
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import Decoder
from ticdc_spark.replicate.plan.spelling import scan_names
from ticdc_spark.replicate.state.progress import Progress
from ticdc_spark.replicate.state.requests import Replay, ReplayedRow
from ticdc_spark.replicate.state.store import ask, read_state
from ticdc_spark.replicate.state.table import TableState
from ticdc_spark.sinks.states import open_state


def replay(job: Job, letters: Sequence[Letter]) -> Replay:
    """Ask that messages which are dead letters are read again, and applied where their keys have no newer change.

    Returns: the request

    Raises: UsageError as ``replay_of``; EnvironmentFault
    """
    with ExitStack() as stack:
        states = stack.enter_context(closing(open_state(job.sink, job.name, job.spark)))
        progress = read_state(states).progress
        protocol = job.source.protocol or ("" if progress is None else progress.protocol)
        where = job.source.schema_registry
        registry = None
        if where is not None:
            registry = stack.enter_context(closing(open_registry(where, job.source.schema_registry_options)))
        request = replay_of(job, progress, letters, decoder(protocol or "simple", registry))
        if request.rows:
            ask(states, request)
    return request


def replay_of(job: Job, progress: Progress | None, letters: Sequence[Letter], opener: Decoder) -> Replay:
    """The request to replay messages, all or none.

    Raises: UsageError for a job in mode arrival or without progress, for a message that is no row or still cannot be
    opened, and for a table that the job does not have or that is quarantined
    """
    if progress is None:
        raise UsageError(f"{job.file}: the job has no progress yet")
    if progress.mode == "arrival":
        raise UsageError(
            f"{job.file}: the job is in mode arrival, which cannot tell what is the newest change of a key"
        )
    known = KnownNames(scan_names(progress))
    states = {(table.schema, table.name): table for table in progress.tables}
    found: dict[ReplayedRow, None] = {}
    for letter in letters:
        topic, partition, offset = letter["topic"], letter["partition"], letter["offset"]
        where = f"{topic}/{partition}/{offset}"
        for event in opener.open_message(letter["key"], letter["value"]):
            if not isinstance(event, Envelope) or not event.commit_ts:
                raise UsageError(f"{where} cannot be replayed: {_why_not(event)}. `rebuild` reads its table again")
            name = known.of_rows((event.schema, event.table))
            _refuse(where, name, states.get(name))
            row = ReplayedRow(
                table=name,
                sent=(event.schema, event.table),
                schema_key=event.schema_key,
                commit_ts=event.commit_ts,
                topic=topic,
                partition=partition,
                offset=offset,
            )
            found[row] = None
    return Replay(tables=tuple(dict.fromkeys(row.table for row in found)), rows=tuple(found))


def _why_not(event: object) -> str:
    if isinstance(event, Rejected):
        return event.reason
    return "it has no commitTs" if isinstance(event, Envelope) else "it is no row change"


def _refuse(where: str, name: tuple[str, str], table: TableState | None) -> None:
    """Raises: UsageError where a row of a table cannot be replayed"""
    named = ".".join(name)
    if table is None or table.is_gone:
        raise UsageError(f"{where} cannot be replayed: the job has no table {named} now")
    if table.is_quarantined:
        raise UsageError(f"{where} cannot be replayed: {named} is quarantined. `resume` applies all that waits for it")
