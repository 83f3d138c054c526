"""What a release leaves behind: a target and its job, which stopped in the middle of its topic, with its state.

    python -m tests.releases.make 0.1.0 mysql

writes ``tests/releases/0.1.0-mysql.tar.gz`` with the code as it is. Without a kind of sink, it is Iceberg, in
``0.1.0.tar.gz``. Once the release is out, the files stay as they are: later versions must go on from them
(``tests/integration/test_upgrades.py``).
"""

import shutil
import sys
import tarfile
import tempfile
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import msgspec

from tests.releases.databases import dump, running
from tests.workload import WorkloadConfig, dispatch, generate, write_topic
from ticdc_spark.config.load import load_job
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.replicate import loop

HERE = Path(__file__).parent
PLACES = Path(tempfile.gettempdir()) / "ticdc-spark-releases"
"""Metadata of Iceberg has absolute paths, so a lake is unpacked where it was made."""
TOPIC, WHOLE, TRUTH, DUMP = "topic", "whole", "truth.msgpack", "target.sql"
HISTORY = """
[[history]]
tables = ["shop.*"]
"""
SINKS = {"iceberg": 'warehouse = "lake"', "delta": 'warehouse = "lake"', "mysql": "uri", "postgres": "uri"}


def job_text(kind: str, uri: str) -> str:
    """The job file. ``uri``: of a database."""
    target = f'uri = "{uri}"' if uri else SINKS[kind]
    return f"""
[job]
name = "shop"
batch-rows = 100
[source]
kind = "files"
path = "topic"
protocol = "simple"
{HISTORY if kind == "iceberg" else ""}
[sink]
kind = "{kind}"
{target}
"""


WORKLOAD = WorkloadConfig(
    seed=7, changes=200, ddl_every=12, partitions=2, duplicates=0.05, reorder=True, bootstrap_every=20, live_rows=40
)


def make(version: str, kind: str = "iceberg") -> Path:
    """Run a job up to the middle of its topic, and pack what is there then, with the rest of the topic."""
    label = version if kind == "iceberg" else f"{version}-{kind}"
    place = PLACES / label
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    events = generate(WORKLOAD)
    messages = list(dispatch(events, WORKLOAD, encoder(SimpleConfig())))
    write_topic(messages, place / WHOLE)
    write_topic(islice(messages, len(messages) // 2), place / TOPIC)
    truth = [(table, list(rows.values())) for table, rows in events.truth.values()]
    (place / TRUTH).write_bytes(msgspec.msgpack.encode(truth))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        target = stack.enter_context(running(kind, folder)) if SINKS[kind] == "uri" else None
        (place / "job.toml").write_text(job_text(kind, target.uri if target else ""))
        loop.run(load_job(place / "job.toml"), once=True)
        if target is not None:
            (place / DUMP).write_text(dump(target))
    packed = HERE / f"{label}.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(place, label)
    shutil.rmtree(place)
    return packed


if __name__ == "__main__":
    sys.stdout.write(f"{make(*sys.argv[1:3])}\n")
