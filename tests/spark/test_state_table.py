"""The state of a job as other engines see it, and as Iceberg's Java client and PyIceberg write one catalog together."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.deaths import once_at, run_with_deaths
from tests.spark.lake import lake, replicate, write_job
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from tests.support.job_state import put, read, state_of
from ticdc_spark import consistent, consistent_scans, failpoints, table_snapshots
from ticdc_spark.errors import LeaseHeld, UsageError
from ticdc_spark.model import Column, Watermark
from ticdc_spark.replicate.state.owner import this_process
from ticdc_spark.replicate.state.store import JobStore, take_over
from ticdc_spark.sinks.state import StateRow

T = table(10, Column(name="v", type=INT), name="t")
U = table(10, Column(name="v", type=INT), name="u")
FIRST = (
    *(ddl("CREATE", 10, f"CREATE TABLE `{one.name}` (`id` INT PRIMARY KEY, `v` INT)", one) for one in (T, U)),
    *(insert(one, 20, id="1", v="1") for one in (T, U)),
    Watermark(30),
)
SECOND = (*(insert(one, 40, id="2", v="2") for one in (T, U)), Watermark(50))
STATE = "lake._ticdc_spark.state_job"


def test_java_and_pyiceberg_write_one_catalog_at_the_same_time(spark: SparkSession, folder: Path) -> None:
    job_file = write_job(folder, topic(folder, FIRST))
    rows = [StateRow(kind="table", schema="s", table="t", resolved_ts=5, snapshot_id=2**62, value="{}")]
    with state_of(job_file) as states:
        version = states.commit({"a": rows}, None, 1)  # PyIceberg makes the catalog
        session = lake(spark, folder)
        session.sql("CREATE NAMESPACE lake.s")
        session.sql("CREATE TABLE lake.s.t (id INT) USING iceberg")
        java = threading.Thread(target=lambda: [session.sql(f"INSERT INTO lake.s.t VALUES ({at})") for at in range(5)])
        java.start()
        commits = 0
        while java.is_alive() or commits < 5:
            version = states.commit({"a": rows, "b": rows}, version, 2)
            commits += 1
        java.join()
        assert session.table("lake.s.t").count() == 5
        found = session.table(STATE).collect()
        assert [(row["schema_name"], row["table_name"], row["snapshot_id"]) for row in found] == [("s", "t", 2**62)] * 2
        summary = session.sql(f"SELECT summary FROM {STATE}.snapshots ORDER BY committed_at DESC LIMIT 1").first()
        assert summary is not None and summary[0]["ticdc.resolved-ts"] == "2"
        assert states.load().version == version


def test_any_engine_finds_the_snapshots_of_the_last_commit(spark: SparkSession, folder: Path) -> None:
    source = topic(folder, FIRST)
    job_file = write_job(folder, source)
    with pytest.raises(UsageError, match="run it first"):
        table_snapshots(job_file)
    replicate(job_file)
    topic(folder, [*FIRST, *SECOND])
    run_twice(job_file)
    session = lake(spark, folder)
    found = session.sql(
        f"SELECT schema_name, table_name, snapshot_id, condition FROM {STATE} WHERE kind = 'table' AND resolved_ts = "
        f"(SELECT resolved_ts FROM {STATE} WHERE kind = 'progress')"
    ).collect()
    assert sorted((row["table_name"], row["condition"]) for row in found) == [("t", "clean"), ("u", "clean")]
    by_state = table_snapshots(job_file)
    assert by_state.tables == {(row["schema_name"], row["table_name"]): row["snapshot_id"] for row in found}
    for row in found:
        as_of = session.sql(f"SELECT id FROM lake.s.{row['table_name']} VERSION AS OF {row['snapshot_id']} ORDER BY id")
        assert [one["id"] for one in as_of.collect()] == [1, 2]


def run_twice(job_file: Path) -> None:
    """A death between the commits of the tables and that of the state, and the rest."""
    died = run_with_deaths(job_file, once_at({"merge", "apply"}), pytest.MonkeyPatch())
    assert died


def test_the_tables_of_one_commit_are_read_without_spark_while_a_batch_is_under_way(
    spark: SparkSession, folder: Path
) -> None:
    job_file = write_job(folder, topic(folder, FIRST))
    replicate(job_file)
    first = read(job_file).progress
    assert first is not None
    topic(folder, [*FIRST, *SECOND])
    replicate(job_file)
    last = read(job_file).progress
    assert last is not None
    for ts, ids in ((None, [1, 2]), (last.applied, [1, 2]), (last.applied - 1, [1]), (first.applied, [1])):
        snapshots, scans = consistent_scans(job_file, ts)
        assert snapshots.commit_ts == (last.applied if ids == [1, 2] else first.applied)
        assert {name: sorted(scan.to_arrow()["id"].to_pylist()) for name, scan in scans.items()} == {
            ("s", "t"): ids,
            ("s", "u"): ids,
        }
        by_spark = consistent(job_file, commit_ts=ts)
        assert {name: sorted(row["id"] for row in rows.collect()) for name, rows in by_spark.tables.items()} == {
            ("s", "t"): ids,
            ("s", "u"): ids,
        }
    with pytest.raises(UsageError, match="or before, in the commits that are kept"):
        table_snapshots(job_file, 5)
    put(job_file, first)  # tables are written, the state is not
    _, scans = consistent_scans(job_file)
    assert [scan.to_arrow().num_rows for scan in scans.values()] == [1, 1]
    code = (
        f"import sys; from ticdc_spark import consistent_scans; _, scans = consistent_scans({str(job_file)!r})\n"
        "print([scan.to_arrow().num_rows for scan in scans.values()], 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[1, 1] False\n"


@pytest.mark.parametrize("at", ["advance", "merge", "apply"])
@pytest.mark.parametrize("finishes", [True, False], ids=["the successor is done", "the successor has begun"])
def test_what_an_owner_that_was_overtaken_still_commits_is_what_its_successor_commits(
    spark: SparkSession, folder: Path, at: str, finishes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its question whether the job is still its own is left out: the commit was on its way."""
    job_file = write_job(folder, topic(folder, FIRST))
    replicate(job_file)
    topic(folder, [*FIRST, *SECOND])
    point, successors = failpoints.point, []

    def overtake(name: str) -> None:
        if name != at or successors:
            return point(name)
        successors.append(name)
        with state_of(job_file) as states:
            take_over(states, states.load(), "job", this_process("successor")).release()
        if finishes:
            replicate(job_file)
        return None

    monkeypatch.setattr(failpoints, "point", overtake)
    monkeypatch.setattr(JobStore, "check", lambda _: None)
    with pytest.raises(LeaseHeld, match="was taken"):
        replicate(job_file)
    monkeypatch.undo()
    replicate(job_file)
    session = lake(spark, folder)
    for name in "tu":
        assert sorted(row["id"] for row in session.table(f"lake.s.{name}").collect()) == [1, 2]
    found = read(job_file).progress
    assert found is not None and all(one.is_clean for one in found.tables)


def test_a_lake_restored_in_place_brings_the_state_and_the_job_goes_on(spark: SparkSession, folder: Path) -> None:
    job_file = write_job(folder, topic(folder, FIRST))
    replicate(job_file)
    copy = {path: path.read_bytes() for path in (folder / "lake").rglob("*") if path.is_file()}
    before = read(job_file).progress
    topic(folder, [*FIRST, *SECOND])
    replicate(job_file)
    for path, content in copy.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert read(job_file).progress == before
    replicate(job_file)
    session = lake(spark, folder)
    for name in "tu":
        assert sorted(row["id"] for row in session.table(f"lake.s.{name}").collect()) == [1, 2]
