"""The log's files: what is written is what landed, and what is read is what a plain filter finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_land import CONFIG, ENCODERS
from tests.workload import dispatch, generate
from ticdc_spark.spark.decode import log_files
from ticdc_spark.spark.decode.envelopes import LandingPlan, bucket_of, land
from ticdc_spark.spark.decode.log_files import CONTROL_COLUMNS, FILE, LogFile, LogScan, read_log, write_log
from ticdc_spark.spark.decode.log_schema import CONTROL_BUCKET, LOG_SCHEMA
from ticdc_spark.spark.decode.rows import LOG_COLUMNS
from ticdc_spark.spark.storage import LOCAL

BUCKETS = 3
PLAN = LandingPlan(protocol="simple", generation=2, batch=7, buckets=BUCKETS, table_replay_below={}, watermarks={})
IDS = {field.name: at for at, field in enumerate(LOG_SCHEMA, 1)}
LogRow = dict[str, Any]


def messages() -> list[pa.RecordBatch]:
    """A wild shop's messages, in batches."""
    sent = list(dispatch(generate(CONFIG), CONFIG, ENCODERS["simple"]))
    return [
        pa.RecordBatch.from_pydict(
            {
                "topic": [message.topic for message in part],
                "partition": pa.array([message.partition for message in part], pa.int32()),
                "offset": [message.offset for message in part],
                "key": pa.array([message.key for message in part], pa.binary()),
                "value": pa.array([message.value for message in part], pa.binary()),
            }
        )
        for part in (sent[at : at + 100] for at in range(0, len(sent), 100))
    ]


def landed() -> list[LogRow]:
    return [row for part in land(PLAN)(messages()) for row in part.to_pylist()]


def write(folder: Path, batches: Iterable[pa.RecordBatch]) -> tuple[list[LogRow], list[LogFile]]:
    """What the driver gets: control events, and the files."""
    reported = [row for part in write_log(PLAN, LOCAL, str(folder), IDS)(batches) for row in part.to_pylist()]
    files = [msgspec.json.decode(row["control"], type=LogFile) for row in reported if row["kind"] == FILE]
    return [row for row in reported if row["kind"] != FILE], files


def read(tasks: Sequence[Sequence[LogFile]], wanted: LogScan, numbers: Sequence[int] | None = None) -> list[LogRow]:
    chosen = list(range(len(tasks))) if numbers is None else numbers
    scans = [pa.RecordBatch.from_pydict({"id": [number]}) for number in chosen]
    return [row for part in read_log(LOCAL, tasks, wanted)(scans) for row in part.to_pylist()]


def naive(rows: Iterable[LogRow], wanted: LogScan) -> list[LogRow]:
    return [
        {name: row[name] for name in LOG_COLUMNS}
        for row in rows
        if (row["generation"], row["schema"], row["table"]) == (wanted.generation, wanted.schema, wanted.table)
        and row["kind"] in wanted.kinds
        and wanted.above < row["commit_ts"] <= wanted.upto
        and (wanted.keys is None or row["schema_key"] in wanted.keys)
    ]


def of(row: LogRow, above: int = -1, upto: int = 2**63 - 1, **more: Any) -> LogScan:
    return LogScan(
        generation=PLAN.generation,
        batches=frozenset([PLAN.batch]),
        schema=row["schema"],
        table=row["table"],
        above=above,
        upto=upto,
        **more,
    )


def in_order(rows: Iterable[LogRow]) -> list[LogRow]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize(("flush", "group"), [(64 << 20, 1_000), (1, 1), (20_000, 20)])
def test_what_landed_is_written_and_read_back(
    tmp_path: Path, flush: int, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "_FLUSH_BYTES", flush)
    monkeypatch.setattr(log_files, "_MIN_ROW_GROUP", group)
    monkeypatch.setattr(log_files, "_BATCH", 50)
    rows = landed()
    controls, files = write(tmp_path / "log", messages())
    names = [field.name for field in LOG_SCHEMA if field.name in CONTROL_COLUMNS]
    assert in_order(controls) == in_order(
        {name: row[name] for name in names} for row in rows if row["slot"] == CONTROL_BUCKET
    )
    assert sorted(map(str, (tmp_path / "log").iterdir())) == sorted(file.path for file in files)
    held: list[LogRow] = []
    for file in files:
        found = pq.read_table(file.path, partitioning=None)
        assert [found.schema.field(name).metadata[b"PARQUET:field_id"] for name in IDS] == [
            str(number).encode() for number in IDS.values()
        ]
        assert (len(found), Path(file.path).stat().st_size) == (file.rows, file.bytes)
        assert set(found.column("slot").to_pylist()) == {file.bucket}
        held += found.to_pylist()
    assert in_order(held) == in_order(rows)
    changes = [row for row in rows if row["slot"] != CONTROL_BUCKET]
    stamps = sorted(row["commit_ts"] for row in changes)
    low, high = stamps[len(stamps) // 4], stamps[len(stamps) // 2]
    for schema, table in {(row["schema"], row["table"]) for row in changes}:
        row = {"schema": schema, "table": table}
        mine = [file for file in files if file.bucket == bucket_of(schema, table, BUCKETS)]
        key = next(one["schema_key"] for one in changes if (one["schema"], one["table"]) == (schema, table))
        for scans in (of(row), of(row, low, high), of(row, high, low), of(row, keys=(key,)), of(row, kinds=("late",))):
            assert in_order(read([mine], scans)) == in_order(naive(rows, scans)), scans


NAMES = st.one_of(st.text(max_size=3), st.sampled_from(["a", "b", "é", "\0", "\U0001f600", "x" * 5000]))


@st.composite
def log_rows(draw: st.DrawFn) -> LogRow:
    schema, table = draw(NAMES), draw(NAMES)
    after = draw(st.none() | st.binary(max_size=4))
    return dict.fromkeys(LOG_SCHEMA.names) | {
        "generation": draw(st.sampled_from([2, 2, 2, 1])),
        "batch": 7,
        "slot": bucket_of(schema, table, BUCKETS),
        "kind": draw(st.sampled_from(["row", "row", "late"])),
        "topic": "t",
        "partition": 0,
        "offset": draw(st.integers(0, 2**40)),
        "seq": 0,
        "op": "insert",
        "schema": schema,
        "table": table,
        "schema_key": draw(st.sampled_from(["", "1", "2"])),
        "commit_ts": draw(st.sampled_from([0, 1, 5, 2**63 - 1])),
        "partial": False,
        "after": after,
    }


class _Given:
    """Stands in for ``land``: gives what it is given."""

    def __call__(self, plan: LandingPlan) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        return lambda batches: iter(batches)


@given(
    st.lists(st.lists(log_rows(), min_size=1, max_size=8), max_size=4),
    st.sampled_from([-1, 0, 4, 5]),
    st.sampled_from([0, 4, 5, 2**63 - 1]),
    st.sampled_from([("row",), ("row", "late")]),
    st.sampled_from([None, ("",), ("1", "2"), ()]),
    st.sampled_from([1, 3, 1000]),
    st.sampled_from([1, 64 << 20]),
)
def test_odd_names_and_many_small_tables_are_distinguished(
    parts: list[list[LogRow]],
    above: int,
    upto: int,
    kinds: tuple[str, ...],
    keys: Collection[str] | None,
    group: int,
    flush: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(log_files, "land", _Given())
        patch.setattr(log_files, "_MIN_ROW_GROUP", group)
        patch.setattr(log_files, "_FLUSH_BYTES", flush)
        _, files = write(Path(folder), (pa.RecordBatch.from_pylist(part, schema=LOG_SCHEMA) for part in parts))
        rows = [row for part in parts for row in part]
        assert Counter(file.bucket for file in files) == Counter({row["slot"] for row in rows})
        for schema, table in {(row["schema"], row["table"]) for row in rows}:
            scans = of({"schema": schema, "table": table}, above, upto, kinds=kinds, keys=keys)
            mine = [file for file in files if file.bucket == bucket_of(schema, table, BUCKETS)]
            assert in_order(read([mine], scans)) == in_order(naive(rows, scans))


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_many_tables_are_in_the_files_of_their_buckets(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "land", _Given())
    monkeypatch.setattr(log_files, "_MIN_ROW_GROUP", 1 + seed % 4)
    chance = Random(seed)
    names = [str(chance.randrange(10**6)) for _ in range(chance.randrange(2, 60))]
    blank = dict.fromkeys(LOG_SCHEMA.names) | {"generation": 2, "kind": "row", "schema": "s", "commit_ts": 1}
    rows = [
        blank | {"table": name, "slot": bucket_of("s", name, BUCKETS), "offset": at}
        for name in names
        for at in range(chance.randrange(1, 4))
    ]
    _, files = write(tmp_path, [pa.RecordBatch.from_pylist(rows, schema=LOG_SCHEMA)])
    for file in files:
        assert set(pq.read_table(file.path, partitioning=None).column("slot").to_pylist()) == {file.bucket}
    assert sum(file.rows for file in files) == len(rows)


def test_row_groups_of_other_tables_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "land", _Given())
    monkeypatch.setattr(log_files, "_MIN_ROW_GROUP", 10)
    tables = {"big": 25, "c": 1, "d": 1, "e": 1, "other": 12, "z": 40}
    blank = dict.fromkeys(LOG_SCHEMA.names) | {"generation": 2, "batch": 7, "slot": 0, "kind": "row", "schema": "s"}
    rows = [blank | {"table": name, "commit_ts": at} for name, count in tables.items() for at in range(1, count + 1)]
    _, (file,) = write(tmp_path, [pa.RecordBatch.from_pylist(rows[::-1], schema=LOG_SCHEMA)])
    groups = [pq.ParquetFile(file.path).metadata.row_group(at).num_rows for at in range(3)]
    assert groups == [25, 15, 40]  # the small ones are with the next that is not
    looked_at: list[int] = []
    ours = log_files._chosen

    def chosen(found: pa.Table, wanted: LogScan) -> pa.Table:
        looked_at.append(len(found))
        return ours(found, wanted)

    monkeypatch.setattr(log_files, "_chosen", chosen)
    for name, group in {"big": [25], "d": [15], "other": [15], "z": [40], "a": [], "f": [15]}.items():
        looked_at.clear()
        assert len(read([[file]], of({"schema": "s", "table": name}))) == tables.get(name, 0)
        assert looked_at == group, name


def test_a_task_reads_the_files_of_its_number(tmp_path: Path) -> None:
    _, files = write(tmp_path, messages())
    rows = landed()
    row = next(row for row in rows if row["kind"] == "row")
    mine = [file for file in files if file.bucket == bucket_of(row["schema"], row["table"], BUCKETS)]
    wanted = naive(rows, of(row))
    assert in_order(read([[], mine], of(row), [1])) == in_order(wanted)
    assert not read([[], mine], of(row), [0])


def test_a_task_that_fails_names_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "_FLUSH_BYTES", 1)
    reported: list[LogRow] = []

    def broken() -> Iterator[pa.RecordBatch]:
        yield from messages()[:2]
        raise OSError

    def run() -> None:
        for part in write_log(PLAN, LOCAL, str(tmp_path), IDS)(broken()):
            reported.extend(part.to_pylist())

    with pytest.raises(OSError):
        run()
    assert list(tmp_path.iterdir())
    assert reported and not [row for row in reported if row["kind"] == FILE]
