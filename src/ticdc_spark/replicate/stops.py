"""Stop a job after everything before the cause is applied and committed."""

from ticdc_spark.config.job import Job
from ticdc_spark.config.shards import is_merged
from ticdc_spark.errors import SchemaMissing, UnsupportedDdl
from ticdc_spark.model import TableName
from ticdc_spark.replicate.apply.first_rows import missing_schema
from ticdc_spark.replicate.decide import Decided
from ticdc_spark.replicate.state.progress import Plan, Progress


def stop_if_left_out_before(decided: Decided, plan: Plan | None) -> None:
    """Stop a batch that goes less far than its interrupted try: that one skipped a DDL that stops this one, so tables
    are past it. ``plan``: of that try.

    Raises: UnsupportedDdl
    """
    if plan is not None and decided.refused is not None and decided.resolved < plan.resolved:
        now = "the job file skipped it when this batch began, and must skip it until the batch is done"
        raise UnsupportedDdl(_refusal(decided, now))


def stop_if_needed(job: Job, progress: Progress, decided: Decided, now: float) -> None:
    """Raise the error that ends the job after a committed batch, if there is one.

    Raises: UnsupportedDdl, SchemaMissing, SinkFault
    """
    if decided.refused is not None:
        raise UnsupportedDdl(_refusal(decided, "everything before it is applied"))
    missing = decided.advanced.missing
    waited = now - progress.schema_wait_since
    if missing and progress.schema_wait_since and waited >= job.schema_timeout:
        first = missing[0]
        options = (
            *_reads(job, first.full_name),
            "[schema] file with its CREATE TABLE",
            "a BOOTSTRAP",
            f'or [schema] skip-to-known = ["{first.schema}.{first.name}"], which skips these rows',
        )
        raise SchemaMissing(
            f"{missing_schema(first)}. No DDL or BOOTSTRAP with it came in {waited:.0f} s (schema-timeout). Options: "
            f"{', '.join(options)}"
        )


def _reads(job: Job, name: TableName) -> tuple[str, ...]:
    """What reads a table, or its schema, from a database."""
    if is_merged(name):
        return () if job.snapshot is None else ("start the job again, so that it reads the new shard in full",)
    upstream = "upstream under [source]"
    return (upstream,) if job.snapshot is None else ("`tables` under [snapshot], if it excludes the table", upstream)


def _refusal(decided: Decided, now: str) -> str:
    """The error text for a DDL that stops the job, with the user's options. ``now``: the state of the job."""
    refused, stop = decided.refused, decided.stop
    assert refused is not None and stop is not None, "there is one"
    change = refused.change
    ways = "".join(f"\n  {way}" for way in stop.ways)
    return (
        f"{stop.why}\n  SQL: {change.query}\n  at commitTs {change.commit_ts}, topic {refused.topic}, partition "
        f"{refused.partition}, offset {refused.offset}; {now}.{ways}"
    )
