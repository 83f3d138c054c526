"""The protocols by name: the only list of them. A new one is a package that exports ``PROTOCOL``, and a line here."""

from collections.abc import Mapping
from typing import Any

from ticdc_spark.errors import UsageError
from ticdc_spark.protocols import avro, canal_json, debezium, debezium_avro, open, simple  # noqa: A004
from ticdc_spark.protocols.base import Decoder, Schemas
from ticdc_spark.protocols.wire_protocol import DecoderOptions, Traits, WireProtocol

_LIST: tuple[WireProtocol[Any], ...] = (
    open.PROTOCOL,
    canal_json.PROTOCOL,
    debezium_avro.PROTOCOL,
    avro.PROTOCOL,
    debezium.PROTOCOL,
    simple.PROTOCOL,
)
PROTOCOLS: dict[str, WireProtocol[Any]] = {found.name: found for found in _LIST}
"""By name, in the order in which they are asked whether a message is theirs: Avro's schema ids begin as Open's keys do,
any Avro may be Debezium's, and fields that mark Simple are no rare ones."""
ALIASES: dict[str, str] = {alias: found.name for found in _LIST for alias in found.aliases}
"""Other names that TiCDC's ``protocol`` option takes."""


def canonical(name: str) -> str:
    """The one name of a protocol that has several."""
    return ALIASES.get(name, name)


def protocol(name: str) -> WireProtocol[Any]:
    """The protocol of a name or alias. Raises: UsageError when there is none."""
    found = PROTOCOLS.get(canonical(name))
    if found is None:
        raise UsageError(f"protocol {name!r} is not known; allowed: {', '.join(sorted(PROTOCOLS))}")
    return found


def decoder(
    name: str,
    schemas: Schemas | None = None,
    native: Mapping[str, str] | None = None,
    *,
    block_keys: bool = False,
) -> Decoder:
    """A protocol's decoder by name.

    ``schemas``: registered ones, for the protocols whose messages name them. ``native``: how Debezium's own connector
    is configured, see ``debezium.native.read_modes``; for another protocol there must be none. ``block_keys``: schema
    keys are hashes of schema blocks, where the protocol has these.

    Raises: UsageError when there is no protocol of that name, and for a property that it has not.
    """
    found = protocol(name)
    if native and not found.traits.connector_properties:
        raise UsageError(f"`{next(iter(native))}` is a property of Debezium's connectors; the protocol is {found.name}")
    return found.decoder(DecoderOptions(schemas=schemas, connector=native or {}, block_keys=block_keys))


__all__ = [
    "ALIASES",
    "PROTOCOLS",
    "DecoderOptions",
    "Traits",
    "WireProtocol",
    "canonical",
    "decoder",
    "protocol",
]
