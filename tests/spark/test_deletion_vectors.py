"""Row deltas into tables of version 3, whose deletes are deletion vectors: one for a data file, which holds all."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import lake, replicate, write_job
from tests.spark.simple_topic import insert, topic
from tests.spark.test_row_delta import (
    CREATE,
    END,
    FIRST,
    MORE,
    T,
    Ways,
    commits_meanwhile,
    delete,
    orphans,
    rows,
    update,
)
from tests.spark.test_row_delta import OTHERS as MEANWHILE
from tests.spark.test_row_delta import ways as ways
from ticdc_spark.model import Change, Watermark
from ticdc_spark.sinks.iceberg.files.vectors import decode, encode
from ticdc_spark.sinks.iceberg.java import JavaNames

V3 = "[sink.table-properties]\nformat-version = 3\n"
CALL = "CALL lake.system"


def start(folder: Path, events: list[Change], more: str = "") -> Path:
    job = write_job(folder, topic(folder, events), more)
    job.write_text(job.read_text() + V3 + "[upkeep]\nenabled = false\n")
    replicate(job)
    return job


def vectors(spark: SparkSession, folder: Path) -> list[tuple[str, int]]:
    """The live deletes: data file and rows."""
    found = lake(spark, folder).table("lake.s.t.delete_files")
    assert {row["file_format"] for row in found.collect()} <= {"PUFFIN"}
    return [(str(row["referenced_data_file"]), int(row["record_count"])) for row in found.collect()]


def test_iceberg_reads_what_is_encoded_and_python_what_iceberg_writes(spark: SparkSession) -> None:
    iceberg: Any = JavaNames(spark._jvm.org.apache.iceberg)  # type: ignore[union-attr]
    draw = np.random.default_rng(1)
    dense, sparse = np.flatnonzero(draw.random(200_000) < 0.4), np.flatnonzero(draw.random(3_000_000) < 0.001)
    for positions in (np.array([0]), dense, sparse, np.arange(70_000), np.array([1, 1 << 32, (5 << 32) + 7])):
        builder = iceberg.FileMetadata.deleteFileBuilder(iceberg.PartitionSpec.unpartitioned()).ofPositionDeletes()
        mine = encode(positions)
        file = builder.withPath("/x.puffin").withFormat("puffin").withFileSizeInBytes(len(mine) + 100)
        file = file.withReferencedDataFile("/x.parquet").withContentOffset(4).withContentSizeInBytes(len(mine))
        file = file.withRecordCount(len(positions)).build()
        read = iceberg.deletes.PositionDeleteIndex.deserialize(bytearray(mine), file)
        assert read.cardinality() == len(positions)
        assert all(read.isDeleted(int(at)) for at in positions[:: max(1, len(positions) // 100)])
        read.delete(10_000_000, 10_100_000)  # a run
        again = decode(bytes(read.serialize().array()))
        assert np.array_equal(again, np.union1d(positions, np.arange(10_000_000, 10_100_000)))


def test_a_table_of_version_3_takes_row_deltas(spark: SparkSession, folder: Path, ways: Ways) -> None:
    job = start(folder, [*FIRST])
    topic(folder, [*FIRST, *MORE])
    replicate(job)
    assert rows(spark, folder) == END
    assert [count for _, count in vectors(spark, folder)] == [3]
    more = [
        update(T, 140, {"id": "4", "v": "4"}, v="44"),  # another row of the first file
        update(T, 141, {"id": "1", "v": "11"}, v="12"),  # once more
        delete(T, 142, {"id": "8", "v": "3"}),
    ]
    topic(folder, [*FIRST, *MORE, *more, Watermark(200)])
    replicate(job)
    assert (ways.direct, ways.merges) == ([True] * 3, 0)
    assert rows(spark, folder) == [{"id": 1, "v": 12}, {"id": 4, "v": 44}, {"id": 5, "v": None}]
    found = vectors(spark, folder)
    assert sorted(count for _, count in found) == [2, 4]
    assert len({file for file, _ in found}) == 2, "one for each file"
    ids = lake(spark, folder).sql("SELECT _row_id FROM lake.s.t").collect()
    assert len({row[0] for row in ids} - {None}) == 3, "each row has an id of its own"
    assert not orphans(spark, folder)


OTHERS: list[Callable[[SparkSession], object]] = [
    lambda session: session.sql(
        "MERGE INTO lake.s.t t USING (SELECT id FROM range(0, 60, 5)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = -1"
    ).collect(),
    lambda session: session.sql("DELETE FROM lake.s.t WHERE id % 13 = 3").collect(),
    lambda session: session.sql(f"{CALL}.rewrite_data_files('s.t', 'binpack')").collect(),
    lambda session: session.sql(
        f"{CALL}.rewrite_data_files(table => 's.t', options => map('rewrite-all', 'true'))"
    ).collect(),
    lambda session: session.sql(f"{CALL}.rewrite_manifests(table => 's.t', use_caching => false)").collect(),
    lambda session: session.sql(
        f"{CALL}.rewrite_position_delete_files(table => 's.t', options => map('rewrite-all', 'true'))"
    ).collect(),
]
"""What other writers do between batches; the first two change rows."""


def test_batches_among_other_writers_end_as_by_merge(spark: SparkSession, folder: Path, ways: Ways) -> None:
    """The same by row deltas and by MERGE, in two folders."""
    ends = []
    for writer in ("python", "spark"):
        one, draw = folder / writer, random.Random(7)
        one.mkdir()
        events: list[Change] = [CREATE, *(insert(T, 20, id=str(at), v=str(at)) for at in range(60)), Watermark(30)]
        job = start(one, events, f'writer = "{writer}"')
        for number, other in enumerate([*OTHERS, *OTHERS[:2]]):
            other(lake(spark, one))
            for at in draw.sample(range(60), 15):
                ts, row = 100 * (number + 1) + at, {"id": str(at), "v": "0"}
                events.append(
                    delete(T, ts, row)
                    if at % 9 == number
                    else update(T, ts, row, v=str(ts))
                    if at % 4
                    else update(T, ts, row, id=str(at + 1000), v=str(ts))
                )
            events.append(Watermark(100 * (number + 2)))
            topic(one, events)
            replicate(job)
        ends.append(rows(spark, one))
        if writer == "python":
            assert ways.direct == [True] * 9
            assert not ways.merges
            assert all(count for _, count in vectors(spark, one))
            assert not orphans(spark, one)
    assert ends[0] == ends[1]
    assert len(ends[0]) > 30


@pytest.mark.parametrize("other", ["delete", pytest.param("compaction", marks=pytest.mark.slow)])
def test_a_vector_that_another_writer_commits_meanwhile_is_kept(
    spark: SparkSession, folder: Path, ways: Ways, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = start(folder, [*FIRST])
    topic(folder, [*FIRST, *MORE])
    commits_meanwhile(monkeypatch, spark, folder, MEANWHILE[other])
    replicate(job)
    assert (ways.direct, ways.merges) == ([True, False], 1)
    assert rows(spark, folder) == [row for row in END if other != "delete" or row["id"] != 4]
    assert not orphans(spark, folder)


def test_a_table_that_was_of_version_2_keeps_its_deletes(spark: SparkSession, folder: Path, ways: Ways) -> None:
    job = write_job(folder, topic(folder, [*FIRST]))
    replicate(job)
    topic(folder, [*FIRST, *MORE])
    replicate(job)
    session = lake(spark, folder)
    session.sql("DELETE FROM lake.s.t WHERE id = 5").collect()  # by a file that names the data file
    session.sql("ALTER TABLE lake.s.t SET TBLPROPERTIES ('format-version' = '3')")
    more = [update(T, 140, {"id": "4", "v": "4"}, v="44"), update(T, 141, {"id": "8", "v": "3"}, v="88")]
    topic(folder, [*FIRST, *MORE, *more, Watermark(200)])
    replicate(job)
    assert (ways.direct, ways.merges) == ([True] * 3, 0)
    assert rows(spark, folder) == [{"id": 1, "v": 11}, {"id": 4, "v": 44}, {"id": 8, "v": 88}]
    found = session.sql("SELECT file_format, record_count FROM lake.s.t.delete_files").collect()
    assert sorted(tuple(row) for row in found) == [("PUFFIN", 2), ("PUFFIN", 4)], "with the former ones of their files"
    assert not orphans(spark, folder)


@pytest.mark.slow
def test_many_rows_of_one_file(spark: SparkSession, folder: Path, ways: Ways) -> None:
    events: list[Change] = [CREATE, *(insert(T, 20, id=str(at), v="0") for at in range(70_000)), Watermark(30)]
    job = start(folder, events)
    events += [update(T, 40, {"id": str(at), "v": "0"}, v="1") for at in range(0, 70_000, 2)]
    topic(folder, [*events, Watermark(50)])
    replicate(job)
    events += [Watermark(50), *(delete(T, 60, {"id": str(at), "v": "1"}) for at in range(60_000, 70_000))]
    topic(folder, [*events, Watermark(70)])
    replicate(job)
    assert (ways.direct, ways.merges) == ([True] * 3, 0)
    assert rows(spark, folder) == [{"id": at, "v": 1 - at % 2} for at in range(60_000)]
    assert sorted(count for _, count in vectors(spark, folder)) == [5_000, 40_000]
