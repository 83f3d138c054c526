"""Late rows: rows below what their table has applied that are no replays, by ``late-rows`` under [job]."""

import msgspec

from ticdc_spark.changelog.base import ChangeLog
from ticdc_spark.config.job import Job
from ticdc_spark.errors import LateRow
from ticdc_spark.replicate.modes.base import Advanced
from ticdc_spark.replicate.state.progress import PendingRows


def add_late_rows(job: Job, changelog: ChangeLog, number: int, advanced: Advanced) -> Advanced:
    """Look up which rows of a batch are late and no replays.

    Raises: LateRow with ``late-rows = "fail"``; SinkFault
    """
    found = changelog.late_rows(advanced.progress.generation, number)
    count = sum(late.rows for late in found)
    progress = msgspec.structs.replace(
        advanced.progress,
        replays=advanced.progress.replays + advanced.late - count,
        late=advanced.progress.late + count,
    )
    if found and job.late_rows == "fail":
        first = found[0]
        message = (
            f"`{first.schema}`.`{first.table}`: {first.rows} rows came after the table had passed them; the first has "
            f"commitTs {first.commit_ts} (topic {first.topic}, partition {first.partition}, offset {first.offset}) and "
            "is no replay. Was the changefeed's filter widened, or another changefeed started on this topic? "
            'late-rows = "apply-if-newest" applies them; `ticdc-spark rebuild` reads the table again'
        )
        raise LateRow(message)
    pending = tuple(
        PendingRows(
            batch=number,
            schema=late.schema,
            name=late.table,
            schema_key=late.schema_key,
            rows=late.rows,
            min_ts=late.commit_ts,
            max_ts=late.commit_ts,
            topic=late.topic,
            partition=late.partition,
            late=True,
        )
        for late in found
    )
    progress = msgspec.structs.replace(progress, pending=(*progress.pending, *pending))
    return msgspec.structs.replace(advanced, progress=progress)
