"""Tables of a lake with their histories beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.deaths import END, FIRST, SECOND, Death, T, create, once_at, run_with_deaths, update
from tests.spark.histories import SECTION, check, check_versions, read_again
from tests.spark.lake import lake, read_table, replicate, write_job
from tests.spark.simple_topic import insert, topic
from ticdc_spark import failpoints
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Watermark
from ticdc_spark.operate.upkeep import look_after
from ticdc_spark.sinks.iceberg.rows import upsert


@pytest.mark.slow
@pytest.mark.parametrize(("writer", "times"), [("python", 1), ("python", 3), ("spark", 2)])
def test_whatever_kills_the_job_histories_have_every_change_once(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, writer: str, times: int
) -> None:
    job = write_job(folder, topic(folder, [*FIRST, *SECOND]), f'writer = "{writer}"')
    job.write_text(f"{job.read_text()}\n{SECTION}")
    died = run_with_deaths(job, once_at({"history", "write", "ddl"}, times), monkeypatch)
    assert "history" in died
    read_again(job, monkeypatch)
    session = lake(spark, folder)
    check(lambda name: read_table(session, "old", name))
    session.sql("USE lake")
    check_versions(lambda sql: session.sql(sql).collect())
    for name in ("p", "q", "t3"):
        assert sorted(read_table(session, "s", name), key=lambda row: int(row["id"])) == END[name]
    assert dict(look_after(load_job(job), ["s.p"], None)) == {("s", "p"): []}


def test_a_history_that_begins_in_a_batch_with_new_keys_alone_gets_the_other_changes_too(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"id": "1", "v": "1"}
    first = (create(T, 10), insert(T, 20, id="1", v="1"), Watermark(30))
    second = (update(T, 40, old, v="11"), insert(T, 41, id="2", v="2"), Watermark(50))
    job = write_job(folder, topic(folder, first), 'writer = "spark"')
    replicate(job)
    topic(folder, [*first, *second])

    def die(name: str) -> None:
        if name == "append":
            raise Death(name)

    monkeypatch.setattr(upsert, "MIN_APPEND_ROWS", 1)
    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "point", die)
        with pytest.raises(Death):
            replicate(job)
    job.write_text(f"{job.read_text()}\n{SECTION}")
    replicate(job)
    found = read_table(lake(spark, folder), "old", "t")
    rows = [(row["_tidb_op"], row["_tidb_commit_ts"], row["id"], row["v"]) for row in found]
    base = min(row[1] for row in rows)
    assert base < 40
    assert sorted(rows, key=repr) == [
        ("I", 41, 2, 2),
        ("R", base, None, None),
        ("S", base, 1, 1),
        ("S", base, 2, 2),
        ("U", 40, 1, 11),
    ]
