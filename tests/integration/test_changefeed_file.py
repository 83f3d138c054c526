"""A changefeed's file, to messages on a real broker."""

import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.integration.test_changefeed import COMMAND, SHOP, contents, count, recorded
from tests.support.apicurio_registry import Registry
from tests.support.kafka_broker import Broker
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.loop import Upstream, run
from ticdc_spark.changefeed.progress import read_stored
from ticdc_spark.changefeed.topics import Topics
from ticdc_spark.errors import RegistryFault, SinkFault


def test_a_file_is_followed(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    source = str(recorded(tmp_path / "recorded"))
    file = tmp_path / "feed.toml"
    file.write_text(
        f'memory-quota = 1\n[sink]\nprotocol = "Simple"\n[sink.kafka-config]\npartition-num = 2\ncompression = "zstd"\n'
        f'[sink.kafka-config.codec-config]\nencoding-format = "avro"\n'
        f'[ticdc-spark]\nsource = "{source}"\nstate = "state"\nsink-uri = "kafka://{broker.servers}/{topic_name}"\n'
    )
    feed = load_changefeed(file)
    assert feed.source == source and feed.state == tmp_path / "state"
    assert run(feed, Upstream(open_stream(feed.source), feed.source), feed.state, stop=threading.Event()).finished
    made = AdminClient({"bootstrap.servers": broker.servers}).list_topics(topic_name).topics[topic_name]
    assert len(made.partitions) == 2
    rows = count(SHOP)
    assert contents(f"kafka://{broker.servers}/{topic_name}", rows) == contents(source, 0)


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_registry_that_does_not_answer_is_no_beginning(
    broker: Broker, schema_registry: Registry, topic_name: str, tmp_path: Path
) -> None:
    source = recorded(tmp_path / "recorded")
    file = tmp_path / "feed.toml"
    file.write_text('[ticdc-spark.schema-registry]\n"max.retries" = 0\n')
    where = f"kafka://{broker.servers}/{topic_name}?protocol=avro&schema-registry="
    down = f"{where}http://127.0.0.1:{closed_port()}"
    command = [*COMMAND, str(file), "--source", source, "--check", "--sink-uri"]
    refused = subprocess.run([*command, down], capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "error: schema registry http://127.0.0.1" in refused.stderr
    checked = subprocess.run([*command, where + schema_registry.url], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert f"schema registry {schema_registry.url}: it answers" in checked.stdout
    with pytest.raises(RegistryFault):
        run(load_changefeed(file, down), Upstream(open_stream(source), "s"), tmp_path / "state", stop=threading.Event())
    assert read_stored(tmp_path / "state") is None


def test_who_waits_for_kafka_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A server that takes connections and never answers."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        feed = load_changefeed(None, f"kafka://{where}/t?protocol=simple&dial-timeout=4s")
        with pytest.raises(SinkFault, match=where):
            Topics(feed.kafka, create=False).facts("t")
    assert f"waiting for Kafka at {where}" in caplog.text


def test_timeout_of_gnu_lets_a_changefeed_store_what_it_sent(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    """It sends SIGTERM to the command and then to the command's group."""
    first, second = f"{topic_name}.in", f"{topic_name}.out"
    made = load_changefeed(None, f"kafka://{broker.servers}/{first}?protocol=simple&partition-num=1")
    source = recorded(tmp_path / "recorded")
    run(made, Upstream(open_stream(source), "recorded topic"), tmp_path / "one", stop=threading.Event())
    uri = f"kafka://{broker.servers}/{second}?protocol=simple&partition-num=1"
    state = tmp_path / "state"
    command = ["timeout", "600", *COMMAND, "--sink-uri", uri, "--state", str(state)]
    command += ["--source", f"kafka://{broker.servers}/{first}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as started:
        try:
            deadline = time.monotonic() + 120
            while (found := read_stored(state)) is None or not found.rows:
                assert started.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            started.send_signal(signal.SIGTERM)
            _, stderr = started.communicate(timeout=60)
        finally:
            started.kill()
    assert started.returncode == 0, stderr
    assert "SIGTERM: stopping after the current step" in stderr and "stopped: " in stderr
