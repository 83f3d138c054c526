"""Applies a changefeed's rules for the loop: what of an element is sent, and to which partitions of real topics."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec.structs import replace

from ticdc_spark.capture.base import Captured, CapturedDdl, Transaction
from ticdc_spark.changefeed.actions import Place, Routed
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.router import Route, Router
from ticdc_spark.changefeed.filter.ddl_events import ddl_event
from ticdc_spark.ddl import computed_columns
from ticdc_spark.errors import MessageError, UnsendableChange, UnsupportedDdl, UsageError
from ticdc_spark.model import Row, RowChange, Table
from ticdc_spark.mysql import NO_CONSTANT, default_value
from ticdc_spark.protocols import protocol

_LOG = logging.getLogger(__name__)


def _made_by_server(before: Table, after: Table, query: str) -> set[str]:
    """New columns whose values in existing rows are computed by the server: numbers, expressions."""
    was_stored = {column.name for column in before.columns if column.stored}
    made = {column.name for column in after.columns if column.stored and column.name not in was_stored}
    return made | set(computed_columns(query))


class Partitions(Protocol):
    """The known topics."""

    def partitions(self, topic: str) -> int:
        """How many partitions of a topic are used."""


class Placer:
    """Routes elements; a ``Layout`` for the sequence."""

    def __init__(self, changefeed: Changefeed, topics: Partitions, rules: Router | None = None) -> None:
        """``rules``: of the changefeed, if already compiled. Raises: UsageError for rules that are wrong."""
        self.rules = rules or Router(changefeed)
        self._topics = topics
        self._start = changefeed.start_ts or 0
        # messages with a table's schema have all its columns, as TiCDC sends them
        self._whole_tables = protocol(changefeed.protocol).traits.versioned_tables

    def route(self, captured: Captured) -> Routed:
        """An element, with its rows and DDL to send.

        Raises: UsageError if a rule does not fit a table; UnsendableChange for a row that cannot be filtered or
        dispatched; UnsupportedDdl.
        """
        if captured.commit_ts <= self._start:
            return Routed(captured)
        match captured:
            case Transaction():
                return Routed(captured, rows=self._rows(captured))
            case CapturedDdl():
                self._warn(captured)
                sent = [(one.topic, one.change) for one in self.rules.ddl(captured) if one.verdict == "send"]
                for _, change in sent if self.rules.targets else ():
                    self.rules.targets.ddl(change)  # a DDL that cannot be renamed raises here, before anything is sent
                return Routed(captured, ddls=sent)
        return Routed(captured)

    def _warn(self, captured: CapturedDdl) -> None:
        """Warn if a table loses or gets the key that it needs to be followed, and of values that no message has."""
        for change in captured.changes:
            before, after, rules = change.pre_table, change.table, self.rules.tables
            if after is None or rules.why_not_named(after.schema, after.name):
                continue
            if before is None:
                if why := rules.why_ineligible(after):
                    _LOG.warning("`%s`.`%s` is excluded: %s", after.schema, after.name, why)
                continue
            old = {column.name for column in before.columns}
            made = _made_by_server(before, after, change.query)
            for column in after.columns:
                is_new = column.name not in old
                if (is_new and default_value(column) is NO_CONSTANT) or column.name in made:
                    _LOG.warning(
                        "`%s`.`%s`: rows from before commitTs %d have values in the column `%s` that "
                        "readers of the topic cannot compute: %s",
                        after.schema,
                        after.name,
                        change.commit_ts,
                        column.name,
                        change.query[:200],
                    )
            was, now = not rules.why_ineligible(before), not rules.why_ineligible(after)
            if was and not now:
                _LOG.warning(
                    "`%s`.`%s` is not followed from commitTs %d on, and this DDL is not sent: %s: %s",
                    after.schema,
                    after.name,
                    change.commit_ts,
                    rules.why_ineligible(after),
                    change.query[:200],
                )
            elif now and not was:
                _LOG.warning(
                    "`%s`.`%s` is followed from commitTs %d on, as it has a key now; its rows from before are not sent",
                    after.schema,
                    after.name,
                    change.commit_ts,
                )

    def refuse_conflict(self, tables: Iterable[Table]) -> None:
        """Raises: UsageError if two of the tables would be sent under one name"""
        if conflict := self.rules.conflict(tables):
            raise UsageError(conflict)

    def refuse_shared_drop(self, routed: Routed, tables: Iterable[Table]) -> None:
        """Raises: UnsupportedDdl for a DROP DATABASE that would also drop tables of another database in the target

        ``tables``: the source's tables after the DDL.
        """
        rules = self.rules
        for _, change in routed.ddls:
            if ddl_event(change.query) != "drop database":
                continue
            database = change.schema or change.name
            sent = (table.full_name for table in tables if not rules.route(table).left_out)
            other = rules.targets.still_in(database, sent)
            if other is not None:
                target = rules.targets.target((database, ""))[0]
                raise UnsupportedDdl(
                    f"sink.dispatchers: `{database}` is sent to `{target}`, and so is `{other[0]}`.`{other[1]}`, "
                    f"which this DDL would drop there: {change.query}. Drop the tables of `{database}` there by "
                    'hand, and exclude the DDL: ignore-event = ["drop database"] of an entry of filter.event-filters'
                )

    def topics(self, tables: Iterable[Table]) -> Iterable[str]:
        return self.rules.active_topics(tables)

    def topic_of(self, table: Table) -> str | None:
        route = self.rules.route(table)
        return None if route.left_out else route.topic

    def partitions(self, topic: str) -> int:
        return self._topics.partitions(topic)

    def inserts(self, table: Table, rows: Iterable[Row], commit_ts: int) -> Iterator[tuple[Place, RowChange]]:
        """What is sent of a table's existing rows, and where. Raises: UsageError, UnsendableChange"""
        route = self.rules.route(table)
        for row in rows:
            try:
                for change in route.events(RowChange(op="insert", table=table, commit_ts=commit_ts, after=row)):
                    yield self._placed(route, change)
            except MessageError as error:
                raise UnsendableChange(f"a row of `{table.schema}`.`{table.name}`: {error}") from error

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
