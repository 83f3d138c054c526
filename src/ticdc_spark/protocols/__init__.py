"""The protocols by name: the only list of them."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

from ticdc_spark.errors import UsageError
from ticdc_spark.protocols.base import Decoder


def _load(module: str) -> Callable[[], Decoder]:
    return lambda: cast(Decoder, import_module(f"ticdc_spark.protocols.{module}.decode").DECODER)


PROTOCOLS: dict[str, Callable[[], Decoder]] = {
    "avro": _load("avro"),
    "canal-json": _load("canal_json"),
    "debezium": _load("debezium"),
    "debezium-avro": _load("debezium_avro"),
    "open": _load("open"),
    "simple": _load("simple"),
}
"""Name, as in TiCDC's ``protocol`` option, to the loader of its decoder."""
ALIASES = {"open-protocol": "open"}
"""Other names that TiCDC's ``protocol`` option takes."""
REGISTERED = {"avro": ("avro", "AvroDecoder"), "debezium-avro": ("debezium_avro", "DebeziumAvroDecoder")}
"""Protocols whose messages name schemas of a registry, to their module and decoder, made of the schemas' texts."""
NO_WATERMARK = frozenset({"debezium-avro"})
"""Protocols that TiCDC sends without watermarks, whatever it is told."""
HIDDEN_DELETES = frozenset({"avro"})
"""Protocols whose deletes may not tell their commit_ts."""
MAYBE_WATERMARK = frozenset({"avro", "canal-json", "debezium"})
"""Protocols with watermarks only by ``enable-tidb-extension``; Avro by ``avro-enable-watermark`` besides."""
NO_TIMEZONE = frozenset({"avro", "canal-json", "open"})
"""Protocols that send TIMESTAMP as local text without its zone."""


def canonical(name: str) -> str:
    """The one name of a protocol that has several."""
    return ALIASES.get(name, name)


def decoder(
    name: str,
    schemas: Mapping[int, str] | None = None,
    native: Mapping[str, str] | None = None,
    *,
    block_keys: bool = False,
) -> Decoder:
    """Load a protocol's decoder by name.

    ``schemas``: texts by id, for the protocols whose messages name schemas of a registry. ``native``: how Debezium's
    own connector is configured, see ``debezium_native.read_modes``; for another protocol there must be none.
    ``block_keys``: Debezium's schema keys are hashes of schema blocks.

    Raises: UsageError when there is no protocol of that name, and for a property that it has not.
    """
    name = canonical(name)
    if native or (block_keys and name == "debezium"):
        if name != "debezium":
            raise UsageError(
                f"`{next(iter(native or ()))}` is a property of Debezium's connectors; the protocol is {name}"
            )
        debezium = import_module("ticdc_spark.protocols.debezium.decode")
        return cast(Decoder, debezium.DebeziumDecoder(block_keys=block_keys, modes=debezium.read_modes(native or {})))
    if name not in PROTOCOLS:
        raise UsageError(f"protocol {name!r} is not known; allowed: {', '.join(sorted(PROTOCOLS))}")
    if name in REGISTERED and schemas is not None:
        module, kind = REGISTERED[name]
        return cast(Decoder, getattr(import_module(f"ticdc_spark.protocols.{module}.decode"), kind)(schemas))
    return PROTOCOLS[name]()
