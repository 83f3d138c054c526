"""A MySQL sink at work: deaths inside a DDL, readers while it writes, and a whole job."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from tests.contract.columns import INTEGER
from tests.contract.loads import BEGUN, gather
from tests.contract.member import Member, Rows, insert, row, source, update
from tests.integration.mysql_jobs import write_job
from tests.integration.mysql_member import mysql_member, read_table
from tests.integration.mysql_truth import compare_with, databases
from tests.integration.test_sigkill import replicate
from tests.spark.deaths import END, FIRST, MYSQL, SECOND, once_at, run_with_deaths
from tests.spark.lake import make_topic, wild
from tests.spark.simple_topic import topic
from tests.support.mariadb_server import Server
from ticdc_spark.clients.mysql import quoted
from ticdc_spark.errors import DecisionNeeded
from ticdc_spark.failpoints import ENVIRONMENT
from ticdc_spark.sinks.base import ColumnChanges, Stamp
from ticdc_spark.sinks.mysql.sink import MysqlSink
from ticdc_spark.sinks.state import StateRow
from ticdc_spark.spark import tasks

pytestmark = pytest.mark.usefixtures("spark")
"""Members stage with Spark, too. A session of their own would lack the jars that later tests of the process need."""


@pytest.fixture
def member(target: Server) -> Member:
    return mysql_member(target, None)


CHILD = """
import sys
from ticdc_spark.config.job import MysqlConfig
from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.mysql.sink import MysqlSink
from tests.integration.test_mysql_job import do
uri, schema, act = sys.argv[1:]
do(MysqlSink(MysqlConfig(uri=uri)), act, schema)
"""
IN_COMMIT = {"transaction", "committed"}
"""Points inside and behind a commit of the state, by which a job is given back, too."""
ACTS = ("create", "alter", "rename", "truncate", "finish")


def do(sink: MysqlSink, act: str, schema: str) -> None:
    """A DDL of the table ``t``, to the mark (40, 5)."""
    name, new, stamp = (schema, "t"), (schema, "u"), Stamp("job", (40, 5), 39)
    match act:
        case "create":
            sink.create(new, (INTEGER,), stamp)
        case "alter":
            changes = ColumnChanges(rename=(("w", "text"),), add=(INTEGER,), comments=(("text", "words"),))
            sink.change_columns(name, changes, stamp)
        case "rename":
            sink.rename(name, new)
        case "truncate":
            sink.truncate(name, stamp)
        case "finish":
            sink.finish_load(name, stamp)


def _as_it_is(member: Member) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in ((member.schema, "t"), (member.schema, "u")):
        found |= {f"{name[1]}.{column}": text for column, text in member.others.comments(name).items()}
        one = member.sink.find(name)
        mark = None if one is None or one.stamp is None else one.stamp.mark
        found[name[1]] = None if one is None else (mark, list(member.sink.columns(name)), member.read(name))
    return found


def test_a_row_without_a_value_for_a_column_that_needs_one_names_its_table(member: Member, target: Server) -> None:
    """Another writer added the column. Without the name and a cure, the job would only try again and again."""
    member.fill(1)
    target.execute(f"ALTER TABLE {member.schema}.t ADD COLUMN own INT NOT NULL")
    with pytest.raises(DecisionNeeded, match=rf"`{member.schema}`\.`t`.*own.*constraint"):
        member.apply([insert(member.of, 30, **source(2))], 30)


def test_a_full_read_needs_no_value_for_a_column_that_the_source_lacks(member: Member, target: Server) -> None:
    """The table may have one of a table that had its name before, in or beside its key."""
    member.fill(1)
    name = f"{member.schema}.t"
    target.execute(f"ALTER TABLE {name} ADD COLUMN line INT NOT NULL, ADD COLUMN own CHAR(3) NOT NULL DEFAULT 'a'")
    target.execute(f"ALTER TABLE {name} DROP PRIMARY KEY, ADD COLUMN part INT NOT NULL, ADD PRIMARY KEY (id, part)")
    member.sink.begin_load(member.name, BEGUN)
    gather(member, [[3, 4], [5]])
    member.sink.finish_load(member.name, member.stamp(40))
    assert [one["id"] for one in member.rows()] == [3, 4, 5]
    assert list(target.execute(f"SELECT DISTINCT line, own, part FROM {name}")) == [(None, "a", None)]
    target.execute(f"ALTER TABLE {name} ADD COLUMN more INT NOT NULL")
    member.sink.begin_load(member.name, BEGUN)
    member.sink.load_rows(member.name, member.columns, member.name, [[]], replace(BEGUN, done=True))
    member.sink.finish_load(member.name, member.stamp(50))
    assert [one["id"] for one in member.rows()] == [3, 4, 5]


@pytest.mark.parametrize("act", ACTS)
def test_a_ddl_that_dies_happened_with_its_stamp_or_not_at_all(target: Server, act: str) -> None:
    for point in ("intent", "statement:1", "statement:2", "recorded"):
        member = mysql_member(target, None)
        member.fill(1, 2)
        if act == "finish":
            member.sink.begin_load(member.name, BEGUN)
            gather(member, [[3]])
        before = _as_it_is(member)
        command = (sys.executable, "-c", CHILD, target.uri, member.schema, act)
        done = subprocess.run(
            command, env=os.environ | {ENVIRONMENT: point}, capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        assert done.returncode
        assert isinstance(member.sink, MysqlSink)
        other = mysql_member(target, None)
        other.schema, other.name = member.schema, member.name
        after = _as_it_is(other)
        if after["t"] == before["t"] and after["u"] == before["u"]:
            do(other.sink, act, member.schema)  # type: ignore[arg-type]
            after = _as_it_is(other)
        assert after == _wanted(act, before), point
        assert not target.execute("SELECT * FROM _ticdc_spark.intents")


def _wanted(act: str, before: dict[str, object]) -> dict[str, object]:
    rows: Rows = [row(1), row(2)]
    match act:
        case "create":
            return before | {"u": ((40, 5), ["x"], [])}
        case "alter":
            changed = [{"id": one["id"], "v": one["v"], "text": one["w"], "x": None} for one in rows]
            return before | {"t": ((40, 5), ["id", "v", "text", "x"], changed), "t.text": "words"}
        case "rename":
            return {"t": None, "u": before["t"]}
        case "truncate":
            return before | {"t": ((40, 5), ["id", "v", "w"], [])}
        case _:
            return before | {"t": ((40, 5), ["id", "v", "w"], [row(3)])}


def test_a_unique_key_of_somebody_else_is_never_overwritten_and_the_error_names_the_table(target: Server) -> None:
    member = mysql_member(target, None)
    member.fill(1, 2)
    target.execute(f"CREATE UNIQUE INDEX own ON {member.schema}.t (v)")
    before = member.rows()
    refused = rf"`{member.schema}`\.`t`: Duplicate entry '1' for key '(t\.)?own'.*ticdc-spark rebuild"
    with pytest.raises(DecisionNeeded, match=refused):
        member.apply([insert(member.of, 40, id="3", v="1", w="")], 40, above=30)
    assert member.rows() == before


def test_every_reader_sees_all_tables_at_one_commit(target: Server) -> None:
    """Money moves between two tables; whoever sums it up while the job writes finds all of it."""
    one, two = (mysql_member(target, None, job="bank") for _ in "ab")
    two.sink = one.sink
    states = one.sink.state("bank")
    for member in (one, two):
        member.create()
        member.apply([insert(member.of, 20, id="1", v="1000", w="")], 20)
    one.sink.commit_with(states)
    version = states.commit({"progress": [StateRow(kind="progress", value="0")]}, None, 20)
    sums, over = set(), threading.Event()

    def read() -> None:
        sql = " UNION ALL ".join(f"SELECT v FROM {member.schema}.t" for member in (one, two))
        while not over.is_set():
            sums.add(int(target.execute(f"SELECT SUM(v) FROM ({sql}) every")[0][0]))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for at in range(1, 21):
            ts = 20 + at
            for member, now in ((one, 1000 - at), (two, 1000 + at)):
                before = {"id": "1", "v": str(now), "w": ""}
                member.apply([update(member.of, ts, before, v=str(now))], ts, above=ts - 1)
                assert member.found().stamp.mark == (ts, 2)  # type: ignore[union-attr]
            assert one.rows()[0]["v"] == 1000 - at + 1, "nothing is there before the commit"
            one.sink.commit_with(states)
            version = states.commit({"progress": [StateRow(kind="progress", value=str(at))]}, version, ts)
    finally:
        over.set()
        reader.join()
    assert (one.rows()[0]["v"], two.rows()[0]["v"], sums) == (980, 1020, {2000})


def test_what_was_written_without_a_commit_is_lost_with_it(target: Server, member: Member) -> None:
    waiting = mysql_member(target, None, job="bank")
    waiting.create()
    waiting.apply([insert(waiting.of, 20, **source(1))], 20)
    states = waiting.sink.state("gone")
    states.commit({}, None, 0)  # of somebody who does not bring it in
    assert waiting.rows() == []
    other = mysql_member(target, None)
    found = other.sink.find(waiting.name)
    assert found is not None and found.stamp is not None and found.stamp.mark == (10, 0)


def _check_end(target: Server) -> None:
    tables = [name[0] for name in target.execute("SHOW TABLES IN s")]
    found = {name: sorted(read_table(target, ("s", name)), key=lambda one: int(one["id"])) for name in tables}
    assert found == END | {"x": found["x"]}
    assert not target.execute("SELECT * FROM _ticdc_spark.intents")


@pytest.mark.parametrize("times", [0, 2])
def test_a_job_that_dies_between_commits_ends_in_the_same_tables(
    target: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    target.execute("DROP DATABASE IF EXISTS s", "DROP DATABASE IF EXISTS _ticdc_spark")
    topic(tmp_path, (*FIRST, *SECOND))
    points = (MYSQL - IN_COMMIT) | {"intent", "write", "ddl", "fill"}
    passed_once = {"take", "swap"}
    died = run_with_deaths(write_job(tmp_path, target), once_at(points | passed_once, times), monkeypatch)
    assert len(died) == len(points) * times + len(passed_once) * min(times, 1)
    _check_end(target)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["transaction:5", "committed:4"])
def test_a_job_that_is_killed_in_a_commit_ends_in_the_same_tables(
    target: Server, spark: SparkSession, tmp_path: Path, point: str
) -> None:
    target.execute("DROP DATABASE IF EXISTS s", "DROP DATABASE IF EXISTS _ticdc_spark")
    topic(tmp_path, (*FIRST, *SECOND))
    job_file = write_job(tmp_path, target)
    assert replicate(job_file, point) == -signal.SIGKILL
    assert replicate(job_file) == 0
    _check_end(target)


@pytest.mark.slow
@pytest.mark.parametrize("small", [0, 20_000])
def test_a_job_that_dies_at_random_points_ends_in_the_truth(
    target: Server, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(tasks, "SMALL_ROWS", small)
    for name in databases(target):
        target.execute(f"DROP DATABASE {quoted(name)}")
    target.execute("DROP DATABASE IF EXISTS _ticdc_spark")
    truth = make_topic(tmp_path, wild(7))
    chance, left = random.Random(7), iter(range(15))
    died = run_with_deaths(
        write_job(tmp_path, target, "batch-rows = 80"),
        lambda _: chance.random() < 0.03 and next(left, None) is not None,
        monkeypatch,
    )
    assert len(died) > 3
    assert compare_with(target, truth) == {}
    ours = [name for (name,) in target.execute("SHOW TABLES IN _ticdc_spark")]
    assert not [name for name in ours if name.startswith(("stage_", "old_", "load_"))]
