"""The demo, whole and small: it reports that the tables are equal, and would report it if they were not."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from ticdc_spark.cli import main
from ticdc_spark.cli.demo import compare, prepare, workload
from ticdc_spark.errors import UsageError
from ticdc_spark.sinks.iceberg.lake import open_lake
from ticdc_spark.workload import generate


def test_the_demo_compares_every_table(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = CliRunner().invoke(main, ["demo", "--changes", "400", "--folder", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "equal the truth" in done.output

    events = generate(workload(400, 7))
    for _ in events:
        pass
    truth = events.truth
    job_file = folder / "shop.toml"
    assert set(compare(job_file, truth)) == set(truth)
    assert not any(compare(job_file, truth).values())

    schema, table = max(truth, key=lambda name: len(truth[name][1]))
    open_lake(job_file).sql(f"DELETE FROM lake.`{schema}`.`{table}`")
    extra = ("shop", "not there")
    reported = compare(job_file, truth | {extra: truth[schema, table]})
    assert "is missing" in " ".join(reported.pop((schema, table)))
    assert reported.pop(extra) == ["is not in the lake"]
    assert not any(reported.values())


def test_only_a_demos_folder_is_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").touch()
    with pytest.raises(UsageError, match="no demo's"):
        prepare(folder)
    assert (folder / "thesis.txt").is_file()
    prepare(tmp_path / "demo")
    (tmp_path / "demo" / "topic").touch()
    prepare(tmp_path / "demo")
    assert not (tmp_path / "demo" / "topic").exists()
