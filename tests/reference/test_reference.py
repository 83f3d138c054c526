"""The reference applier against random workloads: messages, however delivered, lead to the true tables."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.reference import broken
from tests.reference.applier import Applier, ends_of, run
from tests.reference.faults import by_partition, interleaved
from tests.reference.state import Lake
from tests.reference.workloads import columns_of, configs, messages_of, read_unevenly, rows_of, truth_of
from tests.workload import WorkloadConfig, dispatch, generate, truth_at
from ticdc_spark.errors import LateRow, SchemaMissing
from ticdc_spark.model import Bootstrap, Message, SchemaChange
from ticdc_spark.protocols.base import Decoder, Encoder, ReadOptions
from ticdc_spark.protocols.canal_json import decode as canal_json
from ticdc_spark.protocols.canal_json.encode import CanalJsonConfig
from ticdc_spark.protocols.canal_json.encode import encoder as canal_json_encoder
from ticdc_spark.protocols.debezium import decode as debezium
from ticdc_spark.protocols.debezium import encode as debezium_encode
from ticdc_spark.protocols.open import decode as open_protocol
from ticdc_spark.protocols.open.encode import OpenConfig
from ticdc_spark.protocols.open.encode import encoder as open_encoder
from ticdc_spark.protocols.simple.decode import DECODER


@given(configs)
def test_messages_lead_to_the_true_tables(config: WorkloadConfig) -> None:
    truth = truth_of(config)
    applied = run(messages_of(config), DECODER)
    assert rows_of(applied.lake.tables) == rows_of(truth)
    assert columns_of(applied.lake.tables) == columns_of(truth)
    assert applied.progress.waiting == []
    assert applied.progress.ddls == {}


SQL_PROTOCOLS: dict[str, tuple[Encoder, Decoder]] = {
    "open": (open_encoder(OpenConfig()), open_protocol.DECODER),
    "canal-json": (
        canal_json_encoder(CanalJsonConfig(enable_tidb_extension=True, build_ts=lambda: 0)),
        canal_json.DECODER,
    ),
    "debezium": (
        debezium_encode.encoder(
            debezium_encode.DebeziumConfig(enable_tidb_extension=True, debezium_disable_schema=True, build_ts=lambda: 0)
        ),
        debezium.DECODER,
    ),
}
"""Protocols with watermarks whose DDL is its SQL: tables are known by following it."""


@pytest.mark.parametrize("protocol", SQL_PROTOCOLS)
@settings(max_examples=10)
@given(config=configs, size=st.integers(10, 200))
def test_tables_that_only_sql_describes_are_true(protocol: str, config: WorkloadConfig, size: int) -> None:
    sender, reader = SQL_PROTOCOLS[protocol]
    messages = interleaved(by_partition(dispatch(generate(config), config, sender)), config.seed)
    applied = run(messages, reader, ReadOptions(source_timezone="UTC"), batch_size=size)
    assert rows_of(applied.lake.tables) == rows_of(truth_of(config))
    assert columns_of(applied.lake.tables) == columns_of(truth_of(config))
    assert applied.progress.waiting == []


@given(configs, st.integers(10, 200))
def test_each_committed_progress_equals_the_source_at_its_commit_ts(config: WorkloadConfig, size: int) -> None:
    seen = set()

    class Checked(Applier):
        def batch(self, messages: Any) -> None:
            super().batch(messages)
            applied = self.progress.applied
            if applied not in seen:
                seen.add(applied)
                assert rows_of(self.lake.tables) == rows_of(truth_at(config, applied))

    run(read_unevenly(config), DECODER, batch_size=size, applier=Checked)


class Killed(Exception):
    """The process is gone."""


def run_with_kills(messages: list[Message], seed: int, applier: type[Applier] = Applier) -> Lake:
    """Kill at random commits; each time a new process starts from the stored progress and the lake."""
    random = Random(seed)

    class Mortal(applier):  # type: ignore[valid-type,misc]
        def batch(self, messages: Any) -> None:
            for process in range(9):
                self.at_commit = live if process == 8 else die
                with suppress(Killed):
                    super().batch(messages)
                    return

    def die(_applier: Applier) -> None:
        if random.random() < 0.25:
            raise Killed

    def live(_applier: Applier) -> None:
        """The ninth process is left alone."""

    return run(messages, DECODER, batch_size=60, applier=Mortal).lake


@given(configs)
def test_a_kill_at_any_commit_changes_nothing(config: WorkloadConfig) -> None:
    assert rows_of(run_with_kills(read_unevenly(config), config.seed).tables) == rows_of(truth_of(config))


@given(configs, st.floats(0.05, 0.95))
def test_a_run_up_to_any_moment_can_be_continued(config: WorkloadConfig, part: float) -> None:
    messages = messages_of(config)
    # a cut in sending order is what listing the end offsets gives
    cut = int(len(messages) * part)
    first, rest = messages[:cut], messages[cut:]
    working = run(first, DECODER)
    assert rows_of(working.lake.tables) == rows_of(truth_at(config, working.progress.applied))
    working.ends = ends_of(messages)
    working.batch(rest)
    assert rows_of(working.lake.tables) == rows_of(truth_of(config))


def is_right(applier: type[Applier], config: WorkloadConfig, kill: bool = False) -> bool:
    messages = read_unevenly(config)
    try:
        if kill:
            lake = run_with_kills(messages, config.seed, applier)
        else:
            lake = run(messages, DECODER, batch_size=60, applier=applier).lake
    except (LateRow, KeyError, SchemaMissing):
        return False
    return rows_of(lake.tables) == rows_of(truth_of(config))


PLAIN = WorkloadConfig(changes=250, partitions=2, watermark_every=4)
TEN_TO_THE_18 = 10**18 >> 18
BROKEN: list[tuple[type[Applier], WorkloadConfig, bool]] = [
    (broken.DropsBelowHighWater, replace(PLAIN, reorder=True), False),
    (broken.AppliesDdlAtFirstCopy, replace(PLAIN, ddl_every=5), False),
    (broken.AppliesEveryCopyOfADdl, replace(PLAIN, ddl_every=5), False),
    (broken.ForgetsIdlePartitions, replace(PLAIN, partitions=3, idle_partitions=1), False),
    (broken.TakesTheNewestWatermark, PLAIN, False),
    (broken.ResolvesTheWatermarkItself, PLAIN, False),
    (broken.DefaultReplacesNull, PLAIN, False),
    (broken.FillsNothing, replace(PLAIN, ddl_every=5, ddl_actions=("add_column",)), False),
    (broken.OrdersCommitTsAsText, replace(PLAIN, start_ms=TEN_TO_THE_18 - 60, watermark_every=500), False),
    (broken.OrdersByOffset, replace(PLAIN, raw_key_changes=1.0, key_change_share=0.15), False),
    (broken.LosesTheDeleteOfAKeyChange, replace(PLAIN, raw_key_changes=1.0), False),
    (broken.ForgetsTheOldNameOfATable, replace(PLAIN, ddl_every=5, ddl_actions=("rename_table",)), False),
    (broken.RecordsAppliedEarly, PLAIN, True),
    (broken.ForgetsItsMarks, replace(PLAIN, ddl_every=3, ddl_actions=("truncate_table", "rename_table")), True),
]


@pytest.mark.parametrize(("applier", "config", "kill"), BROKEN, ids=[applier.__name__ for applier, _, _ in BROKEN])
def test_a_broken_applier_is_caught(applier: type[Applier], config: WorkloadConfig, kill: bool) -> None:
    seeds = [replace(config, seed=seed) for seed in range(4)]
    assert all(is_right(Applier, seeded, kill) for seeded in seeds)
    assert not all(is_right(applier, seeded, kill) for seeded in seeds)


def without(messages: list[Message], kind: type) -> list[Message]:
    return [
        message
        for message in messages
        if not any(isinstance(event, kind) for event in DECODER.open_message(message.key, message.value))
    ]


def renumbered(messages: list[Message]) -> list[Message]:
    return [replace(message, offset=offset) for offset, message in enumerate(messages)]


def test_rows_wait_for_a_schema_that_comes_later() -> None:
    config = replace(PLAIN, partitions=1, bootstrap_every=0)
    messages = without(messages_of(config), SchemaChange)
    rows = without(messages, Bootstrap)
    bootstraps = [message for message in messages if message not in rows]
    applied = run(renumbered(rows + bootstraps), DECODER, batch_size=20)
    expected = {name: rows for name, rows in rows_of(truth_of(config)).items() if rows}
    assert {name: rows for name, rows in rows_of(applied.lake.tables).items() if rows} == expected


def test_rows_whose_schema_never_comes_stop_the_run() -> None:
    config = replace(PLAIN, partitions=1)
    messages = renumbered(without(without(messages_of(config), SchemaChange), Bootstrap))
    with pytest.raises(SchemaMissing, match=r"version \d+"):
        run(messages, DECODER)


def late(applier: type[Applier]) -> Applier:
    """One partition's rows come only after the other's watermark was taken for all."""
    config = replace(PLAIN, seed=1)
    first, second = by_partition(messages_of(config))
    working = applier(DECODER, ReadOptions(), {("shop", 0): first[-1].offset})
    working.batch(first)
    working.batch(second)
    return working


def test_a_late_row_is_no_replay() -> None:
    with pytest.raises(LateRow):
        late(Applier)
    assert late(broken.TrustsTheLogOnly).progress.replays > 0
