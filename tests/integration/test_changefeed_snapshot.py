"""A changefeed that begins with the rows that its tables have: whatever happens meanwhile, and whoever is killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pymysql
import pytest

from tests.integration.test_changefeed import messages
from tests.integration.test_circle import database
from tests.kafka_broker import Broker
from tests.mariadb_server import Server
from ticdc_spark.capture.base import CapturedDdl, Transaction
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.changefeed.progress import read_stored
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


@pytest.fixture
def server(binlog_server: Server) -> Server:
    return binlog_server


def write_feed(
    folder: Path, server: Server, broker: Broker, topic: str, protocol: str = "simple", *, chunk: int = 500,
    extra: str = "",
) -> Path:  # fmt: skip
    file = folder / "feed.toml"
    more = "" if protocol in ("simple", "open-protocol") else TIDB
    file.write_text(
        FEED.format(
            chunk=chunk, servers=broker.servers, topic=topic, protocol=protocol, more=more, source=server.uri, extra=extra
        )
    )
    return file


@contextmanager
def running(file: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    with (file.parent / "feed.log").open("ab") as out:
        with subprocess.Popen([*COMMAND, str(file), *more], stdout=out, stderr=out) as started:
            try:
                yield started
            finally:
                started.kill()


def told(file: Path) -> str:
    return (file.parent / "feed.log").read_text()


def wait(reached: Callable[[], bool], started: subprocess.Popen[bytes], file: Path, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert started.poll() is None, told(file)[-3000:]
        assert time.monotonic() < deadline, told(file)[-3000:]
        time.sleep(0.05)


def finish(file: Path, server: Server) -> None:
    """Let the changefeed send all that there is by now."""
    state = file.parent / "feed.state"
    with running(file) as started:
        (now,) = server.execute("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0]

        def is_there() -> bool:
            found = read_stored(state)
            return found is not None and not found.unread and found.commit_ts > max(tso(int(now)), found.reading.settles)

        wait(is_there, started, file)
        time.sleep(1.5)  # for the watermark
        started.terminate()
        assert started.wait(30) == 0, told(file)[-3000:]


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
    truth = database(server, "d")
    assert found.keys() <= truth.keys()
    for name, (_, rows) in truth.items():
        there = found.get(name, {})
        assert there.keys() == rows.keys(), name
        assert all(there[key] == row for key, row in rows.items()), name


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
                            f"INSERT IGNORE INTO {table} VALUES ({key}, {key % 97}, 'new')",
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


@pytest.mark.parametrize("protocol", ["simple"])
def test_rows_that_were_there_come_first(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path, protocol: str
) -> None:
    fill(server, 2, 2000)
    file = write_feed(tmp_path, server, broker, topic_name, protocol)
    work = Work(server, 2, 3, 5000)
    work.start()
    try:
        with running(file) as started:
            wait(lambda: (found := read_stored(tmp_path / "feed.state")) is not None and not found.unread, started, file)
    finally:
        work.over.set()
        work.join()
    finish(file, server)
    assert_equal(server, contents(broker, topic_name))
    check_order(broker, topic_name, protocol, killed=True)
