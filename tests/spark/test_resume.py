"""A quarantined table goes on after ``resume``, from where it stands, with all that waited for it."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.spark.lake import lake, read_table, replicate, write_job
from tests.spark.simple_topic import ddl, insert, table
from tests.support.job_state import read
from tests.support.recorded_topics import Line, write_json
from ticdc_spark.cli import main
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Column, ColumnType, RowChange, SchemaChange
from ticdc_spark.operate.requests import resume
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.report import BatchReport
from ticdc_spark.replicate.run.watch import Watcher

V = Column(name="v", type=ColumnType(name="varchar", length=9, charset="utf8mb4", collate="utf8mb4_bin"))
W = Column(name="w", type=V.type)
T1, U1, T2 = table(1, V, name="t"), table(2, V, name="u"), table(3, V, W, name="t")


def test_a_table_goes_on_with_what_waited(spark: SparkSession, folder: Path) -> None:
    simple = encoder(SimpleConfig())
    events: list[RowChange | SchemaChange | int] = [
        ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", T1),
        ddl("CREATE", 11, "CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(9))", U1),
        insert(T1, 20, id="1", v="a"),
        insert(U1, 21, id="1", v="a"),
        30,
        insert(T1, 40, id="2", v="bad"),
        insert(U1, 41, id="2", v="b"),
        50,
        ddl("ALTER", 60, "ALTER TABLE t ADD COLUMN w VARCHAR(9)", T2, T1),
        insert(T2, 70, id="3", v="c", w="x"),
        insert(U1, 71, id="3", v="c"),
        80,
    ]
    lines = []
    for event in events:
        match event:
            case RowChange():
                (sent,) = simple.rows([event])
            case SchemaChange():
                sent = simple.ddl(event)
            case watermark:
                sent = simple.watermark(watermark)
        assert sent is not None
        value = sent.value
        assert value is not None
        if b'"bad"' in value:
            value = msgspec.json.encode(msgspec.json.decode(value) | {"data": {"id": "no number", "v": "bad"}})
        lines.append(Line("topic", 0, len(lines), None, None, value))
    source = write_json(folder / "topic" / "0.jsonl", lines).parent
    job = write_job(folder, source, 'on-reject = "quarantine"\nbatch-rows = 5')
    stood = replicate(job).progress
    held = next(state for state in stood.tables if state.name == "t")
    assert held.quarantined is not None and "no number" in held.quarantined
    session = lake(spark, folder)
    assert [row["id"] for row in read_table(session, "s", "t")] == [1]
    assert sorted(row["id"] for row in read_table(session, "s", "u")) == [1, 2, 3]

    # The same rule again: the row still cannot be read, and the table stands where it stood.
    (lifted,) = resume(load_job(job), ["s.t"], every=False)
    assert lifted.applied == held.applied
    again = next(state for state in replicate(job).progress.tables if state.name == "t")
    assert again.quarantined is not None and again.applied == held.applied
    assert [row["id"] for row in read_table(session, "s", "t")] == [1]

    job.write_text(job.read_text().replace("quarantine", "continue"))
    resume(load_job(job), [], every=True)
    done = next(state for state in replicate(job).progress.tables if state.name == "t")
    assert done.quarantined is None and done.diverged_since == 40
    rows = sorted(read_table(session, "s", "t"), key=lambda row: int(row["id"]))
    assert rows == [{"id": 1, "v": "a", "w": None}, {"id": 3, "v": "c", "w": "x"}]


@contextmanager
def running(job: Path) -> Iterator[Callable[[Callable[[BatchReport], bool]], BatchReport]]:
    """A job that runs until the end of the block. Yields: a wait for a turn whose report is as wanted"""
    stop, reports = threading.Event(), Queue[BatchReport]()

    def turn(wanted: Callable[[BatchReport], bool]) -> BatchReport:
        for _ in range(1000):
            report = reports.get(timeout=120)
            if wanted(report):
                return report
        raise AssertionError("no turn is as wanted")

    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(lambda: loop.run(load_job(job), watchers=[Watcher(committed=reports.put)], stop=stop))
        try:
            yield turn
        finally:
            stop.set()
            run.result()


def test_a_running_job_takes_a_resume_though_no_message_comes(spark: SparkSession, folder: Path) -> None:
    simple = encoder(SimpleConfig())
    events = [
        simple.ddl(ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", T1)),
        *simple.rows([insert(T1, 20, id="1", v="a")]),
        simple.watermark(30),
        b'{"version":1,"type":"INSERT","oops":1}',
        *simple.rows([insert(T1, 40, id="2", v="b")]),
        simple.watermark(50),
    ]
    values = [one if isinstance(one, bytes) else one.value for one in events if one is not None]
    lines = [Line("topic", 0, at, None, None, value) for at, value in enumerate(values)]
    source = write_json(folder / "topic" / "0.jsonl", lines).parent
    pauses = 'poll-interval = "100ms"\ncommit-interval = "100ms"'
    job = write_job(folder, source, f'on-reject = "quarantine"\nbatch-rows = 3\n{pauses}')
    with running(job) as turn:
        turn(lambda report: any(table.quarantined for table in report.progress.tables))
        assert [row["id"] for row in read_table(lake(spark, folder), "s", "t")] == [1]
        run = CliRunner().invoke(main, ["resume", str(job), "s.t"])
        assert run.exit_code == 0 and "the job is running" in run.output
        resumed = turn(lambda report: not any(table.quarantined for table in report.progress.tables))
    assert (resumed.messages, resumed.changes) == (0, 1)
    assert sorted(row["id"] for row in read_table(lake(spark, folder), "s", "t")) == [1, 2]
    assert not read(job).requests


def test_a_running_job_takes_over_its_changed_file(
    spark: SparkSession, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ticdc_spark")
    simple = encoder(SimpleConfig())
    other = msgspec.structs.replace(T1, name="u", table_id=2)
    first = [
        simple.ddl(ddl("CREATE", 10, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", T1)),
        *simple.rows([insert(T1, 20, id="1", v="a")]),
        simple.watermark(30),
    ]
    then = [
        simple.ddl(ddl("CREATE", 40, "CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(9))", other)),
        *simple.rows([insert(other, 50, id="7", v="b")]),
        simple.watermark(60),
    ]
    sent = [one for one in (*first, *then) if one is not None]
    lines = [Line("topic", 0, at, None, None, one.value) for at, one in enumerate(sent)]
    source = write_json(folder / "topic" / "0.jsonl", lines[:3]).parent
    job = write_job(folder, source, 'tables = ["s.t"]\npoll-interval = "100ms"\ncommit-interval = "100ms"')
    with running(job) as turn:
        turn(lambda report: report.progress.applied >= 29)
        job.write_text(job.read_text().replace('"s.t"', '"s.*"'))
        turn(lambda _: "using the changed job file" in caplog.text)
        write_json(folder / "topic" / "3.jsonl", lines[3:])
        turn(lambda report: report.progress.applied >= 59)
    assert read_table(lake(spark, folder), "s", "u") == [{"id": 7, "v": "b"}]
