"""What a job leaves out by the job file: tables that it does not want, rows older than the first known schema."""

from collections.abc import Callable, Sequence

from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.spark.decode.control import Control


def leave_out(controls: Sequence[Control], patterns: Sequence[str]) -> list[Control]:
    """Drop what concerns tables that ``tables`` under [job] does not name."""
    if not patterns:
        return list(controls)
    wanted = table_filter(patterns)
    return [
        event
        for event in controls
        if event.kind not in {"summary", "ddl", "bootstrap"} or not event.table or wanted(event.schema, event.table)
    ]


def skip_to_known(patterns: Sequence[str]) -> Callable[[str, str], bool]:
    """Whether rows of a table without a schema are left out, by ``skip-to-known`` under [schema]."""
    return table_filter(patterns) if patterns else lambda _schema, _table: False
