"""The decoder of the given or detected protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ticdc_spark.clients.registry_file import open_registry
from ticdc_spark.errors import UsageError
from ticdc_spark.protocols import decoder, protocol
from ticdc_spark.protocols.base import Decoder, Schemas


@contextmanager
def decoder_of(
    name: str, registry: str | None, native: Mapping[str, str], registry_options: Mapping[str, str]
) -> Iterator[tuple[Decoder, Schemas | None]]:
    """The decoder of a protocol, and the registry's schemas if its messages name schemas.

    Raises: UsageError for a missing registry, and for options of another protocol.
    """
    if native or not protocol(name).traits.registry:
        yield decoder(name, native=native), None
        return
    if registry is None:
        raise UsageError("Avro messages are read with --schema-registry")
    with open_registry(registry, registry_options) as schemas:
        yield decoder(name, schemas), schemas
