"""The checks of ``check`` and of a start: state, brokers, topics, protocol, registry, tables, Spark, catalog."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice

import msgspec
from pyspark.sql import SparkSession

from ticdc_spark.config.job import Job, KafkaSource, StorageSource
from ticdc_spark.config.routes import compiled
from ticdc_spark.errors import (
    LeaseHeld,
    SourceChanged,
    SourceFault,
    TicdcSparkError,
    UsageError,
)
from ticdc_spark.model import Message, Rejected, TableName
from ticdc_spark.protocols import PROTOCOLS, decoder
from ticdc_spark.replicate.plan.routes import with_routes
from ticdc_spark.replicate.run.open import open_spark
from ticdc_spark.replicate.run.outage import silent
from ticdc_spark.replicate.run.table_keys import check_keys, known_tables, tables_to_read
from ticdc_spark.replicate.run.target_tables import look_at_target
from ticdc_spark.replicate.schemas.registered import registered
from ticdc_spark.replicate.state.owner import beat_of, describe, lives
from ticdc_spark.replicate.state.store import progress_of, read_state
from ticdc_spark.sinks.registry import sink_kind
from ticdc_spark.sinks.states import open_state
from ticdc_spark.spark.session.session import check_java, coordinates
from ticdc_spark.spark.sources.open import parts as source_parts
from ticdc_spark.spark.sources.stored_files import open_storage
from ticdc_spark.streams.detect import ENOUGH, describe_other, detect
from ticdc_spark.topics.client_options import SECURITY, librdkafka_options
from ticdc_spark.topics.kafka_reader import TopicReader
from ticdc_spark.topics.messages import recorded_messages

_NO_SUCH_ID = 2**31 - 1
_MESSAGES = 200
"""How many of a source's first messages are checked."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    what: str
    found: str
    """What was found; the error's text after a failure."""
    error: TicdcSparkError | None = None


def checks(job: Job, *, starting: bool = False, spark: bool = False) -> Iterator[Checked]:
    """Run the checks in order. A check that depends on a failed one is skipped.

    ``starting``: the process owns the job and starts it, so it checks neither the owner nor the tables, which it reads
    next. ``spark``: start Spark, too, and open the catalog.
    """
    sink = _checked("sink", lambda: sink_kind(job).place(job))
    yield sink
    state = _checked("state", lambda: _state(job))
    if state.error is None or state.found != sink.found:  # A database that does not answer is named once.
        yield state
    if state.error is None and not starting:
        yield _checked("owner", lambda: stop_if_owned(job))
    messages: list[Message] = []
    known: set[TableName] = set()
    source = _checked("source", lambda: _source(job, messages, starting=starting))
    yield source
    if state.error is None and source.error is None and messages:
        protocol = _checked("protocol", lambda: _protocol(job, messages[:ENOUGH]))
        yield protocol
        if protocol.error is None and not starting:
            yield _checked("tables", lambda: _tables(job, messages, known))
    if job.source.schema_registry is not None:
        yield _checked("registry", lambda: _registry(job))
    if job.snapshot is not None and not starting:
        keys = job.snapshot
        yield _checked("snapshot", lambda: tables_to_read(job, keys, known))
    if starting:
        return
    if sink.error is None and (rights := _checked("rights", lambda: _rights(job, known))).found:
        yield rights
    packages = _checked("packages", lambda: _packages(job))
    yield packages
    if spark and state.error is None and sink.error is None and packages.error is None:
        opened: list[SparkSession] = []
        started = _checked("spark", lambda: _spark(job, opened))
        yield started
        if started.error is None:
            catalog = _checked("catalog", lambda: sink_kind(job).look(opened[0], job.sink))
            yield catalog
            if catalog.error is None and known:
                yield _checked("target", lambda: look_at_target(job, opened[0], known))


def stop_at_fault(job: Job, report: Callable[[str], None]) -> None:
    """Run the checks of a start. ``report`` gets the results. Raises: the first error"""
    for checked in checks(job, starting=True):
        if checked.error is not None:
            raise checked.error
        if checked.what not in ("state", "sink"):
            report(f"{checked.what}: {checked.found}")


def _checked(what: str, look: Callable[[], str]) -> Checked:
    try:
        return Checked(what=what, found=look())
    except TicdcSparkError as error:
        return Checked(what=what, found=str(error), error=error)


def _state(job: Job) -> str:
    with closing(open_state(job.sink, job.name, job.spark)) as states:
        found = read_state(states)
        if found.progress is not None:
            with_routes(job, found.progress)
        return f"{states.where}" if found.held is not None else f"{states.where} will be created"


def stop_if_owned(job: Job) -> str:
    """Stop if another process runs a job. Raises: LeaseHeld, SinkFault"""
    with closing(open_state(job.sink, job.name, job.spark)) as states:
        held = read_state(states).held
        beat = None if held is None else beat_of(states, held)
        if held is not None and lives(held, beat):
            raise LeaseHeld(f"{states.where} is held by {describe(held, beat)}")
    return "no process runs the job"


def _source(job: Job, found: list[Message], *, starting: bool) -> str:
    source = job.source
    if isinstance(source, StorageSource) and starting:
        return f"{source.path}: {open_storage(source).glance()}"
    if isinstance(source, StorageSource):
        what, sample = open_storage(source).check(_MESSAGES)
        found += sample
        return f"{source.path}: {what}"
    if not isinstance(source, KafkaSource):
        found += islice(recorded_messages(source.path), _MESSAGES)
        return f"{source.path}" if found else f"{source.path} has no messages yet"
    gone = silent(source)
    if gone:
        raise SourceFault(gone)
    try:
        options = security(source)
    except UsageError as error:
        return f"a broker of {source.bootstrap_servers} accepts connections; topics are checked by Spark ({error})"
    with TopicReader(source.bootstrap_servers, options) as kafka:
        topics = source.topics or tuple(matching(kafka.topics(), source.topic_pattern or ""))
        partitions = kafka.partitions(topics)
        if compacted := kafka.compacted(topics):
            raise SourceChanged(
                f"topic {compacted[0]} has cleanup.policy = compact: Kafka removes changes from it that the job may "
                "not have applied. Set its cleanup.policy to delete. If it was compacted before, use a new topic and a "
                "full read of the tables ([snapshot])"
            )
        start, end = kafka.places(partitions, "beginning"), kafka.places(partitions, "end")
        messages = sum(max(0, end[place] - start[place]) for place in partitions)
        if messages:
            found += islice(kafka.read(start, end, [], patient=False), _MESSAGES)
    named = ", ".join(topics[:5]) + (" …" if len(topics) > 5 else "")
    if not topics:
        return f"Kafka at {source.bootstrap_servers}: no topic matches {source.topic_pattern!r} yet"
    return f"Kafka at {source.bootstrap_servers}: {named}; {len(partitions)} partitions, about {messages:,} messages"


def _tables(job: Job, messages: list[Message], known: set[TableName]) -> str:
    tables = known_tables(job, messages)
    known |= set(tables)
    return check_keys(job, tables)


def _rights(job: Job, known: set[TableName]) -> str:
    """Check that the target can have the known tables, and that its user may write them.

    Raises: DecisionNeeded, UsageError, SinkFault
    """
    return sink_kind(job).stop_without_rights(job.sink, [*map(compiled(job.routes).target, known)])


def security(source: KafkaSource) -> dict[str, str]:
    """The options to reach the cluster without Spark. Raises: UsageError when only Spark can"""
    options = {key.removeprefix("kafka."): value for key, value in source.options.items()}
    return librdkafka_options({key: value for key, value in options.items() if key.startswith(SECURITY)})


def matching(topics: list[str], pattern: str) -> list[str]:
    """The topics that a pattern matches; none if only Java can read the pattern."""
    try:
        return [topic for topic in topics if not topic.startswith("__") and re.fullmatch(pattern, topic)]
    except re.error:
        return []  # Java's regular expressions can do more than Python's: Spark will look


def _protocol(job: Job, messages: list[Message]) -> str:
    if isinstance(job.source, StorageSource):
        return f"{'JSON' if job.source.csv is None else 'CSV'}, by the job file and the names of the files"
    pairs = [(message.key, message.value) for message in messages]
    named, known = job.source.protocol, progress_of(job)
    if known is not None and known.batch:
        return f"{named or known.protocol}, as before"
    try:
        looks_like = detect(pairs, f"{job.file}: [source] protocol")
    except UsageError:
        if named is None:
            raise
        if described := describe_other(pairs, named):
            raise UsageError(f"{job.file}: [source] protocol is {named}, but {described}") from None
        return f"{named}, by the job file; the first messages do not show it"
    if named is None or looks_like == named:
        return f"{looks_like}, by the first messages"
    traits, other = PROTOCOLS[named].traits, PROTOCOLS[looks_like].traits
    if traits.registry and other.registry:
        return f"{named}, by the job file"  # framed alike
    if not traits.registry:
        of = decoder(named)
        if not all(isinstance(event, Rejected) for pair in pairs for event in of.open_message(*pair)):
            return f"{named}, by the job file"
    raise UsageError(
        f"{job.file}: [source] protocol is {named}, but the first {len(pairs)} messages look like {looks_like}"
    )


def _registry(job: Job) -> str:
    found = registered(job.source)
    assert found is not None, "checked only where there is one"
    try:
        found.fetch([_NO_SUCH_ID])
    finally:
        found.close()
    return "it answers"


def _packages(job: Job) -> str:
    check_java()
    jars = coordinates(*sink_kind(job).parts(job.sink), *source_parts(job.source))
    own = filter(None, job.spark.get("spark.jars.packages", "").split(","))
    return f"Java is there; jars: {', '.join((*jars, *own))}"


def _spark(job: Job, opened: list[SparkSession]) -> str:
    spark = open_spark(job, source_parts(job.source))
    opened.append(spark)
    return f"Spark {spark.version} runs at {spark.sparkContext.master}"
