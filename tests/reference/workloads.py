"""Workloads for tests: random configurations, their messages in Simple JSON, and the truth to compare with."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import strategies as st

from tests.reference.faults import by_partition, interleaved
from tests.workload import Truth, WorkloadConfig, dispatch, generate
from ticdc_spark.model import Message, RowChange
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

ENCODER = encoder(SimpleConfig(build_ts=lambda: 0))
FAULTS = WorkloadConfig(
    changes=250,
    ddl_every=6,
    watermark_every=4,
    bootstrap_every=30,
    partitions=3,
    duplicates=0.1,
    reorder=True,
    restart_every=120,
)
"""A workload with everything that TiCDC may do."""

configs = st.builds(
    WorkloadConfig,
    seed=st.integers(0, 10**6),
    changes=st.integers(1, 250),
    ddl_every=st.sampled_from([0, 2, 6, 20]),
    live_rows=st.sampled_from([5, 1000]),
    raw_key_changes=st.sampled_from([0.0, 0.5, 1.0]),
    key_change_share=st.sampled_from([0.05, 0.15]),
    watermark_every=st.integers(1, 10),
    bootstrap_every=st.sampled_from([0, 7, 200]),
    topic_per_table=st.booleans(),
    partitions=st.integers(2, 4),
    dispatch=st.sampled_from(["key", "table"]),
    duplicates=st.sampled_from([0.0, 0.2]),
    reorder=st.booleans(),
    restart_every=st.sampled_from([0, 40, 150]),
    idle_partitions=st.integers(0, 1),
)


def messages_of(config: WorkloadConfig) -> list[Message]:
    return list(dispatch(generate(config), config, ENCODER))


def truth_of(config: WorkloadConfig) -> Truth:
    workload = generate(config)
    assert Counter(type(event) for event in workload)[RowChange] >= config.changes
    return workload.truth


def rows_of(tables: Truth) -> dict[Any, Any]:
    return {name: rows for name, (_, rows) in tables.items()}


def columns_of(tables: Truth) -> dict[Any, set[str]]:
    return {name: {column.name for column in table.columns} for name, (table, _) in tables.items()}


def read_unevenly(config: WorkloadConfig) -> list[Message]:
    return interleaved(by_partition(messages_of(config)), config.seed)
