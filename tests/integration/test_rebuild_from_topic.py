"""``rebuild --from topic`` on a real broker that has removed messages."""

import json
from pathlib import Path

from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.integration.test_changed_topics import CREATE, TABLE, rows, send
from tests.spark.lake import lake, read_table, replicate
from tests.support.kafka_broker import Broker
from ticdc_spark.cli import main
from ticdc_spark.model import Watermark

JOB = """
[job]
name = "job"
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["{topic}"]
protocol = "simple"
[sink]
kind = "iceberg"
warehouse = "lake"
"""


def rebuild(job_file: Path) -> dict[str, str]:
    """Ask for it, and run the job. Returns: the table's status"""
    done = CliRunner().invoke(main, ["rebuild", str(job_file), f"{TABLE.schema}.t", "--from", "topic"])
    assert done.exit_code == 0, done.output
    replicate(job_file)
    (found,) = json.loads(CliRunner().invoke(main, ["status", str(job_file), "--json"]).output)["tables"]
    return dict(found)


def test_a_table_is_whole_again_as_long_as_the_topic_has_all_since_its_create(
    broker: Broker, spark: SparkSession, tmp_path: Path, topic_name: str
) -> None:
    broker.create_topic(topic_name, 2)
    send(broker, topic_name, [Watermark(2), Watermark(3)], 1)
    send(broker, topic_name, [CREATE, *rows(20, range(5)), Watermark(40)])
    send(broker, topic_name, [*rows(30, range(5, 9)), Watermark(40)], 1)
    job_file = tmp_path / "job.toml"
    job_file.write_text(JOB.format(servers=broker.servers, topic=topic_name))
    replicate(job_file)
    whole = [{"id": at, "v": 1} for at in range(9)]

    def ids() -> list[dict[str, int]]:
        return sorted(read_table(lake(spark, tmp_path), TABLE.schema, "t"), key=lambda row: row["id"])

    assert ids() == whole
    lake(spark, tmp_path).sql(f"DELETE FROM lake.`{TABLE.schema}`.t")
    broker.trim(topic_name, 1, 1)  # what is left begins with a watermark below the CREATE
    assert rebuild(job_file)["condition"] == "clean"
    assert ids() == whole

    lake(spark, tmp_path).sql(f"DELETE FROM lake.`{TABLE.schema}`.t WHERE id > 3")
    broker.trim(topic_name, 1, 3)
    found = rebuild(job_file)
    assert found["condition"] == "diverged"
    assert f"topic {topic_name}, partition 1 begins at offset 3" in found["detail"]
    broker.trim(topic_name, 0, 1)
    assert f"Topic {topic_name} begins at offset 1 by now" in rebuild(job_file)["detail"]
    assert ids() == whole[:4]
