"""What stops a job once everything before it is applied and committed."""

from ticdc_spark.changelog.base import ChangeLog
from ticdc_spark.config.job import Job
from ticdc_spark.config.values import skip_ddl_line
from ticdc_spark.errors import SchemaMissing, UnsupportedDdl
from ticdc_spark.replicate.apply.first_rows import missing_schema
from ticdc_spark.replicate.decide import Decided
from ticdc_spark.replicate.plan.evolve import Refused, action
from ticdc_spark.replicate.state.progress import Progress


def stop_if_needed(job: Job, progress: Progress, decided: Decided, now: float, changelog: ChangeLog) -> None:
    """Raise what ends the job after a committed batch.

    Raises: UnsupportedDdl, SchemaMissing, SinkFault
    """
    refused = decided.refused
    if refused is not None:
        change = refused.change
        why = action(change)
        assert isinstance(why, Refused), "that is why it was chosen"
        message = (
            f"a DDL cannot be replayed: {why.why}\n  SQL: {change.query}\n  at commitTs {change.commit_ts}, topic "
            f"{refused.topic}, partition {refused.partition}, offset {refused.offset}; all before it is applied.\n"
            f"  To skip exactly this one, under [job]: {skip_ddl_line(change.commit_ts, change.query)}"
        )
        if why.rows_only:
            message += '\n  To mark the tables of every such DDL and go on, under [job]: partition-ddl = "mark"'
        raise UnsupportedDdl(message)
    missing = decided.advanced.missing
    waited = now - progress.schema_wait_since
    if missing and progress.schema_wait_since and waited >= job.schema_timeout:
        first = min(missing, key=lambda rows: rows.min_ts)
        message = (
            f"{missing_schema(changelog, progress, first)}. No DDL or BOOTSTRAP with it came in {waited:.0f} s "
            "(schema-timeout). Ways out: [schema] file with its CREATE TABLE, upstream under [source], a BOOTSTRAP, "
            f'or [schema] skip-to-known = ["{first.schema}.{first.name}"], which leaves these rows out'
        )
        raise SchemaMissing(message)
