"""The loop of ``replicate``: land, advance, apply, commit, batch after batch."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext

from ticdc_spark.capture.snapshot.open import open_reader
from ticdc_spark.config.job import Job, native_of
from ticdc_spark.errors import EnvironmentFault, UsageError, os_reason
from ticdc_spark.model import Offsets
from ticdc_spark.protocols import PROTOCOLS, decoder
from ticdc_spark.replicate.first_messages import detected
from ticdc_spark.replicate.heart import Heart
from ticdc_spark.replicate.outage import silent
from ticdc_spark.replicate.preflight import stop_at_fault
from ticdc_spark.replicate.report import NOT_ALL_APPLIED, BatchReport, Summary
from ticdc_spark.replicate.schemas.registered import registered
from ticdc_spark.replicate.state.lease import Lease, acquire
from ticdc_spark.replicate.state.lease_store import lease_store, this_process
from ticdc_spark.replicate.state.progress import Progress, Store
from ticdc_spark.replicate.step import Steps
from ticdc_spark.sinks.registry import sink_kind
from ticdc_spark.spark.session.session import coordinates, open_session
from ticdc_spark.spark.sources.base import Source
from ticdc_spark.spark.sources.open import open_source
from ticdc_spark.spark.sources.open import parts as source_parts

log = logging.getLogger(__name__)


def run(
    job: Job,
    *,
    once: bool = False,
    until_ts: int | None = None,
    on_progress: Callable[[BatchReport], None] = lambda _: None,
    stop: threading.Event | None = None,
) -> Summary:
    """Replicate until stopped, or (``once``) up to where the topics end now, or until all tables are at ``until_ts``.

    Raises: DecisionNeeded and its kinds (exit 4), EnvironmentFault and its kinds (exit 1). Progress made before an
    error stays committed; started again, the job goes on from there.
    """
    stop = stop or threading.Event()
    heart = Heart(Store(job.state), lambda: silent(job.source))
    with heart, os_faults():
        store = lease_store(job.sink.warehouse, job.sink.catalog, job.name, job.state)
        with acquire(store, this_process(job.name, job.owner), stop=stop) as lease:
            heart.start()
            log.info("lease: %s", store.where)
            stop_at_fault(job, log.info)
            steps = _open(job, lease, until_ts, stop, bounded=once or until_ts is not None)
            if steps is None:
                return Summary(progress=Progress(job=job.name))
            with nullcontext() if steps.registry is None else closing(steps.registry):
                summary = _run(steps, heart, once=once, until_ts=until_ts, on_progress=on_progress, stop=stop)
    heart.end("finished" if summary.finished else "stopped", exit_code=NOT_ALL_APPLIED if summary.held else 0)
    return summary


@contextmanager
def os_faults() -> Iterator[None]:
    """Turn what the operating system refuses, wherever that is, into a fault of the environment.

    Raises: EnvironmentFault
    """
    try:
        yield
    except OSError as error:
        raise EnvironmentFault(os_reason(error)) from error


def _open(job: Job, lease: Lease, until_ts: int | None, stop: threading.Event, *, bounded: bool) -> Steps | None:
    """Start Spark, open the catalog and the source; ``None``: stopped before a message showed the protocol."""
    registry = registered(job.source)
    kind = sink_kind(job)
    sink_options = kind.spark_options(job.sink)
    extensions = ",".join(
        filter(None, [sink_options.get("spark.sql.extensions", ""), job.spark.get("spark.sql.extensions", "")])
    )
    options = sink_options | job.spark | {"spark.sql.extensions": extensions}
    parts = coordinates(*kind.parts(job.sink), *source_parts(job.source))
    log.info("Spark: starting; the first time it fetches %d packages", len(parts))
    # A session of its own: under an application that is open already, its settings are left alone.
    spark = open_session(f"ticdc-spark {job.name}", options, parts).newSession()
    process = getattr(spark.sparkContext._gateway, "proc", None)
    if process is not None:
        lease.set_jvm(process.pid)
    log.info("catalog: opening %s in %s", job.sink.catalog, job.sink.warehouse)
    source = open_source(spark, job.source)
    sink = kind.open(spark, job.sink, job.writer, lease.check)
    store = Store(job.state)
    protocol = _protocol(job, source, store, stop, bounded=bounded)
    if protocol is None:
        return None
    decoder(protocol, native=native_of(job.source))  # UsageError for what another protocol has not
    if not PROTOCOLS[protocol].traits.registry:
        registry = None
    elif registry is None:
        raise UsageError(f"{job.file}: [source] schema-registry: missing; Avro messages name schemas of a registry")
    else:
        registry.protocol = protocol
    log.info("tables: comparing the lake with the state in %s", job.state)
    return Steps(
        job,
        source,
        sink,
        lease,
        store,
        protocol=protocol,
        registry=registry,
        bounded=bounded,
        until_ts=until_ts,
        reader=None if job.snapshot is None else open_reader(job.snapshot),
    )


def _protocol(job: Job, source: Source, store: Store, stop: threading.Event, *, bounded: bool) -> str | None:
    """The protocol as the job file names it, as it was, or as the first messages show it."""
    before = store.load()
    named = job.source.protocol or (before.protocol if before else "")
    if named:
        return named
    found = detected(job, source, stop, bounded=bounded)
    if found is not None:
        log.info("protocol: %s, by the first messages", found)
    return found


def _run(
    steps: Steps,
    heart: Heart,
    *,
    once: bool,
    until_ts: int | None,
    on_progress: Callable[[BatchReport], None],
    stop: threading.Event,
) -> Summary:
    started = time.monotonic()
    begun = steps.progress
    log.info("first batch: number %d", begun.batch + 1)
    batches = 0
    targets: Offsets | None = steps.source.end_offsets() if once else None
    finished = False
    quiet_since = time.monotonic()
    while not stop.is_set():
        loads = steps.load(heart.beat)
        report = steps.batch(targets, heart.beat)
        batches += report.messages > 0
        on_progress(report)
        if until_ts is not None and report.progress.applied >= until_ts:
            finished = True
            break
        if targets is not None and not report.left:
            if loads == "worked" or report.messages:
                quiet_since = time.monotonic()
            waits = loads == "waits" and time.monotonic() - quiet_since < steps.job.idle_partition_timeout
            if loads == "worked" or (waits and not steps.source.is_recorded):
                # A full read can begin once the feed has come so far: read on for it.
                targets = steps.source.end_offsets() if waits else targets
                stop.wait(steps.job.poll_interval if waits else 0)
                continue
            targets = steps.lagging(targets)
            if targets is None:
                finished = True
                break
        elif targets is None and not report.left and loads != "worked":
            if until_ts is not None and steps.source.is_recorded:
                break  # A recording that ends before until_ts.
            heart.beat("waiting", report.progress.batch)
            stop.wait(steps.job.poll_interval)
    progress = steps.progress
    return Summary(
        progress=progress,
        batches=batches,
        rows=progress.rows - begun.rows,
        ddls=progress.ddls_applied - begun.ddls_applied,
        seconds=time.monotonic() - started,
        finished=finished,
    )


__all__ = ["BatchReport", "Progress", "Summary", "run"]
