"""Rows that Spark's tasks bring to a PostgreSQL sink, also where a task runs more than once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.contract.member import insert as inserted
from tests.contract.member import source
from tests.integration.postgres_jobs import clear, job_of, write_job
from tests.integration.postgres_member import postgres_member
from tests.spark.deaths import delete, update
from tests.spark.lake import replicate
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from tests.support.postgres_server import PostgresServer
from ticdc_spark.errors import SinkFault
from ticdc_spark.model import Bootstrap, Change, Column, ColumnType, Table, Watermark
from ticdc_spark.mysql import parse_type
from ticdc_spark.sinks import staging
from ticdc_spark.sinks.postgres import loads, rows
from ticdc_spark.sinks.postgres.staging import stage
from ticdc_spark.spark import tasks
from ticdc_spark.spark.tasks import ArrowTask

TEXT_KEY = msgspec.structs.replace(parse_type("text"), charset="utf8mb4", collate="utf8mb4_bin")
KINDS = [INT, TEXT_KEY]
"""Of a key: the copy has a primary key with the first, and none with the second."""


def staged_twice(options: Mapping[str, Any], place: str, names: Sequence[str]) -> ArrowTask:
    """As when Spark loses the answer of a task that has staged its rows, and runs it again."""
    task = stage(options, place, names)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = list(batches)
        list(task(kept))
        yield from task(kept)

    return run


def _table(kind: ColumnType) -> Table:
    of = table(10, Column(name="v", type=INT))
    key = Column(name="id", type=kind, nullable=False)
    return msgspec.structs.replace(of, columns=(key, *of.columns[1:]))


def _rows(postgres: PostgresServer, name: str = "s.t") -> list[tuple[int, int]]:
    return sorted((int(key), value) for key, value in postgres.execute(f"SELECT id, v FROM {name}"))


def _left(postgres: PostgresServer) -> list[Any]:
    ours = postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = '_ticdc_spark'")
    return [name for (name,) in ours if name.startswith(("stage_", "load_"))]


def test_changes_that_tasks_stage_are_those_of_one_run_of_each(
    spark: SparkSession, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    monkeypatch.setattr(staging, "_TASK_BYTES", 1000)  # several tasks share the keys
    monkeypatch.setattr(rows, "stage", staged_twice)
    of = _table(INT)
    events: list[Change] = [
        ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY)", of),
        *(insert(of, 20, id=str(at), v="1") for at in range(300)),
        Watermark(30),
    ]
    job_file = job_of(tmp_path, postgres, events)
    replicate(job_file)
    assert _rows(postgres) == [(at, 1) for at in range(300)]
    events += [update(of, 40, {"id": str(at), "v": "1"}, v="2") for at in range(0, 300, 2)]
    events += [delete(of, 41, id=str(at), v="1") for at in range(1, 300, 2)]
    events += [update(of, 42, {"id": "0", "v": "2"}, id="1000")]
    events.append(Watermark(50))
    topic(tmp_path, events)
    replicate(job_file)
    assert _rows(postgres) == [*((at, 2) for at in range(2, 300, 2)), (1000, 2)]
    assert not _left(postgres)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_read_by_tasks_brings_each_row_once(
    spark: SparkSession, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, kind: ColumnType
) -> None:
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    monkeypatch.setattr(loads, "stage", staged_twice)
    made = "id INT PRIMARY KEY, v INT" if kind is INT else "id TEXT NOT NULL, v INT, PRIMARY KEY (id(9))"
    clear(postgres)
    topic(tmp_path, [Bootstrap(_table(kind)), Watermark(30), Watermark(40)])
    dump = tmp_path / "dump"
    dump.mkdir()
    (dump / "metadata").write_text("Started dump at: 2024-05-05 05:05:05\n")
    (dump / "s.t-schema.sql").write_text(f"CREATE TABLE `t` ({made});\n")
    for part in range(4):
        values = ",".join(f"({at},{2 * at})" for at in range(part * 250, part * 250 + 250))
        (dump / f"s.t.00000000{part}.sql").write_text(f"INSERT INTO `t` VALUES {values};\n")
    snapshot = f'[snapshot]\npath = "{dump}"\ncommit-ts = 30\nchunk-rows = 300\n'
    replicate(write_job(tmp_path, postgres, "", 'schema-prefix = "copy_"', snapshot))
    assert _rows(postgres, "copy_s.t") == [(at, 2 * at) for at in range(1000)]
    assert not _left(postgres)


def test_rows_that_the_server_lost_before_they_were_taken_stop_the_batch(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the server empties what is not logged."""
    member = postgres_member(postgres, None)
    member.fill(1)

    def lost(options: Mapping[str, Any], place: str, names: Sequence[str]) -> ArrowTask:
        task = stage(options, place, names)

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from list(task(batches))
            postgres.execute(f"TRUNCATE {place}")

        return run

    monkeypatch.setattr(rows, "stage", lost)
    with pytest.raises(SinkFault, match="has 0 rows of 1"):
        member.apply([inserted(member.of, 30, **source(2))], 30, above=20)
    assert [one["id"] for one in member.rows()] == [1]
    assert not [name for name in _left(postgres) if name.startswith(member.sink.rows._stages)]  # type: ignore[attr-defined]
