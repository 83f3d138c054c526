"""The protocols by name: the only list of them."""

from collections.abc import Callable
from importlib import import_module
from typing import cast

from ticdc_spark.errors import UsageError
from ticdc_spark.protocols.base import Decoder


def _load(module: str) -> Callable[[], Decoder]:
    return lambda: cast(Decoder, import_module(f"ticdc_spark.protocols.{module}").DECODER)


PROTOCOLS: dict[str, Callable[[], Decoder]] = {
    "avro": _load("avro"),
    "canal-json": _load("canal_json"),
    "debezium": _load("debezium"),
    "open": _load("open"),
    "simple": _load("simple"),
}
"""Name, as in TiCDC's ``protocol`` option, to the loader of its decoder."""


def decoder(name: str) -> Decoder:
    """Load a protocol's decoder by name.

    Raises: UsageError when there is no protocol of that name.
    """
    if name not in PROTOCOLS:
        raise UsageError(f"protocol {name!r} is not known; allowed: {', '.join(sorted(PROTOCOLS))}")
    return PROTOCOLS[name]()
