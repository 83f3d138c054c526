"""A job on the files of a storage sink, with Spark and Iceberg."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import lake, read_table, replicate
from tests.support.storage_shop import StorageShop
from tests.support.storage_sink import SinkOptions
from ticdc_spark import read_topic
from ticdc_spark.config.load import load_job
from ticdc_spark.replicate.run.preflight import checks
from ticdc_spark.spark import tasks
from ticdc_spark.topics.storage.csv_lines import CsvFormat


def write_job(folder: Path, protocol: str) -> Path:
    """The job file of the page on storage sinks."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "storage.md").read_text(encoding="utf-8")
    _, job, csv, *_ = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    if protocol == "csv":
        job = csv + re.sub(r"\[source\]\n(.+\n)+", "", job)
    file = folder / "shop.toml"
    file.write_text(job)
    return file


@pytest.mark.parametrize("protocol", ["canal-json", "csv"])
def test_files_of_a_storage_sink_become_tables(
    spark: SparkSession, folder: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = StorageShop(folder / "feed", SinkOptions(csv=CsvFormat() if protocol == "csv" else None))
    shop.sql("CREATE TABLE orders (id INT PRIMARY KEY, amount DECIMAL(10,2))")
    for at in range(30):
        shop.insert("orders", id=str(at), amount=f"{at}.50")
    shop.watermark()
    job = write_job(folder, protocol)
    for checked in checks(load_job(job)):
        assert checked.error is None, checked
    assert replicate(job).changes == 30
    events = read_topic(load_job(job).source, spark=spark).select("kind").toArrow().column("kind").to_pylist()
    assert events == ["ddl", *["insert"] * 30, "watermark"]
    # The rest is read by tasks.
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    shop.sql("ALTER TABLE orders ADD COLUMN note VARCHAR(10)")
    for at in range(10, 40):
        (shop.update if at < 30 else shop.insert)("orders", id=str(at), amount="1.00", note="new")
    shop.delete("orders", id="0")
    shop.watermark()
    replicate(job)
    rows = sorted(
        (row["id"], str(row["amount"]), row["note"]) for row in read_table(lake(spark, folder), "shop", "orders")
    )
    old = [(at, f"{at}.50", None) for at in range(1, 10)]
    assert rows == old + [(at, "1.00", "new") for at in range(10, 40)]
