"""What stops a job once everything before it is applied and committed."""

from ticdc_spark.config.job import Job
from ticdc_spark.errors import SchemaMissing, UnsupportedDdl
from ticdc_spark.replicate.apply.first_rows import missing_schema
from ticdc_spark.replicate.decide import Decided
from ticdc_spark.replicate.state.progress import Plan, Progress


def stop_if_left_out_before(decided: Decided, plan: Plan | None) -> None:
    """Stop a batch that goes less far than a try of it that was interrupted: that one left a DDL out which stops this
    one, so tables have passed it. ``plan``: of that try.

    Raises: UnsupportedDdl
    """
    if plan is not None and decided.refused is not None and decided.resolved < plan.resolved:
        now = "the job file let the job pass it when this batch was begun, and has to until the batch is done"
        raise UnsupportedDdl(_refusal(decided, now))


def stop_if_needed(job: Job, progress: Progress, decided: Decided, now: float) -> None:
    """Raise what ends the job after a committed batch.

    Raises: UnsupportedDdl, SchemaMissing, SinkFault
    """
    if decided.refused is not None:
        raise UnsupportedDdl(_refusal(decided, "all before it is applied"))
    missing = decided.advanced.missing
    waited = now - progress.schema_wait_since
    if missing and progress.schema_wait_since and waited >= job.schema_timeout:
        first = min(missing, key=lambda rows: rows.min_ts)
        message = (
            f"{missing_schema(first)}. No DDL or BOOTSTRAP with it came in {waited:.0f} s "
            "(schema-timeout). Ways out: [schema] file with its CREATE TABLE, upstream under [source], a BOOTSTRAP, "
            f'or [schema] skip-to-known = ["{first.schema}.{first.name}"], which leaves these rows out'
        )
        raise SchemaMissing(message)


def _refusal(decided: Decided, now: str) -> str:
    """What there is to do about a DDL that stops the job. ``now``: where the job is."""
    refused, stop = decided.refused, decided.stop
    assert refused is not None and stop is not None, "there is one"
    change = refused.change
    ways = "".join(f"\n  {way}" for way in stop.ways)
    return (
        f"{stop.why}\n  SQL: {change.query}\n  at commitTs {change.commit_ts}, topic {refused.topic}, partition "
        f"{refused.partition}, offset {refused.offset}; {now}.{ways}"
    )
