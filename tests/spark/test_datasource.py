"""The data source in Spark: both forms of a batch, and a stream that is stopped and started again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.recorded_topics import Line, write_json
from tests.unit.cli.test_inspect import MS, SIMPLE, topic
from ticdc_spark import TicdcDataSource
from ticdc_spark.protocols.base import Encoded


def record(folder: Path, name: str, sent: list[Encoded], first: int = 0) -> str:
    lines = [Line("orders", 0, first + at, MS, one.key, one.value) for at, one in enumerate(sent)]
    return str(write_json(folder / f"topic/{name}.jsonl", lines).parent)


def test_a_topic_is_a_dataframe_and_a_stream_with_a_checkpoint_has_each_change_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.dataSource.register(TicdcDataSource)
    sent = topic(SIMPLE)
    path = record(tmp_path, "0", sent[:2])

    def stream() -> int:
        """Run to the end of what is there, with the same checkpoint. Returns: how many batches had rows."""
        changes = (
            spark.readStream.format("ticdc").option("table", "shop.t").option("maxOffsetsPerTrigger", 1).load(path)
        )
        query = (
            changes.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return sum(one["numInputRows"] > 0 for one in query.recentProgress)

    assert stream() == 1
    record(tmp_path, "1", sent[2:], first=2)
    assert stream() == 2
    assert stream() == 0
    written = spark.read.parquet(str(tmp_path / "out")).orderBy("_offset", "_change_type").toArrow()
    batch = spark.read.format("ticdc").option("table", "shop.t").load(path).orderBy("_offset", "_change_type").toArrow()
    assert batch.num_rows == 4 and written.to_pylist() == batch.to_pylist()
    generic = spark.read.format("ticdc").load(path)
    counts = generic.where("table = 't' AND after IS NOT NULL").groupBy("_change_type").count().collect()
    assert {row["_change_type"]: row["count"] for row in counts} == {"insert": 1, "update_postimage": 1}
    with pytest.raises(AnalysisException, match=r"option tabel: unknown; did you mean `table`\?"):
        spark.read.format("ticdc").option("tabel", "shop.t").load(path)
