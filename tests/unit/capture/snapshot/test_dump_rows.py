"""Dumpling's files: values, their escapes, what is NULL and what only looks like it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from tests.memory_sink.raw import Counted
from ticdc_spark.capture.snapshot import dump_rows
from ticdc_spark.capture.snapshot.base import Wanted
from ticdc_spark.capture.snapshot.dump import DumpReader
from ticdc_spark.capture.snapshot.dump_rows import read_file
from ticdc_spark.ddl import Comments
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.mysql import handle_key
from ticdc_spark.spark.types import LakeOptions, lake_columns

METADATA = (
    "Started dump at: 2024-05-05 10:00:00\nSHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: 449576018944000001\n"
    "\tGTID:\n\nFinished dump at: 2024-05-05 10:00:01\n"
)
SCHEMA = (
    "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\nCREATE TABLE `t` (\n  `id` int NOT NULL,\n"
    "  `v` varchar(40) DEFAULT NULL COMMENT 'it''s \\\\ text',\n"
    "  `b` varbinary(8) DEFAULT NULL,\n  `bits` bit(9) DEFAULT NULL,\n"
    "  `e` enum('a','b') DEFAULT NULL,\n  `g` int GENERATED ALWAYS AS (`id` + 1) VIRTUAL,\n  PRIMARY KEY (`id`)\n"
    ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n"
)
SQL = rb"""/*!40014 SET FOREIGN_KEY_CHECKS=0*/;
/*!40101 SET NAMES binary*/;
INSERT INTO `t` (`id`,`v`,`b`,`bits`,`e`) VALUES
(1,'it\'s \"so\"\n\\N),(',x'00ff27',x'0101','a'),
(-2,NULL,NULL,NULL,NULL);
INSERT INTO `t` (`id`,`v`,`b`,`bits`,`e`) VALUES
(3,'','',x'00','b');
"""
CSV = (
    b'"id","v","b","bits","e"\r\n'
    b'1,"it\'s \\"so\\"\\n\\\\N),(","\\0\xff\'","\x01\x01","a"\r\n'
    b"-2,\\N,\\N,\\N,\\N\r\n"
    b'3,"","","\\0","b"\r\n'
)
ROWS = [
    [b"1", b'it\'s "so"\n\\N),(', b"\0\xff'", b"\x01\x01", b"a"],
    [b"-2", None, None, None, None],
    [b"3", b"", b"", b"\0", b"b"],
]
TYPED = [
    {"id": 1, "v": 'it\'s "so"\n\\N),(', "b": b"\0\xff'", "bits": 257, "e": "a", "g": None},
    {"id": -2, "v": None, "b": None, "bits": None, "e": None, "g": None},
    {"id": 3, "v": "", "b": b"", "bits": 0, "e": "b", "g": None},
]


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize(("name", "data"), [("s.t.000000000.sql", SQL), ("s.t.000000000.csv", CSV)])
def test_rows_are_read_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, block: int
) -> None:
    monkeypatch.setattr(dump_rows, "_BLOCK", block)
    (tmp_path / name).write_bytes(data)
    found = [row for names, rows in read_file(tmp_path / name) for row in rows if names[0] == "id"]
    assert found == ROWS


def dumped(folder: Path, name: str, data: bytes) -> Path:
    (folder / "metadata").write_text(METADATA)
    (folder / "s-schema-create.sql").write_text("CREATE DATABASE `s`;\n")
    (folder / "s.t-schema.sql").write_text(SCHEMA)
    (folder / name).write_bytes(data)
    return folder


def rows_of(reader: DumpReader, where: str = "", left_out: str = "") -> list[dict[str, object]]:
    table = reader.schema(("s", "t"), None)
    assert table is not None
    columns = lake_columns(table, handle_key(table), LakeOptions())
    columns = tuple(column for column in columns if column.source != left_out)
    wanted = Wanted(
        name=("s", "t"),
        columns=columns,
        left_out=frozenset({left_out}),
        where=where,
        lake=LakeOptions(),
        at=reader.fixed,
    )
    wave = reader.wave(wanted)
    assert wave.done
    numbers = pa.RecordBatch.from_pydict({"id": pa.array(range(wave.parts), pa.int64())})
    return [row for batch in wave.read(Counted())([numbers]) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("s.t.000000000.sql", SQL),
        ("s.t.000000000.csv", CSV),
        ("s.t.000000000.sql.gz", gzip.compress(SQL, mtime=0)),
        ("s.t.0000000000000.csv.gz", gzip.compress(CSV, mtime=0)),
        ("s.t.000000000.sql.zst", pa.compress(SQL, "zstd", asbytes=True)),
    ],
)
def test_a_folder_gives_typed_rows_as_of_its_tso(tmp_path: Path, name: str, data: bytes) -> None:
    reader = DumpReader(dumped(tmp_path, name, data))
    assert reader.fixed == 449576018944000001
    assert reader.tables() == [("s", "t")]
    assert rows_of(reader) == TYPED
    assert reader.comments(("s", "t"), None) == Comments({"v": "it's \\ text"})
    assert reader.comments(("s", "u"), None) == Comments()


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("e = 'a'", [1]),
        ("e = 1", [1]),
        ("v = '' AND b = ''", [3]),
        ("b = X'00FF27'", [1]),
        ("bits > 256", [1]),
        ("v LIKE 'it%' OR id < 0", [1, -2]),
        ("id > 100", []),
    ],
)
def test_only_rows_that_are_wanted_are_read(tmp_path: Path, where: str, kept: list[int]) -> None:
    for name, data in (("s.t.000000000.sql", SQL), ("s.t.000000000.csv", CSV)):
        reader = DumpReader(dumped(tmp_path, name, data))
        for left_out in ("", where.partition(" ")[0]):
            if left_out != "id":
                wanted = [{name: value for name, value in row.items() if name != left_out} for row in TYPED]
                assert rows_of(reader, where, left_out) == [row for row in wanted if row["id"] in kept]
        (tmp_path / name).unlink()


def test_an_empty_table_has_no_file(tmp_path: Path) -> None:
    folder = dumped(tmp_path, "s.t.000000000.sql", SQL)
    (folder / "s.t.000000000.sql").unlink()
    assert rows_of(DumpReader(folder)) == []


def test_what_dumpling_does_not_write_is_refused_with_its_place(tmp_path: Path) -> None:
    reader = DumpReader(dumped(tmp_path, "s.t.000000000.sql", SQL.replace(b"NULL,NULL", b"NOW(),NULL", 1)))
    with pytest.raises(MessageError, match=r"s\.t\.000000000\.sql: row 2: no value: b'NOW"):
        rows_of(reader)


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    reader = DumpReader(dumped(tmp_path, "s.t.000000000.sql", SQL[:140]))
    with pytest.raises(MessageError, match="no value"):
        rows_of(reader)


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (METADATA.replace("tidb-binlog", "ON.000001"), "no TSO.*commit-ts"),
        (METADATA.partition("Finished")[0], "was not finished"),
        (None, "No such file"),
    ],
)
def test_a_dump_without_a_tso_is_refused(tmp_path: Path, metadata: str | None, said: str) -> None:
    folder = dumped(tmp_path, "s.t.000000000.sql", SQL)
    (folder / "metadata").unlink()
    if metadata is not None:
        (folder / "metadata").write_text(metadata)
    with pytest.raises(UsageError, match=said):
        DumpReader(folder)
