"""Which tables, rows, columns and events are sent, and where: ``[filter]``, dispatchers, column selectors."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ticdc_spark.changefeed.config.given import Entry, Given, read_keys
from ticdc_spark.changefeed.config.key import DISPATCHERS, EVENTS, SELECTORS
from ticdc_spark.changefeed.config.settings import ColumnSelector, DispatchRule, EventFilter, Filter
from ticdc_spark.changefeed.config.sink_uri import is_topic
from ticdc_spark.changefeed.dispatch.topics import is_expression
from ticdc_spark.changefeed.filter.ddl_events import EVENTS as EVENTS_ALLOWED
from ticdc_spark.config.matcher import compile_column_matcher, compile_matcher
from ticdc_spark.config.rules import regex
from ticdc_spark.config.target_names import is_target
from ticdc_spark.config.toml import nearest
from ticdc_spark.errors import UsageError
from ticdc_spark.protocols import WireProtocol

PARTITIONS = ("default", "table", "index-value", "columns", "ts")


def read_filter(given: Given) -> Filter:
    """``[filter]`` and its event filters."""
    rules = _rules(given, given, "filter.rules") or Entry().get("filter.rules")  # [] is everything, as in TiCDC
    if rules and all(rule.strip().startswith("!") for rule in rules):
        given.warn("filter.rules", 'no rule accepts a table, so nothing is sent; begin with "*.*"')
    if given.get("filter.ignore-txn-start-ts"):
        given.warn("filter.ignore-txn-start-ts", "has no effect where the source has no start_ts, such as a binlog")
    filters = tuple(_event_filter(given, entry) for entry in given.entries.get("filter.event-filters", ()))
    return read_keys(Filter, "filter.", given, rules=rules, event_filters=filters)


def _event_filter(given: Given, entry: Entry) -> EventFilter:
    found = read_keys(EventFilter, f"{EVENTS}.", entry, matcher=_matcher(given, entry, EVENTS))
    for event in found.ignore_event:
        if event not in EVENTS_ALLOWED:
            near = nearest(event, EVENTS_ALLOWED) or "; allowed: " + ", ".join(EVENTS_ALLOWED)
            given.mistakes.add(entry.place(f"{EVENTS}.ignore-event"), f"found {event!r}, which is no event{near}")
    for pattern in found.ignore_sql:
        _try(given, entry, f"{EVENTS}.ignore-sql", partial(regex, pattern, f"found {pattern!r}"))
    return found


def read_dispatchers(given: Given, protocol: WireProtocol[Any] | None) -> tuple[DispatchRule, ...]:
    """``sink.dispatchers``."""
    one_table = protocol is not None and protocol.traits.registry
    entries = given.entries.get("sink.dispatchers", ())
    return tuple(_dispatcher(given, entry, one_table) for entry in entries)


def _dispatcher(given: Given, entry: Entry, one_table: bool) -> DispatchRule:
    """``one_table``: a topic can have only one table, as schemas are registered under the topic's name."""
    topic, index, columns = (entry.get(f"{DISPATCHERS}.{name}") for name in ("topic", "index", "columns"))
    partition = _partition(given, entry)
    if topic and not is_topic(topic):
        if not is_expression(topic):
            allowed = "letters, digits, `.`, `_`, `-`, and {schema} before {table}, each once at most"
            given.mistakes.add(entry.place(f"{DISPATCHERS}.topic"), f"found {topic!r}; allowed: {allowed}")
        elif one_table and not ("{schema}" in topic and "{table}" in topic):
            allowed = "an expression with {schema} and {table}: with a schema registry a topic can have one table only"
            given.mistakes.add(entry.place(f"{DISPATCHERS}.topic"), f"found {topic!r}; allowed: {allowed}")
    if index and partition != "index-value":
        where = entry.place(f"{DISPATCHERS}.index")
        given.warnings.append(f'{where}: has an effect only with partition = "index-value"; found {partition!r}')
    if partition == "columns" and not columns and f"{DISPATCHERS}.columns" not in entry.wrong:
        given.mistakes.add(entry.place(f"{DISPATCHERS}.columns"), 'missing; partition = "columns" needs it')
    elif columns and partition != "columns":
        where = entry.place(f"{DISPATCHERS}.columns")
        given.warnings.append(f'{where}: has an effect only with partition = "columns"; found {partition!r}')
    for name in ("target-schema", "target-table"):
        target = entry.get(f"{DISPATCHERS}.{name}")
        if target and not is_target(target):
            allowed = "text with {schema} and {table}, and no other braces"
            given.mistakes.add(entry.place(f"{DISPATCHERS}.{name}"), f"found {target!r}; allowed: {allowed}")
    matcher = _matcher(given, entry, DISPATCHERS)
    return read_keys(DispatchRule, f"{DISPATCHERS}.", entry, matcher=matcher, partition=partition)


def _partition(given: Given, entry: Entry) -> str:
    new, old = f"{DISPATCHERS}.partition", f"{DISPATCHERS}.dispatcher"
    if entry.given(new) and entry.given(old):
        given.mistakes.add(entry.place(old), "`dispatcher` and `partition` are the same; allowed: `partition` alone")
    name = old if entry.given(old) and not entry.given(new) else new
    wanted = str(entry.get(name))
    found = {"rowid": "index-value"}.get(wanted.lower(), wanted.lower())
    if found not in PARTITIONS:
        known = ", ".join(f'"{word}"' for word in PARTITIONS)
        near = nearest(found, PARTITIONS)
        given.warnings.append(
            f'{entry.place(name)}: {wanted!r} is not known and taken for "default", as in TiCDC; known: {known}{near}'
        )
        return PARTITIONS[0]
    return found


def read_selectors(given: Given) -> tuple[ColumnSelector, ...]:
    """``sink.column-selectors``."""
    return tuple(_selector(given, entry) for entry in given.entries.get("sink.column-selectors", ()))


def _selector(given: Given, entry: Entry) -> ColumnSelector:
    columns = entry.get(f"{SELECTORS}.columns")
    if not columns and f"{SELECTORS}.columns" not in entry.wrong:
        where = entry.place(f"{SELECTORS}.columns")
        given.mistakes.add(where, 'missing; allowed: a list of columns such as "*", "!secret"')
    for rule in columns or ():
        _try(given, entry, f"{SELECTORS}.columns", partial(compile_column_matcher, [rule], folder=given.folder))
    return ColumnSelector(matcher=_matcher(given, entry, SELECTORS), columns=columns or ())


def _matcher(given: Given, entry: Entry, section: str) -> tuple[str, ...]:
    name = f"{section}.matcher"
    if not entry.get(name) and name not in entry.wrong:
        where = entry.place(name)
        given.warnings.append(f'{where}: missing, so the entry matches no table, as in TiCDC; add rules such as "*.*"')
    return _rules(given, entry, name)


def _rules(given: Given, entry: Entry, name: str) -> tuple[str, ...]:
    """The checked filter rules of a key, with absolute paths of the files that they name."""
    rules = tuple(_anchored(rule, given.folder) for rule in entry.get(name) or ())
    for rule in rules:
        _try(given, entry, name, partial(compile_matcher, [rule], case_sensitive=True))
    return rules


def _anchored(rule: str, folder: Path) -> str:
    text = rule.strip(" \t")
    return f"@{folder / text[1:]}" if text.startswith("@") else rule


def _try(given: Given, entry: Entry, name: str, check: Callable[[], object]) -> None:
    try:
        check()
    except UsageError as error:
        given.mistakes.add(entry.place(name), str(error))
