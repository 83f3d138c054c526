"""The only list of protocols. A new one is a package that exports ``PROTOCOL``, and a line here."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ticdc_spark.errors import UsageError
from ticdc_spark.model import Table
from ticdc_spark.protocols import avro, canal_json, debezium, debezium_avro, open, simple  # noqa: A004
from ticdc_spark.protocols.base import Decoder, Schemas
from ticdc_spark.protocols.wire_protocol import DecoderOptions, Traits, WireProtocol

if TYPE_CHECKING:
    from ticdc_spark.protocols.simple.rows import RowWriter

_LIST: tuple[WireProtocol[Any], ...] = (
    open.PROTOCOL,
    canal_json.PROTOCOL,
    debezium_avro.PROTOCOL,
    avro.PROTOCOL,
    debezium.PROTOCOL,
    simple.PROTOCOL,
)
PROTOCOLS: dict[str, WireProtocol[Any]] = {found.name: found for found in _LIST}
"""By name, in the order of detection: Avro's schema ids begin like Open's keys, any Avro may be Debezium's, and fields
that mark Simple are common."""
ALIASES: dict[str, str] = {alias: found.name for found in _LIST for alias in found.aliases}
"""Other names that TiCDC's ``protocol`` option accepts."""

OWN_IMAGES = simple.PROTOCOL.name
"""The protocol of the images that this program writes for itself: a table is all that is needed to read one."""


def image_writer(table: Table) -> "RowWriter":
    """Compile a writer of images of ``OWN_IMAGES``, with TIMESTAMP in UTC. An image has the columns of its row.

    Raises: MessageError for a type that the protocol does not carry; the writer raises it for an unknown column
    """
    from ticdc_spark.protocols.simple.rows import row_writer

    return row_writer(table, "UTC")


def canonical(name: str) -> str:
    """The main name of a protocol that may have several."""
    return ALIASES.get(name, name)


def protocol(name: str) -> WireProtocol[Any]:
    """The protocol of a name or alias. Raises: UsageError if there is none."""
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

    ``schemas``: registered ones, for protocols whose messages name them. ``native``: the configuration of Debezium's
    own connector (``debezium.native.read_modes``); empty for other protocols. ``block_keys``: schema keys are hashes of
    schema blocks, if the protocol has these.

    Raises: UsageError for an unknown protocol, and for a property that it does not have.
    """
    found = protocol(name)
    if native and not found.traits.connector_properties:
        raise UsageError(f"`{next(iter(native))}` is a property of Debezium's connectors; the protocol is {found.name}")
    return found.decoder(DecoderOptions(schemas=schemas, connector=native or {}, block_keys=block_keys))


__all__ = [
    "ALIASES",
    "OWN_IMAGES",
    "PROTOCOLS",
    "DecoderOptions",
    "Traits",
    "WireProtocol",
    "canonical",
    "decoder",
    "image_writer",
    "protocol",
]
