"""A job of an older release goes on with this version: its state is understood, and its tables come to be right."""

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.releases.make import EXPECTED, HERE, PLACES, TOPIC, WHOLE
from tests.spark.lake import lake as lake_of
from tests.spark.lake import names, read_table, replicate, sorted_rows
from ticdc_spark.config.load import load_identity
from ticdc_spark.names import escape
from ticdc_spark.operate.status import job_status

RELEASES = sorted(HERE.glob("*.tar.gz"))


@pytest.fixture(params=RELEASES, ids=lambda packed: packed.name.removesuffix(".tar.gz"))
def left(request: pytest.FixtureRequest) -> Iterator[Path]:
    """What a release left behind, where it was made."""
    PLACES.mkdir(exist_ok=True)
    with tarfile.open(request.param) as archive:
        archive.extractall(PLACES, filter="data")
    place = PLACES / request.param.name.removesuffix(".tar.gz")
    yield place
    shutil.rmtree(place)


def test_there_is_a_release() -> None:
    assert RELEASES


def test_a_job_of_a_release_goes_on(left: Path, spark: SparkSession) -> None:
    job_file = left / "job.toml"
    before = job_status(load_identity(job_file))
    assert before.state == "stopped" or before.state == "finished"
    assert before.changes_waiting and before.resolved_ts, "it is in the middle of its topic"
    shutil.rmtree(left / TOPIC)
    (left / WHOLE).rename(left / TOPIC)
    assert replicate(job_file).finished
    session = lake_of(spark, left)
    wanted = {file.stem: pq.read_table(file).to_pylist() for file in (left / EXPECTED).iterdir()}
    found = {f"{schema}.{name}" for schema, name in names(session) if not name.endswith("_history")}
    assert found == {".".join(map(escape, table.split(".", 1))) for table in wanted}
    for table, rows in wanted.items():
        schema, name = table.split(".", 1)
        assert sorted_rows(read_table(session, schema, name)) == sorted_rows(rows), table
    after = job_status(load_identity(job_file))
    assert {table.condition for table in after.tables} <= {"clean", "dropped", "unverified"}
    assert after.changes > before.changes
