"""The workload against the reference applier: what the generator says is true, the messages must lead to."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.reference.applier import Applier, Lake, ends_of, run
from tests.reference.faults import by_partition, interleaved
from ticdc_spark.errors import LateRow, SchemaMissing
from ticdc_spark.model import Bootstrap, Change, Message, Row, RowChange, SchemaChange, Value, Watermark
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.simple import DECODER, SimpleConfig, encoder
from ticdc_spark.workload import (
    DDL_ACTIONS,
    RecordFormat,
    Truth,
    WorkloadConfig,
    dispatch,
    generate,
    truth_at,
    write_topic,
)

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


@given(configs)
def test_messages_lead_to_the_true_tables(config: WorkloadConfig) -> None:
    truth = truth_of(config)
    applied = run(messages_of(config), DECODER)
    assert rows_of(applied.lake.tables) == rows_of(truth)
    assert columns_of(applied.lake.tables) == columns_of(truth)
    assert applied.progress.waiting == []
    assert applied.progress.ddls == {}


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


# ---- broken appliers: each must be caught


class DropsBelowHighWater(Applier):
    """Takes the order of a partition for commit order."""

    def land(self, progress: Any, message: Message) -> None:
        place = (message.topic, message.partition)
        highs = self.__dict__.setdefault("highs", {})
        before = len(progress.waiting)
        super().land(progress, message)
        for row in progress.waiting[before:]:
            if row.envelope.commit_ts < highs.get(place, 0):
                progress.waiting.remove(row)
            highs[place] = max(highs.get(place, 0), row.envelope.commit_ts)


class AppliesDdlAtFirstCopy(Applier):
    """Does not wait until every partition has passed a DDL."""

    def due(self, progress: Any, resolved: int) -> list[SchemaChange]:
        return sorted(progress.ddls.values(), key=lambda change: change.commit_ts)


class AppliesEveryCopyOfADdl(Applier):
    """Does not see that copies are one DDL."""

    def queue(self, progress: Any, change: SchemaChange) -> None:
        super().queue(progress, change)
        if change.commit_ts > progress.applied:
            progress.ddls[change.commit_ts, len(progress.ddls), "copy"] = change


class ForgetsIdlePartitions(Applier):
    """Waits forever for partitions that get no more watermarks."""

    def watermark(self, progress: Any, place: Any) -> int:
        return int(progress.watermarks.get(place, 0))


class TakesTheNewestWatermark(Applier):
    """One partition speaks for all."""

    def watermark(self, progress: Any, place: Any) -> int:
        return max(progress.watermarks.values(), default=0)


class ResolvesTheWatermarkItself(Applier):
    """Reads "smaller than W" as "up to W"."""

    def watermark(self, progress: Any, place: Any) -> int:
        return super().watermark(progress, place) + 1


class DefaultReplacesNull(Applier):
    """Takes an explicit NULL for a value that is not there."""

    def read(self, progress: Any, table: Any, due: Any) -> Iterator[Any]:
        columns = {column.name: column for column in table.columns}
        for landed, before, after in super().read(progress, table, due):
            filled = after and {
                name: self.fill(columns[name]) if value is None else value for name, value in after.items()
            }
            yield landed, before, filled


class FillsNothing(Applier):
    """ADD COLUMN with a default leaves NULL in the rows that are there."""

    def fill(self, column: Any) -> Value:
        return None


class OrdersCommitTsAsText(Applier):
    """Compares commit_ts as text."""

    def order(self, landed: Any, image: Row | None) -> tuple[Any, ...]:
        return str(landed.envelope.commit_ts), image is not None, landed.position


class OrdersByOffset(Applier):
    """Lets the offset decide inside a commit."""

    def order(self, landed: Any, image: Row | None) -> tuple[Any, ...]:
        return landed.envelope.commit_ts, landed.position


class LosesTheDeleteOfAKeyChange(Applier):
    """Takes an update for an upsert."""

    def expand(self, key_of: Any, before: Row | None, after: Row | None) -> Iterator[Any]:
        if after is not None:
            yield key_of(after), after
        else:
            yield from super().expand(key_of, before, after)


class ForgetsTheOldNameOfATable(Applier):
    """Treats RENAME as a new table."""

    def apply_ddl(self, effect: Any, mark: Any) -> None:
        if effect.before != effect.after and effect.before and effect.after:
            effect = replace(effect, before=None)
        super().apply_ddl(effect, mark)


class RecordsAppliedEarly(Applier):
    """Commits the progress before the tables."""

    def apply(self, progress: Any, resolved: int) -> None:
        early = progress.copy()
        self.forget(early, resolved)
        self.progress = early
        super().apply(progress, resolved)


class ForgetsItsMarks(Applier):
    """Does a DDL again after a restart."""

    def apply_ddl(self, effect: Any, mark: Any) -> None:
        marks = {name: self.lake.marks.pop(name, mark) for name in (effect.before, effect.after)}
        super().apply_ddl(effect, mark)
        self.lake.marks.update({name: max(mark, old) for name, old in marks.items() if name})


class TrustsTheLogOnly(Applier):
    """Takes every row below what is applied for a replay."""

    def is_replay(self, progress: Any, landed: Any) -> bool:
        return True


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
    (DropsBelowHighWater, replace(PLAIN, reorder=True), False),
    (AppliesDdlAtFirstCopy, replace(PLAIN, ddl_every=5), False),
    (AppliesEveryCopyOfADdl, replace(PLAIN, ddl_every=5), False),
    (ForgetsIdlePartitions, replace(PLAIN, partitions=3, idle_partitions=1), False),
    (TakesTheNewestWatermark, PLAIN, False),
    (ResolvesTheWatermarkItself, PLAIN, False),
    (DefaultReplacesNull, PLAIN, False),
    (FillsNothing, replace(PLAIN, ddl_every=5, ddl_actions=("add_column",)), False),
    (OrdersCommitTsAsText, replace(PLAIN, start_ms=TEN_TO_THE_18 - 60, watermark_every=500), False),
    (OrdersByOffset, replace(PLAIN, raw_key_changes=1.0, key_change_share=0.15), False),
    (LosesTheDeleteOfAKeyChange, replace(PLAIN, raw_key_changes=1.0), False),
    (ForgetsTheOldNameOfATable, replace(PLAIN, ddl_every=5, ddl_actions=("rename_table",)), False),
    (RecordsAppliedEarly, PLAIN, True),
    (ForgetsItsMarks, replace(PLAIN, ddl_every=3, ddl_actions=("truncate_table", "rename_table")), True),
]


@pytest.mark.parametrize(("applier", "config", "kill"), BROKEN, ids=[applier.__name__ for applier, _, _ in BROKEN])
def test_a_broken_applier_is_caught(applier: type[Applier], config: WorkloadConfig, kill: bool) -> None:
    seeds = [replace(config, seed=seed) for seed in range(4)]
    assert all(is_right(Applier, seeded, kill) for seeded in seeds)
    assert not all(is_right(applier, seeded, kill) for seeded in seeds)


# ---- rules that the workload alone does not reach


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
    assert late(TrustsTheLogOnly).progress.replays > 0


# ---- the generator itself


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
def test_the_truth_is_what_the_row_changes_say(seed: int) -> None:
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
def test_a_recorded_topic_holds_the_messages(kind: RecordFormat, tmp_path: Path) -> None:
    config = replace(FAULTS, changes=1500, topic_per_table=True)
    messages = messages_of(config)
    assert write_topic(iter(messages), tmp_path / "topic", kind) == len(messages)
    if kind == "parquet":
        files = sorted((tmp_path / "topic").iterdir())
        read = [Message(**row) for file in files for row in pq.read_table(file).to_pylist()]
    else:
        read = list(read_lines(gzip.open if kind == "jsonl.gz" else Path.open, tmp_path / "topic"))
    assert read == sorted(messages, key=lambda message: (message.topic, message.partition, message.offset))
