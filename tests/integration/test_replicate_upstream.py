"""Rows of which only the key was sent, replicated by asking a real MariaDB."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import lake, read_table, replicate, write_job
from tests.spark.simple_topic import ddl, insert, table
from tests.support.mariadb_server import Server, running
from tests.support.recorded_topics import Line, write_json
from ticdc_spark.errors import RejectedMessage, SchemaMissing
from ticdc_spark.model import Column, ColumnType
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json_encoder
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

V = Column(
    name="v", type=ColumnType(name="varchar", length=9, charset="utf8mb4", collate="utf8mb4_bin"), nullable=False
)
T = table(1, V)
SQL = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) NOT NULL)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("mariadb")) as started:
        started.execute(
            "CREATE DATABASE s", "USE s", SQL, "INSERT INTO t VALUES (1, 'looked'), (2, 'up'), (3, 'and here')"
        )
        yield started


def keys_only(value: bytes, **image: str) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(value) | {"handleKeyOnly": True, "data": image})


def test_its_rows_are_looked_up(spark: SparkSession, folder: Path, server: Server) -> None:
    simple = encoder(SimpleConfig())
    rows = [insert(T, 20 + number, id=str(number), v="sent") for number in (1, 2, 3)]
    created = simple.ddl(ddl("CREATE", 10, SQL, T))
    watermark = simple.watermark(30)
    assert created is not None and watermark is not None
    inserts = [one.value or b"" for one in simple.rows(rows)]
    values = [
        created.value,
        keys_only(inserts[0], id="1"),
        inserts[1],
        keys_only(inserts[2], id="3"),
        watermark.value,
        keys_only(inserts[0].replace(b'"commitTs":21', b'"commitTs":41'), id="9"),
        (watermark.value or b"").replace(b"30", b"50"),
    ]
    lines = [Line("topic", 0, at, None, None, value) for at, value in enumerate(values)]
    source = write_json(folder / "topic" / "0.jsonl", lines).parent
    job = write_job(folder, source, "batch-rows = 5", "simple", f'upstream = "{server.uri}"')
    with pytest.raises(RejectedMessage, match=r"the upstream has no row id='9' in `s`\.`t` as of 41"):
        replicate(job)
    found = {row["id"]: row["v"] for row in read_table(lake(spark, folder), "s", "t")}
    assert found == {1: "looked", 2: "sent", 3: "and here"}


def test_a_schema_that_no_message_carries_is_read_from_the_upstream(
    spark: SparkSession, folder: Path, server: Server
) -> None:
    simple = encoder(SimpleConfig())
    unknown = table(7, V, name="gone")
    watermark = simple.watermark(30)
    assert watermark is not None
    sent = [*simple.rows([insert(T, 20, id="1", v="a"), insert(unknown, 21, id="1", v="a")]), watermark]
    lines = [Line("topic", 0, at, None, None, one.value) for at, one in enumerate(sent)]
    source = write_json(folder / "topic" / "0.jsonl", lines).parent
    more = 'schema-timeout = "0s"'
    with pytest.raises(SchemaMissing, match=r"`s`\.`t`.*upstream under \[source\]"):
        replicate(write_job(folder, source, more))
    job = write_job(folder, source, more, "simple", f'upstream = "{server.uri}"')
    with pytest.raises(SchemaMissing, match=r"`s`\.`gone`"):  # that table is not there either
        replicate(job)
    assert [row["v"] for row in read_table(lake(spark, folder), "s", "t")] == ["a"]


@pytest.mark.parametrize("protocol", ["debezium", "open"])
def test_rows_that_name_no_schema_have_that_of_the_upstream(
    spark: SparkSession, folder: Path, server: Server, protocol: str
) -> None:
    """A topic that begins in the middle. Debezium's blocks are no schemas where DDL decides which one is valid."""
    options = {"enable-tidb-extension": "true"} if protocol == "debezium" else {}
    encoder = target_encoder(protocol, options)
    watermark = encoder.watermark(30 << 18)
    assert watermark is not None
    sent = [*encoder.rows([insert(T, 20 << 18, id="1", v="a")]), watermark]
    lines = [Line("topic", 0, at, None, one.key, one.value) for at, one in enumerate(sent)]
    source = write_json(folder / "topic" / "0.jsonl", lines).parent
    more = 'schema-timeout = "0s"\nmode = "watermark"'
    with pytest.raises(SchemaMissing, match=r"`s`\.`t`.*upstream under \[source\]"):
        replicate(write_job(folder, source, more, protocol))
    replicate(write_job(folder, source, more, protocol, f'upstream = "{server.uri}"'))
    assert [row["v"] for row in read_table(lake(spark, folder), "s", "t")] == ["a"]


def test_and_where_there_are_no_watermarks(spark: SparkSession, folder: Path, server: Server) -> None:
    """canal-json from the middle of a topic: no message shows that ``v`` is no text of any length."""
    canal = canal_json_encoder(CanalJsonConfig())
    sent = canal.rows([insert(T, 20 << 18, id="1", v="a"), insert(T, 21 << 18, id="2", v="b")])
    lines = [Line("topic", 0, at, None, None, one.value) for at, one in enumerate(sent)]
    source = write_json(folder / "topic" / "0.jsonl", lines).parent
    more = 'schema-timeout = "0s"\nmode = "arrival"'
    with pytest.raises(SchemaMissing, match=r"`s`\.`t`"):
        replicate(write_job(folder, source, more, "canal-json"))
    replicate(write_job(folder, source, more, "canal-json", f'upstream = "{server.uri}"'))
    assert sorted(row["v"] for row in read_table(lake(spark, folder), "s", "t")) == ["a", "b"]
