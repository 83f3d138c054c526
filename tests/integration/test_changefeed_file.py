"""A changefeed's file, to messages on a real broker."""

import threading
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.integration.test_changefeed import SHOP, contents, count, recorded
from tests.kafka_broker import Broker
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.loop import run


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
    assert run(feed, open_stream(feed.source), feed.state, source=feed.source, stop=threading.Event()).finished
    made = AdminClient({"bootstrap.servers": broker.servers}).list_topics(topic_name).topics[topic_name]
    assert len(made.partitions) == 2
    rows = count(SHOP)
    assert contents(f"kafka://{broker.servers}/{topic_name}", rows) == contents(source, 0)
