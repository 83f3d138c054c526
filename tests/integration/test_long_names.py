"""Tables whose names are nearly as long as a database allows, and that get a longer one when they are dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from tests.integration import mysql_jobs, postgres_jobs
from tests.spark.lake import replicate
from tests.spark.simple_topic import ddl, insert, table
from tests.support.mariadb_server import Server
from tests.support.postgres_server import PostgresServer
from ticdc_spark.model import Change, Watermark

KEPT = '[[ddl.rules]]\ntables = ["*.*"]\ndrop-table = "keep"\n'
PARKED = '[ddl]\nkeep-dropped = "1h"\n'
TS = 463267587689545735
NAMES = ("orders_of_the_shop_in_the_north_of_the_country_by_day_and_hour", "订单" * 10)
"""62 characters; and 60 bytes in 20 characters."""


def dropped_twice() -> list[Change]:
    """Tables that are dropped twice. The third of each name stays. Each has one row."""
    events: list[Change] = []
    ts = TS
    for number in range(3):
        for name in NAMES:
            of = table(ts, name=name)
            events.append(ddl("CREATE", ts, f"CREATE TABLE `{name}` (id INT PRIMARY KEY)", of))
            events.append(insert(of, ts + 10, id=str(number)))
            if number < 2:
                events.append(ddl("ERASE", ts + 20, f"DROP TABLE `{name}`", of, of))
            ts += 1000 << 18
    return [*events, Watermark(ts)]


@pytest.mark.parametrize("policy", [KEPT, PARKED], ids=["kept", "parked"])
@pytest.mark.parametrize("kind", ["mysql", "postgres"])
def test_a_dropped_table_is_kept_beside_the_next_one_of_its_name(
    spark: SparkSession,
    target: Server,
    postgres: PostgresServer,
    tmp_path: Path,
    kind: Literal["mysql", "postgres"],
    policy: str,
) -> None:
    if kind == "mysql":
        file = mysql_jobs.job_of(tmp_path, target, dropped_twice())
    else:
        file = postgres_jobs.job_of(tmp_path, postgres, dropped_twice())
    file.write_text(file.read_text() + policy)
    replicate(file)
    sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = 's'"
    found = {str(row[0]) for row in (target if kind == "mysql" else postgres).execute(sql)}
    assert {*NAMES} < found and len(found) == 6
    quote = "`" if kind == "mysql" else '"'
    rows = [(target if kind == "mysql" else postgres).execute(f"SELECT id FROM s.{quote}{one}{quote}") for one in found]
    assert sorted(rows) == sorted(2 * [[(0,)], [(1,)], [(2,)]])
