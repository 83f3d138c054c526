"""Landing without Spark: every event of every message gets its row in the log, however the batches are cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.unit.avro_examples import ROW, Registry, change
from tests.unit.debezium_connect import change as change_of
from tests.unit.debezium_connect import field
from tests.workload import WorkloadConfig, dispatch, generate
from ticdc_spark.ddl.known_names import Names
from ticdc_spark.model import Envelope, Message, Table, Watermark
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.avro.encode import AvroConfig
from ticdc_spark.protocols.avro.encode import encoder as avro_encoder
from ticdc_spark.protocols.base import Encoder
from ticdc_spark.protocols.open.encode import OpenConfig
from ticdc_spark.protocols.open.encode import encoder as open_encoder
from ticdc_spark.protocols.simple.encode import SimpleConfig
from ticdc_spark.protocols.simple.encode import encoder as simple_encoder
from ticdc_spark.spark.decode.control import SCHEMA_BLOCK, RowCounts
from ticdc_spark.spark.decode.envelopes import LandingPlan, bucket_of, land, table_id_key

ENCODERS: dict[str, Encoder] = {"simple": simple_encoder(SimpleConfig()), "open": open_encoder(OpenConfig())}
CONFIG = WorkloadConfig(changes=400, ddl_every=20, partitions=2, key_change_share=0.0)


def landed(protocol: str, batches: list[list[Message]]) -> list[dict[str, Any]]:
    return landed_by(
        LandingPlan(protocol=protocol, generation=1, batch=1, buckets=8, table_replay_below={}, watermarks={}), batches
    )


def landed_by(plan: LandingPlan, batches: list[list[Message]]) -> list[dict[str, Any]]:
    read = [
        pa.RecordBatch.from_pydict(
            {
                "topic": [message.topic for message in batch],
                "partition": pa.array([message.partition for message in batch], pa.int32()),
                "offset": [message.offset for message in batch],
                "key": pa.array([message.key for message in batch], pa.binary()),
                "value": pa.array([message.value for message in batch], pa.binary()),
            }
        )
        for batch in batches
    ]
    return [row for part in land(plan)(read) for row in part.to_pylist()]


@pytest.mark.parametrize("protocol", ENCODERS)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_every_event_is_in_the_log(protocol: str, size: int) -> None:
    messages = list(dispatch(generate(CONFIG), CONFIG, ENCODERS[protocol]))
    expected = Counter(
        (message.partition, message.offset, seq, "row" if isinstance(event, Envelope) else type(event).__name__)
        for message in messages
        for seq, event in enumerate(decoder(protocol).open_message(message.key, message.value))
    )
    names = {"row": "row", "ddl": "SchemaChange", "watermark": "Watermark", "bootstrap": "Bootstrap"}
    rows = landed(protocol, [messages[at : at + size] for at in range(0, len(messages), size)])
    found = Counter(
        (row["partition"], row["offset"], row["seq"], names[row["kind"]]) for row in rows if row["kind"] != "summary"
    )
    assert found == expected


@pytest.mark.parametrize("arrival", [True, False])
def test_rows_without_commit_ts_are_counted(arrival: bool) -> None:
    ids = Registry()
    to = avro_encoder(AvroConfig(enable_tidb_extension=True, time_zone="UTC"), ids)
    sent = list(to.rows([change("insert", ROW), change("delete", ROW)]))
    plan = LandingPlan(
        protocol="avro",
        generation=1,
        batch=1,
        buckets=8,
        table_replay_below={},
        watermarks={},
        arrival=arrival,
        schemas=ids.schemas,
    )
    for messages, hidden in ((sent, True), (sent[:1], False)):
        places = [Message(topic="t", partition=0, offset=at, key=m.key, value=m.value) for at, m in enumerate(messages)]
        rows = landed_by(plan, [places])
        reported = [msgspec.json.decode(row["control"], type=RowCounts) for row in rows if row["kind"] == "summary"]
        assert any(summary.hidden for summary in reported) == hidden
        assert sum(summary.rows for summary in reported) == (len(messages) if arrival else 1)


def test_each_schema_block_is_returned_once_with_its_first_row() -> None:
    first, second = field("id", "int32"), field("name", "string")
    about = {"topic": "t", "partition": 0, "key": None}
    values = [
        change_of("c", None, {"id": 1}, [first]),
        change_of("c", None, {"id": 2}, [first]),
        change_of("c", None, {"id": 3, "name": "x"}, [first, second]),
        change_of("c", None, {"id": 4}, [field("id", "map")]),  # not understood
        change_of("c", None, {"id": 5}, []),
    ]
    plan = LandingPlan(
        protocol="debezium", generation=1, batch=1, buckets=8, table_replay_below={}, watermarks={}, block_keys=True
    )
    messages = [Message(offset=at, value=value, **about) for at, value in enumerate(values)]  # type: ignore[arg-type]
    for size in (1, 2, 5):
        rows = landed_by(plan, [messages[at : at + size] for at in range(0, len(messages), size)])
        blocks = [row for row in rows if row["kind"] == SCHEMA_BLOCK]
        tables = [msgspec.json.decode(row["control"], type=Table) for row in blocks]
        assert [[column.name for column in table.columns] for table in tables] == [["id"], ["id", "name"]]
        assert [(row["schema"], row["table"], row["slot"]) for row in blocks] == [("inventory", "items", -1)] * 2
        keys = [row["schema_key"] for row in rows if row["kind"] == "row"]
        assert keys[0] == keys[1] == blocks[0]["schema_key"] and keys[2] == blocks[1]["schema_key"]
        assert keys[4] == "" and all(key.startswith("#") for key in keys[:4])
    bare = msgspec.structs.replace(plan, block_keys=False)
    rows = landed_by(bare, [messages])
    assert {row["kind"] for row in rows} == {"row", "summary"} and {row["schema_key"] for row in rows} == {""}


@pytest.mark.parametrize("exact", [False, True])
def test_rows_land_under_the_name_by_which_their_table_is_known(exact: bool) -> None:
    message = Message(
        topic="t",
        partition=0,
        offset=0,
        key=None,
        value=change_of("c", None, {"id": 1}, [field("id", "int32")]),
    )
    plan = LandingPlan(
        protocol="debezium",
        generation=1,
        batch=1,
        buckets=8,
        table_replay_below={table_id_key("Inventory", "Items"): 1 << 62},
        watermarks={},
        block_keys=True,
        names=Names(live=(("Inventory", "Items"),), exact=exact),
    )
    rows = landed_by(plan, [[message]])
    found = {row["kind"]: (row["schema"], row["table"]) for row in rows}
    name = ("inventory", "items") if exact else ("Inventory", "Items")
    assert found == {"late" if not exact else "row": name, "summary": name, SCHEMA_BLOCK: name}
    slots = {row["slot"] for row in rows if row["kind"] in ("row", "late")}
    assert slots == {bucket_of(*name, 8)}
    unknown = landed_by(msgspec.structs.replace(plan, names=Names()), [[message]])
    assert {(row["schema"], row["table"]) for row in unknown} == {("inventory", "items")}


def test_as_many_rows_as_messages_hide_no_watermark() -> None:
    messages = list(dispatch(generate(CONFIG), CONFIG, ENCODERS["open"]))
    opened = {id(message): decoder("open").open_message(message.key, message.value) for message in messages}
    two_rows = next(m for m in messages if len(opened[id(m)]) == 2 and isinstance(opened[id(m)][0], Envelope))
    watermark = next(m for m in messages if isinstance(opened[id(m)][0], Watermark))
    kinds = Counter(row["kind"] for row in landed("open", [[two_rows, watermark]]))
    assert kinds["row"] == 2
    assert kinds["watermark"] == 1
