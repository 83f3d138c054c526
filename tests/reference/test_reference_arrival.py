"""The reference in arrival mode against random workloads: without a watermark, messages lead to the true tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.reference.applier import run
from tests.reference.arrival import ArrivalApplier, Milliseconds
from tests.reference.faults import by_partition, interleaved
from tests.reference.workloads import configs, rows_of, truth_of
from tests.workload import WorkloadConfig, dispatch, generate
from ticdc_spark.errors import RejectedMessage, SchemaMissing, UnsupportedDdl
from ticdc_spark.model import Message
from ticdc_spark.mysql import tso
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.canal_json import decode as canal_json
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json_encoder
from ticdc_spark.protocols.debezium import decode as debezium
from ticdc_spark.protocols.debezium.encode import DebeziumConfig
from ticdc_spark.protocols.debezium.encode import encoder as debezium_encoder

DEBEZIUM = debezium_encoder(DebeziumConfig(debezium_disable_schema=True, build_ts=lambda: 0))
"""Without the TiDB extension: commit_ts, but no watermarks."""
CANAL = canal_json_encoder(CanalJsonConfig(build_ts=lambda: 0))


def sent(config: WorkloadConfig) -> list[Message]:
    """The messages, read at uneven speed."""
    return interleaved(by_partition(dispatch(generate(config), config, DEBEZIUM)), config.seed)


IN_ONE_TOPIC = ("rename_table", "rename_chain", "rename_many", "move_table", "create_database", "drop_database")
"""DDLs that bind tables of several topics: between topics their order is not known."""


@settings(max_examples=30)
@given(configs, st.integers(5, 200))
def test_messages_lead_to_the_true_tables(config: WorkloadConfig, size: int) -> None:
    if config.topic_per_table:
        config = replace(config, ddl_actions=tuple(kind for kind in config.ddl_actions if kind not in IN_ONE_TOPIC))
    applied = run(sent(config), debezium.DECODER, batch_size=size, applier=ArrivalApplier)
    assert rows_of(applied.lake.tables) == rows_of(truth_of(config))
    assert applied.progress.waiting == []
    assert applied.progress.ddls == {}


@settings(max_examples=20)
@given(configs, st.integers(5, 200))
def test_milliseconds_do_in_one_partition(config: WorkloadConfig, size: int) -> None:
    """Where commit_ts is a millisecond, the offset has to decide the rest.

    So of one millisecond no single message may come again, nor any around a DDL, and raw changes may not swap keys.
    """
    config = replace(config, partitions=1, idle_partitions=0, topic_per_table=False, reorder=False)
    config = replace(config, raw_key_changes=0.0, duplicates=0.0)
    if config.ddl_every:
        config = replace(config, restart_every=0)
    messages = list(dispatch(generate(config), config, CANAL))
    options = ReadOptions(source_timezone="UTC")
    applied = run(messages, canal_json.DECODER, options, batch_size=size, applier=Milliseconds)
    assert rows_of(applied.lake.tables) == rows_of(truth_of(config))


class TakesTheLast(ArrivalApplier):
    """Lets arrival decide."""

    def arrive(self, rows: Any, held: Any, key: Any, image: Any, commit_ts: int) -> None:
        super().arrive(rows, held, key, image, 0)


class ForgetsTombstones(ArrivalApplier):
    """Knows the commit_ts of rows only."""

    def arrive(self, rows: Any, held: Any, key: Any, image: Any, commit_ts: int) -> None:
        super().arrive(rows, held, key, image, commit_ts)
        if key not in rows:
            held.pop(key, None)


class DeletesLast(ArrivalApplier):
    """Lets a delete win over the insert of its commit."""

    def arrive(self, rows: Any, held: Any, key: Any, image: Any, commit_ts: int) -> None:
        if image is None and held.get(key) == (commit_ts, 2):
            del held[key]
        super().arrive(rows, held, key, image, commit_ts)


class AppliesDdlAtFirstCopy(ArrivalApplier):
    """Does not wait for the other partitions."""

    def due(self, progress: Any, resolved: int) -> Any:
        return sorted(progress.ddls.values(), key=lambda change: change.commit_ts)


class AppliesDdlsAgain(ArrivalApplier):
    """Does not know a DDL that was applied."""

    def batch(self, messages: Any) -> None:
        self.progress.done.clear()
        super().batch(messages)


class LetsRowsPass(ArrivalApplier):
    """Applies rows while the DDL before them waits."""

    def follows(self, row: Any, change: Any, copies: Any) -> bool:
        return False


class TakesOldRows(ArrivalApplier):
    """Takes what comes again after CREATE, TRUNCATE or DROP for new."""

    def is_old(self, row: Any, name: Any) -> bool:
        return False


FAULTY = WorkloadConfig(changes=250, ddl_every=6, partitions=3, duplicates=0.1, reorder=True, restart_every=60)
BROKEN: list[tuple[type[ArrivalApplier], WorkloadConfig]] = [
    (TakesTheLast, replace(FAULTY, ddl_every=0)),
    (ForgetsTombstones, replace(FAULTY, ddl_every=0)),
    (DeletesLast, replace(FAULTY, ddl_every=0, key_change_share=0.15, live_rows=5)),
    (AppliesDdlAtFirstCopy, FAULTY),
    (AppliesDdlsAgain, replace(FAULTY, ddl_actions=("truncate_table", "add_column"))),
    (LetsRowsPass, FAULTY),
    (TakesOldRows, replace(FAULTY, ddl_actions=("truncate_table",), ddl_every=10)),
]


def is_right(applier: type[ArrivalApplier], config: WorkloadConfig) -> bool:
    try:
        lake = run(sent(config), debezium.DECODER, batch_size=60, applier=applier).lake
    except (SchemaMissing, RejectedMessage, UnsupportedDdl, KeyError, StopIteration):
        return False
    return rows_of(lake.tables) == rows_of(truth_of(config))


@pytest.mark.parametrize(("applier", "config"), BROKEN, ids=[applier.__name__ for applier, _ in BROKEN])
def test_a_broken_applier_is_caught(applier: type[ArrivalApplier], config: WorkloadConfig) -> None:
    seeds = [replace(config, seed=seed) for seed in range(4)]
    assert all(is_right(ArrivalApplier, seeded) for seeded in seeds)
    assert not all(is_right(applier, seeded) for seeded in seeds)


def test_a_millisecond_is_no_commit_ts() -> None:
    """Two changes of one millisecond: taken for commit_ts, the delete of the second commit would lose."""
    rows: dict[Any, Any] = {}
    held: dict[Any, Any] = {}
    for applier, left in ((Milliseconds, {}), (ArrivalApplier, {("k",): {"v": "1"}})):
        working = applier(canal_json.DECODER, ReadOptions(), {})
        working.arrive(rows, held, ("k",), {"v": "1"}, tso(5))
        working.arrive(rows, held, ("k",), None, tso(5))
        assert rows == left
        rows.clear()
        held.clear()
