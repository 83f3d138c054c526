"""Tables of a real MariaDB that are swapped while ``replicate`` reads them in full: each keeps its own rows."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Lock

import pytest
from pyspark.sql import SparkSession

from tests.integration.circle import database, wrong
from tests.kafka_broker import Broker
from tests.mariadb_server import Server
from tests.spark.lake import replicate
from ticdc_spark import failpoints
from ticdc_spark.capture.open import open_capture
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.filter.tables import named_tables
from ticdc_spark.changefeed.loop import run
from ticdc_spark.config.load import load_identity
from ticdc_spark.operate.status import job_status

JOB = """
[job]
name = "swaps"
state = "state"
source-timezone = "UTC"
poll-interval = "100ms"
commit-interval = "100ms"
idle-partition-timeout = "20s"
parallel-tables = 40
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["{topic}"]
protocol = "simple"
[snapshot]
upstream = "{uri}"
tables = ["d.*"]
parallelism = 2
chunk-rows = 2
[sink]
kind = "iceberg"
warehouse = "lake"
"""
LIKE = "(id INT PRIMARY KEY, a INT, b INT, v VARCHAR(20))"
NEW = "INSERT INTO {t} SELECT seq, seq, -seq, 'new' FROM seq_1_to_30"
SWAPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "archived": (("RENAME TABLE {t} TO {t}_old", "CREATE TABLE {t} LIKE {t}_old", NEW),),
    "circle": (("RENAME TABLE {t} TO {t}_between, {t}_other TO {t}, {t}_between TO {t}_other",),),
    "away_and_back": (
        ("RENAME TABLE {t} TO {t}_between, {t}_other TO {t}", "UPDATE {t} SET v = 'under log' WHERE id < 9"),
        ("RENAME TABLE {t} TO {t}_other, {t}_between TO {t}", "UPDATE {t} SET v = 'back' WHERE id > 15"),
    ),
    "gh_ost": (
        (
            "CREATE TABLE {t}_gho LIKE {t}",
            "INSERT INTO {t}_gho SELECT id, a, b, 'copied' FROM {t}",
            "RENAME TABLE {t} TO {t}_del, {t}_gho TO {t}",
            "INSERT INTO {t} VALUES (99, 9, 9, 'new')",
        ),
    ),
    "emptied": (("TRUNCATE TABLE {t}", NEW),),
    "made_again": (("DROP TABLE {t}", f"CREATE TABLE {{t}} {LIKE}", NEW),),
    "rebuilt": (("ALTER TABLE {t} FORCE", "UPDATE {t} SET v = 'rebuilt' WHERE id > 15"),),
    "columns": (
        (
            "ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a",
            "ALTER TABLE {t} MODIFY a INT AFTER id",
        ),
    ),
}
"""What happens to a table of each of these names: one step between waves, then the next one."""


@contextmanager
def sending(server: Server, broker: Broker, topic: str, folder: Path) -> Iterator[None]:
    """A changefeed of database ``d`` that goes on."""
    file = folder / "feed.toml"
    file.write_text('[filter]\nrules = ["d.*"]\n')
    feed = load_changefeed(file, f"kafka://{broker.servers}/{topic}?protocol=simple&partition-num=1", {})
    stop, begun = Event(), Event()
    capture = open_capture(server.uri, named_tables(feed))

    def work() -> None:
        run(feed, capture, folder / "feed", source="binlog", stop=stop, show=lambda _: begun.set())

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        try:
            assert begun.wait(120) or running.result(0) is None
            yield
        finally:
            stop.set()
            running.result(60)
            capture.close()


def fill(server: Server) -> None:
    for name in SWAPS:
        for table in (name, f"{name}_other"):
            rows = f"SELECT seq, seq, -seq, '{table}' FROM seq_1_to_20"
            server.execute("USE d", f"CREATE TABLE {table} {LIKE}", f"INSERT INTO {table} {rows}")


def read_with_swaps(server: Server, job: Path) -> None:
    """Read all tables in full while they are swapped: steps come when all have been read so far."""
    passed = count(1)
    lock, tables = Lock(), 2 * len(SWAPS)

    def point(name: str) -> None:
        if name != "gather":
            return
        with lock:
            at = next(passed)
            step = (at - tables // 2) // tables
            if at % tables == tables // 2:
                for table, steps in SWAPS.items():
                    server.execute(
                        "USE d", *(sql.replace("{t}", table) for sql in (steps[step] if step < len(steps) else ()))
                    )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "point", point)
        replicate(job)
    assert next(passed) > 2 * tables, "there were waves before the swaps and behind them"


def conditions(job: Path) -> dict[str, str]:
    return {table.table: table.condition for table in job_status(load_identity(job)).tables}


@pytest.mark.parametrize("process", [True, False], ids=["with PROCESS", "without PROCESS"])
def test_rows_of_a_table_that_took_its_name_are_not_taken_for_its_own(
    spark: SparkSession, server: Server, broker: Broker, topic_name: str, tmp_path: Path, *, process: bool
) -> None:
    fill(server)
    server.execute("DROP USER IF EXISTS reader@'127.0.0.1'", "CREATE USER reader@'127.0.0.1'")
    server.execute(f"GRANT SELECT{', PROCESS' if process else ''} ON *.* TO reader@'127.0.0.1'")
    job = tmp_path / "job.toml"
    uri = server.uri.replace("root@", "reader@")
    job.write_text(JOB.format(servers=broker.servers, topic=topic_name, uri=uri))
    with sending(server, broker, topic_name, tmp_path):
        read_with_swaps(server, job)
        for _ in range(8):
            if not replicate(job).held:
                break
    assert wrong(job, database(server, "d"), grown=False) == {}
    assert set(conditions(job).values()) <= {"clean", "dropped"}
