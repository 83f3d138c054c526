"""``make demo-circle``: MariaDB → changefeed → Kafka → replicate → Iceberg on one machine, then compares both ends.

The servers are the tests' servers, fetched once. All files are in one folder, and no process remains.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pymysql
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tests.integration.binlog_stream import OPTIONS
from tests.integration.circle import database, process, wrong
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server, running
from tests.workload import Truth

from ticdc_spark.changefeed.progress import read_stored
from ticdc_spark.cli.demo import prepare
from ticdc_spark.config.load import load_identity
from ticdc_spark.errors import TicdcSparkError, UsageError
from ticdc_spark.mysql import tso, tso_time
from ticdc_spark.operate.status import job_status

FEED = """\
[filter]
rules = ["shop.*"]

[sink]
dispatchers = [{{matcher = ["shop.*"], partition = "index-value"}}]

[ticdc-spark]
changefeed-id = "shop"
source = "{source}"
sink-uri = "kafka://{servers}/shop?protocol=simple&partition-num=3"
"""
JOB = """\
[job]
name = "shop"
poll-interval = "200ms"
commit-interval = "200ms"

[source]
kind = "kafka"
bootstrap-servers = "{servers}"
topics = ["shop"]
protocol = "simple"

[sink]
kind = "iceberg"
warehouse = "lake"
"""
TABLES = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    """CREATE TABLE shop.customers (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40) NOT NULL,
        since TIMESTAMP(3) NULL, tags SET('new','vip','late'))""",
    """CREATE TABLE shop.products (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40), price DECIMAL(10,2) NOT NULL,
        details JSON)""",
    """CREATE TABLE shop.orders (id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, customer_id INT NOT NULL,
        product_id INT NOT NULL, quantity SMALLINT NOT NULL, state ENUM('open','paid','sent') NOT NULL,
        placed DATETIME(3) NOT NULL)""",
)
STATEMENTS = (
    "ALTER TABLE shop.orders ADD COLUMN note VARCHAR(60) DEFAULT 'none'",
    "ALTER TABLE shop.products MODIFY COLUMN price DECIMAL(14,4) NOT NULL",
    "ALTER TABLE shop.customers RENAME COLUMN since TO joined",
    "CREATE TABLE shop.visits (day DATE, page VARCHAR(20), hits INT UNSIGNED NOT NULL, PRIMARY KEY (day, page))",
    "INSERT INTO shop.visits VALUES ('2026-01-31', 'home', 7), ('2026-01-31', 'orders', 3)",
    "ALTER TABLE shop.customers MODIFY COLUMN tags SET('new','vip','late','abroad')",
    "RENAME TABLE shop.visits TO shop.page_views",
    "ALTER TABLE shop.products DROP COLUMN details",
)
_CAUGHT_UP = 180.0


class Shop:
    """A shop: customers, products and orders are inserted, changed and deleted, and so are the tables."""

    def __init__(self, server: Server, seed: int, announce: Callable[[str], None]) -> None:
        self._random = Random(seed)
        self._announce = announce
        self._connection = pymysql.connect(
            host="127.0.0.1", port=server.port, user="root", charset="utf8mb4", init_command="SET time_zone = '+00:00'"
        )
        self.rows = self.transactions = 0

    def open(self) -> None:
        """Create the tables and their first rows."""
        for statement in TABLES:
            self._execute(statement)
        self._many("INSERT INTO shop.customers (name, since, tags) VALUES (%s, NOW(3), 'new')", 200, self._name)
        made = "INSERT INTO shop.products (name, price, details) VALUES (%s, RAND() * 100, '{\"weight\": 1.5}')"
        self._many(made, 50, self._name)
        self._connection.commit()

    def run(self, seconds: float, followed: Event, stop: Event) -> None:
        """Sell for ``seconds``, and until the lake has ``followed``, with a schema change now and then."""
        began = time.monotonic()
        left = list(STATEMENTS)
        while (passed := time.monotonic() - began) < seconds or left or not followed.is_set():
            if stop.is_set():
                return
            if left and passed > seconds * (len(STATEMENTS) - len(left) + 1) / (len(STATEMENTS) + 1):
                self._announce(left[0])
                self._execute(left.pop(0))
            self._sell()
            stop.wait(0.02)

    def close(self) -> None:
        self._connection.close()

    def _sell(self) -> None:
        draw = self._random
        placed = "INSERT INTO shop.orders (customer_id, product_id, quantity, state, placed)"
        one = lambda: (draw.randint(1, 200), draw.randint(1, 50), draw.randint(1, 9))  # noqa: E731
        self._many(f"{placed} VALUES (%s, %s, %s, 'open', NOW(3))", draw.randint(1, 20), one)
        for statement in (
            "UPDATE shop.orders SET state = 'paid' WHERE state = 'open' ORDER BY RAND() LIMIT 5",
            "UPDATE shop.orders SET state = 'sent' WHERE state = 'paid' ORDER BY id LIMIT 4",
            "UPDATE shop.products SET price = price * 1.01 ORDER BY RAND() LIMIT 1",
            f"UPDATE shop.customers SET tags = 'vip', name = 'Größe {draw.randint(1, 99)}' ORDER BY RAND() LIMIT 1",
            "DELETE FROM shop.orders WHERE state = 'sent' ORDER BY id LIMIT 2",
        ):
            self._execute(statement)
        if draw.random() < 0.02:  # a transaction that is rolled back
            self._connection.rollback()
            return
        self._connection.commit()
        self.transactions += 1

    def _execute(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            self.rows += cursor.execute(statement)

    def _many(self, statement: str, count: int, row: Callable[[], tuple[Any, ...]]) -> None:
        with self._connection.cursor() as cursor:
            self.rows += cursor.executemany(statement, [row() for _ in range(count)]) or 0

    def _name(self) -> tuple[str]:
        return (self._random.choice(["Ann", "Bo", "Çelik", "丁", "Eve", "Zoë"]) + f" {self._random.randint(1, 999)}",)


class Demo:
    """Prints what happens, with the seconds since the start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.out = Console(highlight=False, soft_wrap=True)
        self._began = time.monotonic()

    def report(self, text: str) -> None:
        passed = time.monotonic() - self._began
        self.out.print(Text(f"{passed:5.1f} s  {text}"))

    def run(self, seconds: float, seed: int) -> bool:
        """Run it. Returns: whether the lake equals the database."""
        prepare(self.folder)
        with ExitStack() as stack:
            self.report("starting MariaDB and Kafka; the first time they are fetched (190 MB)")
            server, broker = self._servers(stack)
            feed_file, job_file = self.folder / "feed.toml", self.folder / "job.toml"
            feed_file.write_text(FEED.format(source=server.uri, servers=broker.servers), encoding="utf-8")
            job_file.write_text(JOB.format(servers=broker.servers), encoding="utf-8")
            self.report(f"MariaDB listens on port {server.port}, Kafka on {broker.port}")
            feed = stack.enter_context(process(self.folder / "feed.log", "changefeed", str(feed_file)))
            self.report("ticdc-spark changefeed feed.toml: follows the binlog from here on")
            self._wait(lambda: read_stored(self.folder / "shop.state") is not None, feed, "feed.log")
            shop = Shop(server, seed, lambda statement: self.report(f"  {statement}"))
            stack.callback(shop.close)
            shop.open()
            self.report("the shop has its tables: customers, products, orders")
            job = stack.enter_context(process(self.folder / "job.log", "replicate", str(job_file)))
            self.report("ticdc-spark replicate job.toml: starts Spark, and fills the lake")
            self._work(shop, seconds, job, job_file)
            (millis,) = server.execute("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0]
            self.report("the shop is closed; the lake catches up")
            self._wait(lambda: self._applied(job_file) > tso(int(millis)), job, "job.log")
            for name, running_one in (("replicate", job), ("changefeed", feed)):
                running_one.terminate()
                self.report(f"{name} ended with exit code {running_one.wait(60)}")
            self.report("comparing every table, column by column and row by row")
            truth = database(server, "shop")
            different = wrong(job_file, truth, grown=False)
            self._show(shop, truth, different, job_file)
        self.report("MariaDB and Kafka are stopped")
        return not different

    def _servers(self, stack: ExitStack) -> tuple[Server, Broker]:
        def kafka() -> Broker:
            broker = Broker(self.folder / "kafka")
            stack.callback(broker.kill)
            broker.start()
            return broker

        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(kafka)
            (self.folder / "mariadb").mkdir()
            server = stack.enter_context(running(self.folder / "mariadb", *OPTIONS))
            return server, started.result()

    def _work(self, shop: Shop, seconds: float, job: subprocess.Popen[bytes], job_file: Path) -> None:
        followed, stop = Event(), Event()
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(shop.run, seconds, followed, stop)
            try:
                while not work.done():
                    time.sleep(2)
                    self._running(job, "job.log")
                    stored, applied = read_stored(self.folder / "shop.state"), self._applied(job_file)
                    if applied:
                        followed.set()
                    sent = f"{stored.rows:,} rows in Kafka" if stored else "nothing in Kafka yet"
                    lake = f"the lake is at {tso_time.utc(applied)}" if applied else "the lake is empty"
                    self.report(f"{shop.transactions:,} transactions in MariaDB, {sent}, {lake}")
                work.result()
            finally:
                stop.set()

    @staticmethod
    def _applied(job_file: Path) -> int:
        try:
            return job_status(load_identity(job_file)).resolved_ts or 0
        except TicdcSparkError:
            return 0  # it has not started

    def _wait(self, reached: Callable[[], bool], started: subprocess.Popen[bytes], log: str) -> None:
        deadline = time.monotonic() + _CAUGHT_UP
        while not reached():
            self._running(started, log)
            if time.monotonic() > deadline:
                raise RuntimeError(f"nothing came in {_CAUGHT_UP:.0f} s; {self._last(log)}")
            time.sleep(0.2)

    def _running(self, started: subprocess.Popen[bytes], log: str) -> None:
        if started.poll() is not None:
            raise RuntimeError(f"the process ended with exit code {started.returncode}; {self._last(log)}")

    def _last(self, log: str) -> str:
        return f"{self.folder / log} ends with:\n{(self.folder / log).read_text(errors='replace')[-2000:]}"

    def _show(self, shop: Shop, truth: Truth, different: dict[tuple[str, str], list[str]], job_file: Path) -> None:
        grid = Table(box=None, padding=(0, 2), pad_edge=False)
        grid.add_column("table")
        grid.add_column("columns", justify="right")
        grid.add_column("rows", justify="right")
        grid.add_column("database = lake")
        for name in sorted(truth.keys() | different.keys()):
            lines = different.get(name, [])
            columns, rows = (len(truth[name][0].columns), len(truth[name][1])) if name in truth else (0, 0)
            verdict = Text("\n".join(lines), "red") if lines else Text("equal", "green")
            grid.add_row(Text(".".join(name)), f"{columns}", f"{rows:,}", verdict)
        self.out.print(grid)
        wrote = f"{shop.rows:,} rows written in {shop.transactions:,} transactions"
        self.out.print(Text(f"{wrote}; tables, logs and job files are in {job_file.parent}"))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("demo-circle"), help="files of an earlier demo are removed")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the shop sells")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    logging.getLogger("ticdc_spark").setLevel(logging.ERROR)
    demo = Demo(given.folder)
    try:
        return 0 if demo.run(given.seconds, given.seed) else 1
    except (TicdcSparkError, RuntimeError) as error:
        demo.out.print(Text(f"error: {error}", "red"))
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        demo.report("interrupted; all is stopped")
        return 130


if __name__ == "__main__":
    sys.exit(main())
