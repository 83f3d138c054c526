"""``[[filter.event-filters]]``: events that are excluded by their kind, their SQL or their values.

All entries whose matcher accepts a table apply. An event is excluded if one of them excludes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ticdc_spark.changefeed.config.settings import EventFilter
from ticdc_spark.changefeed.filter.ddl_events import EVENTS, SYNONYMS, TABLE_EVENTS
from ticdc_spark.config.expressions.compile import compile_condition
from ticdc_spark.config.matcher import Matcher, compile_matcher
from ticdc_spark.config.rules import regex
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Row, RowChange, Table

Condition: TypeAlias = Callable[[Row], bool]
_EXPRESSIONS = {
    "insert": "ignore_insert_value_expr",
    "old": "ignore_update_old_value_expr",
    "new": "ignore_update_new_value_expr",
    "delete": "ignore_delete_value_expr",
}


@dataclass(frozen=True, slots=True)
class EventRule:
    """A compiled entry. It is plain data, so it can be sent to tasks."""

    name: str
    """Its name in errors, such as ``event-filters[0]``."""
    matcher: Matcher
    expression_matcher: Matcher
    """Which tables the value expressions apply to. TiCDC compares these names by case, whatever ``case-sensitive``
    says (``pkg/filter/expr_filter.go``)."""
    events: frozenset[str]
    sql: str
    """One regular expression of all patterns; ``""``: there are none."""
    entry: EventFilter
    case_sensitive: bool

    def ignores_ddl(self, event: str, sql: str) -> bool:
        """Whether a DDL is excluded. The matcher accepts its name."""
        if event in self.events or "all ddl" in self.events:
            return True
        if event in TABLE_EVENTS and "alter table" in self.events:
            return True
        return bool(self.sql) and regex(self.sql, self.name).search(sql) is not None


def compile_event_rules(filters: Sequence[EventFilter], *, case_sensitive: bool) -> tuple[EventRule, ...]:
    """Compile the entries. Raises: UsageError that names the entry and the key."""
    return tuple(_rule(number, entry, case_sensitive) for number, entry in enumerate(filters))


def _rule(number: int, entry: EventFilter, case_sensitive: bool) -> EventRule:
    name = f"event-filters[{number}]"
    for event in entry.ignore_event:
        if event not in EVENTS:
            raise UsageError(f"{name} ignore-event: {event!r} is no event; allowed are {', '.join(EVENTS)}")
    for pattern in entry.ignore_sql:
        regex(pattern, f"{name} ignore-sql")
    sql = "(?i)" + "|".join(entry.ignore_sql) if entry.ignore_sql else ""
    if sql:
        regex(sql, f"{name} ignore-sql")
    try:
        matcher = compile_matcher(entry.matcher, case_sensitive=case_sensitive)
        exact = compile_matcher(entry.matcher, case_sensitive=True)
    except UsageError as error:
        raise UsageError(f"{name} matcher: {error}") from error
    events = frozenset(SYNONYMS.get(event, event) for event in entry.ignore_event)
    return EventRule(name, matcher, exact, events, sql, entry, case_sensitive)


class RowFilter:
    """The entries that apply to one version of a table."""

    def __init__(self, rules: Sequence[EventRule], table: Table, *, time_zone: str) -> None:
        """Compile them. Raises: UsageError for an expression that cannot be evaluated over the table."""
        applying = [rule for rule in rules if rule.matcher.accepts(table.schema, table.name)]
        kinds = ("insert", "update", "delete")
        self._ignored = {kind for rule in applying for kind in kinds if {kind, "all dml"} & rule.events}
        self._only = [_only_columns(rule, table) for rule in applying if rule.entry.ignore_update_only_columns]
        self._only = [names for names in self._only if names]
        self._keys = {name for index in table.indexes if index.unique or index.primary for name in index.columns}
        exact = [rule for rule in rules if rule.expression_matcher.accepts(table.schema, table.name)]
        self._conditions = _conditions(exact, table, time_zone)
        self.is_empty = not (self._ignored or self._only or any(self._conditions.values()))
        """Whether nothing is excluded."""

    def ignores_kind(self, kind: str) -> bool:
        """Whether all inserts, updates or deletes are excluded."""
        return kind in self._ignored

    def ignores(self, change: RowChange) -> bool:
        """Whether a change is excluded. An upsert is if it would be both as an insert and as an update.

        Raises: MessageError for a row that lacks a needed column, and for errors that MySQL raises too.
        """
        if change.op == "upsert":
            return self._ignores(change, "insert") and self._ignores(change, "update")
        return self._ignores(change, change.op)

    def _ignores(self, change: RowChange, kind: str) -> bool:
        if kind in self._ignored:
            return True
        before, after = change.before, change.after
        if kind == "insert":
            return _any(self._conditions["insert"], after)
        if kind == "delete":
            return _any(self._conditions["delete"], before)
        if self._only and not change.partial and before is not None and after is not None:
            changed = {name for name, value in after.items() if before.get(name) != value}
            if not changed & self._keys and any(changed <= names for names in self._only):
                return True
        return _any(self._conditions["old"], before) or _any(self._conditions["new"], after)


def _any(conditions: Sequence[Condition], row: Row | None) -> bool:
    return row is not None and any(condition(row) for condition in conditions)


def _only_columns(rule: EventRule, table: Table) -> frozenset[str]:
    """The listed columns that exist. Others have no effect, as in TiCDC, which logs them."""
    wanted = rule.entry.ignore_update_only_columns
    if rule.case_sensitive:
        return frozenset(wanted) & {column.name for column in table.columns}
    lower = {name.lower() for name in wanted}
    return frozenset(column.name for column in table.columns if column.name.lower() in lower)


def _conditions(rules: Sequence[EventRule], table: Table, time_zone: str) -> Mapping[str, list[Condition]]:
    found: dict[str, list[Condition]] = {kind: [] for kind in _EXPRESSIONS}
    for rule in rules:
        for kind, field in _EXPRESSIONS.items():
            sql = getattr(rule.entry, field)
            if sql:
                where = f"{rule.name} {field.replace('_', '-')}"
                found[kind].append(compile_condition(sql, table, time_zone=time_zone, where=where))
    return found
