"""Tables of a real lake, read again from their topics."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.spark.deaths import once_at, run_with_deaths
from tests.spark.lake import lake, make_topic, replicate, write_job
from tests.spark.shops import wrong
from tests.workload import Truth, WorkloadConfig
from ticdc_spark.cli import main
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.spark import tasks

SHOP = WorkloadConfig(seed=11, changes=400, partitions=2, duplicates=0.05, restart_every=150, watermark_every=20)
"""Several tables in two partitions, without schema changes but their CREATEs."""


def damaged(spark: SparkSession, folder: Path, more: str) -> tuple[Path, Truth, list[str]]:
    """A shop that was replicated, and whose tables somebody changed. Gives also their names."""
    truth = make_topic(folder, SHOP)
    job_file = write_job(folder, folder / "topic", more)
    replicate(job_file)
    assert not wrong(spark, folder, truth)
    session, tables = lake(spark, folder), [name for name, (_, rows) in truth.items() if rows]
    for schema, name in tables:
        session.sql(f"DELETE FROM lake.`{schema}`.`{name}`")
    return job_file, truth, [".".join(name) for name in tables]


def rebuild(job_file: Path, tables: list[str]) -> None:
    done = CliRunner().invoke(main, ["rebuild", str(job_file), *tables, "--from", "topic"])
    assert done.exit_code == 0, done.output
    assert f"requested: {tables[0]} is read in full from its topics" in done.output


def conditions(job_file: Path) -> set[str]:
    found = json.loads(CliRunner().invoke(main, ["status", str(job_file), "--json"]).output)
    return {table["condition"] for table in found["tables"]}


@pytest.mark.parametrize(
    ("writer", "small"),
    [
        pytest.param("python", 20_000, marks=pytest.mark.slow),
        ("python", 0),
        pytest.param("spark", 0, marks=pytest.mark.slow),
    ],
)
def test_tables_that_somebody_emptied_equal_the_source_again(
    spark: SparkSession, folder: Path, writer: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``small``: so many messages are read by the driver, more by tasks."""
    job_file, truth, tables = damaged(spark, folder, f'writer = "{writer}"')
    monkeypatch.setattr(tasks, "SMALL_ROWS", small)
    rebuild(job_file, tables)
    replicate(job_file)
    assert not wrong(spark, folder, truth)
    assert conditions(job_file) == {"clean"}


def test_a_job_that_dies_on_the_way_ends_in_the_same_table(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that was dropped, too."""
    job_file, truth, tables = damaged(spark, folder, "")
    lake(spark, folder).sql(f"DROP TABLE lake.{tables[0]}")
    with pytest.raises(DecisionNeeded, match="--from topic"):
        replicate(job_file)
    rebuild(job_file, tables)
    died = run_with_deaths(job_file, once_at({"base", "gather", "swap"}), monkeypatch)
    assert set(died) == {"base", "gather", "swap"}
    assert not wrong(spark, folder, truth)
    assert conditions(job_file) == {"clean"}
