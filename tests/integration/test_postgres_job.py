"""A PostgreSQL sink at work: deaths, readers while it writes, a lost connection, and a whole job."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.contract.columns import INTEGER, LONG
from tests.contract.loads import BEGUN, gather
from tests.contract.member import Member, insert, row, source, update
from tests.integration.postgres_jobs import clear, compare_with, write_job
from tests.integration.postgres_member import postgres_member, read_table
from tests.integration.test_sigkill import replicate
from tests.spark.deaths import END, FIRST, GATHERED, SECOND, STEPS, Death, once_at, run_with_deaths
from tests.spark.lake import make_topic, wild
from tests.spark.simple_topic import topic
from tests.support.postgres_server import PostgresServer
from ticdc_spark import failpoints
from ticdc_spark.errors import DecisionNeeded, SinkFault
from ticdc_spark.sinks.base import ColumnChanges, Stamp
from ticdc_spark.sinks.postgres.sink import PostgresSink
from ticdc_spark.sinks.postgres.tables import gathered
from ticdc_spark.sinks.state import StateRow
from ticdc_spark.spark import tasks

POINTS = {
    "write",
    "ddl",
    "intent",
    "fill",
    "stamp",
    "create",
    "take",
    "swap",
    "transaction",
    "committed",
    *STEPS,
    *GATHERED,
}
"""What a job passes: of a batch nothing is there before its end."""
COLUMNS = ColumnChanges(rename=(("w", "text"),), add=(INTEGER,), promote=(LONG,))
ACTS: dict[str, Callable[[Member, Stamp], None]] = {
    "create": lambda member, stamp: member.sink.create((member.schema, "u"), (INTEGER,), stamp),
    "columns": lambda member, stamp: member.sink.change_columns(member.name, COLUMNS, stamp),
    "rename": lambda member, _: member.sink.rename(member.name, (f"{member.schema}_b", "u")),
    "drop": lambda member, _: member.sink.drop(member.name),
    "truncate": lambda member, stamp: member.sink.truncate(member.name, stamp),
    "finish": lambda member, stamp: member.sink.finish_load(member.name, stamp),
}


def _as_it_is(member: Member) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in ((member.schema, "t"), (member.schema, "u"), (f"{member.schema}_b", "u")):
        one = member.sink.find(name)
        mark = None if one is None or one.stamp is None else one.stamp.mark
        found[str(name)] = None if one is None else (mark, member.sink.columns(name), member.read(name))
    return found


@pytest.mark.parametrize("act", ACTS)
def test_a_ddl_that_dies_before_its_commit_did_not_happen(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    member = postgres_member(postgres, None)
    member.fill(1, 2)
    if act == "finish":
        member.sink.begin_load(member.name, BEGUN)
        gather(member, [[3]])
    before, stamp = _as_it_is(member), member.stamp(40, 5)

    def point(name: str) -> None:
        if name == "transaction":
            raise Death

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "point", point)
        with pytest.raises(Death):
            ACTS[act](member, stamp)
    other = postgres_member(postgres, None)
    other.schema, other.name = member.schema, member.name
    other.sink.tables.work.end_others()  # type: ignore[attr-defined]
    assert _as_it_is(other) == before
    ACTS[act](other, stamp)
    assert _as_it_is(other) != before


def _bank(postgres: PostgresServer) -> tuple[Member, Member]:
    """Two tables with 1000 each, written by one job."""
    one, two = (postgres_member(postgres, None, job="bank") for _ in "ab")
    two.sink = one.sink
    for member in (one, two):
        member.create()
        member.apply([insert(member.of, 20, id="1", v="1000", w="")], 20)
    return one, two


def test_every_reader_sees_all_tables_at_one_commit(postgres: PostgresServer) -> None:
    """Money moves between two tables, whose columns change meanwhile, and one is emptied and read anew; whoever sums it
    up while the job writes finds all of it, in one statement or in two of one transaction."""
    one, two = _bank(postgres)
    states = one.sink.state("bank")
    one.sink.commit_with(states)
    version = states.commit({"progress": [StateRow(kind="progress", value="0")]}, None, 20)
    sums, times, over = set(), 0, threading.Event()

    def read() -> None:
        nonlocal times
        with psycopg.connect(postgres.uri) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            while not over.is_set():
                found = [connection.execute(f"SELECT sum(v) FROM {one.schema}.t").fetchone()]  # type: ignore[arg-type]
                found.append(connection.execute(f"SELECT sum(v) FROM {two.schema}.t").fetchone())  # type: ignore[arg-type]
                connection.commit()
                every = (
                    f"SELECT sum(v) FROM (SELECT v FROM {one.schema}.t UNION ALL SELECT v FROM {two.schema}.t) every"
                )
                sums.add(int(sum(part[0] for part in found if part is not None)))
                sums.add(int((connection.execute(every).fetchone() or (0,))[0]))  # type: ignore[arg-type]
                connection.commit()
                times += 1

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for at in range(1, 21):
            ts = 20 + at
            for member, now in ((one, 1000 - at), (two, 1000 + at)):
                before = {"id": "1", "v": str(now), "w": ""}
                member.apply([update(member.of, ts, before, v=str(now))], ts, above=ts - 1)
                assert member.found().stamp.mark == (ts, 2)  # type: ignore[union-attr]
            if at == 5:
                one.sink.change_columns(one.name, ColumnChanges(add=(INTEGER,)), one.stamp(ts, 1001))
            if at == 10:
                one.sink.truncate(one.name, one.stamp(ts, 1001))
                one.apply([insert(one.of, ts, id="1", v=str(1000 - at), w="")], ts, above=ts - 1)
            if at == 15:
                one.sink.change_columns(one.name, ColumnChanges(drop=("x",)), one.stamp(ts, 1001))
            assert two.rows()[0]["v"] == 1000 + at - 1, "nothing is there before the commit"
            one.sink.commit_with(states)
            version = states.commit({"progress": [StateRow(kind="progress", value=str(at))]}, version, ts)
    finally:
        over.set()
        reader.join()
    assert (one.rows()[0]["v"], two.rows()[0]["v"], sums) == (980, 1020, {2000})
    assert times > 10


def test_a_batch_that_lost_its_connection_is_not_committed_in_part(postgres: PostgresServer) -> None:
    one, two = _bank(postgres)
    states = one.sink.state("bank2")
    one.sink.commit_with(states)
    version = states.commit({}, None, 20)
    one.apply([update(one.of, 30, {"id": "1", "v": "1000", "w": ""}, v="900")], 30, above=20)
    name = one.sink.tables.work._name  # type: ignore[attr-defined]
    sql = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = '{name}'"
    assert postgres.execute(sql) == [(True,)]
    for _ in "ab":
        with pytest.raises(SinkFault):
            two.apply([update(two.of, 30, {"id": "1", "v": "1000", "w": ""}, v="1100")], 30, above=20)
    one.sink.commit_with(states)
    with pytest.raises(SinkFault, match="was lost"):
        states.commit({}, version, 30)
    assert (one.rows()[0]["v"], two.rows()[0]["v"], states.version()) == (1000, 1000, version)


def test_a_step_that_fails_leaves_what_was_done_before_it(postgres: PostgresServer) -> None:
    one, two = _bank(postgres)
    states = one.sink.state("bank3")
    one.sink.commit_with(states)
    version = states.commit({}, None, 20)
    one.apply([update(one.of, 30, {"id": "1", "v": "1000", "w": ""}, v="900")], 30, above=20)
    with pytest.raises(SinkFault):
        one.sink.create(two.name, two.columns, two.stamp(30))
    two.apply([update(two.of, 30, {"id": "1", "v": "1000", "w": ""}, v="1100")], 30, above=20)
    one.sink.commit_with(states)
    states.commit({}, version, 30)
    assert (one.rows()[0]["v"], two.rows()[0]["v"]) == (900, 1100)


def test_a_job_that_begins_ends_the_transaction_of_one_that_hangs(postgres: PostgresServer) -> None:
    one, _ = _bank(postgres)
    states = one.sink.state("bank4")
    one.sink.commit_with(states)
    version = states.commit({}, None, 20)
    one.sink.change_columns(one.name, ColumnChanges(add=(INTEGER,)), one.stamp(30))  # it locks the table
    other = postgres_member(postgres, None, job="bank")
    assert isinstance(other.sink, PostgresSink)
    other.sink.begin()
    assert "x" not in other.sink.columns(one.name)
    other.sink.drop(one.name)
    one.sink.commit_with(states)
    with pytest.raises(SinkFault):
        states.commit({}, version, 30)


def test_a_full_read_gives_a_table_the_key_of_its_source(postgres: PostgresServer) -> None:
    """Rows of the source may be equal in the key that the table had, of a table that had its name before."""
    member = postgres_member(postgres, None)
    member.fill(1, 2)
    name = f"{member.schema}.t"
    ((key,),) = postgres.execute(
        f"SELECT conname FROM pg_constraint WHERE conrelid = '{name}'::regclass AND contype = 'p'"
    )
    postgres.execute(f"ALTER TABLE {name} DROP CONSTRAINT {key}", f"ALTER TABLE {name} ADD PRIMARY KEY (v)")
    member.sink.begin_load(member.name, BEGUN)
    assert not postgres.execute(
        "SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND a.attnum > 0 AND a.attnotnull "
        f"WHERE c.relname = '{gathered(member.name)[1]}'"
    ), "a column of the old key may be NULL at the source"
    gather(member, [[3, 4]])
    member.sink.finish_load(member.name, member.stamp(40))
    found = postgres.execute(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
        f"WHERE i.indrelid = '{name}'::regclass AND i.indisprimary"
    )
    assert found == [("id",)] and [one["id"] for one in member.rows()] == [3, 4]


def test_a_unique_key_of_somebody_else_is_never_overwritten(postgres: PostgresServer) -> None:
    member = postgres_member(postgres, None)
    member.fill(1, 2)
    postgres.execute(f"CREATE UNIQUE INDEX ON {member.schema}.t (v)")
    swapped = [update(member.of, 30, source(key), v=str(3 - key)) for key in (1, 2)]
    member.apply(swapped, 30, above=20)
    assert member.rows() == [row(1, v=2), row(2, v=1)]
    refused = rf'"{member.schema}"\."t": duplicate key value .*\(v\)=\(1\) already exists.*ticdc-spark rebuild'
    with pytest.raises(DecisionNeeded, match=refused):
        member.apply([insert(member.of, 40, id="3", v="1", w="")], 40, above=30)
    assert member.rows() == [row(1, v=2), row(2, v=1)]


def test_a_name_that_the_server_would_cut_off_is_no_table(postgres: PostgresServer) -> None:
    """With the first 63 bytes of its name it would be another table."""
    member = postgres_member(postgres, None)
    name, long = (member.schema, "t" * 63), (member.schema, "t" * 64)
    member.sink.create(name, member.columns, member.stamp(10))
    assert member.sink.find(name) is not None
    assert member.sink.find(long) is None
    for act in (
        lambda: member.sink.create(long, member.columns, member.stamp(10)),
        lambda: member.sink.drop(long),
        lambda: member.sink.rename(name, long),
        lambda: member.sink.create_database("s" * 64),
    ):
        with pytest.raises(DecisionNeeded, match="has 64 bytes, and PostgreSQL's names have 63 at most"):
            act()
    assert member.sink.find(name) is not None


def _check_end(postgres: PostgresServer) -> None:
    tables = [name for (name,) in postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = 's'")]
    found: dict[str, Any] = {
        name: sorted(read_table(postgres, ("s", name)), key=lambda one: int(one["id"])) for name in tables
    }
    assert found == END | {"x": found["x"]}
    left = postgres.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = '_ticdc_spark' AND tablename ~ '_[0-9a-f]+$'"
    )
    assert not left


@pytest.mark.parametrize("times", [0, 1])
def test_a_job_that_dies_between_steps_ends_in_the_same_tables(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    clear(postgres)
    topic(tmp_path, (*FIRST, *SECOND))
    died = run_with_deaths(write_job(tmp_path, postgres), once_at(POINTS, times), monkeypatch)
    assert set(died) == (POINTS if times else set())
    _check_end(postgres)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["transaction:1", "committed:4"])
def test_a_job_that_is_killed_in_a_commit_ends_in_the_same_tables(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path, point: str
) -> None:
    clear(postgres)
    topic(tmp_path, (*FIRST, *SECOND))
    job_file = write_job(tmp_path, postgres)
    assert replicate(job_file, point) == -signal.SIGKILL
    assert replicate(job_file) == 0
    _check_end(postgres)


@pytest.mark.slow
@pytest.mark.parametrize("small", [0, 20_000])
def test_a_job_that_dies_at_random_points_ends_in_the_truth(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(tasks, "SMALL_ROWS", small)
    clear(postgres)
    truth = make_topic(tmp_path, wild(7))
    chance, left = random.Random(7), iter(range(15))
    died = run_with_deaths(
        write_job(tmp_path, postgres, "batch-rows = 80"),
        lambda _: chance.random() < 0.03 and next(left, None) is not None,
        monkeypatch,
    )
    assert len(died) > 3
    assert compare_with(postgres, truth) == {}
