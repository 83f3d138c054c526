"""The lake and a topic from Python: the documented examples, and what must not be shown as consistent."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import lake, read_table, replicate, sorted_rows, write_job
from tests.spark.shops import SHOP, shop_job, truth_of
from tests.spark.simple_topic import INT, insert, table
from tests.support.job_state import put, read
from tests.support.python_examples import examples, run_examples
from tests.support.recorded_topics import Line, write_json
from tests.unit.cli.test_inspect import SIMPLE, shown
from tests.unit.cli.test_inspect import inspect as inspect_command
from tests.workload.compare import differences
from ticdc_spark import FilesSource, SinkFault, UsageError, consistent, read_topic
from ticdc_spark.model import Bootstrap, Column, Watermark

T = table(10, Column(name="v", type=INT), name="t")
OTHER = table(11, Column(name="v", type=INT), name="other")
NAMES = {("s", "t"), ("s", "other")}


def message(offset: int, event: Any, partition: int = 0) -> Line:
    match event:
        case Watermark(ts):
            sent = SIMPLE.watermark(ts)
        case Bootstrap(known):
            sent = SIMPLE.bootstrap(known)
        case _:
            (sent,) = SIMPLE.rows([event])
    assert sent is not None
    return Line("topic", partition, offset, 1, sent.key, sent.value)


def write(folder: Path, name: str, first: int, events: list[Any], partition: int = 0) -> Path:
    lines = [message(first + at, event, partition) for at, event in enumerate(events)]
    return write_json(folder / "topic" / f"{name}.jsonl", lines).parent


FIRST = [Bootstrap(T), Bootstrap(OTHER), insert(T, 20, id="1", v="1"), insert(OTHER, 21, id="1", v="1"), Watermark(30)]
SECOND = [insert(T, 40, id="2", v="2"), insert(OTHER, 41, id="2", v="2"), Watermark(50)]


def rows(found: Any) -> list[dict[str, Any]]:
    return list(found.toArrow().to_pylist())


def test_the_examples_run(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop_job(folder).rename(folder / "shop.toml")
    (folder / "recorded").symlink_to(folder / "topic")
    monkeypatch.chdir(folder)
    names = run_examples(examples(spark=True))
    assert "row changes" in capsys.readouterr().out
    truth = truth_of(SHOP)
    tables = names["lake"].tables
    assert set(tables) == set(truth)
    for name, (schema, expected) in truth.items():
        assert not differences(tables[name].toArrow(), schema, expected.values())


def test_tables_are_those_of_the_last_commit_whatever_is_written_since(spark: SparkSession, folder: Path) -> None:
    source = write(folder, "first", 0, FIRST)
    file = write_job(folder, source)
    with pytest.raises(UsageError, match="run it first"):
        consistent(file)
    replicate(file)
    committed = read(file).progress
    assert committed is not None
    found = consistent(file)
    assert found.commit_ts == committed.applied and set(found.tables) == NAMES
    assert set(found.unverified) == NAMES and not found.left_out

    write(folder, "second", len(FIRST), SECOND)
    replicate(file)
    put(file, committed)  # as seen in the middle of the second batch: tables are written, the progress is not
    assert {len(rows(one)) for one in consistent(file).tables.values()} == {1}
    assert {len(read_table(lake(spark, folder), "s", name)) for name in ("t", "other")} == {2}


def test_upkeep_may_expire_a_commit_as_long_as_its_rows_are_there(spark: SparkSession, folder: Path) -> None:
    file = write_job(folder, write(folder, "first", 0, FIRST))
    replicate(file)
    session = lake(spark, folder)

    def upkeep(name: str) -> None:
        rewrite, keep = "options => map('rewrite-all', 'true')", "retain_last => 1"
        session.sql(f"CALL lake.system.rewrite_data_files(table => 's.{name}', {rewrite})")
        now = "older_than => TIMESTAMP '2100-01-01 00:00:00'"
        session.sql(f"CALL lake.system.expire_snapshots(table => 's.{name}', {now}, {keep})")

    before = sorted_rows(rows(consistent(file).tables["s", "t"]))
    upkeep("t")
    assert sorted_rows(rows(consistent(file).tables["s", "t"])) == before
    session.sql("INSERT INTO lake.s.t VALUES (9, 9)")  # the commit's snapshot is gone, and its rows with it
    upkeep("t")
    with pytest.raises(SinkFault, match="expired"):
        consistent(file)


def test_tables_that_are_not_of_the_commit_are_named(spark: SparkSession, folder: Path) -> None:
    broken = msgspec.structs.replace(insert(T, 40, id="9", v="9"), table=T)
    source = write(folder, "first", 0, FIRST)
    line = message(len(FIRST), broken)
    value = json.dumps(json.loads(line.value or b"") | {"data": {"id": "9", "v": "nine"}}).encode()
    write_json(source / "bad.jsonl", [line._replace(value=value)])
    write(folder, "third", len(FIRST) + 1, [insert(OTHER, 41, id="2", v="2"), Watermark(50)])
    file = write_job(folder, source, 'on-reject = "quarantine"')
    replicate(file)
    found = consistent(file)
    assert set(found.tables) == {("s", "other")} and len(rows(found.tables["s", "other"])) == 2
    assert set(found.left_out) == {("s", "t")}
    assert "quarantined" in found.left_out["s", "t"] and "nine" in found.left_out["s", "t"]
    with pytest.raises(KeyError, match=r"\('s', 't'\) is not of this commitTs: quarantined"):
        found.tables["s", "t"]
    with pytest.raises(KeyError, match=r"not a table of this job; its tables, as \(schema, table\): \('s', 'other'\)"):
        found.tables["s", "missing"]


def test_arrival_mode_is_refused(spark: SparkSession, folder: Path) -> None:
    file = write_job(folder, write(folder, "first", 0, FIRST))
    replicate(file)
    progress = read(file).progress
    assert progress is not None
    put(file, msgspec.structs.replace(progress, mode="arrival"))
    with pytest.raises(UsageError, match="arrival mode"):
        consistent(file)


def test_a_topic_has_the_rows_that_inspect_prints(spark: SparkSession, folder: Path) -> None:
    """Schemas come from other partitions than the rows', and a message that cannot be read is there with its reason."""
    path = write(folder, "first", 0, FIRST)
    write(folder, "other", 0, [insert(T, 22, id="2", v=None), Watermark(30)], partition=1)
    write_json(path / "bad.jsonl", [Line("topic", 1, 2, 1, None, b"no message")])
    events = read_topic(FilesSource(path=path), spark=spark)
    assert events.filter("kind = 'insert'").selectExpr("get_json_object(after, '$.id')").count() == 3
    found = [
        row | {side: None if row[side] is None else json.loads(row[side]) for side in ("before", "after")}
        for row in rows(events)
    ]
    wanted = shown(inspect_command(path, "--json"))

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["partition"], row["offset"], row["seq"]

    assert sorted(found, key=place) == sorted(wanted, key=place)
    assert [row["kind"] for row in found].count("rejected") == 1
    part = read_topic(FilesSource(path=path), start={("topic", 0): 2}, end={("topic", 0): 4}, spark=spark)
    assert [row["offset"] for row in rows(part)] == [2, 3]


def test_what_is_wrong_with_a_topic_is_reported_at_once(spark: SparkSession, folder: Path) -> None:
    path = write(folder, "first", 0, FIRST)
    with pytest.raises(UsageError, match="protocol 'protobuf' is not known"):
        read_topic(FilesSource(path=path, protocol="protobuf"), spark=spark)
    with pytest.raises(UsageError, match="schema-registry is missing"):
        read_topic(FilesSource(path=path, protocol="avro"), spark=spark)
