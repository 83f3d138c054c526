"""The data source over a real broker, and in Spark: the examples of its page, and a stream that starts again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from msgspec.structs import replace
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from tests.integration.test_replicate_registry import FIRST, LAST, ZONE, insert, send
from tests.support.apicurio_registry import Registry
from tests.support.datasource import read, rows_of, stream
from tests.support.kafka_broker import Broker
from tests.support.python_examples import marked, run_examples
from tests.support.recorded_topics import Line, write_json
from tests.support.storage_shop import StorageShop
from tests.unit.cli.test_inspect import CHANGES, CREATE, SIMPLE, TABLE, lines, topic
from ticdc_spark import TicdcDataSource
from ticdc_spark.errors import RejectedMessage, SinkFault, SourceChanged, SourceFault


def test_topics_are_read_between_offsets_and_as_a_stream(broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 2)
    sent = [(one.key, one.value) for one in topic(SIMPLE)]
    broker.produce(topic_name, sent[:2], 0)
    broker.produce(topic_name, sent[2:4], 1)
    options = {"bootstrap-servers": broker.servers, "topics": topic_name}
    expected = ["insert", "update_postimage", "delete"]
    assert read(options).column("_change_type").to_pylist() == expected
    by_pattern = {"bootstrap-servers": broker.servers, "topic-pattern": topic_name.replace(".", "[.]")}
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

    broker.delete_topic(topic_name)
    broker.create_topic(topic_name, 2)
    broker.produce(topic_name, sent * 2, 0)
    broker.produce(topic_name, sent * 2, 1)
    with pytest.raises(SourceChanged, match=r"was deleted and created again.* with a new checkpoint"):
        reader.latestOffset()


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


def test_rows_become_messages_of_a_topic(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    broker.create_topic(topic_name, 2)
    write_json(tmp_path / "topic/0.jsonl", lines(topic(SIMPLE)))
    rows = read({"path": tmp_path / "topic", "with-schemas": "true", "include": "ddl,watermark"})
    options = {"bootstrap-servers": broker.servers, "protocol": "open", "topic": topic_name, "time-zone": "UTC"}
    kinds = {"int64": LongType(), "int32": IntegerType(), "bool": BooleanType()}
    schema = StructType([StructField(one.name, kinds.get(str(one.type), StringType())) for one in rows.schema])
    batch = TicdcDataSource(options).writer(schema, overwrite=False)
    batch.commit([batch.write(iter(rows.to_batches()))])
    to_second = rows.set_column(rows.column_names.index("partition"), "partition", pa.array([1] * rows.num_rows))
    of_spark = {"checkpointLocation": "checkpoint"}
    stream_writer = TicdcDataSource({**options, **of_spark}).streamWriter(schema, overwrite=False)
    written = stream_writer.write(iter([Row(**row) for row in to_second.to_pylist()]))
    stream_writer.commit([written], 0)
    found = read({"bootstrap-servers": broker.servers, "topics": topic_name, "source-timezone": "UTC"}).to_pylist()
    assert [(row["partition"], row["_change_type"]) for row in found] == [
        (partition, kind) for partition in (0, 1) for kind in ("upsert", "update_postimage", "delete")
    ]
    assert [row["after"] for row in found[:3]] == [row["after"] for row in found[3:]]
    wrong = TicdcDataSource({**options, "topic": "no.such", "kafka.message.timeout.ms": "2000"})
    with pytest.raises(SinkFault, match=r"topic 'no\.such'|has not acknowledged"):
        wrong.writer(schema, overwrite=False).write(iter(rows.to_batches()))


@pytest.mark.slow
def test_a_stream_of_a_storage_sink_has_each_row_once_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    shop = StorageShop(tmp_path / "feed")
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY)")
    session = spark.newSession()
    session.dataSource.register(TicdcDataSource)

    def read_on() -> list[int]:
        source = session.readStream.format("ticdc").option("table", "shop.orders").option("startingOffsets", "earliest")
        written = source.load(str(shop.sink.folder)).writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = written.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True).start()
        query.awaitTermination()
        return sorted(row["id"] for row in session.read.parquet(str(tmp_path / "out")).collect())

    expected = []
    for at in range(3):
        shop.insert("orders", id=str(at))
        shop.watermark()
        expected.append(at)
        assert read_on() == expected
    shop.sink.written[0].unlink()  # it was read
    shop.insert("orders", id="3")
    shop.watermark()
    assert read_on() == [*expected, 3]
    assert read_on() == [*expected, 3]


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark 4.0 has no filters for Python sources")
def test_spark_hands_its_filters_to_the_source(spark: SparkSession, tmp_path: Path) -> None:
    write_json(tmp_path / "topic/0.jsonl", lines(topic(SIMPLE)))
    write_json(tmp_path / "topic/1.jsonl", [Line("shop", 1, 0, None, None, b"{")])
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    session.dataSource.register(TicdcDataSource)

    def found(where: str, pushdown: str) -> list[str]:
        reader = session.read.format("ticdc").option("filter-pushdown", pushdown)
        rows = reader.option("on-reject", "stop").load(str(tmp_path / "topic")).where(where).collect()
        return [row["_change_type"] for row in rows]

    assert found("partition = 0", "true") == ["insert", "update_postimage", "delete"]
    assert found("partition = 0 AND _change_type = 'delete'", "true") == ["delete"]
    with pytest.raises(PySparkException, match="partition 1"):
        found("partition = 0", "false")  # partition 1 was read, too


def test_the_page_runs_as_it_is_written_and_its_stream_goes_on(
    broker: Broker,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker.create_topic("shop")
    broker.create_topic("copy")
    orders = replace(TABLE, name="orders")
    ddl = replace(CREATE, query=CREATE.query.replace("`t`", "`orders`"), name="orders", table=orders)
    encoded = [SIMPLE.ddl(ddl), *SIMPLE.rows([replace(change, table=orders) for change in CHANGES])]
    sent = [one for one in encoded if one is not None]
    write_json(tmp_path / "recorded/0.jsonl", lines(sent[:2]))
    broker.produce("shop", [(one.key, one.value) for one in sent], 0)
    shop = StorageShop(tmp_path / "feed")
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY)")
    shop.insert("orders", id="1")
    shop.watermark()
    codes = [code.replace("broker:9092", broker.servers) for _, code in marked("how-to/spark-source.md")]
    for name in ("recorded", "feed", "orders", "checkpoint", "converted", "copied"):
        # Spark's own folder is that of the process that started it
        codes = [code.replace(f'"{name}"', f'"{tmp_path / name}"') for code in codes]
    # Spark looks a writer's format up in the active session, which another test of this process may have changed
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]
    run_examples(codes)
    shown = capsys.readouterr().out
    assert "id: integer" in shown and "|orders|" in shown
    # of Kafka, of the stream, of what was written
    assert [line for line in shown.splitlines() if line.isdigit()] == ["3", "1", "1"]

    write_json(tmp_path / "recorded/1.jsonl", [line._replace(offset=line.offset + 2) for line in lines(sent[2:])])
    copied = read({"bootstrap-servers": broker.servers, "topics": "copy"})
    assert copied.column("_change_type").to_pylist() == ["insert"]
    (streaming,) = (code for code in codes if "spark.read.parquet" in code)
    exec(streaming, {"spark": spark})
    written = spark.read.parquet(str(tmp_path / "orders")).orderBy("_offset", "_change_type").toArrow()
    options = {"path": tmp_path / "recorded", "table": "shop.orders"}
    batch = read(options).sort_by([("_offset", "ascending"), ("_change_type", "ascending")])
    assert written.num_rows == 4 and written.to_pylist() == batch.to_pylist()
