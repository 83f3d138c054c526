"""The Open protocol: several events a message, each with its key in JSON. No message has a table's schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ticdc_spark.errors import UsageError
from ticdc_spark.model import Envelope, Table
from ticdc_spark.protocols.base import Decoder, Encoder, Registry, Schemas
from ticdc_spark.protocols.wire_protocol import DecoderOptions, TableOfRow, Traits, WireProtocol

if TYPE_CHECKING:
    from ticdc_spark.clients.claim_check import ClaimCheckStorage
    from ticdc_spark.protocols.open.encode import OpenConfig

_VERSION = (1).to_bytes(8)
_AT_KEY = 16
"""Offset of the first key's JSON, after the version and its length."""
_OBJECT = re.compile(rb"[ \t\r\n]*\{")


class OpenProtocol(WireProtocol["OpenConfig"]):
    """Open."""

    def decoder(self, options: DecoderOptions = DecoderOptions()) -> Decoder:  # noqa: B008
        from ticdc_spark.protocols.open.decode import DECODER

        return DECODER

    def config_type(self) -> type[OpenConfig]:
        from ticdc_spark.protocols.open.encode import OpenConfig

        return OpenConfig

    def encoder(self, config: OpenConfig | None = None, registry: Registry | None = None) -> Encoder:
        from ticdc_spark.protocols.open.encode import encoder

        return encoder(config)

    def is_framed(self, key: bytes | None, value: bytes | None) -> bool:
        if key is None or key[:8] != _VERSION:
            return False
        is_empty_batch = len(key) == len(_VERSION) and not value
        return is_empty_batch or _OBJECT.match(key, _AT_KEY) is not None

    def lacks_frame(self, key: bytes | None, value: bytes | None) -> bool:
        from ticdc_spark.protocols.open.frames import is_bare_key

        return any(part is not None and is_bare_key(part) for part in (key, value))

    def row_tables(self, schemas: Schemas | None = None) -> TableOfRow | None:
        """Everything except the members of ENUM and SET, and whether there are other columns."""
        from ticdc_spark.protocols.open.images import table_from_row

        def table_of_row(key: bytes | None, value: bytes | None, row: Envelope) -> Table:
            return table_from_row(row.schema, row.table, row.after or row.before or b"")

        return table_of_row

    def store(self, storage: ClaimCheckStorage, *, raw: bool) -> Callable[..., str]:
        """Key and value, as the key has the rows' names."""
        if raw:
            raise UsageError("open has no option claim-check-raw-value: its key is needed to read a message")
        return storage.store_message


PROTOCOL = OpenProtocol(
    name="open",
    aliases=("open-protocol",),
    changefeed_aliases=("default",),
    traits=Traits(
        watermarks="always",
        ddl="always",
        needs_details=True,
        upserts=True,
        local_timestamps=True,
        claim_check=True,
    ),
)
