"""Jobs whose warehouse is in an object store: the Python tasks write there as they do on a disk."""

import logging
import time
from itertools import count
from pathlib import Path

import msgspec
import pyarrow.fs
import pytest
from pyspark.sql import SparkSession

from tests.spark.deaths import once_at, run_with_deaths
from tests.spark.simple_topic import INT, ddl, insert, topic
from tests.spark.test_retry import Running
from tests.spark.test_row_delta import END, FIRST, MORE, T, Ways, update, ways
from tests.support.job_state import read
from tests.support.s3_server import BUCKET, SECRET_KEY, S3Server
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import LeaseHeld, SinkFault
from ticdc_spark.model import Change, Column, Watermark
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.report import Summary
from ticdc_spark.sinks.iceberg.catalog import catalog_options
from ticdc_spark.sinks.iceberg.rows import direct

__all__ = ["ways"]  # a fixture

_NUMBERS = count(1)
T2 = msgspec.structs.replace(T, columns=(*T.columns, Column(name="w", type=INT)), version=110)
T3 = msgspec.structs.replace(
    T2, columns=(*T.columns[:1], Column(name="x", type=INT), Column(name="w", type=INT)), version=130
)
DDL: tuple[Change, ...] = (
    ddl("ALTER TABLE", 110, "ALTER TABLE `t` ADD COLUMN `w` INT", T2, T),
    insert(T2, 115, id="6", v="6", w="66"),
    ddl("ALTER TABLE", 130, "ALTER TABLE `t` RENAME COLUMN `v` TO `x`", T3, T2),
    update(T3, 140, {"id": "4", "x": "4", "w": None}, x="44", w="7"),
    Watermark(200),
)
AFTER_DDL = [
    {"id": 1, "x": 11, "w": None},
    {"id": 4, "x": 44, "w": 7},
    {"id": 5, "x": None, "w": None},
    {"id": 6, "x": 6, "w": 66},
    {"id": 8, "x": 3, "w": None},
]


class Lake:
    """A job file with a warehouse of its own in the store, and the lake as others see it."""

    def __init__(self, spark: SparkSession, store: S3Server, folder: Path) -> None:
        self.spark, self.store, self.folder = spark, store, folder
        self.warehouse = f"s3://{BUCKET}/house{next(_NUMBERS)}"
        self.catalog = {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=60000"}
        self.catalog["jdbc.schema-version"] = "V1"

    def job(self, more: str = "", sink: str = "", secret: str = SECRET_KEY) -> Path:
        options = self.catalog | self.store.catalog_options(secret)
        lines = "\n".join(f'"catalog.{key}" = "{value}"' for key, value in options.items())
        file = self.folder / "job.toml"
        file.write_text(
            f'[job]\nname = "job"\n{more}\n[source]\nkind = "files"\npath = "topic"\n'
            f'protocol = "simple"\n[sink]\nkind = "iceberg"\nwarehouse = "{self.warehouse}"\n{lines}\n{sink}\n'
        )
        return file

    def session(self) -> SparkSession:
        session = self.spark.newSession()
        options = self.catalog | self.store.catalog_options()
        for key, value in catalog_options("lake", self.warehouse, options).items():
            session.conf.set(key, value)
        return session

    def rows(self) -> list[dict[str, object]]:
        return list(self.session().table("lake.s.t").orderBy("id").toArrow().to_pylist())

    def orphans(self) -> set[str]:
        """Files of the table that no snapshot has."""
        session = self.session()
        held = {
            row[0]
            for part in ("all_data_files", "all_delete_files")
            for row in session.sql(f"SELECT file_path FROM lake.s.t.{part}").collect()
        }
        root = self.warehouse.removeprefix("s3://") + "/s"
        found = self.store.files().get_file_info(pyarrow.fs.FileSelector(root, recursive=True))
        return {f"s3://{info.path}" for info in found if info.is_file and "/data/" in info.path} - held


@pytest.fixture
def lake(spark: SparkSession, store: S3Server, tmp_path: Path) -> Lake:
    topic(tmp_path, FIRST)
    return Lake(spark, store, tmp_path)


def replicate(job: Path) -> Summary:
    return loop.run(load_job(job), once=True)


@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_rows_and_ddl_arrive_by_the_tasks_own_files(
    lake: Lake, ways: Ways, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    job = lake.job(sink=f"[sink.table-properties]\nformat-version = {version}")
    replicate(job)
    topic(lake.folder, [*FIRST, *MORE])
    replicate(job)
    assert lake.rows() == END
    topic(lake.folder, [*FIRST, *MORE, *DDL])
    replicate(job)
    assert lake.rows() == AFTER_DDL
    assert ways.merges == 0 and len(ways.direct) >= 3 and all(ways.direct)
    assert not lake.orphans(), "nor is the file left with which the store was tried"
    assert f"files under s3://{BUCKET} are written by the Python tasks" in caplog.text
    assert SECRET_KEY not in caplog.text


def test_wrong_credentials_are_an_error_that_names_the_warehouse(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SinkFault) as raised:
        replicate(lake.job(secret="wrong-27182818"))
    assert lake.warehouse in str(raised.value)
    assert "ACCESS_DENIED" in str(raised.value)
    assert "wrong-27182818" not in str(raised.value) + caplog.text


@pytest.mark.slow
def test_a_property_that_only_iceberg_knows_leaves_the_files_to_spark(
    lake: Lake, ways: Ways, caplog: pytest.LogCaptureFixture
) -> None:
    job = lake.job(sink='"catalog.s3.write.storage-class" = "STANDARD"')
    replicate(job)
    topic(lake.folder, [*FIRST, *MORE])
    replicate(job)
    assert lake.rows() == END
    assert ways.direct == [] and ways.merges
    assert "not the Python tasks: Python cannot do what the property s3.write.storage-class says" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("at", ["scan", "write", "apply"])
def test_a_job_that_died_goes_on(lake: Lake, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job = lake.job()
    replicate(job)
    topic(lake.folder, [*FIRST, *MORE, *DDL])
    assert run_with_deaths(job, once_at([at]), monkeypatch) == [at]
    assert lake.rows() == AFTER_DDL


@pytest.mark.slow
def test_what_another_writer_commits_meanwhile_is_kept(lake: Lake, ways: Ways, monkeypatch: pytest.MonkeyPatch) -> None:
    job = lake.job()
    replicate(job)
    topic(lake.folder, [*FIRST, *MORE])
    ours = direct.target

    def target(*given: object) -> object:
        found = ours(*given)  # type: ignore[arg-type]
        lake.session().sql("INSERT INTO lake.s.t VALUES (99, 99)").collect()
        return found

    monkeypatch.setattr(direct, "target", target)
    ways.direct.clear()
    replicate(job)
    assert (ways.direct, ways.merges) == ([False], 1)
    assert lake.rows() == [*END, {"id": 99, "v": 99}]
    assert not lake.orphans(), "the files of the refused commit are removed"


@pytest.mark.slow
def test_a_store_that_comes_back_is_written_on(spark: SparkSession, own_store: S3Server, tmp_path: Path) -> None:
    topic(tmp_path, FIRST)
    lake = Lake(spark, own_store, tmp_path)
    running = Running(lake.job('retry-for = "10m"\ncommit-interval = "100ms"\npoll-interval = "100ms"'))
    try:
        running.wait(lambda: running.rows == 4)
        own_store.stop()
        topic(tmp_path, [*FIRST, *MORE])
        running.wait(lambda: running.status.state == "warning")
        assert SECRET_KEY not in str(running.status.error)
        time.sleep(1)
        own_store.start()
        running.wait(lambda: running.rows >= 4 + 4)
    finally:
        running.end()
    assert running.error is None
    assert lake.rows() == END


def test_a_second_run_is_kept_out_wherever_it_starts(lake: Lake) -> None:
    first = lake.job('commit-interval = "100ms"\npoll-interval = "100ms"')
    other = lake.folder / "other.toml"
    other.write_text(first.read_text())
    running = Running(first)
    try:
        running.wait(lambda: running.rows == 4)
        with pytest.raises(LeaseHeld, match=r"_ticdc_spark\.state_job in catalog lake .* is held by job 'job', pid"):
            replicate(other)
        topic(lake.folder, [*FIRST, *MORE])
        running.wait(lambda: running.rows >= 4 + 4)
    finally:
        running.end()
    assert running.error is None
    replicate(other)
    assert lake.rows() == END
    held = read(first).held
    assert held is not None and (held.epoch, held.released) == (2, True)
