"""``ticdc-spark replicate``."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from ticdc_spark.cli.output.logging import redacted_children
from ticdc_spark.cli.output.run_events import watched
from ticdc_spark.cli.output.text import noun
from ticdc_spark.cli.signals import stoppable
from ticdc_spark.config.durations import duration
from ticdc_spark.config.job import Identity, Job
from ticdc_spark.config.load import load_job
from ticdc_spark.config.secrets import redact
from ticdc_spark.errors import UsageError
from ticdc_spark.log_events import event
from ticdc_spark.mysql import tso_time
from ticdc_spark.operate.metrics.replicate import ReplicateMetrics
from ticdc_spark.operate.metrics.server import metrics_routes
from ticdc_spark.operate.notices.notifier import Recipient, notifying
from ticdc_spark.operate.page.changes import Changes
from ticdc_spark.operate.page.job_history import JobHistory
from ticdc_spark.operate.page.job_site import job_routes
from ticdc_spark.operate.page.job_source import RunningJob, StateReader
from ticdc_spark.operate.serving import is_private, serving, url_of
from ticdc_spark.operate.status import JobStatus
from ticdc_spark.operate.traces import traced
from ticdc_spark.replicate.report import NOT_ALL_APPLIED, Summary
from ticdc_spark.replicate.run.watch import Watcher

log = logging.getLogger(__name__)


@click.command("replicate")
@click.argument("job_file", metavar="JOB.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--once", is_flag=True, help="Stop where the topics end now.")
@click.option(
    "--until-ts",
    type=click.IntRange(1, tso_time.LARGEST),
    metavar="TSO",
    help="Stop when all tables equal the source at this commitTs.",
)
def command(job_file: Path, once: bool, until_ts: int | None) -> None:
    """Replicate a changefeed's messages into lake tables.

    Runs until SIGINT (Ctrl-C) or SIGTERM, and then finishes the current step. A second signal, at least a second later,
    ends it at once. Either way nothing is lost: the next start resumes there.
    """
    job = load_job(job_file)
    # Imported late: Spark takes a second to import, and an error in the job file should be reported at once.
    from ticdc_spark.replicate import loop

    stop = threading.Event()
    with redacted_children(), watching(job) as watchers:
        summary = stoppable(lambda: loop.run(job, once=once, until_ts=until_ts, watchers=watchers, stop=stop), stop)
    if summary.held:
        log.warning("%s", last_line(summary))
        click.get_current_context().exit(NOT_ALL_APPLIED)
    log.info("%s", last_line(summary), extra=event("end", job=job.name, finished=summary.finished))


@contextmanager
def watching(job: Job) -> Iterator[list[Watcher]]:
    """Give what reports on a run: the terminal or the log, and metrics and the page if the job file asks for them.

    Raises: UsageError; LeaseHeld if another process runs the job and listens at its address; SinkFault
    """
    with ExitStack() as stack:
        watchers = [stack.enter_context(watched(job.name))]
        changes = Changes()
        history = JobHistory(changes.tell)
        identity = Identity(job.file, job.name, job.sink, job.spark, job.max_lag)
        running = RunningJob(identity, history)
        if job.metrics.listen is not None or job.notices:
            watchers.append(history.watcher)
        if job.notices:
            recipients = [Recipient(job.name, number, notice) for number, notice in enumerate(job.notices, 1)]
            stack.enter_context(notifying(recipients, state_of(identity), lambda: running.seen().status))
        if job.metrics.traces is not None:
            watchers.append(stack.enter_context(traced(job.name, job.metrics.traces)))
        if job.metrics.listen is not None:
            metrics = ReplicateMetrics(job)
            has_page = is_private(job.metrics.listen, job.metrics.token)
            page = job_routes(running, identity, changes, is_running=True) if has_page else {}
            routes = {**page, **metrics_routes(metrics)}
            key = f"{job.file}: [metrics] listen"
            try:
                place = stack.enter_context(serving(job.metrics.listen, routes, key, job.metrics.token))
            except UsageError:
                from ticdc_spark.replicate.run.preflight import stop_if_owned

                stop_if_owned(job)  # LeaseHeld if it is another process of this job that listens there
                raise
            stack.callback(changes.close)
            log.info("metrics: %smetrics", url_of(place))
            log.info("page: %s", url_of(place) if has_page else "beyond this machine it needs [metrics] token")
            watchers.append(metrics.watcher)
        yield watchers


def state_of(identity: Identity) -> Callable[[], JobStatus]:
    """Give a function that reads the state of a job. A state that cannot be read is a warning in its result."""
    return lambda: StateReader(identity).seen().status


def last_line(summary: Summary) -> str:
    """What a run did, in one line."""
    progress = summary.progress
    ended = "finished" if summary.finished else "stopped"
    held = f"; not all is applied: {redact(summary.held)}" if summary.held else ""
    unread = f"; {redact(summary.unread)}" if summary.unread else ""
    at = "the newest commitTs" if progress.mode == "arrival" else "resolved ts"
    tables = noun(sum(not table.is_gone for table in progress.tables), "table")
    return (
        f"{ended}: {noun(summary.changes, 'change')} and {noun(summary.ddls, 'DDL')} applied in "
        f"{noun(summary.batches, 'batch', 'batches')}, {duration(summary.seconds)}; "
        f"{tables} at {at} {progress.applied} ({tso_time.utc(progress.applied)}){held}{unread}"
    )
