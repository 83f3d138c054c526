"""Every alert of a changefeed fires by its fault, and ends by what its runbook says: on real servers, over HTTP."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.binlog_stream import OPTIONS
from tests.integration.test_alerts import Sender, ago, row, until
from tests.integration.test_changefeed import COMMAND, messages
from tests.support import mariadb_server
from tests.support.alert_rules import Scraper, page_of, wait
from tests.support.kafka_broker import Broker
from tests.support.local_server import free_port
from tests.support.mariadb_server import Server
from tests.support.simple_examples import ENCODER, USER

FEED = """
[filter]
rules = ["d.*", "simple.*"]
[sink.kafka-config]
partition-num = 1
[ticdc-spark]
source = "{source}"
sink-uri = "kafka://{servers}/sent?protocol=simple"
state = "state"
metrics = "127.0.0.1:{port}"
"""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """One that the test may hold."""
    with mariadb_server.running(tmp_path / "mariadb", *OPTIONS) as started:
        yield started


def test_a_changefeed_that_cannot_send_or_is_killed(own_server: Server, own_broker: Broker, tmp_path: Path) -> None:
    feed, scraper = feed_file(tmp_path, own_server.uri, own_broker)
    own_server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    with running(feed) as first:
        until(lambda: lag(scraper) > 0)
        wait(scraper, set())
        os.kill(own_broker.pid, signal.SIGSTOP)  # It hangs, and no row is to be sent.
        wait(scraper, {"TicdcSparkChangefeedConnection"})
        os.kill(own_broker.pid, signal.SIGCONT)
        wait(scraper, set())
        own_broker.stop()
        own_server.execute("INSERT INTO d.t VALUES (1)")
        wait(scraper, {"TicdcSparkChangefeedConnection"})
        own_broker.start()
        wait(scraper, set())
        first.kill()
        wait(scraper, {"TicdcSparkChangefeedDown"})
    own_server.execute("INSERT INTO d.t VALUES (2)")
    with running(feed):
        wait(scraper, set())
        until(lambda: inserted(own_broker) == {"1", "2"})


def test_a_changefeed_whose_source_does_not_advance(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    send = Sender(broker, broker.create_topic(topic_name))
    send(ENCODER.bootstrap(USER), row(1, ago(21.0)), ENCODER.watermark(ago(20.0)))
    feed, scraper = feed_file(tmp_path, f"kafka://{broker.servers}/{topic_name}", broker)
    with running(feed):
        wait(scraper, {"TicdcSparkChangefeedLag"})  # The changefeed that writes the source's topic is paused.
        send(row(2, ago(19.0)), ENCODER.watermark(ago(0.0)))  # It runs again.
        wait(scraper, set())


@pytest.mark.slow
def test_a_database_that_hangs_shows_as_lag_and_ends_with_it(
    own_server: Server, own_broker: Broker, tmp_path: Path
) -> None:
    feed, scraper = feed_file(tmp_path, own_server.uri, own_broker)
    with running(feed):
        until(lambda: 0 < lag(scraper) < 5)
        os.kill(own_server.pid, signal.SIGSTOP)
        until(lambda: lag(scraper) > 15)
        os.kill(own_server.pid, signal.SIGCONT)
        until(lambda: lag(scraper) < 5)


def feed_file(folder: Path, source: str, broker: Broker) -> tuple[Path, Scraper]:
    """A changefeed to the topic ``sent``, and what scrapes it."""
    port = free_port()
    file = folder / "feed.toml"
    file.write_text(FEED.format(source=source, servers=broker.servers, port=port))
    scraper = Scraper(
        page_of(f"http://127.0.0.1:{port}/metrics"), job="ticdc-spark-changefeed", group="ticdc-spark-changefeed"
    )
    return file, scraper


def inserted(broker: Broker) -> set[str]:
    """The keys of the rows that were sent."""
    events = (json.loads(value) for *_, value in messages(broker, "sent") if value)
    return {one["data"]["id"] for one in events if one["type"] == "INSERT"}


def lag(scraper: Scraper) -> float:
    """Seconds; 0: not known yet."""
    scraper.scrape()
    return max(scraper.found[-1][1].get("ticdc_spark_changefeed_lag_seconds", {frozenset(): 0.0}).values())


@contextmanager
def running(feed: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The changefeed, which is killed in the end."""
    with (feed.parent / "log").open("ab") as log, subprocess.Popen([*COMMAND, str(feed)], stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()
