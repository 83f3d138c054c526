"""Stories of the simulator on the other targets than Iceberg's own catalog, judged by the same verdict.

Topics, time and the lease are the simulator's; the sink and the state are the product's, on real servers
(``tests.simulator.target_labs``). In most stories processes die at the points of a commit or a DDL.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.simulator.delta_target import DeltaTarget
from tests.simulator.draw import draw
from tests.simulator.iceberg_target import RestTarget
from tests.simulator.mysql_target import MysqlTarget
from tests.simulator.postgres_target import PostgresTarget
from tests.simulator.runner import quietly
from tests.simulator.seams import LabMaker
from tests.simulator.spark_lab import lab_over
from tests.simulator.story import Outcome, run
from tests.support.mariadb_server import Server
from tests.support.postgres_server import PostgresServer
from tests.support.rest_catalog import RestCatalog

STEPS = 30
FEW_STEPS = 18
"""Of stories in which Spark writes: each takes many seconds."""


def judge(seed: int, steps: int, lab: LabMaker, target: str) -> Outcome:
    with quietly():
        outcome = run(draw(seed, steps), lab, trace=True)
    again = f"python -m tests.simulator --lab tests.simulator.target_labs:{target} --steps {steps} --seeds {seed}"
    assert outcome.finding is None, "\n".join((str(outcome.finding), again, *outcome.trace))
    return outcome


def dies(outcome: Outcome) -> bool:
    """Whether a process died at a point inside a commit or a DDL, in a story with DDL."""
    assert any(kind.startswith("ddl ") for kind in outcome.moves)
    return any(fault.startswith("die:") for fault in outcome.faults)


@pytest.mark.parametrize("seed", [112, 200])
def test_a_story_on_mysql_ends_as_it_should(seed: int, target: Server, tmp_path: Path) -> None:
    assert dies(judge(seed, STEPS, lab_over(None, tmp_path, lambda _: MysqlTarget(target)), "mysql"))


def test_a_time_that_becomes_a_datetime_is_not_said_to_be_equal_to_the_source(target: Server, tmp_path: Path) -> None:
    """The server adds the day on which the job applies the DDL, and not that on which it ran at the source."""
    outcome = judge(141, STEPS, lab_over(None, tmp_path, lambda _: MysqlTarget(target)), "mysql")
    assert outcome.moves["ddl lossy_modify"]


def test_fractions_of_a_second_are_rounded_as_at_the_source(target: Server, tmp_path: Path) -> None:
    """MODIFY of a DATETIME(6) to a DATETIME(3): MariaDB would cut them off."""
    outcome = judge(269, STEPS, lab_over(None, tmp_path, lambda _: MysqlTarget(target)), "mysql")
    assert outcome.moves["ddl lossy_modify"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(112, 142))
def test_more_stories_on_mysql_end_as_they_should(seed: int, target: Server, tmp_path: Path) -> None:
    judge(seed, STEPS, lab_over(None, tmp_path, lambda _: MysqlTarget(target)), "mysql")


@pytest.mark.parametrize("seed", [114, 200])
def test_a_story_on_postgres_ends_as_it_should(seed: int, postgres: PostgresServer, tmp_path: Path) -> None:
    assert dies(judge(seed, STEPS, lab_over(None, tmp_path, lambda _: PostgresTarget(postgres)), "postgres"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(114, 144))
def test_more_stories_on_postgres_end_as_they_should(seed: int, postgres: PostgresServer, tmp_path: Path) -> None:
    judge(seed, STEPS, lab_over(None, tmp_path, lambda _: PostgresTarget(postgres)), "postgres")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [353])
def test_a_story_on_delta_ends_as_it_should(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    assert dies(judge(seed, FEW_STEPS, lab_over(spark, tmp_path, lambda place: DeltaTarget(spark, place)), "delta"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [437, 253])
def test_a_story_in_a_rest_catalog_ends_as_it_should(
    seed: int, spark: SparkSession, rest_catalog: RestCatalog, tmp_path: Path
) -> None:
    assert dies(judge(seed, FEW_STEPS, lab_over(spark, tmp_path, lambda _: RestTarget(spark, rest_catalog)), "rest"))
