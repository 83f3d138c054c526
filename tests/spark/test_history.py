"""Tables of a lake with their histories beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.deaths import END, FIRST, SECOND, once_at, run_with_deaths
from tests.spark.histories import SECTION, check, check_versions, read_again
from tests.spark.lake import lake, read_table, write_job
from tests.spark.simple_topic import topic
from ticdc_spark.config.load import load_job
from ticdc_spark.operate.upkeep import look_after


@pytest.mark.parametrize(
    ("writer", "times"),
    [
        ("python", 1),
        pytest.param("python", 3, marks=pytest.mark.slow),
        pytest.param("spark", 2, marks=pytest.mark.slow),
    ],
)
def test_whatever_kills_the_job_histories_have_every_change_once(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, writer: str, times: int
) -> None:
    job = write_job(folder, topic(folder, [*FIRST, *SECOND]), f'writer = "{writer}"')
    job.write_text(f"{job.read_text()}\n{SECTION}")
    died = run_with_deaths(job, once_at({"history", "write", "ddl"}, times), monkeypatch)
    assert "history" in died
    read_again(job, monkeypatch)
    session = lake(spark, folder)
    check(lambda name: read_table(session, "old", name))
    session.sql("USE lake")
    check_versions(lambda sql: session.sql(sql).collect())
    for name in ("p", "q", "t3"):
        assert sorted(read_table(session, "s", name), key=lambda row: int(row["id"])) == END[name]
    assert dict(look_after(load_job(job), ["s.p"], None)) == {("s", "p"): []}
