"""A partition that is behind does not let the rows of all others pile up in memory."""

import threading
import time

import pytest

from tests.support.kafka_broker import Broker
from tests.workload import Workload, WorkloadConfig
from ticdc_spark.capture import stream
from ticdc_spark.capture.base import Resolved, Transaction
from ticdc_spark.capture.reorder import Reordering
from ticdc_spark.capture.stream import open_stream
from ticdc_spark.model import Message, RowChange
from ticdc_spark.protocols.encoder_options import target_encoder

ROWS = 24_000


def test_rows_ahead_of_the_slowest_partition_wait_in_kafka(
    broker: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MOST_WAITING", 800)
    most = [0]
    taken = Reordering.take

    def take(self: Reordering, message: Message, newest: int = 0) -> None:
        taken(self, message, newest)
        most[0] = max(most[0], self.waiting)

    monkeypatch.setattr(Reordering, "take", take)
    encoder = target_encoder("simple", {})
    rows = [event for event in Workload(WorkloadConfig(seed=3, changes=ROWS)) if isinstance(event, RowChange)]
    broker.create_topic(topic_name, 3)
    values: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    for table in {row.table.name: row.table for row in rows}.values():
        bootstrap = encoder.bootstrap(table)
        assert bootstrap is not None and bootstrap.value is not None
        values[0].append(bootstrap.value)
    stamps = sorted({row.commit_ts for row in rows})
    for number, row in enumerate(rows):
        values[number % 2] += [one.value or b"" for one in encoder.rows([row])]
        if number % 500 == 499:
            for partition in (0, 1):
                values[partition].append(_watermark(row.commit_ts))
    for partition in (0, 1):
        values[partition].append(_watermark(stamps[-1] + 1))
        broker.produce(topic_name, [(None, value) for value in values[partition]], partition)
    broker.produce(topic_name, [(None, _watermark(stamps[0]))], 2)

    def go_on() -> None:
        """The third partition lags: its watermarks come later, in steps."""
        for ts in (stamps[len(stamps) // 3], stamps[len(stamps) // 2], stamps[-1] + 1):
            time.sleep(2)
            broker.produce(topic_name, [(None, _watermark(ts))], 2)

    threading.Thread(target=go_on).start()
    capture, found = open_stream(f"kafka://{broker.servers}/{topic_name}"), 0
    deadline = time.monotonic() + 120
    for captured in capture.read(capture.begin()):
        if isinstance(captured, Transaction):
            found += len(captured.changes)
        if isinstance(captured, Resolved) and (captured.commit_ts >= stamps[-1] or time.monotonic() > deadline):
            break
    assert found == len(rows)
    # the limit twice, and some lists of a thousand, which are taken at once; without a limit all would wait at first
    assert most[0] <= 6400, most[0]


def _watermark(ts: int) -> bytes:
    encoded = target_encoder("simple", {}).watermark(ts)
    assert encoded is not None and encoded.value is not None
    return encoded.value
