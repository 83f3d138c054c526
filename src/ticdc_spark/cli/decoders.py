"""The decoder of the protocol that is named or detected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from ticdc_spark.clients.registry_file import open_registry
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import Envelope, Message, Table
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.base import Decoder
from ticdc_spark.streams.reader import OfRow


@contextmanager
def decoder_of(
    protocol: str, registry: str | None, native: Mapping[str, str]
) -> Iterator[tuple[Decoder, OfRow | None]]:
    """The decoder of a protocol, and what tells a row's table where the messages' own schemas do.

    Raises: UsageError for a registry that is missing, and for what another protocol than this has.
    """
    make = _REGISTERED.get(protocol)
    if make is None or native:
        yield decoder(protocol, native=native), None
        return
    if registry is None:
        raise UsageError("Avro messages are read with --schema-registry")
    with open_registry(registry) as schemas:
        yield make(schemas)


def avro_decoder(schemas: Any) -> tuple[Decoder, OfRow]:
    """The decoder of Avro, and what tells a row's table, with a registry's schemas or a mapping's."""
    from ticdc_spark.protocols.avro.decode import AvroDecoder, schema_ids, table_from_schemas

    def of_row(message: Message, _: Envelope) -> Table:
        key, value = (_schema(schemas, schema_ids(part, None)) for part in (message.key, message.value))
        return table_from_schemas(key, value)

    return cast(Decoder, AvroDecoder(schemas)), of_row


def debezium_avro_decoder(schemas: Any) -> tuple[Decoder, OfRow]:
    """The same of Debezium in Avro."""
    from ticdc_spark.protocols.avro.decode import schema_ids
    from ticdc_spark.protocols.debezium_avro.decode import DebeziumAvroDecoder, table_from_schemas

    def of_row(message: Message, envelope: Envelope) -> Table:
        key, value = (_schema(schemas, schema_ids(part, None)) for part in (message.key, message.value))
        return table_from_schemas(envelope.schema, envelope.table, key, value or "")

    return cast(Decoder, DebeziumAvroDecoder(schemas)), of_row


_REGISTERED = {"avro": avro_decoder, "debezium-avro": debezium_avro_decoder}
"""Protocols whose schemas stand at a registry."""


def _schema(schemas: Any, ids: frozenset[int]) -> str | None:
    for number in ids:
        try:
            return cast(str, schemas[number])
        except KeyError as error:
            raise MessageError(f"schema id {number} is not known to the registry") from error
    return None


__all__ = ["avro_decoder", "debezium_avro_decoder", "decoder_of"]
