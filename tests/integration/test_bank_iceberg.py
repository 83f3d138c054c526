"""Iceberg with a commit a table: who opens the tables by the state of the job sees all of them at one commitTs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.deaths import WRITERS, once_at
from tests.spark.lake import replicate, write_job
from tests.spark.simple_topic import topic
from tests.support.bank import Bank, Held, Reader, Seen, by_id, run_while_read, short_story, story
from ticdc_spark import consistent, consistent_scans
from ticdc_spark.errors import SinkFault, UsageError


def reader_of(job_file: Path, bank: Bank) -> Reader:
    """Opens the tables as the page says, by PyIceberg."""

    def read() -> Seen | None:
        try:
            found, scans = consistent_scans(job_file)
            held = [Held(name, by_id(scan.to_arrow().to_pylist())) for (_, name), scan in scans.items()]
        except (SinkFault, UsageError, FileNotFoundError):
            return None  # a DROP removes the files that a read is about to open
        assert not found.left_out
        return Seen(found.commit_ts, {"moves" if one.name == "moves" else one.name[0]: one for one in held})

    return Reader(read, bank.wrong, pause=0.05)


def test_every_read_is_of_one_commit_also_while_ddl_runs_and_the_job_dies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, bank = short_story()
    job_file = write_job(tmp_path, topic(tmp_path, first))
    replicate(job_file)
    topic(tmp_path, bank.sent)
    reader = reader_of(job_file, bank)
    assert {*run_while_read(job_file, reader, once_at({"merge", "apply"}), monkeypatch)} == {"merge", "apply"}
    assert not reader.found
    assert (reader.times[0], reader.times[-1], len({*reader.times})) == (200, 300, 2)
    opened = consistent(job_file)
    held = bank.at(300)
    assert opened.commit_ts == 300
    assert {name: by_id(frame.toArrow().to_pylist()) for (_, name), frame in opened.tables.items()} == {
        one.name: one.rows for one in held.values()
    }


@pytest.mark.slow
def test_every_read_is_of_one_commit_wherever_the_job_dies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = story()
    job_file = write_job(tmp_path, topic(tmp_path, bank.sent), "batch-rows = 14")
    reader = reader_of(job_file, bank)
    died = run_while_read(job_file, reader, once_at(WRITERS["python"], 2), monkeypatch)
    assert {"scan", "write", "merge", "ddl", "intent", "stamp", "fill", "apply", "progress"} <= {*died}
    assert not reader.found
    assert reader.times == sorted(reader.times) and {20, 1000} <= {*reader.times}
