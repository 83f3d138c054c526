"""Open what a job works with: Spark, the catalog, the source and the tables."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from ticdc_spark.background import in_background
from ticdc_spark.capture.snapshot.open import open_reader
from ticdc_spark.changes.spark_topic import SparkTopicRows
from ticdc_spark.config.job import Job, native_of
from ticdc_spark.errors import UsageError
from ticdc_spark.protocols import PROTOCOLS, decoder
from ticdc_spark.replicate.first_messages import detected
from ticdc_spark.replicate.pipeline import OpenJob
from ticdc_spark.replicate.resources import Resources, RunEnd
from ticdc_spark.replicate.scanning import opening_of
from ticdc_spark.replicate.schemas.registered import registered
from ticdc_spark.replicate.state.store import JobStore, ProgressStore
from ticdc_spark.replicate.step import Steps
from ticdc_spark.sinks.registry import open_sink, sink_kind
from ticdc_spark.spark.session.prepare import archive_classes
from ticdc_spark.spark.session.session import Part, coordinates, open_session, starts_at_once, stop_session
from ticdc_spark.spark.sources.base import Source
from ticdc_spark.spark.sources.open import open_source
from ticdc_spark.spark.sources.open import parts as source_parts

log = logging.getLogger(__name__)
_PATIENCE = 20.0
"""Seconds to wait for a start of Spark that is not needed any more, so that it leaves nothing behind."""


@contextmanager
def spark_starts(job: Job) -> Iterator[Callable[[Job], Future[SparkSession]]]:
    """Give a function that starts Spark in the background, unless it runs.

    The first start begins here, while the job opens its state, and ends with this context if it is not asked for. It
    does not begin here on a cluster: a job that waits for the end of another owner must hold no executors.
    """
    options, packages = _session(job, source_parts(job.source))
    early = [_begin_spark(job)] if starts_at_once(options, packages) else []
    try:
        yield lambda changed: early.pop() if early else _begin_spark(changed)
    finally:
        for starting in early:
            wait([starting], timeout=_PATIENCE)
            if starting.done() and starting.exception() is None:
                stop_session(starting.result())


def _begin_spark(job: Job) -> Future[SparkSession]:
    """Start Spark in a thread of its own. Its calls cannot be interrupted while they wait for a cluster."""
    return in_background(lambda: open_spark(job, source_parts(job.source)), "start-spark")


def open_steps(
    job: Job, store: JobStore, starting: Future[SparkSession], end: RunEnd, stop: threading.Event
) -> Steps | None:
    """Wait for Spark, open the catalog and the source.

    ``None``: stopped before Spark ran, or before a message showed the protocol.

    Raises: DecisionNeeded, EnvironmentFault, UsageError
    """
    registry = registered(job.source)
    kind = sink_kind(job)
    while not starting.done():
        if stop.is_set():
            return None
        wait([starting], timeout=0.2)
    spark = starting.result()
    process = getattr(spark.sparkContext._gateway, "proc", None)
    if process is not None:
        store.set_jvm(process.pid)
    source = open_source(spark, job.source)
    sink = open_sink(spark, job, store.check)
    protocol = _protocol(job, source, store, stop, bounded=end.bounded)
    if protocol is None:
        return None
    decoder(protocol, native=native_of(job.source))  # UsageError for options of another protocol
    if not PROTOCOLS[protocol].traits.registry:
        registry = None
    elif registry is None:
        raise UsageError(f"{job.file}: [source] schema-registry: missing; Avro messages name schemas of a registry")
    else:
        registry.protocol = protocol
    letters = kind.dead_letters(spark, job.sink, job.name, store.check)
    log.info("tables: comparing them with the state")
    return Steps(
        OpenJob(
            job=job,
            resources=Resources(
                source=source,
                sink=sink,
                rows=SparkTopicRows(spark, source, opening_of(job, protocol, None, registry)),
                letters=letters,
                store=store,
                registry=registry,
                reader=None if job.snapshot is None else open_reader(job.snapshot),
            ),
            protocol=protocol,
            end=end,
        )
    )


def open_spark(job: Job, more: Sequence[Part] = ()) -> SparkSession:
    """A session that can write the job's lake. ``more``: packages in addition to the sink's.

    Raises: EnvironmentFault, SinkFault, UsageError
    """
    options, parts = _session(job, more)
    if SparkContext._active_spark_context is None:  # a session is active in its own thread only
        packages = "1 package" if len(parts) == 1 else f"{len(parts)} packages"
        log.info("Spark: starting; the first time it fetches %s", packages)
    # A new session, so that the settings of an application that is already open do not change.
    return open_session(f"ticdc-spark {job.name}", options, parts).newSession()


def prepare_spark(job: Job) -> Path:
    """Fetch the jars of a job, and archive the classes that its Spark loads.

    Returns: the archive. Raises: EnvironmentFault, UsageError
    """
    return archive_classes(f"ticdc-spark {job.name}", *_session(job, source_parts(job.source)))


def _session(job: Job, more: Sequence[Part]) -> tuple[Mapping[str, str], Sequence[str]]:
    """Spark's options and the packages of a job."""
    kind = sink_kind(job)
    sink_options = kind.spark_options(job.sink)
    extensions = ",".join(
        filter(None, [sink_options.get("spark.sql.extensions", ""), job.spark.get("spark.sql.extensions", "")])
    )
    options = sink_options | job.spark | {"spark.sql.extensions": extensions}
    return options, coordinates(*kind.parts(job.sink), *more)


def _protocol(job: Job, source: Source, store: ProgressStore, stop: threading.Event, *, bounded: bool) -> str | None:
    """The protocol from the job file, from the state, or from the first messages."""
    before = store.load()
    named = job.source.protocol or (before.protocol if before else "")
    if named:
        return named
    found = detected(job, source, stop, bounded=bounded)
    if found is not None:
        log.info("protocol: %s, by the first messages", found)
    return found
