"""Errors that name the first row of a table: it came before its CREATE TABLE, or before its schema."""

from ticdc_spark.config.values import skip_ddl_line
from ticdc_spark.replicate.apply.batch import Batch
from ticdc_spark.replicate.modes.waiting import describe_missing
from ticdc_spark.replicate.state.progress import PendingRows
from ticdc_spark.replicate.state.table import TableState


def there_already(batch: Batch, state: TableState, ts: int) -> str:
    """Why a CREATE TABLE at a commit_ts cannot be applied to a table of this job, and what to do.

    Raises: SourceFault
    """
    name = f"`{state.schema}`.`{state.name}`"
    line = skip_ddl_line(ts, "CREATE TABLE")
    ways_out = f"To keep the table and skip this CREATE TABLE, which marks the table as diverged: {line}"
    if not state.emptied:
        mine = [rows for rows in batch.pending if rows.full_name == state.full_name]
        there = batch.rows.identities(batch.waiting(state.full_name, mine, -1, ts))
        first = min(there, key=lambda row: (row.commit_ts, row.partition, row.offset), default=None)
        where = f"of commitTs {state.mark[0] if batch.resolves else state.ddl_ts} or before"
        if first is not None:
            where = (
                f"(topic {first.topic}, partition {first.partition}, offset {first.offset}, commitTs {first.commit_ts})"
            )
        return (
            f"{name}: a row {where} comes before the CREATE TABLE of its table (commitTs {ts}). TiCDC sends no such "
            f"row: look for another producer on the topic. {ways_out}"
        )
    return (
        f"{name}: a second CREATE TABLE comes at commitTs {ts}. The table exists since commitTs {state.emptied}, and "
        "no DROP TABLE came between: look for an event filter of the changefeed, and for a table whose name differs "
        f"only in upper and lower case. {ways_out}"
    )


def missing_schema(rows: PendingRows) -> str:
    """Describe rows that wait for a schema, with the place of the first one."""
    return f"{describe_missing(rows)}, offset {rows.first}"
