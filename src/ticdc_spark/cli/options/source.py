"""What ``inspect`` and ``convert`` read: a recorded topic or Kafka, in a protocol that is given or detected."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from ticdc_spark.clients.claim_check import ClaimCheckStorage
from ticdc_spark.config.job import NATIVE, MessageSource, native_of
from ticdc_spark.config.secrets import ReferenceFault, is_secret_key, remember, resolve
from ticdc_spark.config.toml import NotAllowed, read_value
from ticdc_spark.config.values import Servers
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Message, Offsets
from ticdc_spark.mysql import time_zone
from ticdc_spark.protocols import ALIASES, PROTOCOLS
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.streams.decoders import decoder_of
from ticdc_spark.streams.detect import ENOUGH, detected
from ticdc_spark.streams.handle_keys import Lookup
from ticdc_spark.streams.reader import EventReader
from ticdc_spark.streams.storage_messages import PROTOCOL
from ticdc_spark.streams.storage_topic import all_messages, open_folder
from ticdc_spark.topics.kafka_reader import Place, TopicReader

F = TypeVar("F", bound=Callable[..., Any])


class Source(MessageSource, frozen=True, kw_only=True):
    """What to read and how, from the command line; like ``[source]`` of a job file."""

    path: Path | None
    bootstrap_servers: Servers | None
    topics: tuple[str, ...]
    first: Place
    schemas_first: Place | None
    client: dict[str, str]
    source_timezone: str | None
    verify_checksum: bool = False


class Opened(NamedTuple):
    """Messages, and the reader that decodes them."""

    protocol: str
    messages: Iterator[Message]
    reader: EventReader
    total: int | None
    """About how many messages there are; ``None``: unknown."""


def place(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Place | None:
    """Read a PLACE of the command line. Raises: BadParameter."""
    if value is None or value in ("beginning", "end"):
        return value
    if value.isdigit():
        return int(value)
    try:
        at = datetime.fromisoformat(value)
    except ValueError as error:
        allowed = "an offset, a time like 2026-01-31T12:00:00Z, beginning or end"
        raise click.BadParameter(f"{value!r} is not {allowed}") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def client_options(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Read ``-X key=value``, with references as in a job file (paths from here). Raises: BadParameter."""
    options = {}
    for name, equals, text in (pair.partition("=") for pair in value):
        if not name or not equals:
            raise click.BadParameter(f"{name!r}: write key=value")
        try:
            options[name] = resolve(text, Path.cwd())
        except ReferenceFault as fault:
            raise click.BadParameter(f"{name}: {fault}") from fault
        if is_secret_key(name):
            remember(options[name])
    return options


def client_option(name: str) -> Callable[[F], F]:
    """The option ``-X``, which a command takes as ``name``."""
    return click.option(
        "-X",
        name,
        multiple=True,
        callback=client_options,
        metavar="KEY=VALUE",
        help="An option of librdkafka, or of Kafka's Java client, such as sasl.jaas.config. With the prefix "
        "schema-registry., one of the registry's client: schema-registry.ssl.ca.location. May be repeated. The "
        "value may be ${env:NAME} or ${file:PATH}.",
    )


_OPTIONS = (
    click.argument("path", required=False, type=click.Path(path_type=Path)),
    click.option("--bootstrap-servers", metavar="HOST:PORT,…", help="The Kafka cluster, instead of PATH."),
    click.option("--topic", "topics", multiple=True, help="A topic to read; may be repeated."),
    click.option("--from", "first", callback=place, default="beginning", show_default=True, metavar="PLACE"),
    click.option(
        "--schemas-from",
        "schemas_first",
        callback=place,
        metavar="PLACE",
        help="Read the schemas (DDL, BOOTSTRAP) from this earlier place up to --from.",
    ),
    client_option("client"),
    click.option(
        "--protocol",
        type=click.Choice(sorted({*PROTOCOLS, *ALIASES})),
        help="Detected if not given.",
    ),
    click.option(
        "--schema-registry",
        metavar="URL",
        help="For Avro, read or written: a URL, which may hold user:password@, or file:PATH.",
    ),
    click.option(
        "--source-timezone",
        metavar="ZONE",
        help="The changefeed's time zone, for protocols that send TIMESTAMP without one: Asia/Shanghai, +08:00.",
    ),
    click.option(
        "--claim-check-storage",
        metavar="URI",
        help="Folder with the rows that were too large for Kafka, such as s3://bucket/folder. Without it only their "
        "keys are read.",
    ),
    click.option(
        "--upstream",
        metavar="URI",
        help="mysql://user:password@host:port of the source, to look up rows that were sent with their keys only.",
    ),
    click.option(
        "--debezium",
        multiple=True,
        callback=client_options,
        metavar="KEY=VALUE",
        help="How Debezium's own connector is configured, for messages without a schema block. Keys: "
        "decimal.handling.mode, binary.handling.mode, bigint.unsigned.handling.mode, time.precision.mode. "
        "May be repeated.",
    ),
    click.option("--verify-checksum", is_flag=True, help="Reject a row whose values do not match its checksum."),
)


def source_options(command: F) -> F:
    """Add the options of ``Source`` to a command, which takes them by these names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def make_source(**options: Any) -> Source:
    """Check the options together. Raises: UsageError."""
    prefix, of_clients, native = "schema-registry.", options.pop("client"), options.pop("debezium")
    modes = {re.sub("[.-]", "_", key): text for key, text in native.items()}
    if unknown := modes.keys() - set(NATIVE):
        allowed = ", ".join(NATIVE).replace("_", ".")
        raise UsageError(f"--debezium: found `{min(unknown).replace('_', '.')}`; allowed: {allowed}")
    options |= modes
    hints = typing.get_type_hints(Source, include_extras=True)
    given = {name for name, value in options.items() if value is not None}
    for name in sorted(given & {"bootstrap_servers", *MessageSource.__struct_fields__}):
        try:
            options[name] = read_value(options[name], hints[name])
        except NotAllowed as error:
            option = f"debezium {name.replace('_', '.')}" if name in NATIVE else name.replace("_", "-")
            raise UsageError(f"--{option}: {error}") from None
    registry = {key.removeprefix(prefix): value for key, value in of_clients.items() if key.startswith(prefix)}
    client = {key: value for key, value in of_clients.items() if not key.startswith(prefix)}
    source = Source(**options, client=client, schema_registry_options=registry)
    if source.path is not None and str(source.path).startswith("kafka:"):
        raise UsageError("PATH is a recorded topic; Kafka is read with --bootstrap-servers HOST:PORT --topic NAME")
    if (source.path is None) == (source.bootstrap_servers is None):
        raise UsageError("read either PATH (a recorded topic: a folder or a file) or --bootstrap-servers with --topic")
    if (source.bootstrap_servers is None) != (not source.topics):
        raise UsageError("--bootstrap-servers and --topic belong together")
    if source.schemas_first is not None and source.bootstrap_servers is None:
        raise UsageError("--schemas-from belongs to --bootstrap-servers; a recorded topic is read whole")
    if source.source_timezone is not None:
        try:
            time_zone(source.source_timezone)
        except MessageError as error:
            raise UsageError(f"--source-timezone: {error}") from error
    return source


@contextmanager
def opened(source: Source, *, follow: bool = False) -> Iterator[Opened]:
    """Open a source and find its protocol.

    Raises: UsageError if the protocol cannot be detected; SourceFault if the source cannot be read.
    """
    with _messages(source, follow) as (messages, total, earlier):
        protocol = source.protocol
        if protocol is None and source.path is not None and open_folder(source.path) is not None:
            protocol = PROTOCOL
        if protocol is None:
            protocol, messages = detected(messages, 1 if follow else ENOUGH, "--protocol")
        options = ReadOptions(source_timezone=source.source_timezone, verify_checksum=source.verify_checksum)
        storage = source.claim_check_storage
        fetch = ClaimCheckStorage(storage).fetch if storage is not None else None
        registry = source.schema_registry, native_of(source), source.schema_registry_options
        with decoder_of(protocol, *registry) as (of, schemas), _upstream(source.upstream) as lookup:
            reader = EventReader(of, options, schemas=schemas, fetch=fetch, lookup=lookup)
            for message in earlier:
                reader.learn(message)
            yield Opened(protocol, messages, reader, total)


@contextmanager
def _upstream(uri: str | None) -> Iterator[Lookup | None]:
    if uri is None:
        yield None
        return
    from ticdc_spark.clients.upstream import Upstream

    with Upstream(uri) as upstream:
        yield upstream.lookup


@contextmanager
def _messages(source: Source, follow: bool) -> Iterator[tuple[Iterator[Message], int | None, Iterator[Message]]]:
    """The messages, about how many there are, and the earlier messages that are read for their schemas."""
    if source.path is not None:
        from ticdc_spark.topics.messages import count_recorded, recorded_messages

        if (stored := open_folder(source.path)) is not None:
            yield all_messages(stored, follow=follow), None, iter(())
            return
        total = None if follow else count_recorded(source.path)
        yield recorded_messages(source.path, follow=follow), total, iter(())
        return
    assert source.bootstrap_servers is not None
    with TopicReader(source.bootstrap_servers, source.client) as kafka:
        partitions = kafka.partitions(source.topics)
        start = kafka.start(partitions, source.first, {})
        end = None if follow else kafka.places(partitions, "end")
        count = None if end is None else sum(max(0, end[p] - start[p]) for p in partitions)
        yield kafka.read(start, end, [], patient=False), count, _earlier(source, start)


def _earlier(source: Source, end: Offsets) -> Iterator[Message]:
    """The messages from --schemas-from to ``end``. They have their own reader, as the other one may be in use."""
    if source.schemas_first is None:
        return
    assert source.bootstrap_servers is not None
    with TopicReader(source.bootstrap_servers, source.client) as kafka:
        yield from kafka.read(kafka.start([*end], source.schemas_first, {}), end, [], patient=False)
