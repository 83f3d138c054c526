"""Columns that another writer drops in a target, and adds again before the job's next start: the table stays marked.

Older rows have NULL in such a column. A batch that stops at it is rolled back in a target with one commit a batch.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration import mysql_jobs, postgres_jobs
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from tests.support.mariadb_server import Server
from tests.support.postgres_server import PostgresServer
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import DecisionNeeded, SourceFault
from ticdc_spark.model import Change, Column, Watermark
from ticdc_spark.replicate import loop, step
from ticdc_spark.replicate.run.target_tables import look_at_target
from ticdc_spark.replicate.state.table import TableState

T = table(10, Column(name="v", type=INT))
FIRST: list[Change] = [
    ddl("CREATE", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT)", T),
    insert(T, 20, id="1", v="1"),
    Watermark(30),
]
MORE: list[Change] = [*FIRST, insert(T, 40, id="2", v="2"), Watermark(50)]


def _state(job_file: Path) -> TableState:
    (state,) = loop.run(load_job(job_file), once=True).progress.tables
    return state


def _before(function: Callable[..., Any], act: Callable[[], None]) -> Callable[..., Any]:
    def run(*given: Any, **named: Any) -> Any:
        act()
        return function(*given, **named)

    return run


def _unreachable() -> None:
    raise SourceFault("no broker")


def _check(
    job_file: Path, execute: Callable[[str], object], column: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _state(job_file).is_clean

    def drop() -> None:
        execute(f"ALTER TABLE s.t DROP COLUMN {column}")

    with monkeypatch.context() as patch:
        if when == "while it runs":
            topic(job_file.parent, MORE)
            patch.setattr(step, "scan_batch", _before(step.scan_batch, drop))
        else:
            drop()
        if when == "before a start with changes":
            topic(job_file.parent, MORE)
        if when == "before a start that fails":
            patch.setattr(step, "reach", _before(step.reach, _unreachable))
        with pytest.raises((DecisionNeeded, SourceFault), match=r"dropped or renamed columns in the target|no broker"):
            _state(job_file)
    execute(f"ALTER TABLE s.t ADD COLUMN {column} INT")
    topic(job_file.parent, MORE)
    state = _state(job_file)
    assert (state.has_diverged, state.diverged_why) == (
        True,
        "another writer dropped or renamed columns in the target: `v`",
    )


def test_a_check_finds_a_column_that_was_dropped(postgres: PostgresServer, spark: SparkSession, tmp_path: Path) -> None:
    job = load_job(postgres_jobs.job_of(tmp_path, postgres, FIRST))
    loop.run(job, once=True)
    assert look_at_target(job, spark, {("s", "t")}) == "1 of 1 known tables are there"
    postgres.execute("ALTER TABLE s.t DROP COLUMN v")
    with pytest.raises(DecisionNeeded, match=r'"s"\."t": another writer dropped or renamed columns in the target: `v`'):
        look_at_target(job, spark, {("s", "t")})


WHEN = ("before a start with changes", "before a start that fails", "while it runs")


@pytest.mark.parametrize("when", WHEN)
def test_a_column_that_was_away_marks_a_table_in_postgresql(
    postgres: PostgresServer, tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_file = postgres_jobs.job_of(tmp_path, postgres, FIRST)
    _check(job_file, postgres.execute, '"v"', when, monkeypatch)


@pytest.mark.parametrize("when", WHEN[::2])
def test_a_column_that_was_away_marks_a_table_in_mariadb(
    target: Server, tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_file = mysql_jobs.job_of(tmp_path, target, FIRST)
    _check(job_file, target.execute, "`v`", when, monkeypatch)
