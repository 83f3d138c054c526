"""Decides what of a captured change is sent, and where: filter, split and dispatch, compiled for each table version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from ticdc_spark.capture.base import CapturedDdl, Transaction
from ticdc_spark.changefeed.config.given import Entry, read_keys
from ticdc_spark.changefeed.config.key import DISPATCHERS
from ticdc_spark.changefeed.config.settings import Changefeed, DispatchRule
from ticdc_spark.changefeed.dispatch.partitions import Partitioner, compile_partitioner
from ticdc_spark.changefeed.dispatch.table_routes import TableRoutes
from ticdc_spark.changefeed.dispatch.topics import TopicRule, compile_topic
from ticdc_spark.changefeed.filter.ddl import Verdict, ddl_names, judge_ddl
from ticdc_spark.changefeed.filter.ddl_events import DATABASE_EVENTS, ddl_event
from ticdc_spark.changefeed.filter.events import RowFilter, compile_event_rules
from ticdc_spark.changefeed.filter.selectors import compile_selectors, select_columns, sent_columns
from ticdc_spark.changefeed.filter.split import key_columns, net_changes, split_update
from ticdc_spark.changefeed.filter.tables import table_rules
from ticdc_spark.config.matcher import Matcher, compile_matcher
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Row, RowChange, SchemaChange, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols import PROTOCOLS, canonical

_ROUTES_KEPT = 4096
_DEFAULT_RULE = read_keys(DispatchRule, f"{DISPATCHERS}.", Entry(), matcher=("*.*",))


@dataclass(frozen=True, kw_only=True)
class Route:
    """Which rows of one version of a table are sent, and where."""

    table: Table
    left_out: str
    """Why the table is not sent, as one sentence; ``""``: it is sent."""
    topic: str
    rule: DispatchRule
    """The dispatcher that decides."""
    columns: tuple[str, ...]
    """The columns that are sent, in the table's order."""
    partition: Partitioner
    """(change, number of the topic's partitions) → partition."""
    row_filter: RowFilter
    split_by: Sequence[str]
    """An update that changes one of these columns is split in two."""

    @cached_property
    def is_whole(self) -> bool:
        """Whether all columns of the table are sent."""
        return len(self.columns) == sum(not column.virtual for column in self.table.columns)

    @cached_property
    def sent_table(self) -> Table:
        """The table with the columns that are sent."""
        return self.table if self.is_whole else select_columns(self.table, self.columns)

    def events(self, change: RowChange) -> tuple[RowChange, ...]:
        """What is sent of a row's net change: itself, nothing, or a delete and an insert if a key changes."""
        rows = self.row_filter
        if change.op != "update" or not self.split_by:
            return () if not rows.is_empty and rows.ignores(change) else (self._select(change),)
        if rows.ignores_kind("update"):
            return ()
        parts = split_update(change, self.split_by) or (change,)
        if rows.is_empty:
            return tuple(self._select(part) for part in parts)
        return tuple(self._select(part) for part in parts if not rows.ignores(part))

    def _select(self, change: RowChange) -> RowChange:
        if self.is_whole:
            return change
        names = frozenset(self.columns)
        return replace(change, before=_only(change.before, names), after=_only(change.after, names))


class RoutedRow(NamedTuple):
    """A row change to send."""

    route: Route
    change: RowChange


class RoutedDdl(NamedTuple):
    """A DDL: whether it is sent, and where."""

    change: SchemaChange
    verdict: Verdict
    topic: str
    partitions: Literal["first", "all"]


class Router:
    """A changefeed's rules, compiled. It can be pickled, and then needs no file that a rule names."""

    def __init__(self, changefeed: Changefeed) -> None:
        """Compile the rules. Raises: UsageError that names what is wrong."""
        self.changefeed = changefeed
        sensitive = changefeed.case_sensitive
        traits = PROTOCOLS[canonical(changefeed.protocol)].traits
        self.tables = table_rules(changefeed)
        self._event_rules = compile_event_rules(changefeed.filter.event_filters, case_sensitive=sensitive)
        self._selectors = compile_selectors(changefeed.column_selectors, case_sensitive=sensitive)
        self._dispatchers = [
            _dispatcher(number, rule, changefeed.kafka.topic, sensitive, one_table=traits.registry)
            for number, rule in enumerate((*changefeed.dispatchers, _DEFAULT_RULE))
        ]
        self._ddl_partitions: Literal["first", "all"] = "first" if traits.ddl_to_first_partition else "all"
        self._ignored_start_ts = frozenset(changefeed.filter.ignore_txn_start_ts)
        self.targets = TableRoutes(changefeed)
        self._routes: dict[int, Route] = {}

    def __getstate__(self) -> dict[str, Any]:
        # files of rules have been read; routes have functions, and are compiled again if needed
        return {**self.__dict__, "_routes": {}}

    def route(self, table: Table) -> Route:
        """The route of a table. Raises: UsageError if a rule does not fit the table."""
        found = self._routes.get(id(table))
        if found is None or found.table is not table:
            if len(self._routes) >= _ROUTES_KEPT:
                self._routes.clear()
            found = self._routes[id(table)] = self._compiled(table)
        return found

    def topic(self, schema: str, table: str) -> str:
        """The topic of a table's rows."""
        return self._dispatcher_of(schema, table)[2].topic(schema, table)

    def active_topics(self, tables: Iterable[Table]) -> list[str]:
        """The topics that get watermarks: of the given tables that are sent, each once, and the default topic."""
        topics = [route.topic for table in tables if not (route := self.route(table)).left_out]
        return list(dict.fromkeys([*topics, self.changefeed.kafka.topic]))

    def check(self, tables: Iterable[Table]) -> list[Route]:
        """The routes of all tables. Raises: UsageError with every mistake, one a line."""
        routes, wrong = [], []
        for table in tables:
            try:
                routes.append(self.route(table))
            except UsageError as error:
                wrong.append(str(error))
        if conflict := self.conflict(route.table for route in routes):
            wrong.append(conflict)
        if wrong:
            raise UsageError("\n".join(wrong))
        return routes

    def conflict(self, tables: Iterable[Table]) -> str:
        """A sentence about two tables that would be sent under one name; ``""``: there are none."""
        if not self.targets:
            return ""
        return self.targets.conflict(table.full_name for table in tables if not self.route(table).left_out)

    def rows(self, transaction: Transaction) -> list[RoutedRow]:
        """The rows of a transaction to send: net changes, deletes first. Raises: UsageError, MessageError."""
        if transaction.start_ts and transaction.start_ts in self._ignored_start_ts:
            return []
        followed = [change for change in transaction.changes if not self.route(change.table).left_out]
        deletes: list[RoutedRow] = []
        others: list[RoutedRow] = []
        inserts: list[RoutedRow] = []
        for change in net_changes(followed):
            route = self.route(change.table)
            for part in route.events(change):
                # Rows without a key are not followed: only their own order leads to the source's rows.
                split = part.op != change.op and bool(handle_key(change.table))
                chosen = others if not split else deletes if part.op == "delete" else inserts
                chosen.append(RoutedRow(route, part))
        return deletes + others + inserts

    def ddl(self, captured: CapturedDdl) -> list[RoutedDdl]:
        """What to do with a DDL, one entry a table. Raises: UnsupportedDdl."""
        ignored = bool(captured.start_ts) and captured.start_ts in self._ignored_start_ts
        found = []
        for change in captured.changes:
            verdict = judge_ddl(change, self.tables, self._event_rules)
            if ignored and verdict == "send":
                verdict = "ignore"
            found.append(RoutedDdl(change, verdict, self.ddl_topic(change), self._ddl_partitions))
        return found

    def ddl_topic(self, change: SchemaChange) -> str:
        """The topic of a DDL: its table's, by the old name; the default topic for a database."""
        if ddl_event(change.query) in DATABASE_EVENTS:
            return self.changefeed.kafka.topic
        (schema, table), _ = ddl_names(change)
        return self.topic(schema, table) if table else self.changefeed.kafka.topic

    def _compiled(self, table: Table) -> Route:
        rule, _, topic = self._dispatcher_of(table.schema, table.name)
        zone = self.changefeed.time_zone
        left_out = self.tables.why_left_out(table)
        rules, selectors = self._event_rules, self._selectors
        if left_out:  # for a table that is not sent, a rule that does not fit is no mistake
            rules, selectors, rule = (), (), _DEFAULT_RULE
        return Route(
            table=table,
            left_out=left_out,
            topic=topic.topic(table.schema, table.name),
            rule=rule,
            columns=sent_columns(selectors, table, rule),
            partition=compile_partitioner(rule, table, time_zone=zone),
            row_filter=RowFilter(rules, table, time_zone=zone),
            split_by=() if self.changefeed.output_raw_change_event else key_columns(table),
        )

    def _dispatcher_of(self, schema: str, table: str) -> tuple[DispatchRule, Matcher, TopicRule]:
        return next(
            (one for one in self._dispatchers if one[1].matches(schema, table)),
            self._dispatchers[-1],
        )


def _dispatcher(
    number: int, rule: DispatchRule, default: str, sensitive: bool, *, one_table: bool
) -> tuple[DispatchRule, Matcher, TopicRule]:
    try:
        matcher = compile_matcher(rule.matcher, case_sensitive=sensitive)
        return rule, matcher, compile_topic(rule.topic, default, one_table=one_table)
    except UsageError as error:
        raise UsageError(f"sink.dispatchers[{number}]: {error}") from error


def _only(row: Row | None, names: frozenset[str]) -> Row | None:
    return None if row is None else {name: value for name, value in row.items() if name in names}
