"""Changes of one table that several tasks write, each those of some keys."""

import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import lake, replicate, write_job
from tests.spark.simple_topic import insert, topic
from tests.spark.test_row_delta import CREATE, T, Ways, delete, orphans, rows
from tests.spark.test_row_delta import ways as ways
from ticdc_spark.changes.spread import spread
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import Change, Row, RowChange, Watermark
from ticdc_spark.sinks.iceberg.files.data_files import DataFiles
from ticdc_spark.sinks.iceberg.rows import direct
from ticdc_spark.spark import tasks
from ticdc_spark.spark.tasks import ArrowTask


def test_changes_of_one_table_are_spread_over_tasks(
    spark: SparkSession, folder: Path, ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "WORTH_A_TASK", 500)
    monkeypatch.setattr(tasks, "SMALL_ROWS", 100)  # more than that is not done by the driver
    draw, live, ts = random.Random(3), dict[int, Row](), 20
    events: list[Change] = [CREATE]
    job = write_job(folder, topic(folder, events))
    for _ in range(3):
        for _ in range(1500):
            ts, key = ts + 1, int(400 * draw.random() ** 3)
            row = live.pop(key, None)
            if row is not None and draw.random() < 0.2:
                events.append(delete(T, ts, row))
                continue
            live[key] = {"id": str(key), "v": str(ts)}
            changed = RowChange(op="update", table=T, commit_ts=ts, before=row, after=live[key])
            events.append(changed if row is not None else insert(T, ts, **live[key]))
        events.append(Watermark(ts + 1))
        topic(folder, events)
        replicate(job)
        assert rows(spark, folder) == [{"id": key, "v": int(str(live[key]["v"]))} for key in sorted(live)]
    assert (ways.direct, ways.merges) == ([True] * 3, 0)
    added = lake(spark, folder).sql("SELECT summary['added-data-files'] n FROM lake.s.t.snapshots").collect()
    assert [row["n"] for row in added].count("2") == 3, "by two tasks each"
    assert not orphans(spark, folder)


def test_what_other_tasks_wrote_is_removed_when_one_fails(
    spark: SparkSession, folder: Path, ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "TASK_ROWS", 100)
    job = write_job(folder, topic(folder, [CREATE, Watermark(15)]))
    replicate(job)
    events: list[Change] = [
        CREATE,
        Watermark(15),
        *(insert(T, 20, id=str(at), v="1") for at in range(400)),
        Watermark(30),
    ]
    topic(folder, events)
    seen = folder / "written"
    with monkeypatch.context() as patch:
        patch.setattr(direct, "write_rows", partial(_failing, seen, direct.write_rows))
        with pytest.raises(SinkFault, match="no space left"):
            replicate(job)
    written = set(seen.read_text().split())
    assert len(written) > 1, "other tasks had written"
    replicate(job)
    assert len(rows(spark, folder)) == 400
    assert not written & orphans(spark, folder), "tasks that ended later may leave files"


def _failing(seen: Path, write_rows: Any, columns: Any, files: DataFiles, **more: Any) -> ArrowTask:
    """Writes, and fails once others have written, too. The first that fails tells what was written."""
    task = write_rows(columns, files, **more)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done = list(task(batches))
        written = [path.name for path in Path(files.folder).glob("*.parquet")]
        if len(written) > 1:
            with suppress(FileExistsError), seen.open("x") as file:
                file.write("\n".join(written))
            raise SinkFault("no space left")
        yield from done

    return run


def test_all_events_of_a_key_come_to_one_task_and_the_tasks_get_about_as_many() -> None:
    draw = random.Random(1)
    numbers = [draw.randrange(5_000) for _ in range(20_000)]
    keys = {
        "integers": (pa.array(numbers, pa.int64()),),
        "even integers": (pa.array([2 * one for one in numbers], pa.int32()),),
        "text": (pa.array([f"key {one}" for one in numbers]),),
        "bytes and days": (pa.array([one.to_bytes(3) for one in numbers], pa.binary()), pa.array(numbers, pa.date32())),
        "decimals": (pa.array(map(Decimal, numbers), pa.decimal128(20, 3)),),
        "times": (pa.array([one * 3_600_000_000 for one in numbers], pa.timestamp("us", "UTC")),),
    }
    for kind, columns in keys.items():
        names = [f"k{at}" for at in range(len(columns))]
        table = pa.table([*columns, pa.array(range(len(numbers)))], [*names, "row"])
        seen: dict[int, int] = {}
        counts = np.zeros(4, np.int64)
        for task, held in spread(table.to_batches(3_000), names, 4):
            for row in pa.ipc.open_stream(held).read_all().column("row").to_pylist():
                assert seen.setdefault(numbers[row], task) == task, kind
                counts[task] += 1
        assert counts.sum() == len(numbers), kind
        assert counts.min() > 4_000, kind
