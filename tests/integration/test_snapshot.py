"""Tables of a real MariaDB that change while they are read in full, and end as the database has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.spark.lake import lake, read_table
from tests.support.kafka_broker import Broker
from tests.support.live_tables import LiveTables
from tests.support.mariadb_server import Server, running
from ticdc_spark import failpoints
from ticdc_spark.capture.snapshot.database import DatabaseReader
from ticdc_spark.cli import main
from ticdc_spark.config.load import load_identity, load_job
from ticdc_spark.errors import DecisionNeeded, EnvironmentFault, SourceFault
from ticdc_spark.operate.status import job_status
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.report import BatchReport, Summary
from ticdc_spark.replicate.run.watch import Watcher
from ticdc_spark.verify.report import TableReport, load

JOB = """
[job]
name = "snap"
poll-interval = "100ms"
commit-interval = "100ms"
idle-partition-timeout = "5s"
{more}
[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["{topic}"]
protocol = "simple"
[snapshot]
upstream = "{uri}"
parallelism = 2
chunk-rows = {chunk}
[sink]
kind = "iceberg"
warehouse = "lake"
"""
CREATE = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, v VARCHAR(40) NULL, n DECIMAL(12,3) NOT NULL, b VARBINARY(8), "
    "u BIGINT UNSIGNED, f FLOAT, e ENUM('a','b','c'), d DATETIME(3), t TIMESTAMP(6) NOT NULL) CHARSET utf8mb4"
)

GENERATED = CREATE.replace(") CHARSET", ", g DECIMAL(14,2) AS (n * 2) VIRTUAL) CHARSET")


def values(rand: Random) -> dict[str, Any]:
    return {
        "v": rand.choice([None, "", "\\N", "NULL", "tab\there", "€ 'quoted' %s", "x" * rand.randrange(40)]),
        "n": rand.randrange(10**6) / 1000,
        "b": rand.randbytes(rand.randrange(8)),
        "u": rand.choice([0, 2**64 - 1, 2**63]),
        "f": rand.choice([None, 0.1, 16777216.0, -3.4e38]),
        "e": rand.choice(["a", "b", "c", None]),
        "d": rand.choice([None, "2024-02-29 23:59:59.125", "0000-00-00 00:00:00"]),
        "t": "2024-05-05 05:05:05.000001",
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("mariadb")) as started:
        started.execute("SET GLOBAL sql_mode = ''")
        yield started


@pytest.fixture
def live(server: Server, broker: Broker, topic_name: str) -> Iterator[LiveTables]:
    topic = broker.create_topic(topic_name)
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5, "log_level": 0})

    def send(value: bytes) -> None:
        producer.produce(topic, value, partition=0)
        producer.poll(0)

    tables = LiveTables(server, topic_name.replace(".", "_"), send)
    yield tables
    tables.close()
    producer.flush(30)


def write_job(folder: Path, broker: Broker, server: Server, topic: str, chunk: int = 500, more: str = "") -> Path:
    file = folder / "job.toml"
    file.write_text(JOB.format(servers=broker.servers, topic=topic, uri=server.uri, chunk=chunk, more=more))
    return file


class Death(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


def run(job: Path, dies: Callable[[str], bool] = lambda _: False) -> Summary | None:
    """One run to its end; ``None``: it died at a point."""

    def point(name: str) -> None:
        if dies(name):
            raise Death(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "point", point)
        try:
            return loop.run(load_job(job), once=True)
        except Death:
            return None


def at(name: str, count: int) -> Callable[[str], bool]:
    """At the n-th pass of a point."""
    passed: list[str] = []

    def dies(point: str) -> bool:
        passed.append(point)
        return point == name and passed.count(name) == count

    return dies


def condition(job: Path, name: str) -> str:
    (found,) = (one for one in job_status(load_identity(job)).tables if one.table == name)
    return found.condition


def lake_rows(spark: SparkSession, folder: Path, live: LiveTables, name: str) -> list[dict[str, Any]]:
    return sorted(read_table(lake(spark, folder), live.schema, name), key=lambda row: int(row["id"]))


def comments(spark: SparkSession, folder: Path, live: LiveTables, name: str) -> dict[str, str]:
    fields = lake(spark, folder).table(f"lake.{live.schema}.{name}").schema
    return {field.name: field.metadata["comment"] for field in fields if "comment" in field.metadata}


@pytest.mark.slow
def test_killed_five_times_with_changes_running_it_ends_in_the_truth(
    spark: SparkSession, tmp_path: Path, server: Server, broker: Broker, live: LiveTables, topic_name: str
) -> None:
    live.add("orders", CREATE, values, 6000)
    live.add("small", "CREATE TABLE small (id INT PRIMARY KEY, v VARCHAR(9))", lambda rand: {"v": "a"}, 10)
    live.begin()
    live.start(pause=0.002)
    job = write_job(tmp_path, broker, server, topic_name)
    deaths = [at("base", 1), at("gather", 3), at("gather", 2), at("merge", 1), at("swap", 2)]
    died = [run(job, dies) is None for dies in deaths]
    assert died.count(True) >= 4, died
    live.stop()
    live.settle()
    summary = run(job)
    assert summary is not None and not summary.held
    for name in ("orders", "small"):
        truth = live.rows(name)
        assert len(truth) == live.count(name)
        assert lake_rows(spark, tmp_path, live, name) == truth
        assert condition(job, name) == "clean"
    assert live.changes > 100


def verified(job: Path) -> TableReport:
    done = CliRunner().invoke(main, ["verify", str(job), "--no-writes"], catch_exceptions=False)
    report = load(job.with_suffix(".verify.json"))
    assert report is not None, done.output
    (table,) = report.tables
    return table


def test_tables_that_are_merged_begin_with_the_rows_of_all_of_them_wherever_the_job_is_killed(
    spark: SparkSession, tmp_path: Path, server: Server, broker: Broker, live: LiveTables, topic_name: str
) -> None:
    live.add("orders_1", CREATE.replace("TABLE orders", "TABLE orders_1"), values, 600)
    wider = CREATE.replace("TABLE orders", "TABLE orders_2").replace("VARCHAR(40)", "VARCHAR(60)")
    live.add("orders_2", wider.replace("f FLOAT", "f FLOAT, w INT NOT NULL DEFAULT 7"), values, 300)
    live.begin()
    live.start(pause=0.002)
    job = write_job(tmp_path, broker, server, topic_name, chunk=100)
    rule = '[[route]]\ntables = ["*.orders_*"]\ntarget-table = "orders"\norigin = ["_table"]\n'
    job.write_text(job.read_text() + rule)
    died = [run(job, dies) is None for dies in (at("base", 1), at("gather", 3), at("swap", 1))]
    assert died.count(True) >= 2, died
    live.stop()
    live.settle()
    assert run(job) is not None
    found = read_table(lake(spark, tmp_path), live.schema, "orders")
    for name in ("orders_1", "orders_2"):
        rows = sorted((row for row in found if row["_table"] == name), key=lambda row: int(row["id"]))
        truth = live.rows(name)
        assert [{key: row[key] for key in truth[0]} for row in rows] == truth
        assert {row["w"] for row in rows} == {7}
    assert condition(job, "orders") == "clean"
    report = verified(job)
    rows = sum(map(live.count, live.tables))
    assert (report.result, report.rows_source, report.rows_target) == ("equal", rows, rows), report.found[:2]
    assert {*report.columns_not_compared} == {"v", "w", "e"}
    one, two, three = live.keys["orders_1"][:2] + live.keys["orders_2"][:1]
    for sql in (
        f"DELETE FROM {{}} WHERE id = {one} AND _table = 'orders_1'",
        f"UPDATE {{}} SET _table = 'orders_3' WHERE id = {two} AND _table = 'orders_1'",
        f"UPDATE {{}} SET n = 1 WHERE id = {three} AND _table = 'orders_2'",
    ):
        lake(spark, tmp_path).sql(sql.format(f"lake.{live.schema}.orders")).collect()
    assert {(one.kind, one.key["_table"], one.key["id"]) for one in verified(job).found} == {
        ("missing", "orders_1", str(one)),
        ("missing", "orders_1", str(two)),
        ("extra", "orders_3", str(two)),
        ("changed", "orders_2", str(three)),
    }


def test_a_running_job_reads_a_table_again_with_what_the_changefeed_left_out(
    spark: SparkSession, tmp_path: Path, server: Server, broker: Broker, live: LiveTables, topic_name: str
) -> None:
    live.add("orders", GENERATED, values, 1500)
    told = "CREATE TABLE small (id INT PRIMARY KEY COMMENT 'a ''key'' \\n日', v VARCHAR(9))"
    live.add("small", told, lambda rand: {"v": "a"}, 10)
    live.begin()
    live.start(pause=0.01)
    job = write_job(tmp_path, broker, server, topic_name)
    stop, reports = threading.Event(), Queue[BatchReport]()

    def turn(wanted: Callable[[BatchReport], bool]) -> None:
        for _ in range(1000):
            if wanted(reports.get(timeout=120)):
                return
        raise AssertionError(f"no turn is as wanted: {job_status(load_identity(job))}")

    def read(report: BatchReport) -> bool:
        progress = report.progress
        found = {table.name for table in progress.tables if table.origin == "snapshot" and not table.load}
        return found == {"orders", "small"} and not progress.wanted

    with ThreadPoolExecutor(1) as pool:
        run_ = pool.submit(lambda: loop.run(load_job(job), watchers=[Watcher(committed=reports.put)], stop=stop))
        try:
            turn(read)
            assert comments(spark, tmp_path, live, "small") == {"id": "a 'key' \n日"}
            server.execute(f"INSERT INTO {live.schema}.small VALUES (777777, 'hidden')")
            server.execute(f"ALTER TABLE {live.schema}.small MODIFY v VARCHAR(9) COMMENT 'words'")
            asked = CliRunner().invoke(main, ["rebuild", str(job), f"{live.schema}.small"])
            assert asked.exit_code == 0 and "the job is running" in asked.output
            turn(lambda report: not read(report))
            turn(read)
            live.stop()
        finally:
            live.stop()
            stop.set()
            run_.result()
    live.settle()
    assert run(job) is not None
    for name, hidden in (("orders", []), ("small", [{"id": 777_777, "v": "hidden"}])):
        rows = lake_rows(spark, tmp_path, live, name)
        assert [row for row in rows if row["id"] != 777_777] == live.rows(name)
        assert [row for row in rows if row["id"] == 777_777] == hidden
        assert condition(job, name) == "clean"
    assert comments(spark, tmp_path, live, "small") == {"id": "a 'key' \n日", "v": "words"}


def test_a_text_that_is_no_unicode_ends_the_read_and_others_are_the_servers(
    spark: SparkSession, tmp_path: Path, server: Server, broker: Broker, live: LiveTables, topic_name: str
) -> None:
    """Of each set a text that Python's codec reads otherwise or not at all, and in one row what a server sends as ?."""
    kinds = {"b": "big5", "s": "sjis", "j": "ujis", "g": "gbk", "h": "hebrew"}
    columns = ", ".join(f"{name} VARCHAR(20) CHARACTER SET {charset}" for name, charset in kinds.items())
    raw = {"b": "f9d6a15a41", "s": "815f93fa", "j": "a1c0f5a1", "g": "d6d0", "h": "e0e1e2"}
    live.add("texts", f"CREATE TABLE texts (id INT PRIMARY KEY, {columns})", lambda rand: {"b": "?"}, 40)
    table = f"{live.schema}.texts"
    chosen = ", ".join(f"CONVERT(CONVERT(X'{text}' USING {kinds[name]}) USING utf8mb4)" for name, text in raw.items())
    (texts,) = server.execute(f"SELECT {chosen}")
    assert not any("?" in text for text in texts) and len(set(texts)) == len(raw)
    sets = ", ".join(f"{name} = X'{text}'" for name, text in raw.items())
    server.execute(f"UPDATE {table} SET {sets} WHERE id <> 1", f"UPDATE {table} SET h = X'41a1' WHERE id = 7")
    live.begin()
    live.ts += 3_600_000 << 18
    live.watermark()
    job = write_job(tmp_path, broker, server, topic_name)
    # the other rows of the table are read or not; none of them shows in the lake
    wrong = (
        rf"`{live.schema}`.`texts` cannot be read in full: .* id='7': column `h`: b'A\\xa1' has characters of hebrew"
    )
    with pytest.raises(DecisionNeeded, match=wrong):
        run(job)
    server.execute(f"UPDATE {table} SET h = 'A' WHERE id = 7")
    assert run(job) is not None
    none = dict.fromkeys(kinds)
    truth = [
        {"id": at, **(none | {"b": "?"} if at == 1 else dict(zip(kinds, texts, strict=True)))} for at in range(1, 41)
    ]
    truth[6]["h"] = "A"
    assert lake_rows(spark, tmp_path, live, "texts") == truth


def test_a_missing_grant_is_not_waited_for(server: Server) -> None:
    server.execute(
        "CREATE DATABASE granted", "CREATE TABLE granted.t (id INT PRIMARY KEY)", "CREATE USER reader@'127.0.0.1'"
    )
    reader = DatabaseReader(server.uri.replace("root@", "reader@"))
    with pytest.raises(EnvironmentFault, match=r"denied.*Cure: GRANT SELECT, PROCESS .* 'reader'") as raised:
        reader.schema(("granted", "t"), None)
    assert not isinstance(raised.value, SourceFault), "a fault of the source is tried again"
    server.execute("GRANT SELECT ON granted.* TO reader@'127.0.0.1'")
    assert reader.schema(("granted", "t"), None) is not None
    reader.close()
