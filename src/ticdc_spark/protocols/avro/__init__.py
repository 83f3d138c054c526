"""Avro with a schema registry: one message a row, whose registered schema names its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ticdc_spark.model import Envelope, Table
from ticdc_spark.protocols.base import Decoder, Encoder, Registry, Schemas
from ticdc_spark.protocols.shared.registered import named_schema
from ticdc_spark.protocols.wire_protocol import DecoderOptions, TableOfRow, Traits, WireProtocol
from ticdc_spark.wire.confluent import is_framed

if TYPE_CHECKING:
    from ticdc_spark.protocols.avro.encode import AvroConfig

_DDL = b"\x01{"
_STAMPED = (b"\x02", b"\x03")
_STAMPED_BYTES = 9
"""Size of a watermark or delete of ``avro-enable-watermark``: its kind, and a TSO."""


class AvroProtocol(WireProtocol["AvroConfig"]):
    """Avro."""

    def decoder(self, options: DecoderOptions = DecoderOptions()) -> Decoder:  # noqa: B008
        from ticdc_spark.protocols.avro.decode import DECODER, AvroDecoder

        return DECODER if options.schemas is None else AvroDecoder(options.schemas)

    def config_type(self) -> type[AvroConfig]:
        from ticdc_spark.protocols.avro.encode import AvroConfig

        return AvroConfig

    def encoder(self, config: AvroConfig | None = None, registry: Registry | None = None) -> Encoder:
        from ticdc_spark.protocols.avro.encode import AvroConfig, encoder

        return encoder(config or AvroConfig(), self.needed(registry))

    def is_framed(self, key: bytes | None, value: bytes | None) -> bool:
        if is_framed(key) or is_framed(value):
            return True
        if key is not None or not value:
            return False
        return value[:2] == _DDL or (value[:1] in _STAMPED and len(value) == _STAMPED_BYTES)

    def row_tables(self, schemas: Schemas | None = None) -> TableOfRow | None:
        """From the schemas that the message names."""
        if schemas is None:
            return None
        from ticdc_spark.protocols.avro.schema import table_from_schemas

        def table_of_row(key: bytes | None, value: bytes | None, row: Envelope) -> Table:
            return table_from_schemas(named_schema(schemas, key), named_schema(schemas, value))

        return table_of_row

    def registered_tables(self, key: str | None, value: str | None, named: Sequence[tuple[str, str]]) -> list[Table]:
        """The one table, whose name is in the schemas."""
        from ticdc_spark.protocols.avro.schema import table_from_schemas

        return [table_from_schemas(key, value)]


PROTOCOL = AvroProtocol(
    name="avro",
    changefeed_aliases=("flat-avro",),
    traits=Traits(
        watermarks="optional",  # avro-enable-watermark, and DDL with them
        ddl="optional",
        registry=True,
        sanitised_names=True,
        hidden_deletes=True,
        upserts=True,
        local_timestamps=True,
    ),
    encoder_defaults={"enable_tidb_extension": True, "compute_row_checksum": True},
)
