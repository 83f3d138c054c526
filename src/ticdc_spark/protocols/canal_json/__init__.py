"""canal-json: Alibaba Canal's JSON, one event a message. No message has a table's schema."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ticdc_spark.model import Envelope, Table
from ticdc_spark.protocols.base import Decoder, Encoder, Registry, Schemas
from ticdc_spark.protocols.wire_protocol import DecoderOptions, TableOfRow, Traits, WireProtocol

if TYPE_CHECKING:
    from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig


class CanalJsonProtocol(WireProtocol["CanalJsonConfig"]):
    """canal-json."""

    def decoder(self, options: DecoderOptions = DecoderOptions()) -> Decoder:  # noqa: B008
        from ticdc_spark.protocols.canal_json.decode import DECODER

        return DECODER

    def config_type(self) -> type[CanalJsonConfig]:
        from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig

        return CanalJsonConfig

    def encoder(self, config: CanalJsonConfig | None = None, registry: Registry | None = None) -> Encoder:
        from ticdc_spark.protocols.canal_json.encode import encoder

        return encoder(config)

    def is_json(self, value: bytes, fields: Collection[str]) -> bool:
        return "isDdl" in fields

    def row_tables(self, schemas: Schemas | None = None) -> TableOfRow | None:
        """From the message's ``mysqlType`` and ``pkNames``."""
        from ticdc_spark.protocols.canal_json.images import table_from_message

        def table_of_row(key: bytes | None, value: bytes | None, row: Envelope) -> Table:
            return table_from_message(value or b"")

        return table_of_row


PROTOCOL = CanalJsonProtocol(
    name="canal-json",
    traits=Traits(
        watermarks="optional",  # enable-tidb-extension
        ddl="always",
        ddl_to_first_partition=True,
        local_timestamps=True,
        claim_check=True,
        in_storage=True,
    ),
    encoder_defaults={"enable_tidb_extension": True},
)
