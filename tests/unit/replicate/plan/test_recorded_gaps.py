"""A file that fills an earlier gap of a recorded topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded_topics import lines, write_json, write_parquet
from ticdc_spark.config.job import FilesSource
from ticdc_spark.errors import SourceChanged
from ticdc_spark.replicate.plan.source_check import check_source, source_notes
from ticdc_spark.replicate.state.progress import PartitionState, Progress
from ticdc_spark.spark.sources.files import RecordedTopicSource

SOURCE = FilesSource(path=Path("recorded"))
WRITE = {"jsonl": write_json, "jsonl.gz": write_json, "parquet": write_parquet}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def listing(folder: Path) -> RecordedTopicSource:
    """The source; what it lists needs no Spark session."""
    no_session: Any = None
    return RecordedTopicSource(no_session, folder)


def read_to(source: RecordedTopicSource, offset: int) -> Progress:
    progress = Progress(job="j", partitions=(PartitionState(topic="t", partition=0, offset=offset),))
    return Progress(job="j", partitions=progress.partitions, source=source_notes(source, progress))


@pytest.mark.parametrize("kind", WRITE)
@pytest.mark.parametrize("gap", [range(10), range(3), range(40, 50), range(45, 46)])
def test_a_file_that_fills_a_gap_below_what_was_read_stops_the_job(tmp_path: Path, gap: range, kind: str) -> None:
    """A segment that was copied late would never be read."""
    write = WRITE[kind]
    write(tmp_path / f"b.{kind}", lines("t", 0, range(10, 40)))
    write(tmp_path / f"c.{kind}", lines("t", 0, range(50, 60)))
    source = listing(tmp_path)
    progress = read_to(source, 60)
    check_source(source, progress, SOURCE)
    write(tmp_path / f"a.{kind}", lines("t", 0, gap))
    with pytest.raises(SourceChanged, match="number of messages below offset 60 of topic t, partition 0 was 40 and is"):
        check_source(listing(tmp_path), progress, SOURCE)


@pytest.mark.parametrize("kind", WRITE)
def test_a_gap_below_an_offset_inside_a_file_is_noticed(tmp_path: Path, kind: str) -> None:
    """The batch ended in the middle of a file."""
    write = WRITE[kind]
    write(tmp_path / f"b.{kind}", lines("t", 0, range(10, 40)))
    source = listing(tmp_path)
    progress = read_to(source, 25)
    check_source(source, progress, SOURCE)
    write(tmp_path / f"a.{kind}", lines("t", 0, range(5)))
    with pytest.raises(SourceChanged, match="below offset 25"):
        check_source(listing(tmp_path), progress, SOURCE)


@pytest.mark.parametrize("kind", WRITE)
def test_files_that_follow_are_no_matter(tmp_path: Path, kind: str) -> None:
    """A topic that goes on, with a gap ahead that is filled before it is read, and
    another partition."""
    write = WRITE[kind]
    write(tmp_path / f"a.{kind}", lines("t", 0, range(30)))
    write(tmp_path / f"c.{kind}", lines("t", 0, range(50, 60)))
    source = listing(tmp_path)
    progress = read_to(source, 30)
    write(tmp_path / f"b.{kind}", lines("t", 0, range(30, 50)))
    write(tmp_path / f"d.{kind}", lines("t", 1, range(50)))
    check_source(listing(tmp_path), progress, SOURCE)


@pytest.mark.parametrize("kind", WRITE)
def test_a_file_that_is_removed_before_it_was_read_is_noticed(tmp_path: Path, kind: str) -> None:
    """The topic ends below what was read, or its partition is gone."""
    write = WRITE[kind]
    write(tmp_path / f"a.{kind}", lines("t", 0, range(30)))
    write(tmp_path / f"b.{kind}", lines("t", 0, range(30, 60)))
    progress = read_to(listing(tmp_path), 60)
    (tmp_path / f"b.{kind}").unlink()
    with pytest.raises(SourceChanged):
        check_source(listing(tmp_path), progress, SOURCE)
