"""A shop whose changefeed sends no watermarks: to the partitions and topics that a test chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.simulator.broker import Broker
from tests.support import shop as whole
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from ticdc_spark.model import Offsets, RowChange, SchemaChange, Value
from ticdc_spark.protocols.avro.encode import AvroConfig
from ticdc_spark.protocols.avro.encode import encoder as avro_encoder
from ticdc_spark.protocols.base import Encoder
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json_encoder
from ticdc_spark.protocols.debezium.encode import DebeziumConfig
from ticdc_spark.protocols.debezium.encode import encoder as debezium_encoder
from ticdc_spark.protocols.debezium_avro.encode import DebeziumAvroConfig
from ticdc_spark.protocols.debezium_avro.encode import encoder as debezium_avro_encoder
from ticdc_spark.replicate.resources import Resources
from ticdc_spark.replicate.schemas.registered import Registered

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v INT)"


class Registry(dict[int, str]):
    """A schema registry in memory: texts by id."""

    def register(self, _subject: str, schema: str) -> int:
        known = [number for number, text in self.items() if text == schema]
        number = known[0] if known else len(self) + 1
        self[number] = schema
        return number


class ArrivalShop(Shop):
    """``partitions``: of each topic. ``extension``: ``enable-tidb-extension`` of the changefeed."""

    def __init__(
        self,
        protocol: str,
        partitions: int = 1,
        *,
        extension: bool = False,
        topic_per_table: bool = False,
        **job: Any,
    ) -> None:
        self.schemas = Registry()
        self.ddl_everywhere = protocol != "canal-json"
        wire = "debezium" if self.ddl_everywhere else "canal-json"
        super().__init__(wire, topic_per_table=topic_per_table, **{"mode": "arrival", **job})
        self.partitions = partitions
        self.lab.broker = self.broker = Broker(partitions)
        self.encoder = self._encoder(protocol, extension)
        self.wire = msgspec.structs.replace(self.wire, name=protocol)

    def _encoder(self, protocol: str, extension: bool) -> Encoder:
        watermarks = self.keys["mode"] == "watermark"
        encoders: dict[str, Encoder] = {
            "canal-json": canal_json_encoder(
                CanalJsonConfig(enable_tidb_extension=extension, time_zone="UTC", build_ts=lambda: 0)
            ),
            "debezium": debezium_encoder(DebeziumConfig(enable_tidb_extension=extension, build_ts=lambda: 0)),
            "avro": avro_encoder(
                AvroConfig(enable_tidb_extension=extension, avro_enable_watermark=watermarks), self.schemas
            ),
            "debezium-avro": debezium_avro_encoder(DebeziumAvroConfig(enable_tidb_extension=extension), self.schemas),
        }
        return encoders[protocol]

    def start(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if "avro" in self.wire.name:
                registry = Registered(self.schemas)
                registry.protocol = self.wire.name
                patch.setattr(whole, "Resources", lambda **found: Resources(**found, registry=registry))
            super().start()

    def tick(self) -> int:
        # A TSO has a logical part; a time in milliseconds has none.
        self.ts = (((self.ts >> 18) + 1000) << 18) + 1
        return self.ts

    # ---- what is sent

    def ddl(self, query: str, topic: str = "cdc") -> SchemaChange:
        """Run a DDL and send it."""
        change = self.change(query)
        self.put_ddl(change, topic)
        return change

    def put_ddl(self, change: SchemaChange, topic: str = "cdc") -> None:
        for partition in range(self.partitions if self.ddl_everywhere else 1):
            self.send(self.encoder.ddl(change), topic, partition)

    def put(self, table: str, partition: int = 0, topic: str = "cdc", **row: Value) -> RowChange:
        """Insert a row and send it."""
        change = self.row("insert", (SCHEMA, table), row)
        self.put_row(change, partition, topic)
        return change

    def put_row(self, change: RowChange, partition: int = 0, topic: str = "cdc") -> None:
        (encoded,) = self.encoder.rows([change])
        self.send(encoded, topic, partition)

    # ---- the job

    def batch_before(self, ends: Mapping[tuple[str, int], int]) -> None:
        """One batch that is planned before the messages of some partitions from an offset on are there."""
        with pytest.MonkeyPatch.context() as patch:
            there = self.broker.end_offsets

            def end_offsets(topics: frozenset[str] | None = None) -> Offsets:
                return {place: min(end, ends.get(place, end)) for place, end in there(topics).items()}

            patch.setattr(self.broker, "end_offsets", end_offsets)
            self.batch()

    def batch_behind(self, ends: Mapping[tuple[str, int], int]) -> None:
        """One batch that reads some partitions only up to an offset, although more is there."""
        if self.steps is None:
            self.start()
        assert self.steps is not None
        with pytest.MonkeyPatch.context() as patch:

            def cap(start: Offsets, end: Offsets, _rows: int, _bytes: int) -> Offsets:
                return {at: max(start.get(at, 0), min(last, ends.get(at, last))) for at, last in end.items()}

            patch.setattr(self.steps.source, "cap", cap)
            self.batch()

    # ---- what a user sees

    def row_ids(self, table: str = "t") -> list[Any]:
        """The keys of a table of the lake."""
        return [row[0] for row in self.rows(table) or ()]
