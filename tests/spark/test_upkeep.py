"""Upkeep of real tables: fewer files and snapshots, the same rows, and a job that goes on as if nothing had been."""

import os
import random
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import ticdc_spark
from tests.spark.lake import lake, replicate, write_job
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from tests.spark.test_row_delta import CREATE, T, delete, rows, update
from tests.support.job_state import read
from ticdc_spark.cli import main
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Change, Column, Watermark
from ticdc_spark.replicate.run.upkeep import policy_of
from ticdc_spark.sinks.registry import open_sink

UPKEEP = '[upkeep]\nsmall-files = 6\nkeep-all = "1ms"\nkeep-hourly = "1h"\n'


def history(batches: int) -> tuple[list[Change], dict[int, int]]:
    """Changes of one table, a few a batch, and its rows after them."""
    draw = random.Random(1)
    events: list[Change] = [CREATE]
    held: dict[int, int] = {}
    for number in range(batches):
        at = 100 + number * 100
        for step in range(4):
            key = draw.randrange(30)
            row = {"id": str(key), "v": str(held.get(key))}
            if key not in held:
                held[key] = at + step
                events.append(insert(T, at + step, id=str(key), v=str(at + step)))
            elif draw.random() < 0.3:
                events.append(delete(T, at + step, row))
                del held[key]
            else:
                held[key] = at + step
                events.append(update(T, at + step, row, v=str(at + step)))
        events.append(Watermark(at + 50))
    return events, held


def counts(spark: SparkSession, folder: Path) -> dict[str, int]:
    session = lake(spark, folder)
    return {name: session.table(f"lake.s.t.{name}").count() for name in ("data_files", "delete_files", "snapshots")}


@pytest.mark.parametrize("by", [pytest.param("job", marks=pytest.mark.slow), "command"])
def test_files_and_history_shrink_and_the_job_goes_on(spark: SparkSession, folder: Path, by: str) -> None:
    events, held = history(16)
    job = write_job(folder, topic(folder, events), "batch-rows = 5")
    job.write_text(job.read_text() + "[upkeep]\nenabled = false\n")
    replicate(job)
    before = counts(spark, folder)
    assert before["data_files"] > 8 and before["delete_files"] > 6 and before["snapshots"] > 12
    job.write_text(job.read_text().replace("[upkeep]\nenabled = false\n", UPKEEP))
    if by == "command":
        result = CliRunner().invoke(main, ["upkeep", str(job)])
        assert result.exit_code == 0, result.output
        assert "s.t: " in result.output and "data files" in result.output and "snapshots expired" in result.output
        assert "nothing to do" in CliRunner().invoke(main, ["upkeep", str(job), "--table", "s.*", "--orphans"]).output
    else:
        events.append(Watermark(5000))
        topic(folder, [*events, insert(T, 6000, id="77", v="1"), Watermark(7000)])
        held[77] = 1
        replicate(job)
    after = counts(spark, folder)
    assert after["data_files"] < 5 and after["delete_files"] < 5 and after["snapshots"] < 6, (before, after)
    assert rows(spark, folder) == [{"id": key, "v": held[key]} for key in sorted(held)]
    keys = load_job(job)
    # A session of its own: the shared one holds what the jobs of other tests gave to a catalog of this name.
    sink = open_sink(spark.newSession(), keys, lambda: None)
    looked = sink.look_after(("s", "t"), policy_of(keys.upkeep), time.time())
    made = looked.after
    assert made is not None and looked.before == made, "nothing was left to do"
    assert (made.files, made.delete_files, made.snapshots) == tuple(after.values())
    assert made.rows == len(held)
    assert made.deleted_rows <= 2, "deletes of the newest batch stay until the next one, though their files are gone"

    more = [*events, Watermark(7000), update(T, 8000, {"id": str(min(held)), "v": "0"}, v="-1"), Watermark(9000)]
    if by == "job":
        more = [*events, insert(T, 6000, id="77", v="1"), *more[len(events) :]]
    topic(folder, more)
    replicate(job)
    held[min(held)] = -1
    assert rows(spark, folder) == [{"id": key, "v": held[key]} for key in sorted(held)]
    progress = read(job).progress
    assert progress is not None
    assert [(table.is_clean, table.diverged_since) for table in progress.tables] == [(True, None)]
    assert {name: frame.count() for name, frame in ticdc_spark.consistent(job).tables.items()} == {
        ("s", "t"): len(held)
    }


def test_what_a_tag_holds_can_still_be_read(spark: SparkSession, folder: Path) -> None:
    events, _ = history(12)
    job = write_job(folder, topic(folder, events[: len(events) // 2]), "batch-rows = 5")
    replicate(job)
    session = lake(spark, folder)
    session.sql("ALTER TABLE lake.s.t CREATE TAG audit")
    pinned = session.sql("SELECT * FROM lake.s.t VERSION AS OF 'audit' ORDER BY id").collect()
    topic(folder, events)
    job.write_text(job.read_text() + UPKEEP)
    replicate(job)
    assert counts(spark, folder)["snapshots"] < 6
    assert lake(spark, folder).sql("SELECT * FROM lake.s.t VERSION AS OF 'audit' ORDER BY id").collect() == pinned


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job_more", "sink_more", "shrinks"),
    [
        ('writer = "spark"', "", True),
        ("", "[sink.table-properties]\nformat-version = 3\n", True),
        ("", '[sink.table-properties]\n"gc.enabled" = "false"\n', False),
    ],
    ids=["merge", "version 3", "no gc"],
)
def test_tables_of_every_kind_go_on(
    spark: SparkSession, folder: Path, job_more: str, sink_more: str, shrinks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    events, held = history(14)
    job = write_job(folder, topic(folder, events), f"batch-rows = 5\n{job_more}")
    job.write_text(job.read_text() + sink_more + UPKEEP)
    replicate(job)
    assert (counts(spark, folder)["snapshots"] < 6) == shrinks
    assert not [record for record in caplog.records if "upkeep" in record.message and record.levelname == "WARNING"]
    topic(folder, [*events, Watermark(9000)])
    progress = replicate(job).progress
    assert [(table.is_clean, table.diverged_since) for table in progress.tables] == [(True, None)]
    assert rows(spark, folder) == [{"id": key, "v": held[key]} for key in sorted(held)]


NEIGHBOURS = {
    "inside": ("x", "LOCATION '{inner}'", ""),
    "inside, in a namespace of a namespace": ("x.y", "LOCATION 'file://{inner}/'", ""),
    "data inside": ("x", "", "'write.data.path' = 'file:{inner}'"),
    "metadata inside": ("x", "", "'write.metadata.path' = '{inner}'"),
    "same": ("x", "LOCATION '{location}'", ""),
}
"""Another table's namespace, and what of it lies inside an adopted table's location."""


def make_old(folder: Path) -> None:
    """Let all files be older than any that a run may be writing."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (1e9, 1e9))


@pytest.mark.parametrize(
    "neighbour",
    [
        "inside, in a namespace of a namespace",
        "data inside",
        *(pytest.param(case, marks=pytest.mark.slow) for case in ("inside", "metadata inside", "same")),
    ],
)
def test_files_of_another_table_are_no_orphans(spark: SparkSession, folder: Path, neighbour: str) -> None:
    namespace, where, properties = NEIGHBOURS[neighbour]
    (folder / "lake").mkdir()
    location, session = folder / "adopted", lake(spark, folder)
    paths = {"location": location, "inner": location / "inner"}
    session.sql("CREATE NAMESPACE lake.s")
    session.sql(f"CREATE TABLE lake.s.t (id INT, v INT) USING iceberg LOCATION 'file:{location}'")
    for depth in range(1, len(namespace.split(".")) + 1):
        session.sql(f"CREATE NAMESPACE lake.{'.'.join(namespace.split('.')[:depth])}")
    options = f"TBLPROPERTIES ({properties.format(**paths)})" if properties else ""
    session.sql(f"CREATE TABLE lake.{namespace}.u (id INT) USING iceberg {where.format(**paths)} {options}")
    session.sql(f"INSERT INTO lake.{namespace}.u VALUES (7)")
    other = table(10, Column(name="v", type=INT), name="other")
    of_other = ddl("CREATE", 10, "CREATE TABLE `other` (`id` INT PRIMARY KEY,`v` INT)", other)
    events = [CREATE, of_other, insert(T, 20, id="1", v="1"), insert(other, 20, id="1", v="1"), Watermark(30)]
    job = write_job(folder, topic(folder, events), "adopt = true")
    replicate(job)
    (own,) = (folder / "lake" / "s").glob("other-*")
    for place in (location, own):
        (place / "data" / "orphan.parquet").write_bytes(b"left behind")
    make_old(location)
    make_old(own)

    result = CliRunner().invoke(main, ["upkeep", str(job), "--orphans"])
    name = ".".join(f"`{part}`" for part in ("lake", *namespace.split("."), "u"))
    assert f"s.t: the orphan files of `lake`.`s`.`t` stay: {name} has files in" in result.output, result.output
    assert "--table" in result.output
    assert "s.other: 1 orphan files removed" in result.output
    assert result.exit_code != 0
    assert [row["id"] for row in lake(spark, folder).table(f"lake.{namespace}.u").collect()] == [7]
    assert (location / "data" / "orphan.parquet").exists()
    assert not (own / "data" / "orphan.parquet").exists()
    session.sql(f"DROP TABLE lake.{namespace}.u")
    if neighbour != "same":
        result = CliRunner().invoke(main, ["upkeep", str(job), "--orphans"])
        assert (result.exit_code, (location / "data" / "orphan.parquet").exists()) == (0, False), result.output
        assert rows(spark, folder) == [{"id": 1, "v": 1}]
