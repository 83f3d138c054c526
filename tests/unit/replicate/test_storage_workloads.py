"""A whole job over random workloads that TiCDC writes to files, while both are restarted."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from tests.memory_sink.lake import Lake
from tests.reference.workloads import FAULTS, truth_of
from tests.simulator.wire import WIRES
from tests.support.memory_job import Kept, in_order, job_of, lake_rows, started
from tests.support.storage_shop import PlainStorage
from tests.support.storage_sink import SinkOptions, StorageSink
from tests.workload import generate
from ticdc_spark.config.job import StorageSource
from ticdc_spark.model import Change, RowChange, SchemaChange, Watermark
from ticdc_spark.mysql import handle_key
from ticdc_spark.names import escape
from ticdc_spark.replicate.step import Steps
from ticdc_spark.streams.storage_messages import Form
from ticdc_spark.streams.storage_topic import StorageTopic
from ticdc_spark.topics.storage.csv_lines import CsvFormat
from ticdc_spark.topics.storage.files import LocalFiles
from ticdc_spark.topics.storage.ledger import day_of

PROTOCOL = "canal-json"


class Written:
    """A workload that is written to files bit by bit; TiCDC starts again now and then."""

    def __init__(self, folder: Path, events: list[Change], dice: Random, csv: CsvFormat | None) -> None:
        self.now = 0
        options = SinkOptions(csv=csv, date=lambda: day_of(self.now))
        self.sink = StorageSink(folder, WIRES[PROTOCOL].make_encoder("UTC"), options)
        self.events, self.dice, self.at = events, dice, 0
        self.checkpoint = min(_ts(event) for event in events if _ts(event)) - 1
        self.sink.checkpoint(self.checkpoint)

    def go_on(self) -> bool:
        """Write some more. Returns: whether there is more"""
        for _ in range(self.dice.randint(1, 60)):
            if self.at == len(self.events):
                self.checkpoint = max(self.checkpoint, self.now + 1)
                self.sink.checkpoint(self.checkpoint)
                return False
            self._write(self.events[self.at])
            self.at += 1
        if self.dice.random() < 0.3:
            self.sink.flush()
        if self.dice.random() < 0.3:
            self.sink.waiting = {}
            self.at = next(at for at, one in enumerate(self.events) if _ts(one) >= self.checkpoint)
        return True

    def _write(self, event: Change) -> None:
        if isinstance(event, RowChange):
            self.now = event.commit_ts
            for change in _split(event):
                self.sink.row(change)
        elif isinstance(event, SchemaChange):
            self.now = event.commit_ts
            self.sink.ddl(event)
        elif isinstance(event, Watermark) and event.commit_ts > self.checkpoint:
            self.checkpoint = event.commit_ts
            self.sink.checkpoint(event.commit_ts)


def _split(change: RowChange) -> list[RowChange]:
    """An update that changes the key, as TiCDC sends it: a delete and an insert."""
    keys = handle_key(change.table)
    if change.op != "update" or all(change.before[key] == change.after[key] for key in keys):  # type: ignore[index]
        return [change]
    return [replace(change, op="delete", after=None), replace(change, op="insert", before=None)]


def _ts(event: Change) -> int:
    return getattr(event, "commit_ts", 0)


@pytest.mark.parametrize(
    "csv", [None, CsvFormat(), CsvFormat(quote="", old_values=True)], ids=["json", "csv", "plain csv"]
)
@pytest.mark.parametrize("batch_rows", [7, 60, 10_000])
def test_the_tables_equal_the_truth(batch_rows: int, csv: CsvFormat | None, tmp_path: Path) -> None:
    config = replace(FAULTS, seed=batch_rows, changes=300)
    events, dice = list(generate(config)), Random(batch_rows)
    written = Written(tmp_path / "feed", events, dice, csv)
    lake, kept = Lake(), Kept()
    source = StorageSource(path=str(tmp_path / "feed"), protocol=PROTOCOL)

    def again() -> Steps:
        plain = PlainStorage(None, StorageTopic(LocalFiles(source.path), Form(csv=csv)))
        job = job_of(tmp_path, batch_rows=batch_rows, parallel_tables=1, source_timezone="UTC", ddl_timezone="UTC")
        return started(replace(job, source=source), plain, lake, kept, PROTOCOL)

    steps, more = again(), True
    while more:
        more = written.go_on()
        if dice.random() < 0.3:
            steps = again()
        for _ in range(dice.randint(0, 3)):
            steps.batch(None, lambda _phase, _batch: None)
    while steps.batch(None, lambda _phase, _batch: None).left:
        pass
    assert steps.progress.applied == written.checkpoint - 1
    found = {name: table.named_rows() for name, table in lake.tables.items()}
    expected = lake_rows(truth_of(config))
    assert found.keys() == {(escape(schema), escape(name)) for schema, name in expected}
    for (schema, name), rows in expected.items():
        assert in_order(found[escape(schema), escape(name)]) == in_order(rows), name
    assert all(table.is_clean for table in steps.progress.tables if not table.is_gone)
    assert len(steps.progress.source_memory) < 20_000
