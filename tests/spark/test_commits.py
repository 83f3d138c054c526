"""Commits that a catalog refuses, or takes without saying so: what was written for them, and the rows in the end."""

import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import lake, replicate, write_job
from tests.spark.simple_topic import insert, topic
from tests.spark.test_row_delta import FIRST, OTHERS, T, rows
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import Watermark
from ticdc_spark.sinks.iceberg.tables import IcebergTables


def fails_to_commit(folder: Path, answer: str) -> None:
    """From now on the catalog does not take a commit of ``s.t``: it refuses each one, or takes it and does not say
    so."""
    way = {"refused": "BEFORE UPDATE", "unknown": "AFTER UPDATE"}[answer]
    what = {"refused": "RAISE(IGNORE)", "unknown": "RAISE(FAIL, 'the answer is lost')"}[answer]
    with closing(sqlite3.connect(folder / "lake" / "catalog.db")) as catalog, catalog:
        catalog.execute(
            f"CREATE TRIGGER fails {way} ON iceberg_tables WHEN old.table_name = 't' BEGIN SELECT {what}; END"
        )


def commits_again(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "lake" / "catalog.db")) as catalog, catalog:
        catalog.execute("DROP TRIGGER fails")


INSERTS = (insert(T, 50, id="6", v="6"), insert(T, 51, id="7", v="7"), Watermark(100))
FOUR = [{"id": at, "v": at} for at in range(1, 5)]
SIX = [*FOUR, {"id": 6, "v": 6}, {"id": 7, "v": 7}]


@pytest.mark.parametrize(
    ("answer", "fails_at"),
    [
        ("refused", 2),
        ("unknown", 1),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("refused", 1), ("unknown", 2))),
    ],
)
def test_no_file_that_a_commit_may_have_is_removed(
    spark: SparkSession, folder: Path, answer: str, fails_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog fails at a commit of the job, or at the next one after a compaction came between.

    If it has the commit all the same, the job finds it in the table and goes on.
    """
    job = write_job(folder, topic(folder, FIRST))
    job.write_text(job.read_text() + '[sink.table-properties]\n"commit.retry.num-retries" = "0"\n')
    replicate(job)
    topic(folder, [*FIRST, *INSERTS])
    ready = IcebergTables._put_properties
    calls = 0

    def put_properties(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        found = ready(*given, **named)
        if calls == fails_at:
            fails_to_commit(folder, answer)
        elif calls == 1:
            lake(spark, folder).sql(OTHERS["compaction"]).collect()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(IcebergTables, "_put_properties", put_properties)
        with pytest.raises(SinkFault) if answer == "refused" else nullcontext():
            replicate(job)
    assert calls >= fails_at
    assert rows(spark, folder) == (FOUR if answer == "refused" else SIX)
    commits_again(folder)
    (state,) = replicate(job).progress.tables
    assert rows(spark, folder) == SIX
    assert (state.is_clean, state.diverged_since) == (True, None)
