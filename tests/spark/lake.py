"""Runs a job in this process and reads its tables back in the normal form of the truth."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.workload import Truth, WorkloadConfig, dispatch, generate, write_topic
from ticdc_spark.config.load import load_job
from ticdc_spark.names import escape
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.report import Summary
from ticdc_spark.sinks.iceberg.catalog import catalog_options
from ticdc_spark.spark.sql import quote

Rows = list[dict[str, Any]]


def write_job(folder: Path, source: Path, more: str = "", protocol: str | None = "simple", reading: str = "") -> Path:
    """Write the job file of a recorded topic; ``more`` are further lines of its [job], or sections behind it,
    ``reading`` of its [source].

    ``protocol``: ``None`` leaves it to be detected.
    """
    named = "" if protocol is None else f'protocol = "{protocol}"\n'
    file = folder / "job.toml"
    file.write_text(
        f'[job]\nname = "job"\n{more}\n[source]\nkind = "files"\npath = "{source}"\n'
        f'{named}{reading}\n[sink]\nkind = "iceberg"\nwarehouse = "lake"\n'
    )
    return file


def make_topic(folder: Path, config: WorkloadConfig) -> Truth:
    """Write the topic of a workload to ``folder/topic``; returns the true final tables."""
    events = generate(config)
    write_topic(dispatch(events, config, encoder(SimpleConfig())), folder / "topic", "jsonl")
    return events.truth


def wild(seed: int) -> WorkloadConfig:
    """A small workload with every schema change and every fault that TiCDC allows."""
    return WorkloadConfig(
        seed=seed,
        changes=300,
        ddl_every=9,
        partitions=2,
        duplicates=0.05,
        reorder=True,
        restart_every=150,
        bootstrap_every=20,
        live_rows=60,
    )


def replicate(job_file: Path, **run: Any) -> Summary:
    """Run a job up to the end of its source."""
    return loop.run(load_job(job_file), once=True, **run)


def lake(spark: SparkSession, folder: Path) -> SparkSession:
    """A session that sees the lake of ``write_job``."""
    session = spark.newSession()
    for key, value in catalog_options("lake", str(folder / "lake"), {}).items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def read_table(session: SparkSession, schema: str, name: str) -> Rows:
    """All rows, as Python values of the lake's types."""
    table = f"lake.{quote(escape(schema))}.{quote(escape(name))}"
    return list(session.table(table).toArrow().to_pylist())


def names(session: SparkSession) -> set[tuple[str, str]]:
    """Tables of the lake, escaped, but for the job's own."""
    found = set()
    for (shown,) in session.sql("SHOW NAMESPACES IN lake").collect():
        schema = shown[1:-1].replace("``", "`") if shown.startswith("`") else shown
        if schema != "_ticdc_spark":
            tables = session.sql(f"SHOW TABLES IN lake.{quote(schema)}").collect()
            found |= {(schema, row["tableName"]) for row in tables}
    return found


def sorted_rows(rows: Rows) -> list[tuple[tuple[str, Any], ...]]:
    """Rows in an order of their own, to be compared."""
    plain = [tuple(sorted((key, _plain(value)) for key, value in row.items())) for row in rows]
    return sorted(plain, key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    return value
