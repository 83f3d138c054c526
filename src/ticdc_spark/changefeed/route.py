"""The rules of a changefeed, asked by the loop: what is sent of an element, and to which partitions of real topics."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ticdc_spark.capture.base import Captured, CapturedDdl, Transaction
from ticdc_spark.changefeed.actions import Place, Routed
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.router import Route, Router
from ticdc_spark.changefeed.topics import Topics
from ticdc_spark.errors import MessageError, UnsendableChange
from ticdc_spark.model import RowChange, Table
from ticdc_spark.protocols import protocol


class Placer:
    """Routes elements; a ``Layout`` for the sequence."""

    def __init__(self, changefeed: Changefeed, topics: Topics) -> None:
        """Raises: UsageError for rules that are wrong."""
        self.rules = Router(changefeed)
        self._topics = topics
        self._start = changefeed.start_ts or 0
        # messages that carry whole tables carry them with all columns, as TiCDC sends them
        self._whole_tables = protocol(changefeed.protocol).traits.versioned_tables

    def route(self, captured: Captured) -> Routed:
        """An element with its rows and DDL that are sent.

        Raises: UsageError where a rule does not fit a table; UnsendableChange for a row that cannot be judged or
        dispatched; UnsupportedDdl.
        """
        if captured.commit_ts <= self._start:
            return Routed(captured)
        match captured:
            case Transaction():
                return Routed(captured, rows=self._rows(captured))
            case CapturedDdl():
                sent = [(one.topic, one.change) for one in self.rules.ddl(captured) if one.verdict == "send"]
                return Routed(captured, ddls=sent)
        return Routed(captured)

    def topics(self, tables: Iterable[Table]) -> Iterable[str]:
        """See ``Layout``."""
        return self.rules.active_topics(tables)

    def topic_of(self, table: Table) -> str | None:
        """See ``Layout``."""
        route = self.rules.route(table)
        return None if route.left_out else route.topic

    def partitions(self, topic: str) -> int:
        """See ``Layout``."""
        return self._topics.partitions(topic)

    def _rows(self, transaction: Transaction) -> list[tuple[Place, RowChange]]:
        try:
            return [self._placed(row.route, row.change) for row in self.rules.rows(transaction)]
        except MessageError as error:
            raise UnsendableChange(f"the transaction at commitTs {transaction.commit_ts}: {error}") from error

    def _placed(self, route: Route, change: RowChange) -> tuple[Place, RowChange]:
        place = route.topic, route.partition(change, self.partitions(route.topic))
        if route.sent_table is not route.table and not self._whole_tables:
            change = replace(change, table=route.sent_table)
        return place, change


__all__ = ["Placer"]
