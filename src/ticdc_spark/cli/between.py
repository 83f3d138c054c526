"""``ticdc-spark verify --between``: two topics compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import click
import msgspec

from ticdc_spark.cli.options.source import Source, make_source, opened
from ticdc_spark.cli.output.meter import meter
from ticdc_spark.cli.output.text import noun
from ticdc_spark.config.secrets import redact
from ticdc_spark.config.table_filter import table_filter
from ticdc_spark.durable import replace_file
from ticdc_spark.errors import UsageError
from ticdc_spark.model import RowChange, SchemaChange
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.streams.reader import Found
from ticdc_spark.verify.topics import DDL, Difference, TopicsReport, compare_topics

F = TypeVar("F", bound=Callable[..., Any])
_SHOWN = 10
"""How many differences the terminal shows."""
_OPTIONS = (
    click.option(
        "--between",
        nargs=2,
        metavar="TOPIC TOPIC",
        help="Compare two topics: each a recorded topic (a folder or a file), or kafka://HOST:PORT/TOPIC.",
    ),
    click.option("--schema-registry", metavar="URL", help="With --between, for Avro: a URL, or file:PATH."),
    click.option(
        "--source-timezone",
        metavar="ZONE",
        help="With --between: the changefeed's time zone, for protocols that send TIMESTAMP without one.",
    ),
)


class Between(NamedTuple):
    """What to compare, from the command line."""

    between: tuple[str, str]
    schema_registry: str | None
    source_timezone: str | None


def between_options(command: F) -> F:
    """Add the options of ``Between`` to a command, which takes them by these names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def between(topics: Between, rules: tuple[str, ...], report_file: Path | None, limit: int) -> bool:
    """Compare two topics and print what was found. Returns: whether they have the same changes.

    Raises: UsageError; SourceFault if a topic cannot be read
    """
    sources = [_source(named, topics) for named in topics.between]
    protocols = [_protocol(source) for source in sources]
    has_ddl = all(PROTOCOLS[name].traits.ddl == "always" for name in protocols)
    named = table_filter(rules)

    def read(source: Source) -> Callable[[], Iterator[Found]]:
        return lambda: (found for found in _found(source) if _is_wanted(found, rules, named))

    report = compare_topics(*map(read, sources), has_ddl=has_ddl, limit=limit)
    if report_file is not None:
        replace_file(report_file, msgspec.json.format(msgspec.json.encode(report)))
    for line in lines(report, has_ddl=has_ddl):
        click.echo(line)
    return report.is_equal


def lines(report: TopicsReport, *, has_ddl: bool) -> Iterator[str]:
    """A report as the terminal shows it."""
    for name, counts in report.tables.items():
        if counts.different:
            yield redact(f"{name}  different     {noun(counts.different, 'change')}")
        else:
            yield redact(f"{name}  equal         {counts.first:,} changes")
    for one in report.found[:_SHOWN]:
        yield redact(f"    {one.kind:<9} {_shown(one)}")
    if not has_ddl:
        yield "DDL is not compared: one of the protocols does not always send it"
    if any(report.unread):
        yield f"{report.unread[0]:,} and {report.unread[1]:,} events cannot be read: {report.reasons[0]}"
    different = sum(counts.different > 0 for counts in report.tables.values())
    tables = sum(name != DDL for name in report.tables)
    yield f"{noun(tables, 'table')} compared, {different} with differences"


def _shown(one: Difference) -> str:
    key = ", ".join(f"{name}={value!r}" for name, value in one.key.items())
    place = f"{one.table} {key} at {one.commit_ts}"
    if one.kind != "changed":
        return place
    if one.first is None or one.second is None:
        return f"{place}: {_is_there(one.first)} → {_is_there(one.second)}"
    names = sorted({*one.first, *one.second})
    odd = [name for name in names if one.first.get(name) != one.second.get(name)]
    return f"{place}: " + ", ".join(f"{name}: {one.first.get(name)!r} → {one.second.get(name)!r}" for name in odd)


def _is_there(row: object) -> str:
    return "deleted" if row is None else "there"


def _source(named: str, topics: Between) -> Source:
    path: Path | None = Path(named)
    servers: str | None = None
    names: tuple[str, ...] = ()
    if named.startswith("kafka://"):
        at = urlsplit(named)
        path, servers, names = None, at.netloc, tuple(filter(None, [at.path.strip("/")]))
        if not servers or not names:
            raise UsageError(f"--between: found {named!r}; allowed: a folder, a file, or kafka://HOST:PORT/TOPIC")
    return make_source(
        path=path,
        bootstrap_servers=servers,
        topics=names,
        first="beginning",
        schemas_first=None,
        client={},
        protocol=None,
        schema_registry=topics.schema_registry,
        source_timezone=topics.source_timezone,
        claim_check_storage=None,
        upstream=None,
        debezium={},
        verify_checksum=False,
    )


def _protocol(source: Source) -> str:
    with opened(source) as found:
        return found.protocol


def _found(source: Source) -> Iterator[Found]:
    with opened(source) as of, meter("compared", of.total) as show:
        for at, message in enumerate(of.messages, 1):
            yield from of.reader.read(message)
            show(at)
        yield from of.reader.finish()


def _is_wanted(found: Found, rules: tuple[str, ...], named: Callable[[str, str], bool]) -> bool:
    match found.event:
        case RowChange(table=table):
            return named(table.schema, table.name)
        case SchemaChange():
            return not rules
    return True
