"""The protocols that stories use: their real encoders and decoders."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from ticdc_spark.protocols.base import Decoder, Encoder
from ticdc_spark.protocols.canal_json import decode as canal_json
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json_encoder
from ticdc_spark.protocols.debezium import decode as debezium
from ticdc_spark.protocols.debezium import encode as debezium_encode
from ticdc_spark.protocols.open import decode as open_protocol
from ticdc_spark.protocols.open.encode import OpenConfig
from ticdc_spark.protocols.open.encode import encoder as open_encoder
from ticdc_spark.protocols.simple import decode as simple
from ticdc_spark.protocols.simple.encode import SimpleConfig
from ticdc_spark.protocols.simple.encode import encoder as simple_encoder


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """A protocol as a changefeed is configured to send it."""

    name: str
    """As the job file names it."""
    make_encoder: Callable[[str], Encoder]
    """From the changefeed's time zone."""
    decoder: Decoder
    ddl_everywhere: bool = True
    """A DDL goes to every partition of its topic; else to partition 0."""
    tells_tables: bool = False
    """Messages carry whole schemas; else DDL is its SQL."""
    sends_zone: bool = True
    """TIMESTAMP is sent so that its instant is known."""
    local_times: bool = True
    """TIMESTAMP is sent as local time, be its zone named or not: one that happens twice a year is two instants."""


def _no_time() -> int:
    return 0


def _simple(zone: str) -> Encoder:
    return simple_encoder(SimpleConfig(time_zone=zone, build_ts=_no_time))


def _open(zone: str, rows: int = 1) -> Encoder:
    return open_encoder(OpenConfig(time_zone=zone, max_batch_size=rows))


def _canal(zone: str) -> Encoder:
    config = CanalJsonConfig(enable_tidb_extension=True, time_zone=zone, build_ts=_no_time)
    return canal_json_encoder(config)


def _debezium(_zone: str) -> Encoder:
    config = debezium_encode.DebeziumConfig(enable_tidb_extension=True, build_ts=_no_time)
    return debezium_encode.encoder(config)


WIRES: dict[str, Wire] = {
    wire.name: wire
    for wire in (
        Wire(name="simple", make_encoder=_simple, decoder=simple.DECODER, tells_tables=True),
        Wire(name="open", make_encoder=_open, decoder=open_protocol.DECODER, sends_zone=False),
        Wire(
            name="canal-json",
            make_encoder=_canal,
            decoder=canal_json.DECODER,
            ddl_everywhere=False,
            sends_zone=False,
        ),
        Wire(name="debezium", make_encoder=_debezium, decoder=debezium.DECODER, local_times=False),
    )
}
"""By name. All of them with watermarks."""


@lru_cache(maxsize=64)
def encoder(protocol: str, zone: str, *, batched: bool = False) -> Encoder:
    """The encoder of a protocol for a time zone. ``batched``: Open puts several rows into a message."""
    if protocol == "open" and batched:
        return _open(zone, 4)
    return WIRES[protocol].make_encoder(zone)
