"""Rows whose columns are not those of their table, through Spark and Iceberg: see ``tests/unit/replicate``."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark import simple_topic
from tests.spark.lake import lake, read_table, replicate, write_job
from tests.spark.test_protocols import write_topic
from tests.support.recorded_topics import read_back, write_json
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Bootstrap, Column, Message, RowChange, SchemaChange, Watermark
from ticdc_spark.protocols.open.encode import OpenConfig
from ticdc_spark.protocols.open.encode import encoder as open_encoder

TS = 463267588210688000
CREATED = "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)"


def topic(folder: Path, *rows: tuple[str, dict[str, Any]]) -> Path:
    """A topic in Open: the CREATE TABLE, rows of other tables of that name, and a watermark."""
    to = open_encoder(OpenConfig(time_zone="UTC", max_batch_size=1))
    table = parse_create(CREATED, "s")
    created = SchemaChange(commit_ts=TS, query=CREATED, kind="3", schema="s", name="t", table=table)
    sent = [to.ddl(created)]
    for at, (sql, after) in enumerate(rows, 1):
        change = RowChange(op="insert", table=parse_create(sql, "s"), commit_ts=TS + (at << 18), after=after)
        sent += to.rows([change])
    sent.append(to.watermark(TS + (100 << 18)))
    return write_topic(
        folder,
        [
            Message(topic="t", partition=0, offset=at, key=one.key, value=one.value)
            for at, one in enumerate(sent)
            if one is not None
        ],
    )


@pytest.mark.parametrize("writer", ["python", "spark"])
def test_lacking_and_hidden_columns_in_iceberg(spark: SparkSession, folder: Path, writer: str) -> None:
    hidden = "_tidb_softdelete_time TIMESTAMP(6) NULL, _tidb_origin_ts BIGINT UNSIGNED NULL"
    gone = {"_tidb_softdelete_time": "2026-01-01 00:00:01.500000", "_tidb_origin_ts": "7"}
    path = topic(
        folder,
        ("CREATE TABLE t (id INT PRIMARY KEY, v INT)", {"id": "1", "v": "1"}),
        (f"CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT, {hidden})", {"id": "2", "v": "2", "w": "2", **gone}),
    )
    summary = replicate(
        write_job(folder, path, f'source-timezone = "UTC"\nsoft-deletes = "keep"\nwriter = "{writer}"', "open")
    )
    rows = sorted(read_table(lake(spark, folder), "s", "t"), key=lambda row: int(row["id"]))
    at = datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert rows == [
        {"id": 1, "v": 1, "w": None, "_tidb_softdelete_time": None, "_tidb_origin_ts": None},
        {"id": 2, "v": 2, "w": 2, "_tidb_softdelete_time": at, "_tidb_origin_ts": Decimal(7)},
    ]
    (state,) = summary.progress.tables
    assert "rows came without columns of the table" in state.diverged_why
    assert "`w`" in state.diverged_why


@pytest.mark.parametrize("writer", ["python", "spark"])
def test_an_unreadable_row_takes_none_with_hidden_columns_along(spark: SparkSession, folder: Path, writer: str) -> None:
    """Rows of one version are read before those of the next, so that the unreadable row is met first."""
    value = Column(name="v", type=simple_topic.INT)
    first, next_one = (simple_topic.table(version, value) for version in (10, 30))
    path = simple_topic.topic(
        folder,
        [
            simple_topic.ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT)", first),
            simple_topic.insert(first, 20, id="1", v="777"),
            Bootstrap(next_one),
            simple_topic.insert(next_one, 40, id="2", v="888"),
            Watermark(100),
        ],
    )
    changed = {b'"777"': b'"x"', b'"888"': b'"8","_tidb_origin_ts":"7"'}
    lines = []
    for line in read_back(path):
        text = line.value
        for old, new in changed.items():
            text = None if text is None else text.replace(old, new)
        lines.append(line._replace(value=text))
    write_json(path / "0.jsonl", lines)
    summary = replicate(write_job(folder, path, f'on-reject = "continue"\nwriter = "{writer}"'))
    assert list(read_table(lake(spark, folder), "s", "t")) == [{"id": 2, "v": 8, "_tidb_origin_ts": Decimal(7)}]
    (state,) = summary.progress.tables
    assert "'x' is no int" in state.diverged_why
