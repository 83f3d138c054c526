"""The Simple protocol: one event a message, rows that name their table's version, in JSON or in Avro."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ticdc_spark.protocols.base import Decoder, Encoder, Registry
from ticdc_spark.protocols.wire_protocol import DecoderOptions, Traits, WireProtocol

if TYPE_CHECKING:
    from ticdc_spark.protocols.simple.encode import SimpleConfig

_AVRO = b"\x16"
"""First byte of a message in Avro: ``simple.avro.decode.MARK``, without importing that module."""

_IMAGE = b"\x02"
"""First byte of an image in Avro: ``simple.avro.types.IMAGE``."""


class SimpleProtocol(WireProtocol["SimpleConfig"]):
    """Simple."""

    def decoder(self, options: DecoderOptions = DecoderOptions()) -> Decoder:  # noqa: B008
        from ticdc_spark.protocols.simple.decode import DECODER

        return DECODER

    def config_type(self) -> type[SimpleConfig]:
        from ticdc_spark.protocols.simple.encode import SimpleConfig

        return SimpleConfig

    def encoder(self, config: SimpleConfig | None = None, registry: Registry | None = None) -> Encoder:
        from ticdc_spark.protocols.simple.encode import encoder

        return encoder(config)

    def is_framed(self, key: bytes | None, value: bytes | None) -> bool:
        return key is None and value is not None and value[:1] == _AVRO

    def comparable(self, image: bytes) -> bytes:
        if image[:1] != _IMAGE:
            return image
        from ticdc_spark.protocols.simple.avro.rows import sorted_cells

        return sorted_cells(image)

    def is_json(self, value: bytes, fields: Collection[str]) -> bool:
        return "version" in fields and "type" in fields


PROTOCOL = SimpleProtocol(
    name="simple",
    traits=Traits(watermarks="always", ddl="always", ddl_has_tables=True, versioned_tables=True, claim_check=True),
    encoder_defaults={"compute_row_checksum": True},
)
