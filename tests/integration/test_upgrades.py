"""A job of an older release goes on with this version: its state is understood, and its tables come to be right."""

import fcntl
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.integration import mysql_truth, postgres_jobs
from tests.releases.databases import Target, restore, running
from tests.releases.make import DUMP, HERE, PLACES, TOPIC, TRUTH, WHOLE, job_text
from tests.spark.delta import delta_session
from tests.spark.lake import lake as lake_of
from tests.spark.lake import names, read_table, replicate, sorted_rows
from tests.support.mariadb_server import Server
from tests.workload import Truth
from tests.workload.compare import expected
from ticdc_spark.config.load import load_identity
from ticdc_spark.model import Table, TableName
from ticdc_spark.names import unescape
from ticdc_spark.operate.status import job_status
from ticdc_spark.sinks.delta.lake import sql_name

RELEASES = sorted(HERE.glob("*.tar.gz"))
KINDS = {"iceberg", "delta", "mysql", "postgres"}
Rows: TypeAlias = list[dict[str, Any]]


class Left(NamedTuple):
    """What a release left behind, where it was made."""

    kind: str
    place: Path
    target: Target | None
    """A server with its database."""


@pytest.fixture(
    params=[pytest.param(one, marks=pytest.mark.slow if "delta" in one.name else ()) for one in RELEASES],
    ids=lambda packed: packed.name.removesuffix(".tar.gz"),
)
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Left]:
    label = request.param.name.removesuffix(".tar.gz")
    kind = label.partition("-")[2] or "iceberg"
    place = PLACES / label
    PLACES.mkdir(exist_ok=True)
    with ExitStack() as stack:
        # Another run of the tests on this machine uses the same places.
        fcntl.flock(stack.enter_context((PLACES / "lock").open("w")), fcntl.LOCK_EX)
        shutil.rmtree(place, ignore_errors=True)  # of a run that was killed
        with tarfile.open(request.param) as archive:
            archive.extractall(PLACES, filter="data")
        stack.callback(shutil.rmtree, place)
        target = None
        if (place / DUMP).exists():
            target = stack.enter_context(running(kind, tmp_path))
            restore(target, (place / DUMP).read_text())
            (place / "job.toml").write_text(job_text(kind, target.uri))
        yield Left(kind, place, target)


def test_a_release_has_each_kind_of_sink() -> None:
    labels = {packed.name.removesuffix(".tar.gz") for packed in RELEASES}
    versions = {label.partition("-")[0] for label in labels}
    assert labels == {one if kind == "iceberg" else f"{one}-{kind}" for one in versions for kind in KINDS}
    assert versions


def test_a_job_of_a_release_goes_on(left: Left, spark: SparkSession) -> None:
    job_file = left.place / "job.toml"
    before = job_status(load_identity(job_file))
    assert before.state == "stopped" or before.state == "finished"
    assert before.changes_waiting and before.resolved_ts, "it is in the middle of its topic"
    shutil.rmtree(left.place / TOPIC)
    (left.place / WHOLE).rename(left.place / TOPIC)
    assert replicate(job_file).finished
    held = msgspec.msgpack.decode((left.place / TRUTH).read_bytes(), type=list[tuple[Table, Rows]])
    assert not wrong(left, spark, held)
    after = job_status(load_identity(job_file))
    assert {table.condition for table in after.tables} <= {"clean", "dropped", "unverified"}
    assert after.changes > before.changes


def wrong(left: Left, spark: SparkSession, held: Sequence[tuple[Table, Rows]]) -> dict[TableName, str]:
    """By table, what is not as at the source."""
    truth: Truth = {one.full_name: (one, {(str(at),): row for at, row in enumerate(rows)}) for one, rows in held}
    if isinstance(left.target, Server):
        return mysql_truth.compare_with(left.target, truth)
    if left.target is not None:
        return postgres_jobs.compare_with(left.target, truth)
    there = in_delta(spark, left.place) if left.kind == "delta" else in_iceberg(spark, left.place)
    found = dict.fromkeys(there.keys() ^ truth.keys(), "it is there, or is not")
    for name, (table, rows) in truth.items():
        if sorted_rows(there.get(name, [])) != sorted_rows(expected(table, rows.values()).to_pylist()):
            found.setdefault(name, "it has other rows")
    return found


def in_delta(spark: SparkSession, place: Path) -> dict[TableName, Rows]:
    session, logs = delta_session(spark), (place / "lake").glob("*/*/_delta_log")
    paths = [one.parent for one in logs if not one.parts[-3].startswith("_")]
    return {
        (unescape(one.parent.name), unescape(one.name)): session.sql(f"SELECT * FROM {sql_name(str(one))}")
        .toArrow()
        .to_pylist()
        for one in paths
    }


def in_iceberg(spark: SparkSession, place: Path) -> dict[TableName, Rows]:
    session = lake_of(spark, place)
    return {
        (unescape(schema), unescape(name)): read_table(session, schema, name)
        for schema, name in names(session)
        if not name.endswith("_history")
    }
