"""Rows that cannot be read: kept with their reason, then what ``on-reject`` says."""

import logging
from collections.abc import Sequence

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ticdc_spark.errors import EnvironmentFault, RejectedMessage, SinkFault
from ticdc_spark.replicate.apply.batch import Batch
from ticdc_spark.replicate.state.progress import TableState
from ticdc_spark.sinks.base import TableName
from ticdc_spark.sinks.iceberg.sink import faults as sink_faults
from ticdc_spark.spark.decode.control import Reject
from ticdc_spark.spark.decode.rows import BAD, BadRow

log = logging.getLogger(__name__)


class Quarantined(Exception):
    """A timeline stops here by ``on-reject = "quarantine"``; the other tables go on."""


def bad_rows(batch: Batch, typed: DataFrame) -> list[BadRow]:
    """The changes that cannot be read.

    Raises: EnvironmentFault when there are more than ``max-rejects``
    """
    limit = batch.job.max_rejects + 1
    with sink_faults("rows cannot be read"):
        found = typed.where(sf.col(BAD).isNotNull()).select(BAD).limit(limit).collect()
    bad = [msgspec.json.decode(row[0], type=BadRow) for row in found]
    if len(bad) >= limit:
        message = f"more than {batch.job.max_rejects} rows of one batch cannot be read, such as: {bad[0].reason}"
        raise EnvironmentFault(message)
    return list({(row.topic, row.partition, row.offset, row.seq): row for row in bad}.values())


def _keep(batch: Batch, name: TableName, bad: Sequence[BadRow]) -> str:
    """Write rows to the dead letters; returns a sentence about the first of them."""
    rejects = [
        Reject(topic=row.topic, partition=row.partition, offset=row.offset, seq=row.seq, reason=row.reason)
        for row in bad
    ]
    batch.log.keep_rejects(batch.batch, ".".join(name), rejects, batch.now)
    with batch.lock:
        batch.rejected += len(bad)
    first = min(bad, key=lambda row: row.commit_ts)
    return (
        f"`{name[0]}`.`{name[1]}`: a row cannot be read: {first.reason} "
        f"(topic {first.topic}, partition {first.partition}, offset {first.offset}, commitTs {first.commit_ts})"
    )


def sort_out_rejects(
    batch: Batch, name: TableName, state: TableState, typed: DataFrame
) -> tuple[TableState, DataFrame]:
    """What ``on-reject`` makes of them: the state that says so, and the rows that stay.

    Raises: Quarantined
    """
    bad = bad_rows(batch, typed)
    if not bad:
        return state, typed
    reason = _keep(batch, name, bad)
    log.error("%s", reason)
    if batch.job.on_reject == "quarantine":
        batch.states[name] = msgspec.structs.replace(state, quarantined=reason, clean=False)
        raise Quarantined(reason)
    since = min(row.commit_ts for row in bad)
    diverged = since if state.diverged_since is None else min(since, state.diverged_since)
    return msgspec.structs.replace(state, diverged_since=diverged, clean=False), typed.where(sf.col(BAD).isNull())


def stop(batch: Batch, name: TableName, bad: Sequence[BadRow], fault: SinkFault) -> None:
    """Keep them and end the job.

    Raises: RejectedMessage; ``fault`` itself when there is none of them after all
    """
    if not bad:
        raise fault
    reason = _keep(batch, name, bad)
    message = f"{reason}; kept in {batch.log.dead_letters}; nothing of this table was applied past it"
    raise RejectedMessage(message) from fault
