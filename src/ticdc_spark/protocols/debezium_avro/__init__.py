"""Debezium in Avro with a schema registry, of TiCDC's new architecture: only rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ticdc_spark.model import Envelope, Table
from ticdc_spark.protocols.base import Decoder, Encoder, Registry, Schemas
from ticdc_spark.protocols.shared.registered import named_schema
from ticdc_spark.protocols.wire_protocol import DecoderOptions, TableOfRow, Traits, WireProtocol
from ticdc_spark.wire.confluent import is_framed

if TYPE_CHECKING:
    from ticdc_spark.protocols.debezium_avro.encode import DebeziumAvroConfig

_SOURCE = re.compile(rb"\.Final\x0aTiCDC")
"""TiCDC's connector after a version, in the value's ``source``."""


class DebeziumAvroProtocol(WireProtocol["DebeziumAvroConfig"]):
    """Debezium in Avro."""

    def decoder(self, options: DecoderOptions = DecoderOptions()) -> Decoder:  # noqa: B008
        from ticdc_spark.protocols.debezium_avro.decode import DECODER, DebeziumAvroDecoder

        return DECODER if options.schemas is None else DebeziumAvroDecoder(options.schemas)

    def config_type(self) -> type[DebeziumAvroConfig]:
        from ticdc_spark.protocols.debezium_avro.encode import DebeziumAvroConfig

        return DebeziumAvroConfig

    def encoder(self, config: DebeziumAvroConfig | None = None, registry: Registry | None = None) -> Encoder:
        from ticdc_spark.protocols.debezium_avro.encode import DebeziumAvroConfig, encoder

        return encoder(config or DebeziumAvroConfig(), self.needed(registry))

    def is_framed(self, key: bytes | None, value: bytes | None) -> bool:
        return (is_framed(key) or is_framed(value)) and bool(value and _SOURCE.search(value))

    def row_tables(self, schemas: Schemas | None = None) -> TableOfRow | None:
        """From the schemas that the message names. The envelope has the table's name."""
        if schemas is None:
            return None
        from ticdc_spark.protocols.debezium_avro.decode import table_from_schemas

        def table_of_row(key: bytes | None, value: bytes | None, row: Envelope) -> Table:
            of_key, of_value = named_schema(schemas, key), named_schema(schemas, value)
            return table_from_schemas(row.schema, row.table, of_key, of_value or "")

        return table_of_row

    def registered_tables(self, key: str | None, value: str | None, named: Sequence[tuple[str, str]]) -> list[Table]:
        """A table for each name: schemas have only names that are sanitised for Avro."""
        from ticdc_spark.protocols.debezium_avro.decode import table_from_schemas

        return [] if value is None else [table_from_schemas(*name, key, value) for name in named]


PROTOCOL = DebeziumAvroProtocol(
    name="debezium-avro",
    traits=Traits(watermarks="never", ddl="never", registry=True, approximate_values=True),
    encoder_defaults={"enable_tidb_extension": True},
)
