"""The demo: it reports that the tables are equal, and would report it if they were not."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from ticdc_spark.cli import main
from ticdc_spark.cli.demo import compare, prepare, recorded_tables
from ticdc_spark.errors import UsageError
from ticdc_spark.sinks.iceberg.lake import open_lake


def test_the_demo_compares_every_table(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = CliRunner().invoke(main, ["demo", "--folder", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "all 5 tables equal the shop's" in done.output

    job_file, wanted = folder / "shop.toml", recorded_tables()
    assert compare(job_file, wanted) == dict.fromkeys(wanted, True)

    session = open_lake(job_file)
    session.sql("DELETE FROM lake.shop.orders WHERE id = (SELECT max(id) FROM lake.shop.orders)")
    session.sql("ALTER TABLE lake.shop.products DROP COLUMN price")
    extra = ("shop", "not there")
    equal = compare(job_file, wanted | {extra: wanted["shop", "orders"]})
    assert {name for name, same in equal.items() if not same} == {("shop", "orders"), ("shop", "products"), extra}


def test_only_a_demos_folder_is_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").touch()
    with pytest.raises(UsageError, match="no demo wrote"):
        prepare(folder)
    assert (folder / "thesis.txt").is_file()
    prepare(tmp_path / "demo")
    (tmp_path / "demo" / "topic").touch()
    prepare(tmp_path / "demo")
    assert not (tmp_path / "demo" / "topic").exists()
