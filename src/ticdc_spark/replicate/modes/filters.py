"""What a job leaves out by the job file: tables that it does not want, rows older than the first known schema."""

from collections.abc import Callable, Sequence

from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.spark.decode.control import ControlEvent, table_of


def leave_out(controls: Sequence[ControlEvent], patterns: Sequence[str]) -> list[ControlEvent]:
    """Drop what concerns tables that ``tables`` under [job] does not name."""
    if not patterns:
        return list(controls)
    wanted = table_filter(patterns)
    return [event for event in controls if (name := table_of(event)) is None or not name[1] or wanted(name[0], name[1])]


def skip_to_known(patterns: Sequence[str]) -> Callable[[str, str], bool]:
    """Whether rows of a table without a schema are left out, by ``skip-to-known`` under [schema]."""
    return table_filter(patterns) if patterns else lambda _schema, _table: False
