"""The interface of a protocol: one object, which each protocol's package exports as ``PROTOCOL``.

``traits`` has the facts that other code needs. The methods make its decoder and encoder, and read what only its own
messages have. Codecs are imported at their first use, so the list of protocols is cheap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from ticdc_spark.errors import UsageError
from ticdc_spark.model import Envelope, Table
from ticdc_spark.protocols.base import Decoder, Encoder, Registry, Schemas

if TYPE_CHECKING:
    from ticdc_spark.clients.claim_check import ClaimCheckStorage

Config = TypeVar("Config", bound=msgspec.Struct)
Sent: TypeAlias = Literal["always", "optional", "never"]
"""Whether TiCDC sends a kind of message: in every changefeed, in some configurations, or in none."""
TableOfRow: TypeAlias = Callable[[bytes | None, bytes | None, Envelope], Table]
"""(message key, message value, envelope) → the row's table. Raises MessageError if the message does not have it."""


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Differences of protocols on which code outside their packages depends."""

    watermarks: Sent
    ddl: Sent
    ddl_has_tables: bool = False
    """A DDL's message has tables besides its SQL."""
    ddl_to_first_partition: bool = False
    """DDL goes only to partition 0; otherwise to each partition."""
    versioned_tables: bool = False
    """A row names its table's version; BOOTSTRAP and DDL messages have the tables."""
    needs_details: bool = False
    """Messages have what versioned tables lack: the order of columns, or which are generated."""
    registry: bool = False
    """Messages name schemas of a registry."""
    schema_blocks: bool = False
    """Messages may carry a block that describes the row; with ``DecoderOptions.block_keys`` its hash is the schema
    key, which then begins with ``BLOCK_MARK``."""
    sanitised_names: bool = False
    """Rows have sanitised names of schemas, tables and columns (``shared.avro_names``); DDL has the real ones."""
    hidden_deletes: bool = False
    """Deletes may come without their commit_ts."""
    approximate_values: bool = False
    """DECIMAL may be a double, NULL and a zero date another value, and a date moved by whole centuries."""
    upserts: bool = False
    """There is a message for an upsert."""
    local_timestamps: bool = False
    """TIMESTAMP is sent as local text without its zone."""
    claim_check: bool = False
    """Rows that are too large may be in a storage (``WireProtocol.store``)."""
    in_storage: bool = False
    """TiCDC's storage sink writes its messages to files, one a line."""
    connector_properties: bool = False
    """Connectors other than TiCDC write the protocol too; ``DecoderOptions.connector`` has their configuration."""


class DecoderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of decoders. Each protocol uses the ones that it needs."""

    schemas: Schemas | None = None
    """Registered schemas. Without them, a protocol that needs a registry fails at its first row."""
    connector: Mapping[str, str] = {}
    """Properties of the connector that wrote the messages, by its own names, as text."""
    block_keys: bool = False
    """Schema keys are hashes of schema blocks."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WireProtocol(ABC, Generic[Config]):
    """A protocol. ``Config``: how its messages are written, a struct with TiCDC's option names."""

    name: str
    """The name in TiCDC's ``protocol`` option."""
    traits: Traits
    aliases: tuple[str, ...] = ()
    """Other names that TiCDC's option accepts."""
    changefeed_aliases: tuple[str, ...] = ()
    """More names, which only a changefeed's configuration accepts: too general, or out of date."""
    encoder_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults for fields of ``Config`` that differ from TiCDC's, so that less is lost."""

    @abstractmethod
    def decoder(self, options: DecoderOptions = DecoderOptions()) -> Decoder:  # noqa: B008  frozen
        """The decoder with these options. Raises: UsageError for a connector property that does not exist."""

    @abstractmethod
    def config_type(self) -> type[Config]:
        """The struct that ``encoder`` takes."""

    @abstractmethod
    def encoder(self, config: Config | None = None, registry: Registry | None = None) -> Encoder:
        """The encoder of a configuration; ``None``: TiCDC's defaults.

        Raises: UsageError for a missing registry; MessageError for options that exclude each other.
        """

    def needed(self, registry: Registry | None) -> Registry:
        """The registry, for a protocol with ``traits.registry``. Raises: UsageError if it is ``None``."""
        if registry is None:
            where = "a URL, or file:PATH for a file of schemas"
            raise UsageError(f"{self.name} is written with --schema-registry: {where}")
        return registry

    def is_framed(self, key: bytes | None, value: bytes | None) -> bool:
        """Whether the first bytes of a message show this protocol. Called before ``is_json``, in the list's order."""
        return False

    def lacks_frame(self, key: bytes | None, value: bytes | None) -> bool:
        """Whether a message is this protocol's without its framing, as if it had been copied from a document."""
        return False

    def is_json(self, value: bytes, fields: Collection[str]) -> bool:
        """Whether the fields of a message in JSON show this protocol. Broken JSON has no fields."""
        return False

    def comparable(self, image: bytes) -> bytes:
        """Bytes that are the same for every image of a row, even if the images differ."""
        return image

    def row_tables(self, schemas: Schemas | None = None) -> TableOfRow | None:
        """A function that reads a row's table from its own message; ``None`` if messages do not have it.

        ``schemas``: the registry's, for a protocol with ``traits.registry``.
        """
        return None

    def tables_of_ddl(self, value: bytes) -> tuple[Table, ...]:
        """Tables after a DDL that its message has, but its events (``SchemaChange``) do not. Raises: MessageError."""
        return ()

    def registered_tables(self, key: str | None, value: str | None, named: Sequence[tuple[str, str]]) -> list[Table]:
        """The tables that a pair of registered schemas describes. A missing schema is ``None``.

        ``named``: schema and table of the rows that name the value's schema, for schemas that do not name it
        themselves. Raises: MessageError for a text that is no schema of this protocol.
        """
        return []

    def store(self, storage: ClaimCheckStorage, *, raw: bool) -> Callable[..., str]:
        """``Config.store`` of a protocol with ``traits.claim_check``. ``raw``: a file has only the value.

        Raises: UsageError if ``raw`` would lose what is needed to read the message.
        """
        return storage.store if raw else partial(storage.store_message, None)
