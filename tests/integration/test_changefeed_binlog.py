"""The seam between a real server's binlog and the changefeed that sends it."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.integration.test_changefeed import messages
from tests.support.kafka_broker import Broker
from tests.support.mariadb_server import Server
from ticdc_spark.capture.open import open_capture
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.config.settings import Changefeed
from ticdc_spark.changefeed.filter.tables import named_tables
from ticdc_spark.changefeed.loop import Upstream, run
from ticdc_spark.changefeed.progress import read_stored
from ticdc_spark.errors import RejectedMessage, UsageError
from ticdc_spark.model import Envelope, SchemaChange, Watermark
from ticdc_spark.mysql import tso
from ticdc_spark.protocols import decoder


def feed(broker: Broker, topic: str, folder: Path, rules: str = '"d.*"', **more: int) -> Changefeed:
    file = folder / "feed.toml"
    file.write_text(f"[filter]\nrules = [{rules}]\n")
    return load_changefeed(file, f"kafka://{broker.servers}/{topic}?protocol=simple&partition-num=1", dict(more))


def until_now(server: Server, made: Changefeed, state: Path) -> None:
    """Send all that the server has by now."""
    stop = threading.Event()
    (now,) = server.execute("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0]

    def show(_: object) -> None:
        found = read_stored(state)
        if found is not None and found.commit_ts > tso(int(now)):
            stop.set()

    capture = open_capture(server.uri, named_tables(made))
    run(made, Upstream(capture, "binlog"), state, stop=stop, show=show)
    capture.close()


def sent(broker: Broker, topic: str) -> list[str]:
    """What came, without BOOTSTRAPs and watermarks, whose order is checked."""
    opener, found, mark = decoder("simple"), [], 0
    for _, _, key, value in messages(broker, topic):
        for event in opener.open_message(key, value):
            if isinstance(event, Watermark):
                assert event.commit_ts >= mark
                mark = event.commit_ts
            elif isinstance(event, Envelope):
                assert event.commit_ts >= mark
                found.append(f"row of {event.table}")
            elif isinstance(event, SchemaChange):
                assert event.commit_ts >= mark
                found.append(event.query)
    return found


def test_what_came_before_an_error_is_sent(server: Server, broker: Broker, topic_name: str, tmp_path: Path) -> None:
    made, state = feed(broker, topic_name, tmp_path), tmp_path / "state"
    until_now(server, made, state)
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)", *(f"INSERT INTO d.t VALUES ({at})" for at in range(5)))
    server.execute("SET sql_log_bin = 0", "ALTER TABLE d.t ADD v INT", "SET sql_log_bin = 1", "DELETE FROM d.t")
    for _ in range(2):  # the second run has nothing left but the error
        with pytest.raises(RejectedMessage, match="'v'"):
            until_now(server, made, state)
        assert sent(broker, topic_name) == ["CREATE TABLE d.t (id INT PRIMARY KEY)", *["row of t"] * 5]


def test_a_start_that_has_passed_is_refused(server: Server, broker: Broker, topic_name: str, tmp_path: Path) -> None:
    (now,) = server.execute("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0]
    past = {"start-ts": tso(int(now) - 60_000)}
    with pytest.raises(UsageError, match=r"start-ts is \d+ .*, and a new changefeed begins at .*would be missing"):
        until_now(server, feed(broker, topic_name, tmp_path, **past), tmp_path / "state")
    assert read_stored(tmp_path / "state") is None, "it has not begun"
    assert topic_name not in broker.admin.list_topics(timeout=10).topics


def test_a_changefeed_ends_at_its_target_after_the_binlog_was_rotated(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)")
    state = tmp_path / "state"
    until_now(server, feed(broker, topic_name, tmp_path), state)
    server.execute(f"INSERT INTO d.t VALUES (1, '{'x' * 50_000}')", "FLUSH BINARY LOGS")
    server.execute("INSERT INTO d.t VALUES (2, '')")
    (now,) = server.execute("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0]
    end, stop, shown = tso(int(now) + 3000), threading.Event(), []

    def show(report: object) -> None:
        shown.append(report)
        if len(shown) > 40:  # one each second
            stop.set()

    made = feed(broker, topic_name, tmp_path, **{"target-ts": end})
    capture = open_capture(server.uri, named_tables(made))
    report = run(made, Upstream(capture, "binlog"), state, stop=stop, show=show)
    capture.close()
    assert report.finished and report.saved == end
    assert sent(broker, topic_name) == ["row of t", "row of t"]


def test_a_key_that_goes_and_comes_is_warned_of(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    made, state = feed(broker, topic_name, tmp_path), tmp_path / "state"
    until_now(server, made, state)
    server.execute("ALTER TABLE d.t DROP PRIMARY KEY", "INSERT INTO d.t VALUES (1)", "ALTER TABLE d.t ADD KEY (id)")
    server.execute("ALTER TABLE d.t ADD PRIMARY KEY (id)", "INSERT INTO d.t VALUES (2)")
    with caplog.at_level(logging.WARNING):
        until_now(server, made, state)
    gone, come = [one for one in caplog.messages if one.startswith("`d`.`t` is ")]
    assert "not followed from" in gone and "no primary key" in gone and "DROP PRIMARY KEY" in gone
    assert "its rows from before are not sent" in come
    assert sent(broker, topic_name) == ["ALTER TABLE d.t ADD PRIMARY KEY (id)", "row of t"]


@pytest.mark.mariadb
def test_a_default_that_no_message_carries_is_warned_of(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    made, state = feed(broker, topic_name, tmp_path), tmp_path / "state"
    until_now(server, made, state)
    server.execute("ALTER TABLE d.t ADD a TEXT DEFAULT 'x', ADD b INT DEFAULT 1, ADD c VARCHAR(9) DEFAULT 'x'")
    with caplog.at_level(logging.WARNING):
        until_now(server, made, state)
    assert ["`a`" in one for one in caplog.messages if "cannot compute" in one] == [True]


def test_the_command_does_not_look_at_tables_that_the_rules_leave_out(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)", "CREATE TABLE d.tmp (id INT PRIMARY KEY)")
    uri = f"kafka://{broker.servers}/{topic_name}?protocol=simple&partition-num=1"
    state, file = tmp_path / "state", tmp_path / "feed.toml"
    file.write_text('[filter]\nrules = ["d.*", "!d.tmp"]\n')
    command = [sys.executable, "-c", "from ticdc_spark.cli import main; main()", "changefeed", str(file)]
    command += ["--sink-uri", uri, "--source", server.uri, "--state", str(state)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        while read_stored(state) is None and process.poll() is None:
            time.sleep(0.05)
        server.execute("SET sql_log_bin = 0", "ALTER TABLE d.tmp ADD v INT", "SET sql_log_bin = 1")
        server.execute("INSERT INTO d.tmp VALUES (1, 1)", "ALTER TABLE d.tmp DROP v", "INSERT INTO d.t VALUES (1)")
        end = tso(int(time.time() + 1) * 1000)
        while (stored := read_stored(state)) is not None and stored.commit_ts < end and process.poll() is None:
            time.sleep(0.05)
        process.terminate()
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr.decode()
    assert sent(broker, topic_name) == ["row of t"]


def test_tables_are_sent_under_the_names_that_target_schema_and_target_table_give(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    server.execute("CREATE DATABASE IF NOT EXISTS d")
    file, state = tmp_path / "feed.toml", tmp_path / "state"
    file.write_text(
        '[filter]\nrules = ["d.*"]\n[[sink.dispatchers]]\nmatcher = ["d.*"]\ntarget-schema = "archive"\n'
        'target-table = "{schema}_{table}"\n[[sink.dispatchers]]\nmatcher = ["*.*"]\n'
    )
    made = load_changefeed(file, f"kafka://{broker.servers}/{topic_name}?protocol=simple&partition-num=1")
    until_now(server, made, state)
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 1)")
    server.execute("RENAME TABLE d.t TO d.u", "INSERT INTO d.u VALUES (2, 2)", "DROP TABLE d.u")
    until_now(server, made, state)
    assert sent(broker, topic_name) == [
        "CREATE TABLE `archive`.`d_t` (id INT PRIMARY KEY, v INT)",
        "row of d_t",
        "RENAME TABLE `archive`.`d_t` TO `archive`.`d_u`",
        "row of d_u",
        "DROP TABLE `archive`.`d_u`",
    ]


def test_a_table_that_gets_the_new_name_of_another_one_stops_the_changefeed_before_it_is_sent(
    server: Server, broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    server.execute("CREATE DATABASE IF NOT EXISTS d")
    file, state = tmp_path / "feed.toml", tmp_path / "state"
    file.write_text('[filter]\nrules = ["d.*"]\n[[sink.dispatchers]]\nmatcher = ["d.a"]\ntarget-table = "b"\n')
    made = load_changefeed(file, f"kafka://{broker.servers}/{topic_name}?protocol=simple&partition-num=1")
    server.execute("CREATE TABLE d.a (id INT PRIMARY KEY)")
    until_now(server, made, state)
    server.execute("INSERT INTO d.a VALUES (1)", "CREATE TABLE d.b (id INT PRIMARY KEY)")
    with pytest.raises(UsageError, match=r"`d`\.`a` and `d`\.`b` would both be sent as `d`.`b`"):
        until_now(server, made, state)
    server.execute("DROP TABLE d.a", "DROP TABLE d.b")
