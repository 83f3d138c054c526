"""Jobs that die at every point and, besides, begin in the middle of tables, or find a lake or a state of another time.

Each ends where an undisturbed one ends, or stops and says what to do; done, that leads there.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.simulator.iceberg_lake import IcebergLake
from tests.spark.deaths import (
    END,
    END_OF_FOUND,
    FIRST,
    FOUND,
    POINTS,
    SECOND,
    WRITERS,
    T,
    before_the_batch,
    delete,
    once_at,
    run_with_deaths,
    tables,
    update,
)
from tests.spark.lake import replicate, write_job
from tests.spark.simple_topic import insert, topic
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.model import Change, Watermark
from ticdc_spark.sinks.iceberg.rows import upsert

BY_WRITER = pytest.mark.parametrize("writer", ["python", pytest.param("spark", marks=pytest.mark.slow)])


@pytest.fixture(autouse=True)
def _append_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upsert, "MIN_APPEND_ROWS", 3)


@BY_WRITER
def test_a_job_whose_tables_were_there_before_it(
    spark: SparkSession, folder: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows and DDL of tables that no CREATE showed, all in the first batch."""
    job_file = write_job(folder, topic(folder, [*FOUND, *SECOND]), f'writer = "{writer}"')
    died = run_with_deaths(job_file, once_at(POINTS), monkeypatch)
    assert set(died) >= WRITERS[writer] - {"append", "columns"}, died
    assert tables(spark, folder) == END_OF_FOUND


@BY_WRITER
@pytest.mark.slow
def test_a_job_whose_lake_and_state_are_restored_after_every_death(
    spark: SparkSession, folder: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they were before the batch. At the end the lake is, and the state is not: the job stops."""
    job_file = before_the_batch(folder, writer)
    lake = IcebergLake(spark, folder)
    before = lake.save()
    died = run_with_deaths(job_file, once_at(POINTS), monkeypatch, lambda: lake.restore(before))
    assert set(died) >= WRITERS[writer] - {"append"}, died
    assert tables(spark, folder) == END

    lake.restore(before)
    replicate(job_file)
    assert tables(spark, folder) == END


ROWS: tuple[Change, ...] = (
    insert(T, 40, id="5", v="5"),
    update(T, 41, {"id": "1", "v": "1"}, v="11"),
    delete(T, 42, id="2", v="2"),
    Watermark(100),
    insert(T, 140, id="6", v="6"),
    Watermark(200),
)
LATER: tuple[Change, ...] = (insert(T, 240, id="7", v="7"), Watermark(300))


@pytest.mark.parametrize("back", [1, 9])
def test_a_table_that_was_rolled_back_stops_the_job_until_it_is_rolled_forward(
    spark: SparkSession, folder: Path, back: int
) -> None:
    job_file = write_job(folder, topic(folder, FIRST))
    replicate(job_file)
    topic(folder, [*FIRST, *ROWS])
    replicate(job_file)
    lake = IcebergLake(spark, folder)
    whole = lake.save()
    lake.rollback(("s", "t"), back)
    topic(folder, [*FIRST, *ROWS, *LATER])
    before = tables(spark, folder)
    for _ in range(2):
        with pytest.raises(DecisionNeeded, match=r"`s`.`t` is at .* set back.*`ticdc-spark rebuild \S+ s.t`"):
            replicate(job_file)
    assert tables(spark, folder) == before
    lake.restore_table(("s", "t"), whole)
    replicate(job_file)
    assert tables(spark, folder)["t"] == [{"id": at, "v": 11 if at == 1 else at} for at in (1, 3, 4, 5, 6, 7)]


def test_a_warehouse_that_was_moved_stops_the_job_with_one_sentence(folder: Path) -> None:
    job_file = write_job(folder, topic(folder, FIRST))
    replicate(job_file)
    (folder / "lake").rename(folder / "moved")
    job_file.write_text(job_file.read_text().replace('warehouse = "lake"', 'warehouse = "moved"'))
    with pytest.raises(
        DecisionNeeded, match=r"^the catalog refers to \S+/lake/\S+, which does not exist: .* moved"
    ) as told:
        replicate(job_file)
    assert "\n" not in str(told.value) and "Exception" not in str(told.value)
    (folder / "moved").rename(folder / "lake")
    job_file.write_text(job_file.read_text().replace('warehouse = "moved"', 'warehouse = "lake"'))
    replicate(job_file)
