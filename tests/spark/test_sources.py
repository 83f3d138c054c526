"""Recorded topics as a source: what is listed, what is read, what is refused; and how a backlog is cut."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from tests.support.recorded_topics import Line, as_json, lines, write_json, write_parquet
from tests.support.vectors import ROOT, needs_vectors
from ticdc_spark.errors import SourceFault
from ticdc_spark.model import Offsets
from ticdc_spark.spark.sources.base import OffsetRange, fair_cut
from ticdc_spark.spark.sources.files import RecordedTopicSource
from ticdc_spark.topics import json_lines as recorded_json


def _read(found: DataFrame) -> list[Line]:
    assert found.columns == list(Line._fields)
    rows = [Line(*row) for row in found.collect()]
    return sorted(
        (line._replace(key=_bytes(line.key), value=_bytes(line.value)) for line in rows), key=lambda line: line[:3]
    )


def _bytes(value: bytes | None) -> bytes | None:
    return None if value is None else bytes(value)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_reads_exactly_what_lies_between(
    spark: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_json, "CHUNK_BYTES", 4096)
    mixed = [
        line for pair in zip(lines("t", 0, range(10, 500)), lines("t", 1, range(490)), strict=True) for line in pair
    ]
    write = write_parquet if name.endswith(".parquet") else write_json
    write(tmp_path / "r" / name, mixed)
    source = RecordedTopicSource(spark, tmp_path / "r")
    assert source.beginning_offsets() == {("t", 0): 10, ("t", 1): 0}
    assert source.end_offsets() == {("t", 0): 500, ("t", 1): 490}
    assert _read(source.read(source.beginning_offsets(), source.end_offsets())) == sorted(mixed)
    assert _read(source.read({}, source.end_offsets())) == sorted(mixed)
    between = source.read({("t", 0): 100, ("t", 1): 7}, {("t", 0): 103, ("t", 1): 9})
    assert [line[1:3] for line in _read(between)] == [(0, 100), (0, 101), (0, 102), (1, 7), (1, 8)]
    alone = source.read({("t", 0): 100, ("t", 1): 7}, {("t", 1): 9})
    assert [line[1:3] for line in _read(alone)] == [(1, 7), (1, 8)]
    assert _read(source.read(source.end_offsets(), source.end_offsets())) == []


def test_files_of_all_kinds_make_one_topic_in_order_of_offset(spark: SparkSession, tmp_path: Path) -> None:
    """File names and times are ordered against the offsets, and there is a gap."""
    write_json(tmp_path / "z.jsonl", lines("t", 0, range(10)))
    write_json(tmp_path / "m" / "m.jsonl.gz", lines("t", 0, range(10, 20)))
    write_parquet(tmp_path / "topic=x" / "a.parquet", lines("t", 0, range(25, 40)))
    os.utime(tmp_path / "z.jsonl", (2_000_000_000, 2_000_000_000))
    for ignored in ("_tmp.jsonl", ".messages.parquet.tmp", "README.md", "_delta/a.jsonl"):
        (tmp_path / ignored).parent.mkdir(exist_ok=True)
        (tmp_path / ignored).write_text("not JSON")
    source = RecordedTopicSource(spark, tmp_path)
    assert [line.offset for line in _read(source.read({}, source.end_offsets()))] == [*range(20), *range(25, 40)]
    # Six messages on from 18 are four offsets of nothing and two messages too many: rows count, not offsets.
    assert source.cap({("t", 0): 18}, source.end_offsets(), 6, 1 << 30) == {("t", 0): 29}


def test_reads_only_files_that_overlap(spark: SparkSession, tmp_path: Path) -> None:
    for start in range(0, 40, 10):
        write_parquet(tmp_path / f"p{start}.parquet", lines("p", 0, range(start, start + 10)))
        write_json(tmp_path / f"j{start}.jsonl", lines("j", 0, range(start, start + 10)))
    source = RecordedTopicSource(spark, tmp_path)
    read = source.read({("p", 0): 15, ("j", 0): 15}, {("p", 0): 20, ("j", 0): 20})
    assert len(_read(read)) == 10
    for outside in ("j30.jsonl", "p30.parquet"):
        (tmp_path / outside).write_bytes(b"x" * (tmp_path / outside).stat().st_size)
    assert len(_read(read)) == 10, "a file outside of the range was opened"


def test_a_large_file_is_read_by_several_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_json, "CHUNK_BYTES", 4096)
    path = write_json(tmp_path / "a.jsonl", lines("t", 0, range(1000)))
    read = RecordedTopicSource(spark, path).read({}, {("t", 0): 1000})
    assert read.rdd.getNumPartitions() >= 2
    assert [line.offset for line in _read(read)] == list(range(1000))


def test_a_missing_offset_is_the_line(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_json, "CHUNK_BYTES", 300)
    texts = [as_json(line, without=("offset", "timestamp", "key")) for line in lines("t", 0, range(20))]
    texts.insert(5, "")
    (tmp_path / "a.jsonl").write_text("\n".join(texts))
    source = RecordedTopicSource(spark, tmp_path)
    found = _read(source.read({}, source.end_offsets()))
    assert [line.offset for line in found] == [i for i in range(21) if i != 5]
    assert {(line.timestamp, line.key) for line in found} == {(None, None)}
    between = _read(source.read({("t", 0): 3}, {("t", 0): 8}))
    assert [line.value for line in between] == [b"3" * 10, b"4" * 10, b"5" * 10, b"6" * 10]
    write_json(tmp_path / "b.jsonl", lines("t", 0, range(100, 110)))
    with pytest.raises(SourceFault, match=r"partition 0 is in .*a\.jsonl and in .*b\.jsonl"):
        source.end_offsets()


@needs_vectors
def test_golden_vectors_are_recorded_topics(spark: SparkSession) -> None:
    path = ROOT / "tiflow" / "smoke" / "simple_json.jsonl"
    source = RecordedTopicSource(spark, path)
    assert source.end_offsets() == {("tiflow-smoke", 0): len(path.read_text().splitlines())}
    found = _read(source.read({}, source.end_offsets()))
    assert all(line.value is not None and line.value.startswith(b'{"version":1') for line in found)
    assert len(found) == source.end_offsets()["tiflow-smoke", 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"topic": "t", "partition": 0, "offset": 1', "truncated"),
        ('{"topic": "t", "offset": 1}', "missing required field `partition`"),
        ('{"topic": "t", "partition": "0", "offset": 1}', "Expected `int`"),
        ("[]", "Expected `object`"),
        ('{"topic": "\\ud800", "partition": 0}', "surrogate"),
    ],
)
def test_a_bad_line_is_named_before_anything_is_read(
    spark: SparkSession, tmp_path: Path, text: str, message: str
) -> None:
    good = as_json(lines("t", 0, [0])[0])
    path = tmp_path / "a.jsonl"
    path.write_text(f"{good}\n\n{text}\n")
    with pytest.raises(SourceFault, match=rf"a\.jsonl, line 3: .*{message}"):
        RecordedTopicSource(spark, path).end_offsets()


@pytest.mark.parametrize("value", ['"a*b="', '"YQ="', "12"])
def test_bad_base64_names_file_and_line(spark: SparkSession, tmp_path: Path, value: str) -> None:
    good = as_json(lines("t", 0, [0])[0])
    path = tmp_path / "a.jsonl"
    path.write_text(f'{good}\n{{"topic": "t", "partition": 0, "offset": 1, "value": {value}}}\n')
    source = RecordedTopicSource(spark, path)
    with pytest.raises(PythonException, match=r"SourceFault: .*a\.jsonl, line 2: "):
        source.read({}, {("t", 0): 2}).collect()


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_an_offset_in_two_files_is_refused(spark: SparkSession, tmp_path: Path, suffix: str) -> None:
    write = write_json if suffix == "jsonl" else write_parquet
    write(tmp_path / f"a.{suffix}", lines("t", 0, range(0, 20, 2)))
    write_parquet(tmp_path / "b.parquet", lines("t", 0, range(1, 21, 2)))
    source = RecordedTopicSource(spark, tmp_path)
    assert source.end_offsets() == {("t", 0): 20}, "files may interleave"
    write(tmp_path / f"c.{suffix}", lines("t", 0, [8]))
    with pytest.raises(SourceFault, match=rf"offset 8 is in .*a\.{suffix} and in .*c\.{suffix}"):
        source.end_offsets()


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_an_offset_twice_in_a_file_is_refused(spark: SparkSession, tmp_path: Path, suffix: str) -> None:
    write = write_json if suffix == "jsonl" else write_parquet
    path = write(tmp_path / f"a.{suffix}", [*lines("t", 0, range(5)), *lines("t", 0, [3])])
    with pytest.raises(SourceFault, match=rf"offset 3 is in .*a\.{suffix} and there again"):
        RecordedTopicSource(spark, path).end_offsets()


def test_what_is_no_recorded_topic_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceFault, match="no such file or folder"):
        RecordedTopicSource(spark, tmp_path / "absent").end_offsets()
    with pytest.raises(SourceFault, match="no recorded messages"):
        RecordedTopicSource(spark, tmp_path).end_offsets()
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(SourceFault, match=r"a\.parquet"):
        RecordedTopicSource(spark, tmp_path).end_offsets()
    (tmp_path / "a.parquet").unlink()
    (tmp_path / "a.jsonl.gz").write_bytes(b"\x1f\x8b\x08\x00 no")
    with pytest.raises(SourceFault, match=r"a\.jsonl\.gz"):
        RecordedTopicSource(spark, tmp_path).end_offsets()


def test_parquet_with_other_columns_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT 't' AS topic, 0L AS partition").coalesce(1).write.parquet(str(tmp_path / "r"))
    with pytest.raises(SourceFault, match="column 'partition' is int64; a recorded topic has int32"):
        RecordedTopicSource(spark, tmp_path / "r").end_offsets()


def test_offsets_beyond_the_end_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.jsonl", lines("t", 0, range(5)))
    with pytest.raises(SourceFault, match="wanted offsets up to 9, but it ends at 5"):
        RecordedTopicSource(spark, path).read({}, {("t", 0): 9})
    with pytest.raises(SourceFault, match="'u', partition 0: does not exist any more"):
        RecordedTopicSource(spark, path).read({}, {("u", 0): 9})


def test_a_changed_file_is_scanned_again_and_an_unchanged_one_is_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_json(tmp_path / "a.jsonl", lines("t", 0, range(5)))
    source = RecordedTopicSource(spark, path)
    assert source.end_offsets() == {("t", 0): 5}
    with monkeypatch.context() as patch:
        patch.setattr(recorded_json, "scan", lambda path: pytest.fail(f"{path} was scanned again"))
        assert source.end_offsets() == {("t", 0): 5}
    write_json(path, lines("t", 0, range(7)))
    assert source.end_offsets() == {("t", 0): 7}


_sizes = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 50), st.integers(0, 10_000)), max_size=5)


@given(st.lists(_sizes, min_size=1, max_size=4), st.integers(1, 200), st.integers(1, 50_000))
def test_a_cut_is_fair_moves_on_and_holds_its_limits(
    partitions: list[list[tuple[int, int, int]]], max_rows: int, max_bytes: int
) -> None:
    """Ranges are (gap before, offsets, bytes); every offset is a message."""
    backlog: dict[tuple[str, int], list[OffsetRange]] = {}
    end: Offsets = {}
    for number, stretches in enumerate(partitions):
        at = 0
        held = backlog.setdefault(("t", number), [])
        for gap, length, size in stretches:
            held.append(OffsetRange(at + gap, at + gap + length, length, size))
            at += gap + length
        end["t", number] = at
    cut = fair_cut(backlog, end, max_rows, max_bytes)
    assert cut.keys() == end.keys()
    rows, taken = 0.0, 0.0
    shares = []
    for partition, held in backlog.items():
        parts = [part for each in held if (part := each.clip(0, cut[partition]))]
        mine = sum(part.rows for part in parts)
        rows += mine
        taken += sum(part.bytes for part in parts)
        assert cut[partition] <= end[partition]
        if held:
            assert mine >= 1 - 1e-6
            total = sum(each.rows for each in held)
            shares.append(((mine - 1) / total, mine / total))
    behind = sum(bool(held) for held in backlog.values())
    assert rows <= max_rows + behind
    largest = max((each.bytes / each.rows for held in backlog.values() for each in held), default=0)
    assert taken <= max_bytes + behind * largest + 1e-6
    assert all(low <= high + 1e-6 for low, _ in shares for _, high in shares), "one partition ran ahead"
