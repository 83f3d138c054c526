"""The metrics of a changefeed of a real server, while it sends to a real broker."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.test_changefeed import messages
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server
from tests.unit.operate.test_serving import get
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.capture.binlog.kept import Kept, ask_kept
from ticdc_spark.capture.binlog.position import read_position
from ticdc_spark.capture.binlog.uri import parse_uri
from ticdc_spark.capture.open import open_capture
from ticdc_spark.changefeed import loop
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.filter.tables import named_tables
from ticdc_spark.changefeed.producer import ProducerLost
from ticdc_spark.cli.changefeed import watched

FEED = """
[filter]
rules = ["d.*"]
[ticdc-spark]
metrics = "127.0.0.1:0"
"""


def scraped(place: tuple[str, int]) -> dict[tuple[str, ...], float]:
    """The samples of a page, by name and labels in the order of their names."""
    families = text_string_to_metric_families(get(place, "/metrics")[1])
    return {
        (
            sample.name.removeprefix("ticdc_spark_changefeed_"),
            *dict(sorted(sample.labels.items())).values(),
        ): sample.value
        for family in families
        for sample in family.samples
    }


def test_what_a_changefeed_sends_and_what_its_server_keeps(
    server: Server,
    broker: Broker,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    work, lost = loop._Run.work, [ProducerLost("the broker was away")]

    def lost_once(of: Any, *given: Any) -> Any:
        if lost:
            raise lost.pop()
        return work(of, *given)

    monkeypatch.setattr(loop._Run, "work", lost_once)
    monkeypatch.setattr(loop, "_BACK_OFF", (0.0,))
    file, state, stop = tmp_path / "feed.toml", tmp_path / "state", Event()
    file.write_text(FEED)
    uri = f"kafka://{broker.servers}/{topic_name}?protocol=open-protocol&partition-num=1"
    feed = load_changefeed(file, uri, {"source": server.uri})
    capture = open_capture(server.uri, named_tables(feed))
    with caplog.at_level(logging.INFO), watched(feed, state) as show:
        place = ("127.0.0.1", int(caplog.messages[0].rpartition(":")[2].partition("/")[0]))
        run = Thread(
            target=loop.run, args=(feed, loop.Upstream(capture, "binlog"), state), kwargs={"stop": stop, "show": show}
        )
        run.start()
        try:
            wait_for(lambda: ("lag_seconds",) in scraped(place))
            server.execute(*(f"INSERT INTO d.t VALUES ({at}, 0)" for at in range(5)), "UPDATE d.t SET v = 1")
            server.execute("DELETE FROM d.t WHERE id < 2", "ALTER TABLE d.t ADD w INT")
            wait_for(lambda: scraped(place).get(("ddls_total",)) == 1 and ("binlog_older_bytes",) in scraped(place))
        finally:
            stop.set()
            run.join(60)
        found = scraped(place)
    capture.close()
    rows = {op: found.get(("table_rows_total", op, "d", "t")) for op in ("insert", "update", "delete")}
    assert rows == {"insert": 5, "update": 5, "delete": 2}
    sent = sum(len(key or b"") + len(value or b"") for *_, key, value in messages(broker, topic_name))
    assert 0.5 * sent < found["message_bytes_total",] <= sent, "watermarks after the last report are missing"
    assert (found["retries_total", "SinkFault"], found["retries_total", "SourceFault"]) == (1, 0)
    assert found["binlog_older_bytes",] > 0 and found["binlog_unread_bytes",] >= 0


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_how_much_binlog_is_kept(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    position, uri = read_position(BinlogCapture(server.uri).begin().position), parse_uri(server.uri)
    before = ask_kept(uri, position)
    server.execute("INSERT INTO d.t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (2)")
    after = ask_kept(uri, position)
    assert before.older and after.older == before.older
    assert (before.newer, (after.newer or 0) > 0) == (0, True)
    variable, unit = ("expire_logs_days", 86_400) if server.is_mariadb else ("binlog_expire_logs_seconds", 1)
    server.execute(f"SET GLOBAL {variable} = 3")
    try:
        assert ask_kept(uri, position).seconds == 3 * unit
    finally:
        server.execute(f"SET GLOBAL {variable} = 0")
    assert ask_kept(uri, position).seconds is None
    server.execute("DROP USER IF EXISTS few@'127.0.0.1'", "CREATE USER few@'127.0.0.1'")
    assert ask_kept(parse_uri(server.uri.replace("root@", "few@")), position) == Kept(), "it lacks the right"
