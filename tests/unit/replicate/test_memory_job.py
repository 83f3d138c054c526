"""A whole job over a source, a change log and a sink in memory: what the loop decides, without Spark."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.memory_sink.lake import Lake
from tests.memory_sink.rows import MemoryRows
from tests.reference.workloads import FAULTS, messages_of, truth_of
from tests.support.memory_job import Kept, ListSource, in_order, job_of, lake_rows, run, started
from tests.workload import WorkloadConfig, dispatch, generate
from ticdc_spark.changes.opening import Opening
from ticdc_spark.changes.scan import ScanPlan
from ticdc_spark.errors import SourceChanged
from ticdc_spark.model import Envelope, Message, Offsets
from ticdc_spark.names import escape
from ticdc_spark.protocols import decoder
from ticdc_spark.protocols.debezium import encode as debezium_encode
from ticdc_spark.protocols.debezium.encode import DebeziumConfig
from ticdc_spark.spark.decode.control import ControlEvent


@pytest.mark.parametrize("batch_rows", [7, 60, 10_000])
def test_the_tables_equal_the_truth(tmp_path: Path, batch_rows: int) -> None:
    lake, source = Lake(), ListSource(messages_of(FAULTS))
    steps = run(job_of(tmp_path, batch_rows=batch_rows, parallel_tables=1), source, lake, Kept())
    expected = lake_rows(truth_of(FAULTS))
    found = {name: table.named_rows() for name, table in lake.tables.items()}
    assert found.keys() == {(escape(schema), escape(name)) for schema, name in expected}
    for name, rows in expected.items():
        assert in_order(found[name]) == in_order(rows), name
    assert all(table.is_clean for table in steps.progress.tables if not table.is_gone)


class Compacted(MemoryRows):
    """Between a scan and the time when rows are applied, Kafka removes every second row."""

    def scan(self, plan: ScanPlan, starts: Offsets, end_offsets: Offsets, count: int) -> list[ControlEvent]:
        found = super().scan(plan, starts, end_offsets, count)
        self.keep(())
        assert isinstance(self._source, ListSource)
        for messages in self._source.held.values():
            rows = [one for one in messages if is_row(one)]
            messages[:] = [one for one in messages if one not in rows[1:-1:2]]
        return found


def is_row(message: Message) -> bool:
    return any(isinstance(event, Envelope) for event in decoder("simple").open_message(message.key, message.value))


def test_rows_that_are_gone_when_they_are_to_be_applied_stop_the_job_before_it_writes(tmp_path: Path) -> None:
    lake, source, store = Lake(), ListSource(messages_of(FAULTS)), Kept()
    job = job_of(tmp_path, parallel_tables=1)
    steps = started(job, source, lake, store)
    resources = dataclasses.replace(steps.open.resources, rows=Compacted(source, Opening(protocol="simple")))
    steps.open = dataclasses.replace(steps.open, resources=resources)
    with pytest.raises(
        SourceChanged, match=r"`\w+`\.`\w+`: \d+ rows were read, and the topic had \d+ .*rebuild job.toml"
    ):
        steps.batch(source.end_offsets(), lambda _phase, _batch: None)
    assert not any(table.named_rows() for table in lake.tables.values())
    whole = ListSource(messages_of(FAULTS))
    run(job, whole, lake, store)
    found = {name: table.named_rows() for name, table in lake.tables.items()}
    for name, rows in lake_rows(truth_of(FAULTS)).items():
        assert in_order(found[name]) == in_order(rows), name


@pytest.mark.parametrize(("seed", "batch_rows"), [(1, 60), (5, 40), (17, 40)])
def test_rows_that_came_before_the_first_watermark_are_applied_after_it(
    tmp_path: Path, seed: int, batch_rows: int
) -> None:
    # Debezium: schema blocks are the schema keys of rows while the mode is not known, and not afterwards.
    config = WorkloadConfig(changes=120, seed=seed, watermark_every=10, ddl_every=20, partitions=2, bootstrap_every=0)
    encoder = debezium_encode.encoder(DebeziumConfig(enable_tidb_extension=True))
    lake, source = Lake(), ListSource(list(dispatch(generate(config), config, encoder)))
    job = job_of(tmp_path, batch_rows=batch_rows, parallel_tables=1)
    steps = run(job, source, lake, Kept(), "debezium")
    assert steps.progress.mode == "watermark"
    for name, rows in lake_rows(truth_of(config)).items():
        assert in_order(lake.tables[name].named_rows()) == in_order(rows)
