"""Few messages of a recorded topic, read by the driver."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded_topics import lines, write_json, write_parquet
from ticdc_spark.errors import SourceFault
from ticdc_spark.spark import tasks
from ticdc_spark.spark.sources.files import RecordedTopicSource

WRITE = {"jsonl": write_json, "jsonl.gz": write_json, "parquet": write_parquet}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def source_of(folder: Path) -> RecordedTopicSource:
    """The source; without a Spark session, which it must not need."""
    no_session: Any = None
    return RecordedTopicSource(no_session, folder)


def offsets_of(source: RecordedTopicSource, start: int, end: int) -> list[tuple[int, int]]:
    read = source.read_here({("t", 0): start}, {("t", 0): end, ("t", 1): 5})
    assert read is not None
    return sorted(zip(read.column("partition").to_pylist(), read.column("offset").to_pylist(), strict=True))


@pytest.mark.parametrize("kind", WRITE)
def test_exactly_what_lies_between_the_offsets(tmp_path: Path, kind: str) -> None:
    write = WRITE[kind]
    write(tmp_path / f"a.{kind}", lines("t", 0, range(10, 40)))
    write(tmp_path / f"b.{kind}", [*lines("t", 0, range(50, 60)), *lines("t", 1, range(9))])
    source = source_of(tmp_path)
    assert offsets_of(source, 30, 52) == [*((0, at) for at in (*range(30, 40), 50, 51)), *((1, at) for at in range(5))]
    nothing = source.read_here({("t", 0): 60}, {("t", 0): 60})
    assert nothing is not None and len(nothing) == 0
    with pytest.raises(SourceFault, match="ends at 60"):
        source.read_here({("t", 0): 60}, {("t", 0): 61})


@pytest.mark.parametrize("kind", WRITE)
@pytest.mark.parametrize(("limit", "value"), [("SMALL_ROWS", 29), ("SMALL_BYTES", 50)])
def test_what_is_large_is_left_to_spark(
    tmp_path: Path, kind: str, limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    WRITE[kind](tmp_path / f"a.{kind}", lines("t", 0, range(30)))
    source = source_of(tmp_path)
    assert source.read_here({}, {("t", 0): 30}) is not None
    monkeypatch.setattr(tasks, limit, value)
    assert source.read_here({}, {("t", 0): 30}) is None, "also a part of a file that must be opened whole"
