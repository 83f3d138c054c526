"""Jobs that write to Delta tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from tests.spark.deaths import END, FIRST, GATHERED, SECOND, STEPS, once_at, run_with_deaths
from tests.spark.simple_topic import topic

POINTS = {"append", "merge", "ddl", "intent", "fill", "stamp", "create", "take", "swap", *STEPS, *GATHERED}
"""What a job passes."""


def write_job(folder: Path, job: str = "", sink: str = "", more: str = "") -> Path:
    """A job that reads the topic of a folder."""
    file = folder / "job.toml"
    file.write_text(
        f'[job]\nname = "{folder.name}"\n{job}\n[source]\nkind = "files"\npath = "{folder / "topic"}"\n'
        f'protocol = "simple"\n[sink]\nkind = "delta"\nwarehouse = "lake"\n{sink}\n{more}\n'
    )
    return file


def tables(folder: Path, database: str = "s") -> dict[str, list[dict[str, Any]]]:
    """Every table of a database, as deltalake reads it."""
    found = {}
    for path in sorted((folder / "lake" / database).iterdir()):
        rows = QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT * FROM t").read_all()
        found[path.name] = sorted(pa.table(rows).to_pylist(), key=lambda one: int(one["id"]))
    return found


@pytest.mark.parametrize("times", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_job_that_dies_between_steps_ends_in_the_same_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    topic(tmp_path, (*FIRST, *SECOND))
    died = run_with_deaths(write_job(tmp_path), once_at(POINTS, times), monkeypatch)
    assert set(died) == (POINTS if times else set())
    found = tables(tmp_path)
    assert found == END | {"x": found["x"]}
