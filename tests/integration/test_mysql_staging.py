"""Rows that Spark's tasks bring to a MySQL sink, also where a task runs more than once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tests.integration.mysql_jobs import job_of, write_job
from tests.spark.deaths import delete, update
from tests.spark.lake import replicate
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from tests.support.mariadb_server import Server
from tests.support.spark_session import QUICK
from ticdc_spark import failpoints
from ticdc_spark.config.job import MysqlConfig
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Bootstrap, Change, Column, ColumnType, Table, Watermark
from ticdc_spark.mysql import parse_type
from ticdc_spark.replicate import loop
from ticdc_spark.sinks import staging
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.loads_base import LoadNote
from ticdc_spark.sinks.mysql import rows
from ticdc_spark.sinks.mysql.sink import MysqlSink
from ticdc_spark.sinks.mysql.staging import stage
from ticdc_spark.spark import tasks
from ticdc_spark.spark.session.session import open_session, stop_session
from ticdc_spark.spark.tasks import ArrowTask
from ticdc_spark.spark.types import LakeOptions

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


def _rows(target: Server, name: str = "s.t") -> list[tuple[int, int]]:
    return sorted((int(key), value) for key, value in target.execute(f"SELECT id, v FROM {name}"))


def _stages(target: Server) -> list[Any]:
    return target.execute("SHOW TABLES IN _ticdc_spark LIKE 'stage%'")


@pytest.mark.parametrize("kind", KINDS)
def test_changes_that_tasks_stage_are_those_of_one_run_of_each(
    spark: SparkSession, tmp_path: Path, target: Server, monkeypatch: pytest.MonkeyPatch, kind: ColumnType
) -> None:
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    monkeypatch.setattr(staging, "_TASK_BYTES", 1000)  # several tasks share the keys
    monkeypatch.setattr(rows, "stage", staged_twice)
    of = _table(kind)
    events: list[Change] = [
        ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY)", of),
        *(insert(of, 20, id=str(at), v="1") for at in range(300)),
        Watermark(30),
    ]
    job_file = job_of(tmp_path, target, events)
    replicate(job_file)
    assert _rows(target) == [(at, 1) for at in range(300)]
    events += [update(of, 40, {"id": str(at), "v": "1"}, v="2") for at in range(0, 300, 2)]
    events += [delete(of, 41, id=str(at), v="1") for at in range(1, 300, 2)]
    events += [update(of, 42, {"id": "0", "v": "2"}, id="1000")]
    events.append(Watermark(50))
    topic(tmp_path, events)
    replicate(job_file)
    assert _rows(target) == [*((at, 2) for at in range(2, 300, 2)), (1000, 2)]
    assert not _stages(target)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_read_by_tasks_brings_each_row_once(
    spark: SparkSession, tmp_path: Path, target: Server, monkeypatch: pytest.MonkeyPatch, kind: ColumnType
) -> None:
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    monkeypatch.setattr(rows, "stage", staged_twice)
    made = "id INT PRIMARY KEY, v INT" if kind is INT else "id TEXT NOT NULL, v INT, PRIMARY KEY (id(9))"
    target.execute("DROP DATABASE IF EXISTS copy_s", "DROP DATABASE IF EXISTS _ticdc_spark")
    topic(tmp_path, [Bootstrap(_table(kind)), Watermark(30), Watermark(40)])
    dump = tmp_path / "dump"
    dump.mkdir()
    (dump / "metadata").write_text("Started dump at: 2024-05-05 05:05:05\n")
    (dump / "s.t-schema.sql").write_text(f"CREATE TABLE `t` ({made});\n")
    for part in range(4):
        values = ",".join(f"({at},{2 * at})" for at in range(part * 250, part * 250 + 250))
        (dump / f"s.t.00000000{part}.sql").write_text(f"INSERT INTO `t` VALUES {values};\n")
    snapshot = f'[snapshot]\npath = "{dump}"\ncommit-ts = 30\nchunk-rows = 300\n'
    job = write_job(tmp_path, target, "", 'database-prefix = "copy_"', snapshot)
    replicate(job)
    assert _rows(target, "copy_s.t") == [(at, 2 * at) for at in range(1000)]
    assert not _stages(target)


def fail_once(uri: str, folder: str) -> None:
    """In a process of its own: each task of a full read fails after it has staged its rows, and Spark runs it again."""

    def failing(options: Mapping[str, Any], place: str, names: Sequence[str]) -> ArrowTask:
        task = stage(options, place, names)

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            answers = list(task(batches))
            context = TaskContext.get()
            assert context is not None
            failed = Path(folder) / str(context.partitionId())
            if not failed.exists():
                failed.touch()
                raise RuntimeError("the first run is lost")
            yield from answers

        return run

    def read(_zeros: object) -> ArrowTask:
        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    values = pa.array(range(number * 100, number * 100 + 100), pa.int32())
                    yield pa.record_batch([values, values], names=["id", "v"])

        return run

    spark = open_session("retries", QUICK | {"spark.master": "local[2,2]", "spark.sql.extensions": ""}, [])
    rows.stage = failing
    sink, name = MysqlSink(MysqlConfig(uri=uri), spark=spark), ("s", "t")
    columns = sink.types.columns(_table(TEXT_KEY), (), LakeOptions())
    sink.create(name, columns, Stamp("job", (10, 0), 9))
    begun = LoadNote(token="one")
    sink.begin_load(name, begun)
    note = sink.load(name, columns, read, 4, lambda rows, zeros: msgspec.structs.replace(begun, rows=rows))
    sink.finish_load(name, Stamp("job", (40, 5), 39))
    assert note.rows == 400, note
    stop_session(spark)


@pytest.mark.slow
def test_a_task_that_spark_runs_again_stages_its_rows_once(tmp_path: Path, target: Server) -> None:
    target.execute("DROP DATABASE IF EXISTS s", "DROP DATABASE IF EXISTS _ticdc_spark")
    code = f"from tests.integration.test_mysql_staging import fail_once; fail_once({target.uri!r}, {str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]
    assert _rows(target) == [(at, at) for at in range(400)]


def test_what_a_job_that_died_has_staged_is_removed_at_its_start(
    spark: SparkSession, tmp_path: Path, target: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Death(BaseException):
        """Nothing catches it, as nothing catches SIGKILL."""

    def point(name: str) -> None:
        if name == "write":
            raise Death

    of = _table(INT)
    events: list[Change] = [
        ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY)", of),
        insert(of, 20, id="1", v="1"),
        Watermark(30),
    ]
    job_file = job_of(tmp_path, target, events)
    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "point", point)
        with pytest.raises(Death):
            loop.run(load_job(job_file), once=True)
    target.execute("CREATE TABLE _ticdc_spark.stage_of_others (id INT)")
    assert len(_stages(target)) == 2
    replicate(job_file)
    assert _rows(target) == [(1, 1)]
    assert [name for (name,) in _stages(target)] == ["stage_of_others"]
