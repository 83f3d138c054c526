"""What a story begins with, and the job as its operator has it configured."""

from __future__ import annotations

import atexit
from functools import lru_cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Literal
from zlib import crc32

import msgspec

from tests.simulator.feed import Feed
from tests.simulator.wire import WIRES
from ticdc_spark.config.ddl import DdlPolicy
from ticdc_spark.config.job import IcebergConfig, Job, KafkaSource, SchemaFiles, SnapshotKeys
from ticdc_spark.config.values import SkipDdl

IDLE_TIMEOUT = 60.0
SCHEMA_TIMEOUT = 600.0


class JobSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The job file's keys that stories change. Names are the job file's."""

    protocol: str
    source_timezone: str = "UTC"
    tables: tuple[str, ...] = ()
    topics: tuple[str, ...] | None = None
    """``None``: every topic there is (a pattern)."""
    starting: Literal["earliest", "latest"] = "earliest"
    skip_ddl: tuple[SkipDdl, ...] = ()
    schema_sql: str = ""
    """What the file of ``[schema] file`` holds; ``""``: there is none."""
    adopt: bool = False
    on_reject: Literal["stop", "quarantine", "continue"] = "stop"
    late_rows: Literal["fail", "apply-if-newest"] = "fail"
    drop_table: Literal["apply", "keep"] = "apply"
    no_key: Literal["stop", "skip", "apply"] = "stop"
    keep_dropped: float = 0.0
    log_retention_batches: int | None = None
    row_deltas: bool = False
    """Of the lake, and no key: rows come by files, which a commit of its own or two bring in (``files_sink``)."""
    snapshot: Literal["", "now", "exact", "dump"] = ""
    """What tables that are new to the job are read from: a database as it is now, or as of a commit_ts, or a dump."""
    snapshot_tables: tuple[str, ...] = ()
    """``tables`` under [snapshot]."""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The world of a story before its first move."""

    feed: Feed
    job: JobSetup
    plain: bool = False
    generated: bool = False
    raw_key_changes: bool = False
    tables_before: int = 0
    """Tables that were made, and are empty, before the changefeed's start-ts: no DDL describes them."""
    rows_before: int = 0
    """Transactions on these tables before it."""
    dump_at_start: bool = False
    """The dump is made when the job first starts, and not with the changefeed."""
    no_schema_file: bool = False
    """Open and canal-json get these tables from full reads alone."""
    schema_file_late: bool = False
    """The schema file with these tables, which Open and canal-json need, is given only by a move."""


@lru_cache(256)
def scratch_folder(name: str) -> Path:
    """A new folder, which is removed when the process ends."""
    folder = Path(mkdtemp(prefix=f"ticdc-spark-{name}-"))
    atexit.register(rmtree, folder, ignore_errors=True)
    return folder


def _snapshot_of(setup: JobSetup) -> SnapshotKeys:
    return SnapshotKeys(upstream="mysql://source", tables=setup.snapshot_tables, parallelism=2, chunk_rows=2)


def job_of(setup: JobSetup, folder: Path) -> Job:
    """The job as the product has it. ``folder`` is where a schema file is written; nothing else is."""
    files: tuple[Path, ...] = ()
    if setup.schema_sql:
        file = folder / f"schema-{crc32(setup.schema_sql.encode())}.sql"
        if not file.exists():
            file.write_text(setup.schema_sql)
        files = (file,)
    pattern = ".*" if setup.topics is None else None
    return Job(
        name="sim",
        file=folder / "job.toml",
        tables=setup.tables,
        source=KafkaSource(
            bootstrap_servers="broker:9092",
            topics=setup.topics,
            topic_pattern=pattern,
            starting=setup.starting,
            protocol=setup.protocol,
        ),
        sink=IcebergConfig(warehouse=str(folder / "lake")),
        schema=SchemaFiles(file=files),
        snapshot=_snapshot_of(setup) if setup.snapshot else None,
        mode="watermark" if WIRES[setup.protocol].name == "canal-json" else None,
        source_timezone=setup.source_timezone,
        idle_partition_timeout=IDLE_TIMEOUT,
        schema_timeout=SCHEMA_TIMEOUT,
        parallel_tables=1,
        adopt=setup.adopt,
        on_reject=setup.on_reject,
        late_rows=setup.late_rows,
        no_key=setup.no_key,
        ddl=DdlPolicy(drop_table=setup.drop_table, keep_dropped=setup.keep_dropped),
        skip_ddl=setup.skip_ddl,
    )


def with_keys(job: Job, **keys: Any) -> Job:
    """A job with other keys: those of ``[ddl]``, too, by their names alone."""
    of_ddl = {name: value for name, value in keys.items() if name in DdlPolicy.__struct_fields__}
    rest = {name: value for name, value in keys.items() if name not in of_ddl}
    return msgspec.structs.replace(job, ddl=msgspec.structs.replace(job.ddl, **of_ddl), **rest)
