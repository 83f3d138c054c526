"""A job as its state shows it."""

import subprocess
import sys
from pathlib import Path

import msgspec

from ticdc_spark.config.job import IcebergConfig, Identity
from ticdc_spark.model import SchemaChange
from ticdc_spark.operate.status import JobStatus, describe
from ticdc_spark.replicate.state.conditions import Clean, Diverged, Dropped, Kept, Quarantined
from ticdc_spark.replicate.state.owner import Ownership, this_process
from ticdc_spark.replicate.state.processes import Process
from ticdc_spark.replicate.state.progress import (
    Counters,
    Hold,
    PartitionState,
    PendingRows,
    Progress,
    QueuedDdl,
    Status,
)
from ticdc_spark.replicate.state.table import TableState

NOW = 1_795_000_000.0
TSO = int((NOW - 100) * 1000) << 18
IDENTITY = Identity(Path("shop.toml"), "shop", IcebergConfig(warehouse="lake"))

PROGRESS = Progress(
    job="shop",
    batch=7,
    applied=TSO,
    partitions=(
        PartitionState(topic="shop", partition=0, offset=10, watermark=TSO + (90_000 << 18)),
        PartitionState(topic="shop", partition=1, offset=20, watermark=TSO + (40_000 << 18)),
    ),
    tables=(
        TableState(schema="shop", name="orders", applied=TSO, condition=Clean(), rows=5, snapshot_id=3),
        TableState(schema="shop", name="a", applied=TSO, condition=Diverged(since=TSO - 1)),
        TableState(schema="shop", name="b", condition=Quarantined(why="bad [json]")),
        TableState(schema="shop", name="c", condition=Dropped()),
        TableState(schema="shop", name="d", condition=Kept()),
        TableState(schema="shop", name="e"),
    ),
    ddls=(
        QueuedDdl(
            change=SchemaChange(commit_ts=TSO + 1, query="ALTER TABLE orders ADD x INT", kind="ALTER"),
            topic="shop",
            partition=0,
            offset=9,
        ),
    ),
    pending=tuple(
        PendingRows(
            first=0,
            end=9,
            schema="shop",
            name=name,
            schema_key="1",
            rows=4,
            min_ts=1,
            max_ts=2,
            topic="shop",
            partition=1,
        )
        for name in ("orders", "orders", "new")
    ),
    hold=Hold(kind="partition", what="shop-1 is behind", since=NOW - 30),
    counters=Counters(rows=1234, ddls=2, rejected=1),
)


def beat(state: str = "normal", **more: object) -> Status:
    return msgspec.convert({"state": state, "at": NOW - 3, "started_at": NOW - 900, "pid": 12345, **more}, Status)


def said(status: Status | None, held: Ownership | None = None) -> JobStatus:
    return describe(IDENTITY, PROGRESS, status, held, NOW)


def held_by(process: Process, released: bool = False) -> Ownership:
    owner = msgspec.structs.replace(this_process(), process=process)
    return Ownership(job="shop", owner=owner, epoch=1, released=released)


def gone() -> Process:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return Process(child.pid, "1")


WELL = msgspec.structs.replace(
    PROGRESS, tables=PROGRESS.tables[:1], pending=(), ddls=(), hold=Hold(kind="none", what=""), counters=Counters()
)
"""A progress without trouble."""


def write_job(folder: Path) -> Path:
    """A job file whose source needs a secret that is not there."""
    path = folder / "shop.toml"
    path.write_text(
        '[job]\nname = "shop"\n[source]\nkind = "kafka"\nupstream = "${env:NO_SUCH_SECRET}"\n'
        '[sink]\nkind = "iceberg"\nwarehouse = "lake"\n'
    )
    return path
