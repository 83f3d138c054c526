"""From the changes of a source to what is sent of them, and where: filter, split, topic, partition."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from ticdc_spark.capture.base import Captured, CapturedDdl, Transaction
from ticdc_spark.changefeed.actions import Routed
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.topics import Topics
from ticdc_spark.model import Table


class Router:
    """Routes elements; a ``Layout`` for the sequence."""

    def __init__(self, changefeed: Changefeed, topics: Topics) -> None:
        self._default = changefeed.kafka.topic
        self._topics = topics
        self._start = changefeed.start_ts or 0

    def route(self, captured: Captured) -> Routed:
        """An element with its rows and DDL that are sent."""
        if captured.commit_ts <= self._start:
            return Routed(captured)
        match captured:
            case Transaction():
                return Routed(
                    captured, rows=[((self._default, self._partition(row.table)), row) for row in captured.changes]
                )
            case CapturedDdl():
                return Routed(captured, ddls=[(self._default, change) for change in captured.changes])
        return Routed(captured)

    def topics(self, tables: Iterable[Table]) -> Iterable[str]:
        """See ``Layout``."""
        return [self._default]

    def topic_of(self, table: Table) -> str | None:
        """See ``Layout``."""
        return self._default

    def named_topic(self, schema: str, table: str) -> str:
        """The topic of a table of this name."""
        return self._default

    def why_left_out(self, table: Table) -> str:
        """Why a table is not sent."""
        return ""

    def rule_of(self, table: Table) -> str:
        """How a table's rows are spread over partitions."""
        return "table"

    def columns_of(self, table: Table) -> tuple[str, ...]:
        """The columns of a table that are sent."""
        return tuple(column.name for column in table.columns if not column.virtual)

    def partitions(self, topic: str) -> int:
        """See ``Layout``."""
        return self._topics.partitions(topic)

    def _partition(self, table: Table) -> int:
        return crc32(f"{table.schema}{table.name}".encode()) % self.partitions(self._default)


__all__ = ["Router"]
