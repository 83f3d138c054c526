"""Record the topic and the tables that ``ticdc-spark demo`` shows: ``python -m scripts.demo_topic``."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.workload import WorkloadConfig, dispatch, generate, write_topic
from tests.workload.compare import expected

from ticdc_spark.cli.demo import RECORDED
from ticdc_spark.model import Message, TableName
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

WORKLOAD = WorkloadConfig(
    seed=7,
    changes=4_000,
    ddl_every=142,
    ddl_actions=(
        "create_table",
        "drop_table",
        "truncate_table",
        "rename_table",
        "add_column",
        "drop_column",
        "rename_column",
        "modify_column",
        "add_index",
    ),
    watermark_every=10,
    bootstrap_every=200,
    partitions=4,
    duplicates=0.01,
    reorder=True,
    restart_every=2_000,
)


def record() -> tuple[list[Message], dict[TableName, pa.Table]]:
    """The messages, and the tables' rows after them, as in the lake."""
    encode = encoder(SimpleConfig(build_ts=lambda: WORKLOAD.start_ms))  # with the clock, every recording would differ
    events = generate(WORKLOAD)
    messages = list(dispatch(events, WORKLOAD, encode))
    return messages, {name: expected(table, rows.values()) for name, (table, rows) in events.truth.items()}


def main(folder: Path = RECORDED) -> None:
    """Write both into the package."""
    shutil.rmtree(folder, ignore_errors=True)
    messages, tables = record()
    write_topic(messages, folder / "topic", "parquet")
    for (schema, name), table in tables.items():
        file = folder / "tables" / schema / f"{name}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file, compression="zstd")


if __name__ == "__main__":
    main()
