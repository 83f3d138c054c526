"""A job that keeps nothing on a disk: lake, change log, state and lease in an object store."""

import time
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.integration.test_store import AFTER_DDL, DDL, Lake
from tests.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server
from tests.spark.deaths import once_at, run_with_deaths
from tests.spark.simple_topic import topic
from tests.spark.test_retry import Running
from tests.spark.test_row_delta import END, FIRST, MORE
from ticdc_spark.config.load import load_identity, load_job
from ticdc_spark.errors import LeaseHeld, SinkFault
from ticdc_spark.operate.status import job_status
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.state.lease import acquire
from ticdc_spark.replicate.state.lease_store import lease_store, this_process
from ticdc_spark.replicate.state.store import Store

QUICK = 'retry-for = "10m"\ncommit-interval = "100ms"\npoll-interval = "100ms"'


def job_of(lake: Lake, more: str = "") -> Path:
    """The lake's job, with its state in the store; how the store is reached, the state has from the catalog."""
    file = lake.job(more)
    uri = f"s3://{BUCKET}/state/{lake.warehouse.rpartition('/')[2]}"
    file.write_text(file.read_text().replace('state = "state"', f'state = "{uri}"'))
    return file


def test_a_job_with_its_state_in_the_store(spark: SparkSession, store: S3Server, tmp_path: Path) -> None:
    topic(tmp_path, FIRST)
    lake = Lake(spark, store, tmp_path)
    file = job_of(lake)
    loop.run(load_job(file), once=True)
    topic(tmp_path, [*FIRST, *MORE])
    summary = loop.run(load_job(file), once=True)
    assert lake.rows() == END and summary.changes == 4, "it went on from where it was"
    status = job_status(load_identity(file))
    assert (status.state, status.resolved_ts) == ("finished", summary.progress.applied)
    assert not (tmp_path / "state").exists() and SECRET_KEY not in str(msgspec.structs.asdict(status))


@pytest.mark.slow
@pytest.mark.parametrize("at", ["scan", "write", "apply"])
def test_a_job_that_died_goes_on(
    spark: SparkSession, store: S3Server, tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(tmp_path, FIRST)
    lake = Lake(spark, store, tmp_path)
    file = job_of(lake)
    loop.run(load_job(file), once=True)
    topic(tmp_path, [*FIRST, *MORE, *DDL])
    assert run_with_deaths(file, once_at([at]), monkeypatch) == [at]
    assert lake.rows() == AFTER_DDL


def test_a_store_that_comes_back_is_gone_on_with(spark: SparkSession, own_store: S3Server, tmp_path: Path) -> None:
    topic(tmp_path, FIRST)
    lake = Lake(spark, own_store, tmp_path)
    running = Running(job_of(lake, QUICK))
    try:
        running.wait(lambda: running.rows == 4)
        own_store.stop()
        topic(tmp_path, [*FIRST, *MORE])
        time.sleep(4)
        own_store.start()
        running.wait(lambda: running.rows >= 4 + 4)
        with pytest.raises(LeaseHeld, match=rf"s3://{BUCKET}/state/.*lease\.json is held by job 'job', pid"):
            loop.run(running.job, once=True)
    finally:
        running.end()
    assert running.error is None
    assert lake.rows() == END


def test_the_server_of_the_tests_honours_conditions(store: S3Server, tmp_path: Path) -> None:
    """What the lease stands on, against a server that is not ours."""
    state = f'state = "s3://{BUCKET}/state/conditions"'
    (tmp_path / "topic").mkdir()
    options = "\n".join(f'"catalog.{key}" = "{value}"' for key, value in store.catalog_options().items())
    file = tmp_path / "job.toml"
    file.write_text(
        f'[job]\nname = "job"\n{state}\n[source]\nkind = "files"\npath = "topic"\nprotocol = "simple"\n'
        f'[sink]\nkind = "iceberg"\nwarehouse = "s3://{BUCKET}/conditions"\n"catalog.type" = "glue"\n{options}\n'
    )
    job = load_job(file)
    first = lease_store(job.sink.warehouse, job.sink.catalog, job.name, job.state)
    second = lease_store(job.sink.warehouse, job.sink.catalog, job.name, job.state)
    with acquire(first, this_process("job")) as lease:
        lease.check()
        _, version = second.read()
        record, _ = first.read()
        assert record is not None
        other = msgspec.structs.replace(record, epoch=record.epoch + 1)
        assert second.swap(b"", other) is None, "there is one"
        assert second.swap(version, other) is not None
        with pytest.raises(LeaseHeld):
            lease.check()
    wrong = file.read_text().replace(ACCESS_KEY, "someone")
    file.write_text(wrong)
    with pytest.raises(SinkFault, match="conditions") as raised:
        lease_store(job.sink.warehouse, job.sink.catalog, job.name, load_job(file).state).read()
    assert SECRET_KEY not in str(raised.value)
    assert Store(job.state).load() is None
