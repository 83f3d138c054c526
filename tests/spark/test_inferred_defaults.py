"""What old rows have in a new column without a DDL: the default that the schema of the newer rows has."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import lake, read_table, replicate, write_job
from tests.spark.test_protocols import differences, registry, write_topic
from tests.support.avro_examples import TS, Registry
from tests.support.vectors import case, needs_vectors
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Message, RowChange
from ticdc_spark.protocols.encoder_options import target_encoder

BEFORE = "CREATE TABLE t (id BIGINT PRIMARY KEY)"
AFTER = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, c CHAR(3) NOT NULL DEFAULT 'USD', v VARCHAR(9) DEFAULT 'it''s', "
    "e VARCHAR(9) DEFAULT '', n VARCHAR(9), w VARCHAR(20) DEFAULT 'CURRENT_TIMESTAMP', b VARBINARY(4) DEFAULT 'ab', "
    "ts TIMESTAMP DEFAULT '2010-10-10 02:10:10')"
)
FILLED = {
    "c": "USD",
    "v": "it's",
    "e": "",
    "n": None,
    "w": "CURRENT_TIMESTAMP",
    "b": b"ab",
    "ts": datetime(2010, 10, 10, 2, 10, 10, tzinfo=UTC),
}
SENT = {"id": "2", "c": "EUR", "v": None, "e": "x", "n": "y", "w": "z", "b": b"c", "ts": "2011-11-11 11:11:11"}


def row(sql: str, at: int, **after: Any) -> RowChange:
    return RowChange(op="insert", table=parse_create(sql, "s"), commit_ts=TS + (at << 18), after=after)


def replicated(
    spark: SparkSession, folder: Path, batch_rows: int, protocol: str, options: Mapping[str, str]
) -> dict[int, dict[str, Any]]:
    """The table by its key, after a row of the old schema, one of the new, and one of a partition that is behind."""
    known = Registry()
    to = target_encoder(protocol, options, known)
    sent = [*to.rows([row(BEFORE, 0, id="1")]), *to.rows([row(AFTER, 1, **SENT)]), *to.rows([row(BEFORE, 2, id="3")])]
    topic = write_topic(
        folder,
        [Message(topic="t", partition=0, offset=at, key=one.key, value=one.value) for at, one in enumerate(sent)],
    )
    file = folder / "schemas.json"
    file.write_bytes(msgspec.json.encode([{"id": number, "schema": text} for number, text in known.schemas.items()]))
    more = f'mode = "arrival"\nsource-timezone = "Asia/Shanghai"\nbatch-rows = {batch_rows}'
    reading = f'schema-registry = "file:{file}"' if known.schemas else ""
    assert replicate(write_job(folder, topic, more, protocol, reading)).progress.mode == "arrival"
    return {one["id"]: one for one in read_table(lake(spark, folder), "s", "t")}


@pytest.mark.parametrize("batch_rows", [1, 100], ids=["filled", "read"])
@pytest.mark.parametrize(
    ("protocol", "options", "lacks"),
    [
        pytest.param("avro", {}, set(), marks=pytest.mark.slow),
        ("debezium", {}, set()),
        # its blocks take bytes for text
        pytest.param("debezium", {"enable-tidb-extension": "false"}, {"b"}, marks=pytest.mark.slow),
    ],
    ids=["avro", "debezium", "debezium without types"],
)
def test_old_rows_have_the_defaults_of_the_newer_schema(
    spark: SparkSession, folder: Path, batch_rows: int, protocol: str, options: Mapping[str, str], lacks: set[str]
) -> None:
    found = replicated(spark, folder, batch_rows, protocol, options)
    expected = {name: value for name, value in FILLED.items() if name not in lacks}
    for key in (1, 3):
        assert {name: found[key][name] for name in expected} == expected
    assert (found[2]["c"], found[2]["v"]) == ("EUR", SENT["v"]), "a null that was sent stays"


@needs_vectors
@pytest.mark.parametrize("batch_rows", [400, 10_000], ids=["filled", "read"])
def test_ticdcs_orders_before_their_currency_have_its_default(
    spark: SparkSession, folder: Path, batch_rows: int
) -> None:
    config = case("tiflow", "shop").config("avro")
    more = f'mode = "arrival"\nsource-timezone = "{config.zone}"\ntables = ["shop.orders"]\nbatch-rows = {batch_rows}'
    summary = replicate(write_job(folder, config.path, more, "avro", registry(config)))
    found = [one for one in differences(lake(spark, folder), config, summary.progress) if ".orders" in one.where]
    assert summary.changes > 0 and [one for one in found if one.what != "type"] == []
