"""Tables of a database with their histories beside them: in MySQL and in PostgreSQL, whatever kills the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration import mysql_jobs, postgres_jobs
from tests.integration.mysql_member import read_table
from tests.spark.deaths import FIRST, SECOND, once_at, run_with_deaths
from tests.spark.histories import SECTION, check, check_versions, read_again
from tests.spark.simple_topic import topic
from tests.support.mariadb_server import Server
from tests.support.postgres_server import PostgresServer

_POINTS = {"history", "write", "ddl", "intent", "recorded", "swap", "take"}


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_whatever_kills_the_job_histories_in_mysql_have_every_change_once(
    target: Server, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    target.execute(*(f"DROP DATABASE IF EXISTS {name}" for name in ("s", "old", "_ticdc_spark")))
    topic(tmp_path, (*FIRST, *SECOND))
    job = mysql_jobs.write_job(tmp_path, target, more=SECTION)
    died = run_with_deaths(job, once_at(_POINTS, times), monkeypatch)
    assert {"history", "recorded"} <= set(died)
    read_again(job, monkeypatch)
    check(lambda name: read_table(target, ("old", name)))
    check_versions(target.execute)


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_whatever_kills_the_job_histories_in_postgres_have_every_change_once(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    postgres_jobs.clear(postgres)
    topic(tmp_path, (*FIRST, *SECOND))
    job = postgres_jobs.write_job(tmp_path, postgres, more=SECTION)
    died = run_with_deaths(job, once_at(_POINTS, times), monkeypatch)
    assert "history" in died
    read_again(job, monkeypatch)

    def read(name: str) -> list[dict[str, object]]:
        listed = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'old' AND table_name = "
        names = [column for (column,) in postgres.execute(f"{listed}'{name}' ORDER BY ordinal_position")]
        rows = postgres.execute(f"SELECT * FROM old.{name}")
        return [dict(zip(names, row, strict=True)) for row in rows]

    check(read)
    check_versions(postgres.execute)
