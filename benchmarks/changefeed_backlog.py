"""How fast a changefeed turns a topic into another protocol: recorded topic → Kafka, all on this machine.

Seconds of the processors and of the clock for 100,000 rows, from the start of the changefeed to its end: of this
process and all below it but the broker. Spark's start, and a first backlog that warms it, are not in it.

- one process: without Spark.
- 2 tasks: the whole topic by Spark's tasks, two side by side.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from pathlib import Path
from threading import Event

from msgspec.structs import replace
from tests.support.kafka_broker import Broker
from tests.workload import Workload, WorkloadConfig, dispatch, write_topic

from benchmarks.measure import _seconds, measured
from ticdc_spark.capture.stream import StreamCapture, open_stream
from ticdc_spark.changefeed.backlog.backlog import Backlog
from ticdc_spark.changefeed.backlog.batch import Tasks
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.loop import Upstream, run
from ticdc_spark.changefeed.spark_tasks import SparkTasks
from ticdc_spark.protocols.encoder_options import target_encoder

PAIRS = (("simple", "open-protocol"), ("open-protocol", "canal-json"), ("debezium", "simple"))
EXTENSION = {"enable-tidb-extension": "true"}


def record(folder: Path, protocol: str, rows: int) -> None:
    """A topic of a workload, with three partitions and few DDLs."""
    config = WorkloadConfig(seed=5, changes=rows, ddl_every=rows // 20, partitions=3, raw_key_changes=0.0)
    options = EXTENSION if protocol in ("canal-json", "debezium") else {}
    write_topic(dispatch(Workload(config), config, target_encoder(protocol, options)), folder)


def measure(broker: Broker, folder: Path, source: Path, target: str, tasks: Tasks | None) -> tuple[float, float]:
    """Seconds of the processors, and of the clock, for 100,000 rows."""
    folder.mkdir()
    extension = "&enable-tidb-extension=true" if target in ("canal-json", "debezium") else ""
    uri = f"kafka://{broker.servers}/{folder.name}?protocol={target}&partition-num=4{extension}"
    feed = replace(load_changefeed(None, uri, {"time-zone": "UTC"}), backlog=1)
    capture = open_stream(f"{source}?source-timezone=UTC")
    assert isinstance(capture, StreamCapture) and broker._process is not None
    backlog = Backlog(feed, capture, tasks) if tasks is not None else None
    before, began = _seconds(broker._process.pid, 2), time.monotonic()
    with measured() as seconds:
        report = run(feed, Upstream(capture, "topic", backlog=backlog), folder / "state", stop=Event())
    clock = time.monotonic() - began
    assert report.finished
    share = 100_000 / report.rows
    return (seconds.cpu - (_seconds(broker._process.pid, 2) - before)) * share, clock * share


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {sys.platform}; seconds for 100,000 rows: processors, clock\n")
    some = load_changefeed(None, "kafka://127.0.0.1:1/t?protocol=simple", {})
    spark = {"spark.master": "local[2]", "spark.driver.memory": "1g"}
    tasks = SparkTasks(replace(some, snapshot=replace(some.snapshot, spark=spark)), "send a backlog")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = Broker(folder / "kafka", java_options=())
        broker.start()
        try:
            for source, target in PAIRS:
                topic, short = folder / f"topic-{source}", folder / f"short-{source}"
                record(topic, source, options.rows)
                record(short, source, 8000)
                measure(broker, folder / f"warm-{source}-{target}", short, target, tasks)
                for number in range(options.runs):
                    for subject, by in (("one process", None), ("2 tasks", tasks)):
                        where = folder / f"{source}-{target}-{number}-{subject.replace(' ', '-')}"
                        cpu, clock = measure(broker, where, topic, target, by)
                        print(f"  {source:14} {target:14} {subject:12} {cpu:8.1f} {clock:8.1f}", flush=True)
        finally:
            broker.kill()
            tasks.close()


if __name__ == "__main__":
    main()
