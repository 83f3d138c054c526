"""Late rows: rows below what their table has applied that are no replays, by ``late-rows`` under [job]."""

import msgspec

from ticdc_spark.config.job import Job
from ticdc_spark.errors import LateRow
from ticdc_spark.replicate.modes.watermark import Advanced
from ticdc_spark.replicate.state.progress import Pending
from ticdc_spark.sinks.iceberg.changelog import ChangeLog


def with_late_rows(job: Job, log: ChangeLog, number: int, advanced: Advanced) -> Advanced:
    """Look up which rows of a batch are late and no replays.

    Raises: LateRow with ``late-rows = "fail"``; SinkFault
    """
    found = log.late_rows(number)
    count = sum(rows for _, _, rows, *_ in found)
    progress = msgspec.structs.replace(
        advanced.progress,
        replays=advanced.progress.replays + advanced.late - count,
        late=advanced.progress.late + count,
    )
    if found and job.late_rows == "fail":
        (schema, name), _, rows, ts, topic, partition, offset = found[0]
        message = (
            f"`{schema}`.`{name}`: {rows} rows came after the table had passed them; the first has commitTs {ts} "
            f"(topic {topic}, partition {partition}, offset {offset}) and is no replay. Was the changefeed's "
            "filter widened, or another changefeed started on this topic? "
            'late-rows = "apply-if-newest" applies them'
        )
        raise LateRow(message)
    late = tuple(
        Pending(
            batch=number,
            schema=name[0],
            name=name[1],
            schema_key=key,
            rows=rows,
            min_ts=ts,
            max_ts=ts,
            topic=topic,
            partition=partition,
            late=True,
        )
        for name, key, rows, ts, topic, partition, _ in found
    )
    progress = msgspec.structs.replace(progress, pending=(*progress.pending, *late))
    return msgspec.structs.replace(advanced, progress=progress)
