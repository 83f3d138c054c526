"""Spark applies the rows before one that cannot be read: in one commit, so that no death falls between two."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.spark.deaths import run_with_deaths
from tests.spark.lake import lake, read_table, replicate, write_job
from tests.spark.simple_topic import insert, topic
from tests.spark.test_policies import CREATE, ONE
from ticdc_spark.cli import main
from ticdc_spark.model import RowChange, Watermark
from ticdc_spark.sinks.iceberg.rows import upsert

UPDATED = RowChange(op="update", table=ONE, commit_ts=40, before={"id": "1", "v": "1"}, after={"id": "1", "v": "2"})
DELETED = RowChange(op="delete", table=ONE, commit_ts=41, before={"id": "2", "v": "1"})


def test_rows_before_the_unreadable_one_are_one_commit(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upsert, "MIN_APPEND_ROWS", 1)
    source = topic(
        folder,
        [
            CREATE,
            insert(ONE, 20, id="1", v="1"),
            insert(ONE, 21, id="2", v="1"),
            Watermark(30),
            UPDATED,
            DELETED,
            *(insert(ONE, 42, id=f"{number}", v="5") for number in range(50, 54)),
            insert(ONE, 50, id="6", v="many"),
            insert(ONE, 51, id="7", v="7"),
            Watermark(100),
        ],
    )
    job_file = write_job(folder, source, 'writer = "spark"\non-reject = "quarantine"\nbatch-rows = 2\n')
    met: list[str] = []

    def second_append(name: str) -> bool:
        met.extend([name] if name == "append" else [])
        return name == "append" and len(met) == 2

    # Behind an append of its own, a death would leave out the changes of old rows.
    assert run_with_deaths(job_file, second_append, monkeypatch) == []
    done = CliRunner().invoke(main, ["resume", str(job_file), "--all"])
    assert done.exit_code == 0, done.output
    job_file.write_text(job_file.read_text().replace("[source]", 'skip-messages = ["topic/0/10"]\n[source]'))
    replicate(job_file)
    found = sorted((row["id"], row["v"]) for row in read_table(lake(spark, folder), "s", "t"))
    assert found == [(1, 2), (7, 7), *((number, 5) for number in range(50, 54))]
