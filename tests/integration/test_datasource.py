"""The data source over a real broker. What Spark adds is in ``tests/spark/test_datasource.py``."""

from __future__ import annotations

import json

import pytest

from tests.integration.test_replicate_registry import FIRST, LAST, ZONE, insert, send
from tests.support.apicurio_registry import Registry
from tests.support.datasource import read, rows_of, stream
from tests.support.kafka_broker import Broker
from tests.unit.cli.test_inspect import SIMPLE, topic
from ticdc_spark.errors import RejectedMessage, SourceFault


def test_topics_are_read_between_offsets_and_as_a_stream(broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 2)
    sent = [(one.key, one.value) for one in topic(SIMPLE)]
    broker.produce(topic_name, sent[:2], 0)
    broker.produce(topic_name, sent[2:4], 1)
    options = {"bootstrap-servers": broker.servers, "topics": topic_name}
    expected = ["insert", "update_postimage", "delete"]
    assert read(options).column("_change_type").to_pylist() == expected
    by_pattern = {"bootstrap-servers": broker.servers, "topic-pattern": f"{topic_name[:-1]}."}
    assert read({**by_pattern, "max-records-per-partition": 1}).column("_change_type").to_pylist() == expected
    late = {**options, "startingOffsets": json.dumps({topic_name: {"0": -1, "1": 1}})}
    assert read({**late, "table": "shop.t"}).column("_change_type").to_pylist() == ["delete"]

    reader = stream({**options, "table": "shop.t"})
    start = reader.initialOffset()
    end = reader.latestOffset()
    assert rows_of(reader.partitions(start, end), reader._columns).num_rows == 4
    broker.produce(topic_name, sent[1:2], 1)
    assert rows_of(reader.partitions(end, reader.latestOffset()), reader._columns).num_rows == 1
    assert reader.latestOffset() == reader.latestOffset()

    broker.trim(topic_name, 1, 3)
    with pytest.raises(
        SourceFault, match=r"offset 0 is to be read, but the first one still there is 3.* new checkpoint"
    ):
        reader.partitions(start, end)
    with pytest.raises(SourceFault, match=r"has no topic 'no\.such'"):
        read({**options, "topics": "no.such"})


def test_registered_schemas_show_the_table(broker: Broker, schema_registry: Registry, topic_name: str) -> None:
    broker.create_topic(topic_name)
    send(broker, schema_registry.url, topic_name, [insert(FIRST, 1 << 20), insert(LAST, 2 << 20)])
    options = {"bootstrap-servers": broker.servers, "topics": topic_name, "schema-registry": schema_registry.url}
    with pytest.raises(RejectedMessage, match="source-timezone"):
        read(options)
    options["source-timezone"] = ZONE
    generic = read(options).to_pylist()
    (name,) = {(row["schema"], row["table"]) for row in generic}
    typed = read({**options, "table": ".".join(name)})
    # the newest of the two schemas gives the columns
    assert "note" in typed.column_names and typed.num_rows == 2
    assert [row["_change_type"] for row in typed.to_pylist()] == [row["_change_type"] for row in generic]
