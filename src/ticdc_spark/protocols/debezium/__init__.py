"""Debezium in JSON, as TiCDC writes it and as Debezium's own connectors do."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from ticdc_spark.model import Envelope, Table
from ticdc_spark.protocols.base import Decoder, Encoder, Registry, Schemas
from ticdc_spark.protocols.wire_protocol import DecoderOptions, TableOfRow, Traits, WireProtocol

if TYPE_CHECKING:
    from ticdc_spark.protocols.debezium.encode import DebeziumConfig

_PAYLOAD_FIRST = re.compile(rb'\s*\{\s*"payload"\s*:')


class DebeziumProtocol(WireProtocol["DebeziumConfig"]):
    """Debezium."""

    def decoder(self, options: DecoderOptions = DecoderOptions()) -> Decoder:  # noqa: B008
        from ticdc_spark.protocols.debezium.decode import DECODER, DebeziumDecoder
        from ticdc_spark.protocols.debezium.native import read_modes

        if not options.connector and not options.block_keys:
            return DECODER
        return DebeziumDecoder(block_keys=options.block_keys, modes=read_modes(options.connector))

    def config_type(self) -> type[DebeziumConfig]:
        from ticdc_spark.protocols.debezium.encode import DebeziumConfig

        return DebeziumConfig

    def encoder(self, config: DebeziumConfig | None = None, registry: Registry | None = None) -> Encoder:
        from ticdc_spark.protocols.debezium.encode import encoder

        return encoder(config)

    def is_json(self, value: bytes, fields: Collection[str]) -> bool:
        if not fields:
            return _PAYLOAD_FIRST.match(value) is not None  # it may have bytes that are not UTF-8
        return "payload" in fields or ("source" in fields and ("op" in fields or "ddl" in fields))

    def row_tables(self, schemas: Schemas | None = None) -> TableOfRow | None:
        """From the schema blocks of key and value."""
        from ticdc_spark.protocols.debezium.tables import table_of_row as of_blocks

        def table_of_row(key: bytes | None, value: bytes | None, row: Envelope) -> Table:
            return of_blocks(row.schema, row.table, key, value or b"")

        return table_of_row

    def tables_of_ddl(self, value: bytes) -> tuple[Table, ...]:
        """The tables of ``tableChanges``."""
        from ticdc_spark.protocols.debezium.tables import tables_of_ddl

        return tables_of_ddl(value)


PROTOCOL = DebeziumProtocol(
    name="debezium",
    traits=Traits(
        watermarks="optional",  # enable-tidb-extension
        ddl="always",
        ddl_has_tables=True,
        needs_details=True,
        schema_blocks=True,
        approximate_values=True,
        connector_properties=True,
    ),
    encoder_defaults={"enable_tidb_extension": True},
)
