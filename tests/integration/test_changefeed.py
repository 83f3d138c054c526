"""A changefeed against a real broker: what it sends is what it was given."""

import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.kafka_broker import Broker
from ticdc_spark.capture.base import CapturedDdl, CaptureState, Transaction
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.changefeed.config.settings import Changefeed, KafkaTarget
from ticdc_spark.changefeed.loop import Report, run
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.workload import Workload, WorkloadConfig, dispatch, write_topic

SHOP = WorkloadConfig(seed=5, changes=600, ddl_every=30, partitions=3, raw_key_changes=0.0)


def changefeed(broker: Broker, topic: str, protocol: str, **options: str) -> Changefeed:
    kafka = KafkaTarget(servers=(broker.servers,), topic=topic, client_id="test", partition_num=3)
    return Changefeed(id="test", kafka=kafka, protocol=protocol, encoder=options)


def recorded(folder: Path, protocol: str = "simple", config: WorkloadConfig = SHOP, **options: str) -> Path:
    write_topic(dispatch(Workload(config), config, target_encoder(protocol, options)), folder)
    return folder


def send(changefeed: Changefeed, source: str, state: Path) -> Report:
    return run(changefeed, open_stream(source), state, source=source, stop=threading.Event())


def shape(source: str, state: CaptureState | None = None) -> list[object]:
    """What a stream gives, up to the end that it has now."""
    found: list[object] = []
    capture = open_stream(source)
    quiet = 0
    for captured in capture.read(state or capture.begin()):
        quiet = 0 if isinstance(captured, Transaction | CapturedDdl) else quiet + 1
        if quiet > 2:
            capture.close()
        match captured:
            case Transaction(commit_ts=ts, changes=changes):
                rows = Counter(
                    (row.op, row.table.schema, row.table.name, repr(row.before), repr(row.after)) for row in changes
                )
                found.append((ts, sorted(rows.items())))
            case CapturedDdl(commit_ts=ts, changes=changes):
                found.append((ts, [(change.kind, change.query) for change in changes]))
    return found


@pytest.mark.parametrize("protocol", ["simple"])
def test_a_recorded_topic_is_sent_whole(broker: Broker, topic_name: str, tmp_path: Path, protocol: str) -> None:
    source = str(recorded(tmp_path / "recorded"))
    report = send(changefeed(broker, topic_name, protocol), source, tmp_path / "state")
    assert report.finished
    assert shape(f"kafka://{broker.servers}/{topic_name}") == shape(source)
