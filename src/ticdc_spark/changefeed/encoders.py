"""How a changefeed's messages are written: its encoders, and the cadence of its protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TypeAlias

import msgspec

from ticdc_spark.changefeed.actions import Cadence
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.dispatch.table_routes import RoutedEncoder, TableRoutes
from ticdc_spark.clients.registry_file import PREFIX, open_registry
from ticdc_spark.config.secrets import redact
from ticdc_spark.errors import MessageError
from ticdc_spark.protocols import protocol
from ticdc_spark.protocols.base import Encoder, Registry
from ticdc_spark.protocols.encoder_options import target_encoder

TopicOf: TypeAlias = Callable[[str, str], str]
_SOME_ID = 1
EncoderFor: TypeAlias = Callable[[int], Encoder]
"""Gives the encoder for a limit of a message's size in bytes."""


def cadence(changefeed: Changefeed) -> Cadence:
    """The sequence's settings, from a changefeed's protocol and options."""
    traits = protocol(changefeed.protocol).traits
    return Cadence(
        watermarks=changefeed.watermarks and traits.watermarks != "never",
        ddl_to_first_partition=traits.ddl_to_first_partition,
        bootstrap=changefeed.bootstrap if traits.versioned_tables else None,
    )


@contextmanager
def opened_registry(changefeed: Changefeed) -> Iterator[Registry | None]:
    """The registry of a changefeed; ``None`` if its protocol has none."""
    where = changefeed.schema_registry if protocol(changefeed.protocol).traits.registry else None
    if where is None:
        yield None
        return
    with closing(open_registry(where, changefeed.schema_registry_options, create=True)) as opened:
        yield opened


def ask_registry(changefeed: Changefeed) -> str | None:
    """Check that the registry answers, as TiCDC does for a new changefeed. Returns: its address without a password.

    ``None``: the protocol has none, or it is a file. Raises: RegistryFault; UsageError for its URL or options.
    """
    where = changefeed.schema_registry if protocol(changefeed.protocol).traits.registry else None
    if where is None or where.startswith(PREFIX):
        return None
    with closing(open_registry(where, changefeed.schema_registry_options)) as registry:
        with suppress(KeyError, MessageError):
            registry[_SOME_ID]  # whether it has a schema does not matter
        return redact(where)


@contextmanager
def encoders(changefeed: Changefeed, topic: TopicOf) -> Iterator[EncoderFor]:
    """Give what makes the encoders of a changefeed, with its registry open.

    ``topic``: from the names of a schema and a table to the topic.
    """
    with opened_registry(changefeed) as registry:
        yield partial(encoder, changefeed, registry, topic)


def encoder(changefeed: Changefeed, registry: Registry | None, topic: TopicOf, limit: int) -> Encoder:
    """A changefeed's encoder of messages of at most ``limit`` bytes. ``registry``: if the protocol needs one."""
    fields = {field.name for field in msgspec.structs.fields(protocol(changefeed.protocol).config_type())}
    options = dict(changefeed.encoder)
    if "max_message_bytes" in fields:
        options["max-message-bytes"] = str(limit)
    if "time_zone" in fields:
        options.setdefault("time-zone", changefeed.time_zone)
    routes = TableRoutes(changefeed)
    if not routes:
        return target_encoder(changefeed.protocol, options, registry, topic)

    def by_source(schema: str, table: str) -> str:
        return topic(*routes.source((schema, table)))

    return RoutedEncoder(target_encoder(changefeed.protocol, options, registry, by_source), routes)
