"""Tables of Iceberg that come back by RECOVER TABLE and FLASHBACK TABLE."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.spark.deaths import once_at, run_with_deaths, tables
from tests.spark.lake import write_job
from tests.spark.simple_topic import ddl, insert, table, topic
from ticdc_spark.model import Change, Watermark

T = table(10, name="t")
BACK, COPY = (replace(T, name=name, version=ts) for name, ts in (("t", 50), ("u", 60)))
EVENTS: tuple[Change, ...] = (
    ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY)", T),
    insert(T, 20, id="1"),
    Watermark(30),
    insert(T, 31, id="2"),
    ddl("ERASE", 40, "DROP TABLE `s`.`t`", T, T),
    ddl("QUERY", 50, "RECOVER TABLE `t`", BACK),
    insert(BACK, 51, id="3"),
    ddl("TRUNCATE", 55, "TRUNCATE TABLE `t`", BACK, BACK),
    insert(BACK, 57, id="4"),
    ddl("QUERY", 60, "FLASHBACK TABLE `t` TO `u`", COPY),
    insert(COPY, 61, id="5"),
    ddl("TRUNCATE", 65, "TRUNCATE TABLE `u`", COPY, COPY),
    Watermark(100),
    # The commitTs of a test is a moment of 1970: by this one everything that is parked is too old.
    Watermark(1 << 40),
)
POINTS = ("intent", "ddl", "stamp", "create", "take", "progress")


def test_tables_come_back_wherever_the_job_dies(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = '[ddl]\nkeep-dropped = "1m"'
    job_file = write_job(folder, topic(folder, EVENTS[:-1]), keep)
    died = run_with_deaths(job_file, once_at(POINTS), monkeypatch)
    assert set(died) == set(POINTS)
    found = tables(spark, folder)
    (parked,) = found.keys() - {"t", "u"}
    assert parked.startswith("_ticdc_dropped_65_")
    assert found == {"t": [{"id": 4}], "u": [], parked: [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 5}]}
    topic(folder, EVENTS)
    run_with_deaths(job_file, once_at(("ddl",)), monkeypatch)
    assert tables(spark, folder) == {"t": [{"id": 4}], "u": []}
