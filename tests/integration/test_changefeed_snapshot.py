"""A changefeed that begins with the rows that its tables have: whatever happens meanwhile, and whoever is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pymysql
import pytest
from pyspark.sql import SparkSession

from tests.integration.test_changefeed import messages
from tests.integration.test_circle import JOB, database, wrong
from tests.spark.lake import replicate
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server
from ticdc_spark.capture.base import CapturedDdl, Transaction
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.changefeed.progress import read_stored
from ticdc_spark.changefeed.snapshot.requests import request_tables
from ticdc_spark.model import Envelope, Row, Watermark
from ticdc_spark.mysql import handle_key, tso
from ticdc_spark.protocols import decoder

COMMAND = (sys.executable, "-c", "from ticdc_spark.cli import main; main()", "changefeed")
FEED = """
[filter]
rules = ["d.*"]
[sink]
dispatchers = [{{matcher = ["d.*"], partition = "index-value"}}]
[ticdc-spark]
changefeed-id = "feed"
snapshot = "initial"
snapshot-parallelism = 2
snapshot-chunk-rows = {chunk}
spark = {{"spark.master" = "local[2]", "spark.driver.memory" = "1g"}}
sink-uri = "kafka://{servers}/{topic}?protocol={protocol}&partition-num=3{more}"
source = "{source}"
{extra}
"""
TIDB = "&enable-tidb-extension=true"
Contents = dict[tuple[str, str], dict[tuple[object, ...], Row]]


def write_feed(
    folder: Path,
    server: Server,
    broker: Broker,
    topic: str,
    protocol: str = "simple",
    *,
    chunk: int = 500,
    extra: str = "",
) -> Path:
    file = folder / "feed.toml"
    more = "" if protocol in ("simple", "open-protocol") else TIDB
    file.write_text(
        FEED.format(
            chunk=chunk,
            servers=broker.servers,
            topic=topic,
            protocol=protocol,
            more=more,
            source=server.uri,
            extra=extra,
        )
    )
    return file


@contextmanager
def running(file: Path, *more: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    with (
        (file.parent / "feed.log").open("ab") as out,
        subprocess.Popen(
            [*COMMAND, str(file), *more], stdout=out, stderr=out, env={**os.environ, **(env or {})}
        ) as started,
    ):
        try:
            yield started
        finally:
            started.kill()


def log_of(file: Path) -> str:
    return (file.parent / "feed.log").read_text()


def wait(reached: Callable[[], bool], started: subprocess.Popen[bytes], file: Path, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert started.poll() is None, log_of(file)[-3000:]
        assert time.monotonic() < deadline, log_of(file)[-3000:]
        time.sleep(0.05)


def finish(file: Path, server: Server) -> None:
    """Let the changefeed send all that there is by now."""
    state = file.parent / "feed.state"
    with running(file) as started:
        (now,) = server.execute("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0]

        def is_there() -> bool:
            found = read_stored(state)
            return (
                found is not None and not found.unread and found.commit_ts > max(tso(int(now)), found.reading.settles)
            )

        wait(is_there, started, file)
        time.sleep(1.5)  # for the watermark
        started.terminate()
        assert started.wait(30) == 0, log_of(file)[-3000:]


def contents(broker: Broker, topic: str) -> Contents:
    """What a consumer that merges by key has at the end."""
    found: Contents = {}
    capture = open_stream(f"kafka://{broker.servers}/{topic}?from=beginning&source-timezone=UTC")
    quiet = 0
    for captured in capture.read(capture.begin()):
        quiet += 1
        if isinstance(captured, Transaction):
            quiet = 0
            for change in captured.changes:
                name, keys = (change.table.schema, change.table.name), handle_key(change.table)
                rows = found.setdefault(name, {})
                if change.before is not None:
                    rows.pop(tuple(change.before[key] for key in keys), None)
                if change.after is not None:
                    rows[tuple(change.after[key] for key in keys)] = change.after
        elif isinstance(captured, CapturedDdl):
            quiet = 0
            for one in captured.changes:
                before, after = one.pre_table, one.table
                rows = {} if before is None else found.pop((before.schema, before.name), {})
                if after is not None:
                    found[after.schema, after.name] = {} if one.kind == "truncate table" else rows
        if quiet > 5 and found:
            capture.close()
    return found


def assert_equal(server: Server, found: Contents) -> None:
    """A column that an ALTER has dropped does not count."""
    assert_tables(server, found, [name for _, name in database(server, "d")])


def assert_tables(server: Server, found: Contents, names: list[str]) -> None:
    for name, (_, rows) in database(server, "d").items():
        if name[1] not in names:
            continue
        there = found.get(name, {})
        assert there.keys() == rows.keys(), name
        for key, row in rows.items():
            assert {column: there[key].get(column) for column in row} == row, name


def check_order(broker: Broker, topic: str, protocol: str, *, killed: bool) -> None:
    """No partition has a row below a watermark before it; without kills, rows are in order."""
    opener = decoder(protocol)
    marks: dict[int, int] = {}
    last: dict[int, int] = {}
    for partition, offset, key, value in messages(broker, topic):
        for event in opener.open_message(key, value):
            if isinstance(event, Watermark):
                assert event.commit_ts >= marks.get(partition, 0)
                marks[partition] = event.commit_ts
            elif isinstance(event, Envelope):
                assert event.commit_ts >= marks.get(partition, 0), (partition, offset)
                assert killed or event.commit_ts >= last.get(partition, 0), (partition, offset)
                last[partition] = event.commit_ts
    assert len(marks) == 3


class Work(Thread):
    """Random rows of tables ``d.t0`` … until it is stopped."""

    def __init__(self, server: Server, tables: int, seed: int, most: int) -> None:
        super().__init__()
        self._random, self._tables, self._most = random.Random(seed), tables, most
        self._connection = pymysql.connect(host="127.0.0.1", port=server.port, user="root", autocommit=True)
        self.over = Event()
        self.done = 0

    def run(self) -> None:
        rand = self._random
        with self._connection, self._connection.cursor() as cursor:
            while not self.over.wait(0.002):
                table, key = f"d.t{rand.randrange(self._tables)}", rand.randrange(self._most)
                cursor.execute(
                    rand.choice(
                        (
                            f"INSERT IGNORE INTO {table} (id, v, w) VALUES ({key}, {key % 97}, 'new')",
                            f"UPDATE {table} SET v = v + 1, w = 'changed' WHERE id BETWEEN {key} AND {key + 3}",
                            f"DELETE FROM {table} WHERE id = {key}",
                            f"UPDATE IGNORE {table} SET id = {rand.randrange(self._most)} WHERE id = {key}",
                        )
                    )
                )
                self.done += 1


def fill(server: Server, tables: int, rows: int) -> None:
    for at in range(tables):
        server.execute(
            "USE d",
            f"CREATE TABLE d.t{at} (id INT PRIMARY KEY, v INT, w VARCHAR(20))",
            f"INSERT INTO d.t{at} SELECT seq * 2, seq, 'old' FROM seq_1_to_{rows}",
        )


def is_read(state: Path) -> bool:
    found = read_stored(state)
    return found is not None and not found.unread


def total(state: Path) -> int:
    found = read_stored(state)
    return 0 if found is None else found.reading.total


def kill_again_and_again(file: Path, kills: int, rand: random.Random) -> None:
    """Kill the changefeed while it reads: after a wave was stored, and after one was sent and not stored."""
    state = file.parent / "feed.state"
    for at in range(kills):
        before = total(state)
        by_point = at % 2 or kills == 1  # the other way may come too late
        point = {"TICDC_SPARK_KILL_AT": f"wave:{rand.randrange(1, 3)}"} if by_point else {}
        with running(file, env=point) as started:
            if point:
                started.wait(120)
            else:
                wait(lambda before=before: total(state) > before, started, file)  # type: ignore[misc]
                time.sleep(rand.uniform(0, 0.5))
        assert not is_read(state), "it was killed on the way"


@pytest.mark.parametrize("protocol", ["simple", "canal-json"])
@pytest.mark.slow
def test_killed_on_the_way_while_rows_change_nothing_is_lost(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path, protocol: str
) -> None:
    few = protocol == "simple"
    fill(server, 2, 1500 if few else 5000)
    file = write_feed(tmp_path, server, broker, topic_name, protocol, chunk=250)
    work = Work(server, 2, 3, 4000)
    work.start()
    try:
        kill_again_and_again(file, 1 if few else 5, random.Random(4))
        with running(file) as started:
            wait(lambda: is_read(tmp_path / "feed.state"), started, file)
            started.kill()  # at the handover
    finally:
        work.over.set()
        work.join()
    finish(file, server)
    assert_equal(server, contents(broker, topic_name))
    check_order(broker, topic_name, protocol, killed=True)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["simple", "debezium"])
def test_tables_that_are_altered_while_they_are_read(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path, protocol: str
) -> None:
    fill(server, 5, 3000)
    file, state = write_feed(tmp_path, server, broker, topic_name, protocol, chunk=200), tmp_path / "feed.state"
    work = Work(server, 1, 3, 9000)  # on a table that is not altered
    with running(file) as started:
        wait(lambda: read_stored(state) is not None, started, file)
        # before the first chunk is read: Spark is starting
        server.execute("ALTER TABLE d.t1 ADD x INT NOT NULL DEFAULT 5", "RENAME TABLE d.t2 TO d.moved")
        server.execute("INSERT INTO d.moved VALUES (1, 1, 'later')", "UPDATE d.t1 SET x = id WHERE id < 50")
        work.start()
        wait(lambda: total(state) > 0, started, file)
        server.execute("ALTER TABLE d.t0 ADD y VARCHAR(9)", "ALTER TABLE d.t1 DROP COLUMN v")
        server.execute(
            "RENAME TABLE d.t4 TO d.old", "CREATE TABLE d.t4 LIKE d.old", "INSERT INTO d.t4 VALUES (9, 9, '')"
        )
        server.execute("DROP TABLE d.t3", "CREATE TABLE d.t3 (id INT PRIMARY KEY)", "INSERT INTO d.t3 VALUES (1)")
        work.over.set()
        work.join()
        wait(lambda: is_read(state), started, file)
    finish(file, server)
    assert "is read later, once the changefeed has sent its changes" in log_of(file)
    assert_equal(server, contents(broker, topic_name))
    check_order(broker, topic_name, protocol, killed=True)


@pytest.mark.slow
def test_a_table_is_read_while_the_others_go_on(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    fill(server, 2, 2000)
    extra, state = 'snapshot = "never"', tmp_path / "feed.state"
    file = write_feed(tmp_path, server, broker, topic_name, chunk=150)
    file.write_text(file.read_text().replace('snapshot = "initial"', extra).replace('"d.*"]', '"d.*", "!d.t1"]', 1))
    work = Work(server, 2, 3, 4000)
    with running(file) as started:
        wait(lambda: read_stored(state) is not None, started, file)
        work.start()
        time.sleep(3)
        started.terminate()
        assert started.wait(30) == 0, log_of(file)[-3000:]
    file.write_text(file.read_text().replace(', "!d.t1"', ""))
    try:
        with running(file) as started:
            asked = subprocess.run(
                [*COMMAND, str(file), "--snapshot-table", "d.t1"], capture_output=True, text=True, check=False
            )
            assert asked.returncode == 0, asked.stderr
            wait(lambda: total(state) > 0 and is_read(state), started, file)
            before = read_stored(state)
            assert before is not None
            wait(lambda: (now := read_stored(state)) is not None and now.rows > before.rows + 100, started, file)
    finally:
        work.over.set()
        work.join()
    finish(file, server)
    assert_tables(server, contents(broker, topic_name), ["t1"])
    check_order(broker, topic_name, "simple", killed=True)


def test_requests_that_cannot_be_met_are_refused(server: Server, broker: Broker, tmp_path: Path) -> None:
    file = write_feed(tmp_path, server, broker, "none")
    for arguments, why in (
        (["--snapshot-table", "d.t"], "has not begun"),
        (["--source", str(tmp_path), "--snapshot-table", "d.t"], "only where source is one of mysql://"),
        (["--source", str(tmp_path)], "only where source is one of mysql://"),
    ):
        done = subprocess.run([*COMMAND, str(file), *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and why in done.stderr, done.stderr


def test_a_table_that_the_source_does_not_have_is_not_asked_for(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    fill(server, 1, 10)
    file, state = write_feed(tmp_path, server, broker, topic_name), tmp_path / "feed.state"
    file.write_text(file.read_text().replace('snapshot = "initial"', 'snapshot = "never"'))
    with running(file) as started:
        wait(lambda: read_stored(state) is not None, started, file)
        started.terminate()
        assert started.wait(30) == 0, log_of(file)[-3000:]
    for names, code in ((["d.t0"], 0), (["d.t0", "d.none", "d.nothing"], 2)):
        more = [part for name in names for part in ("--snapshot-table", name)]
        done = subprocess.run([*COMMAND, str(file), *more], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
    assert "--snapshot-table d.none, d.nothing: the source has no such table" in done.stderr
    assert len([*state.glob("read-*.json")]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["simple", "canal-json"])
def test_the_lake_has_the_rows_that_were_there(
    server: Server, broker: Broker, spark: SparkSession, tmp_path: Path, protocol: str
) -> None:
    fill(server, 2, 3000)
    topic = f"lake{len(protocol)}"
    file = write_feed(tmp_path, server, broker, topic, protocol, chunk=400)
    file.write_text(file.read_text().replace('rules = ["d.*"]', 'rules = ["d.*", "!d.t1"]'))
    work = Work(server, 2, 5, 7000)
    work.start()
    try:
        with running(file) as started:
            wait(lambda: total(tmp_path / "feed.state") > 0, started, file)
        file.write_text(file.read_text().replace(', "!d.t1"', ""))
        request_tables(tmp_path / "feed.state", [("d", "t1")])
        with running(file) as started:
            wait(lambda: total(tmp_path / "feed.state") > 5000 and is_read(tmp_path / "feed.state"), started, file)
    finally:
        work.over.set()
        work.join()
    finish(file, server)
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(schema=topic, servers=broker.servers, protocol=protocol, registry=""))
    if protocol != "simple":  # no message has the schema of a table whose DDL was not seen
        (tmp_path / "tables.sql").write_text(
            "".join(f"CREATE TABLE d.t{at} (id INT PRIMARY KEY, v INT, w VARCHAR(20));\n" for at in range(2))
        )
        job.write_text(job.read_text() + '[schema]\nfile = "tables.sql"\n')
    replicate(job)
    assert not wrong(job, database(server, "d"), grown=protocol != "simple")
