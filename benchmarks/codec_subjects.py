"""What ``benchmarks.codecs`` measures: protocols and their configurations, and TiCDC's own figures for them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.avro import decode as avro
from ticdc_spark.protocols.avro.encode import AvroConfig
from ticdc_spark.protocols.avro.encode import encoder as avro_encoder
from ticdc_spark.protocols.base import Decoder, Encoder
from ticdc_spark.protocols.canal_json import decode as canal_json
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json_encoder
from ticdc_spark.protocols.open import decode as open_protocol
from ticdc_spark.protocols.open.encode import OpenConfig
from ticdc_spark.protocols.open.encode import encoder as open_encoder
from ticdc_spark.protocols.simple import decode as simple
from ticdc_spark.protocols.simple.encode import SimpleConfig
from ticdc_spark.protocols.simple.encode import encoder as simple_encoder

Codec = tuple[Encoder, Decoder]
_DEBEZIUM = "ticdc_spark.protocols.debezium.encode"


class Subject(NamedTuple):
    """A protocol in a configuration.

    TiCDC's figures: rows a second of the classic architecture's codecs (Go, ``GOMAXPROCS=1``), ±15 %, on a virtual
    machine of two cores "AMD EPYC", for rows of six to eight columns in four tables. ``None``: it cannot read them.
    """

    name: str
    codec: Callable[[], Codec]
    go_encode: int
    go_decode: int | None
    needs: str = ""
    """A module without which it is left out."""

    def is_there(self) -> bool:
        return not self.needs or find_spec(self.needs) is not None


class MemoryRegistry:
    """A schema registry's part in Avro, without a network."""

    def __init__(self) -> None:
        self.schemas: dict[int, str] = {}
        self._numbers: dict[tuple[str, str], int] = {}

    def register(self, subject: str, schema: str) -> int:
        number = self._numbers.setdefault((subject, schema), len(self._numbers) + 1)
        self.schemas[number] = schema
        return number


def _open(**config: Any) -> Callable[[], Codec]:
    return lambda: (open_encoder(OpenConfig(**config)), open_protocol.DECODER)


def _simple(**config: Any) -> Callable[[], Codec]:
    return lambda: (simple_encoder(SimpleConfig(**config)), simple.DECODER)


def _canal(**config: Any) -> Callable[[], Codec]:
    return lambda: (canal_json_encoder(CanalJsonConfig(**config)), canal_json.DECODER)


def _avro(**config: Any) -> Callable[[], Codec]:
    def codec() -> Codec:
        registry = MemoryRegistry()
        return avro_encoder(AvroConfig(**config), registry), avro.AvroDecoder(registry.schemas)

    return codec


def _debezium(**config: Any) -> Callable[[], Codec]:
    def codec() -> Codec:
        module = import_module(_DEBEZIUM)
        encoder: Encoder = module.encoder(module.DebeziumConfig(**config))
        return encoder, decoder("debezium")

    return codec


_STRINGS = {"avro_decimal_handling_mode": "string", "avro_bigint_unsigned_handling_mode": "string"}
_NO_SCHEMA = {"debezium_disable_schema": True}

SUBJECTS = (
    Subject("open", _open(), 229_000, 79_000),
    Subject("open_batch1", _open(max_batch_size=1), 280_000, 73_000),
    Subject("simple_json", _simple(), 308_000, 216_000),
    Subject("simple_avro", _simple(encoding_format="avro"), 277_000, 195_000),
    Subject("simple_json_checksum", _simple(enable_row_checksum=True), 325_000, 172_000),
    Subject("debezium", _debezium(), 138_000, None, _DEBEZIUM),
    Subject("debezium_ext", _debezium(enable_tidb_extension=True), 120_000, 24_000, _DEBEZIUM),
    Subject("debezium_noschema", _debezium(**_NO_SCHEMA), 433_000, None, _DEBEZIUM),
    Subject("avro", _avro(), 198_000, None),
    Subject("avro_ext_string", _avro(enable_tidb_extension=True, **_STRINGS), 219_000, 10_200),
    Subject("avro_precise_long", _avro(enable_tidb_extension=True), 178_000, 9_800),
    Subject("canal_json", _canal(), 488_000, 119_000),
    Subject("canal_json_ext", _canal(enable_tidb_extension=True), 476_000, 113_000),
)
