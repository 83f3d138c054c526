"""What can be known of a job before Spark starts, in seconds: folders, lease, brokers, topics, protocol, registry."""

import os
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import msgspec

from ticdc_spark.capture.snapshot.open import open_reader
from ticdc_spark.config.job import Job, KafkaSource, SnapshotKeys
from ticdc_spark.config.paths import local_folder
from ticdc_spark.config.state import StateUri
from ticdc_spark.errors import (
    EnvironmentFault,
    LeaseHeld,
    SinkFault,
    SourceFault,
    TicdcSparkError,
    UsageError,
)
from ticdc_spark.model import Message, Rejected
from ticdc_spark.mysql import handle_key, no_key
from ticdc_spark.protocols import PROTOCOLS, decoder
from ticdc_spark.replicate.run.outage import silent
from ticdc_spark.replicate.schemas.registered import registered
from ticdc_spark.replicate.snapshot.wanted import wanted_tables
from ticdc_spark.replicate.state.lease import living
from ticdc_spark.replicate.state.lease_store import lease_store
from ticdc_spark.replicate.state.store import Store
from ticdc_spark.streams.detect import ENOUGH, detect
from ticdc_spark.topics.client_options import SECURITY, librdkafka_options
from ticdc_spark.topics.kafka_reader import TopicReader
from ticdc_spark.topics.messages import recorded_messages

_NO_SUCH_ID = 2**31 - 1
_SCHEMAS = 1000
"""Tables of ``[snapshot]`` whose keys are looked at."""
_NAMED = 5


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    what: str
    found: str
    """What was found; of a failure, the error's text."""
    error: TicdcSparkError | None = None


def checks(job: Job, *, starting: bool = False) -> Iterator[Checked]:
    """Run one check after the other; what builds on something that failed is left out.

    ``starting``: by a process that holds the job and starts it: without the lease, and without the tables of
    ``[snapshot]``, which it reads at once.
    """
    state = _checked("state", lambda: _state(job.state))
    yield state
    yield _checked("warehouse", lambda: _warehouse(job))
    if state.error is None and not starting:
        yield _checked("lease", lambda: _lease(job))
    messages: list[Message] = []
    source = _checked("source", lambda: _source(job, messages))
    yield source
    if state.error is None and source.error is None and messages:
        yield _checked("protocol", lambda: _protocol(job, messages))
    if job.source.schema_registry is not None:
        yield _checked("registry", lambda: _registry(job))
    if job.snapshot is not None and not starting:
        keys = job.snapshot
        yield _checked("snapshot", lambda: _snapshot(job, keys))


def stop_at_fault(job: Job, report: Callable[[str], None]) -> None:
    """Run the checks of a start; ``report`` gets what was found. Raises: the first error"""
    for checked in checks(job, starting=True):
        if checked.error is not None:
            raise checked.error
        if checked.what not in ("state", "warehouse"):
            report(f"{checked.what}: {checked.found}")


def _checked(what: str, look: Callable[[], str]) -> Checked:
    try:
        return Checked(what=what, found=look())
    except TicdcSparkError as error:
        return Checked(what=what, found=str(error), error=error)


def _state(state: Path | StateUri) -> str:
    if isinstance(state, Path):
        return _writable(state, EnvironmentFault)
    Store(state).load_status()
    return f"{state}, which answers"


def _writable(folder: Path, fault: type[EnvironmentFault]) -> str:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise fault(f"{folder}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise fault(f"{folder}: {there} cannot be written to by this user")
    return f"{folder}" if there == folder else f"{folder} will be created"


def _warehouse(job: Job) -> str:
    folder = local_folder(job.sink.warehouse)
    if folder is None:
        jars = job.spark.get("spark.jars.packages", "") + job.spark.get("spark.jars", "")
        lacks = job.sink.warehouse.startswith("s3") and "aws" not in jars
        hint = "; Spark must have iceberg-aws-bundle, which [spark] does not name" if lacks else ""
        return f"{job.sink.warehouse}, which Spark opens (catalog {job.sink.catalog}){hint}"
    return f"{_writable(folder, SinkFault)} (catalog {job.sink.catalog})"


def _lease(job: Job) -> str:
    store = lease_store(job.sink.warehouse, job.sink.catalog, job.name, job.state)
    owner = living(store)
    if owner:
        raise LeaseHeld(f"{store.where} is held by {owner}")
    return "no process holds it"


def _source(job: Job, found: list[Message]) -> str:
    source = job.source
    if not isinstance(source, KafkaSource):
        found += islice(recorded_messages(source.path), ENOUGH)
        return f"{source.path}" if found else f"{source.path} has no messages yet"
    gone = silent(source)
    if gone:
        raise SourceFault(gone)
    try:
        options = _security(source)
    except UsageError as error:
        return f"a broker of {source.bootstrap_servers} accepts connections; topics are checked by Spark ({error})"
    with TopicReader(source.bootstrap_servers, options) as kafka:
        topics = source.topics or tuple(_matching(kafka.topics(), source.topic_pattern or ""))
        partitions = kafka.partitions(topics)
        start, end = kafka.places(partitions, "beginning"), kafka.places(partitions, "end")
        messages = sum(max(0, end[place] - start[place]) for place in partitions)
        if messages:
            found += islice(kafka.read(start, end, [], patient=False), ENOUGH)
    named = ", ".join(topics[:5]) + (" …" if len(topics) > 5 else "")
    if not topics:
        return f"Kafka at {source.bootstrap_servers}: no topic matches {source.topic_pattern!r} yet"
    return f"Kafka at {source.bootstrap_servers}: {named}; {len(partitions)} partitions, about {messages:,} messages"


def _security(source: KafkaSource) -> dict[str, str]:
    """How to reach the cluster without Spark. Raises: UsageError where only Spark can."""
    if find_spec("confluent_kafka") is None:
        raise UsageError("pip install 'ticdc-spark[kafka]' checks them here")
    options = {key.removeprefix("kafka."): value for key, value in source.options.items()}
    return librdkafka_options({key: value for key, value in options.items() if key.startswith(SECURITY)})


def _matching(topics: list[str], pattern: str) -> list[str]:
    try:
        return [topic for topic in topics if not topic.startswith("__") and re.fullmatch(pattern, topic)]
    except re.error:
        return []  # Java's regular expressions have more than Python's: Spark looks


def _protocol(job: Job, messages: list[Message]) -> str:
    pairs = [(message.key, message.value) for message in messages]
    named, known = job.source.protocol, Store(job.state).load()
    if known is not None and known.batch:
        return f"{named or known.protocol}, as before"
    try:
        looks_like = detect(pairs, f"{job.file}: [source] protocol")
    except UsageError:
        if named is None:
            raise
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
        f"{job.file}: [source] protocol is {named}, and the first {len(pairs)} messages look like {looks_like}"
    )


def _registry(job: Job) -> str:
    found = registered(job.source)
    assert found is not None, "checked only where there is one"
    try:
        found.fetch([_NO_SUCH_ID])
    finally:
        found.close()
    return "it answers"


def _snapshot(job: Job, keys: SnapshotKeys) -> str:
    """Whether the tables to read are there, and each of them has a key."""
    reader = open_reader(keys)
    try:
        wants = wanted_tables(keys, job)
        names = [name for name in reader.tables() if wants(*name)]
        without = []
        for name in names[:_SCHEMAS]:
            table = reader.schema(name, None)
            if table is not None and not handle_key(table):
                without.append(f"`{name[0]}`.`{name[1]}`")
    finally:
        reader.close()
    if without:
        raise no_key(", ".join(without[:_NAMED]) + (" …" if len(without) > _NAMED else ""), "[snapshot] or [job]")
    if not names:
        return "the source has no table that `tables` under [snapshot] and [job] let in"
    some = f", the first {_SCHEMAS:,} of them looked at" if len(names) > _SCHEMAS else ""
    return f"{len(names):,} tables to read{some}"


__all__ = ["Checked", "checks", "stop_at_fault"]
