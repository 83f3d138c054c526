"""Delta: who opens the tables by the state of the job sees all of them at one commitTs, or is told to ask again."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from tests.spark.deaths import V, create, once_at, run_with_deaths
from tests.spark.lake import replicate
from tests.spark.simple_topic import ddl, insert, table, topic
from tests.spark.test_delta_job import POINTS, rows_of, write_job
from tests.support.bank import Bank, Held, Reader, Seen, run_while_read, short_story, story
from ticdc_spark import consistent, table_snapshots
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.model import Watermark


def reader_of(job_file: Path, bank: Bank) -> Reader:
    """Opens the tables as the page says, by deltalake."""

    def read() -> Seen | None:
        try:
            found = table_snapshots(job_file)
            lake = job_file.parent / "lake" / "s"
            held = [Held(name, rows_of(lake / name, version)) for (_, name), version in found.tables.items()]
            if found.left_out or table_snapshots(job_file) != found:
                return None
        except (SinkFault, UsageError, DeltaError):
            return None
        return Seen(found.commit_ts, {"moves" if one.name == "moves" else one.name[0]: one for one in held})

    return Reader(read, bank.wrong, pause=0.05)


def test_a_table_that_is_made_again_in_a_batch_is_not_taken_for_the_one_of_the_last_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one has the versions of the former one, too."""
    old, new = table(10, V), table(40, V)
    first = (create(old, 10), insert(old, 20, id="1", v="1"), Watermark(30))
    file, name = write_job(tmp_path), ("s", "t")
    topic(tmp_path, first)
    replicate(file)
    before = table_snapshots(file)
    assert (before.commit_ts, before.tables, before.left_out) == (29, {name: 1}, {})
    again = (ddl("ERASE", 38, "DROP TABLE `s`.`t`", old, old), create(new, 40), insert(new, 45, id="2", v="2"))
    topic(tmp_path, (*first, *again, Watermark(50)))
    looked: list[int] = []

    def look() -> None:
        assert rows_of(tmp_path / "lake" / "s" / "t", 1) == [{"id": 2, "v": 2}]
        found, opened = table_snapshots(file), consistent(file)
        for one in (found, opened):
            assert (one.commit_ts, [*one.tables]) == (29, [])
            assert one.left_out[name].startswith("made again")
        looked.append(found.commit_ts)

    assert run_with_deaths(file, once_at(["apply"]), monkeypatch, look) == ["apply"]
    assert looked == [29]
    opened = consistent(file)
    assert (opened.commit_ts, opened.tables[name].toArrow().to_pylist()) == (49, [{"id": 2, "v": 2}])


@pytest.mark.slow
def test_every_read_is_of_one_commit_also_while_ddl_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, bank = short_story(names=False)
    topic(tmp_path, first)
    job_file = write_job(tmp_path)
    replicate(job_file)
    topic(tmp_path, bank.sent)
    reader = reader_of(job_file, bank)
    assert run_while_read(job_file, reader, once_at(()), monkeypatch) == []
    assert not reader.found
    assert (reader.times[0], reader.times[-1], len({*reader.times})) == (200, 300, 2)


@pytest.mark.slow
def test_every_read_is_of_one_commit_wherever_the_job_dies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = story()
    topic(tmp_path, bank.sent)
    job_file = write_job(tmp_path, "batch-rows = 14")
    reader = reader_of(job_file, bank)
    died = run_while_read(job_file, reader, once_at(POINTS), monkeypatch)
    assert {"append", "merge", "ddl", "intent", "stamp", "fill", "scan", "apply", "progress"} <= {*died}
    assert not reader.found
    assert reader.times == sorted(reader.times) and {20, 1000} <= {*reader.times}
