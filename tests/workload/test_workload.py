"""The workload itself: its truth, its watermarks, its schema changes, its faults, and what is written of it."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.reference.applier import run
from tests.reference.workloads import FAULTS, configs, messages_of, rows_of, truth_of
from tests.workload import DDL_ACTIONS, WorkloadConfig, generate, write_topic
from ticdc_spark.ddl import apply_ddl, fold
from ticdc_spark.model import Bootstrap, Change, Message, Row, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.topics.writer import Format


def folded(events: Iterator[Change]) -> dict[Any, dict[Any, Row]]:
    """Rows alone, one after the other: only without DDL that moves rows."""
    tables: dict[Any, dict[Any, Row]] = {}
    for event in events:
        if isinstance(event, RowChange):
            rows = tables.setdefault((event.table.schema, event.table.name), {})
            key = handle_key(event.table)
            if event.before is not None:
                assert rows.pop(tuple(event.before[name] for name in key)) == event.before
            if event.after is not None:
                rows[tuple(event.after[name] for name in key)] = event.after
    return tables


@given(st.integers(0, 10**6))
def test_the_truth_is_what_the_row_changes_have(seed: int) -> None:
    workload = generate(WorkloadConfig(seed=seed, changes=200, key_change_share=0.0))
    assert folded(iter(workload)) == {name: rows for name, rows in rows_of(workload.truth).items() if rows}


@given(configs)
def test_a_watermark_lies_above_what_was_sent_and_not_above_what_follows(config: WorkloadConfig) -> None:
    watermark = sent = 0
    for event in generate(config):
        if isinstance(event, Watermark):
            assert sent < event.commit_ts
            assert watermark <= event.commit_ts
            watermark = event.commit_ts
        elif not isinstance(event, Bootstrap):
            assert event.commit_ts >= max(watermark, sent)
            sent = event.commit_ts


@given(configs)
def test_equal_configurations_give_equal_messages(config: WorkloadConfig) -> None:
    assert messages_of(config) == messages_of(config)


def test_every_schema_change_happens() -> None:
    words = Counter(
        " ".join(event.query.split()[:2])
        for event in generate(WorkloadConfig(changes=4000, ddl_every=2))
        if isinstance(event, SchemaChange)
    )
    assert words.keys() == {
        f"{verb} {noun}"
        for verb, nouns in {
            "CREATE": ("DATABASE", "TABLE", "INDEX"),
            "DROP": ("DATABASE", "TABLE", "INDEX"),
            "ALTER": ("TABLE",),
            "RENAME": ("TABLE",),
            "TRUNCATE": ("TABLE",),
        }.items()
        for noun in nouns
    }
    for action in DDL_ACTIONS:
        only = WorkloadConfig(changes=200, ddl_every=3, ddl_actions=(action,))
        assert sum(isinstance(event, SchemaChange) for event in generate(only)) > 20, action


@given(st.integers(0, 10**6))
def test_the_sql_alone_gives_the_same_schemas(seed: int) -> None:
    tables: dict[tuple[str, str], Table] = {}
    workload = generate(WorkloadConfig(seed=seed, changes=400, ddl_every=2))
    for event in workload:
        if isinstance(event, SchemaChange):
            runs_under = event.pre_table.schema if event.pre_table else event.schema
            effect = apply_ddl(tables, runs_under, event.query)
            assert not effect.unsupported
            tables = fold(tables, effect)
            if event.table and event.kind != "ERASE":
                reported = tables[event.table.schema, event.table.name]
                assert {column.name: column for column in reported.columns} == {
                    column.name: replace(column, virtual=False, stored=False) for column in event.table.columns
                }
                assert handle_key(reported) == handle_key(event.table)
    assert tables.keys() == workload.truth.keys()


def test_faults_are_there() -> None:
    plain, faulty = replace(FAULTS, duplicates=0.0, reorder=False, restart_every=0), FAULTS
    clean, messages = messages_of(plain), messages_of(faulty)
    assert len(messages) > 1.2 * len(clean)
    watermarks = [
        event.commit_ts
        for message in messages
        for event in DECODER.open_message(message.key, message.value)
        if isinstance(event, Watermark) and message.partition == 0
    ]
    assert watermarks != sorted(watermarks)
    assert {message.value for message in messages} == {message.value for message in clean}
    assert rows_of(run(messages, DECODER).lake.tables) == rows_of(truth_of(faulty))
    assert run(messages, DECODER, batch_size=40).progress.replays > 0


def read_lines(opened: Callable[[Path], Any], path: Path) -> Iterator[Message]:
    for file in sorted(path.iterdir()):
        with opened(file) as lines:
            for line in map(json.loads, lines):
                yield Message(
                    **{**line, "key": line["key"] and base64.b64decode(line["key"])}
                    | {"value": line["value"] and base64.b64decode(line["value"])}
                )


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet"])
def test_a_recorded_topic_holds_the_messages(kind: Format, tmp_path: Path) -> None:
    config = replace(FAULTS, changes=1500, topic_per_table=True)
    messages = messages_of(config)
    assert write_topic(iter(messages), tmp_path / "topic", kind) == len(messages)
    if kind == "parquet":
        files = sorted((tmp_path / "topic").iterdir())
        read = [Message(**row) for file in files for row in pq.read_table(file).to_pylist()]
    else:
        read = list(read_lines(gzip.open if kind == "jsonl.gz" else Path.open, tmp_path / "topic"))
    assert read == sorted(messages, key=lambda message: (message.topic, message.partition, message.offset))
