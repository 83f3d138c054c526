"""What a release leaves behind: the lake of a job that stopped in the middle of its topic, with its state.

    python -m tests.releases.make 0.1.0

writes ``tests/releases/0.1.0.tar.gz`` with the code as it is. Once the release is out, the file stays as it is: later
versions must go on from it (``tests/integration/test_upgrades.py``).
"""

import shutil
import sys
import tarfile
import tempfile
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq

from tests.workload import WorkloadConfig, dispatch, generate, write_topic
from tests.workload.compare import expected
from ticdc_spark.config.load import load_job
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.replicate import loop

HERE = Path(__file__).parent
PLACES = Path(tempfile.gettempdir()) / "ticdc-spark-releases"
"""Metadata of Iceberg has absolute paths, so a lake is unpacked where it was made."""
TOPIC, WHOLE, EXPECTED = "topic", "whole", "expected"
JOB = """
[job]
name = "shop"
batch-rows = 100
[source]
kind = "files"
path = "topic"
protocol = "simple"
[[history]]
tables = ["shop.*"]
[sink]
kind = "iceberg"
warehouse = "lake"
"""
WORKLOAD = WorkloadConfig(
    seed=7, changes=200, ddl_every=12, partitions=2, duplicates=0.05, reorder=True, bootstrap_every=20, live_rows=40
)


def make(version: str) -> Path:
    """Run a job up to the middle of its topic, and pack what is there then, with the rest of the topic."""
    place = PLACES / version
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    events = generate(WORKLOAD)
    messages = list(dispatch(events, WORKLOAD, encoder(SimpleConfig())))
    write_topic(messages, place / WHOLE)
    write_topic(islice(messages, len(messages) // 2), place / TOPIC)
    (place / EXPECTED).mkdir()
    for (schema, name), (table, rows) in events.truth.items():
        pq.write_table(expected(table, rows.values()), place / EXPECTED / f"{schema}.{name}.parquet")
    (place / "job.toml").write_text(JOB)
    loop.run(load_job(place / "job.toml"), once=True)
    packed = HERE / f"{version}.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(place, version)
    shutil.rmtree(place)
    return packed


if __name__ == "__main__":
    sys.stdout.write(f"{make(sys.argv[1])}\n")
