"""Errors that name the first row of a table: one before its CREATE TABLE, or before its schema."""

from ticdc_spark.changelog.base import ChangeLog
from ticdc_spark.config.values import skip_ddl_line
from ticdc_spark.replicate.apply.batch import Batch
from ticdc_spark.replicate.modes.waiting import describe_missing
from ticdc_spark.replicate.state.progress import PendingRows, Progress, TableState
from ticdc_spark.spark.decode.log_files import LogScan


def there_already(batch: Batch, state: TableState, ts: int) -> str:
    """Why a CREATE TABLE at a commit_ts cannot be applied to a table of this job, and what to do. Raises: SinkFault"""
    name = f"`{state.schema}`.`{state.name}`"
    line = skip_ddl_line(ts, "CREATE TABLE")
    ways_out = f"To keep the table and leave out this CREATE TABLE, which marks the table as diverged: {line}"
    if not state.emptied:
        scan = LogScan(
            generation=batch.generation, batches=None, schema=state.schema, table=state.name, above=-1, upto=ts
        )
        first = batch.changelog.first_row(scan)
        where = f"of commitTs {state.mark[0]}" if first is None else f"({first})"
        return (
            f"{name}: a row {where} comes before the CREATE TABLE of its table (commitTs {ts}). TiCDC does not send "
            f"that: look for another producer on the topic. {ways_out}"
        )
    return (
        f"{name}: a second CREATE TABLE comes at commitTs {ts}. The table is there since commitTs {state.emptied}, and "
        f"no DROP TABLE came between: look for an event filter of the changefeed. {ways_out}"
    )


def missing_schema(changelog: ChangeLog, progress: Progress, rows: PendingRows) -> str:
    """Which rows wait for a schema, with the place of the first one. Raises: SinkFault"""
    scan = LogScan(
        generation=progress.generation,
        batches=frozenset({rows.batch}),
        schema=rows.schema,
        table=rows.name,
        above=-1,
        upto=rows.max_ts,
        keys=(rows.schema_key,),
    )
    first = changelog.first_row(scan)
    return describe_missing(rows) + ("" if first is None else f", offset {first.offset}")
