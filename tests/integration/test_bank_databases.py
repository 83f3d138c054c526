"""Databases: who reads all tables in one transaction, as the page says, sees them at one commitTs while a job writes.

In MySQL a DDL takes effect at once, so its table is ahead of the others until the batch commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pymysql
import pytest
from psycopg.rows import dict_row

from tests.integration import mysql_jobs, postgres_jobs
from tests.spark.deaths import once_at
from tests.spark.lake import replicate
from tests.spark.simple_topic import topic
from tests.support.bank import LABELS, Bank, Held, Reader, Seen, by_id, run_while_read, story
from tests.support.mariadb_server import Server
from tests.support.postgres_server import PostgresServer
from ticdc_spark.sinks.base import Stamp

pytestmark = pytest.mark.usefixtures("spark")
BATCHES = "batch-rows = 14"
"""Seven batches of the story, four of them with DDL."""


class PostgresReads:
    """One transaction, which locks the tables before it sees anything."""

    def __init__(self, postgres: PostgresServer, job: str) -> None:
        self.connection = psycopg.connect(postgres.uri, row_factory=dict_row)
        self.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self.job, self.names, self.deadlocks = job, [*LABELS], 0

    def run(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(sql, values or None)
        return [] if cursor.description is None else list(cursor.fetchall())

    def __call__(self) -> Seen | None:
        names = self.names
        try:
            self.run(f"LOCK TABLE {', '.join(f's.{name}' for name in names)} IN ACCESS SHARE MODE")
            (state,) = self.run("SELECT resolved_ts FROM _ticdc_spark.states WHERE job = %s", self.job)
            rows = [by_id(self.run(f"SELECT * FROM s.{name}")) for name in names]
            return Seen(state["resolved_ts"], dict(zip(LABELS, map(Held, names, rows), strict=True)))
        except psycopg.errors.DeadlockDetected:
            self.deadlocks += 1
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            self.names = ["a", "b2" if names[1] == "b" else "b", "moves"]
        finally:
            self.connection.rollback()
        return None


@pytest.fixture
def reads(postgres: PostgresServer, tmp_path: Path) -> Iterator[PostgresReads]:
    found = PostgresReads(postgres, tmp_path.name)
    with found.connection:
        yield found


def _in_order(times: list[int], bank: Bank) -> None:
    """Readers saw the first commit and the last one, and never an older one after a newer one."""
    assert times == sorted(times) and {20, bank.truth[-1][0]} <= {*times} and len({*times}) > 4


@pytest.mark.parametrize(
    "points",
    [
        ("apply", "transaction", "committed"),
        pytest.param(("scan", "write", "ddl", "stamp", "fill", "intent", "progress"), marks=pytest.mark.slow),
    ],
    ids=["commit", "everywhere"],
)
def test_in_postgres_every_read_is_of_one_commit_also_while_ddl_runs_and_the_job_dies(
    postgres: PostgresServer,
    reads: PostgresReads,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    points: tuple[str, ...],
) -> None:
    bank = story()
    job_file = postgres_jobs.job_of(tmp_path, postgres, bank.sent, BATCHES)
    reader = Reader(reads, bank.wrong, patience=0.3)
    assert {*run_while_read(job_file, reader, once_at(points, 2), monkeypatch)} == {*points}
    assert not reader.found
    _in_order(reader.times, bank)


def test_in_postgres_a_transaction_that_locks_no_table_may_find_it_empty_or_another_one(
    postgres: PostgresServer, reads: PostgresReads, tmp_path: Path
) -> None:
    """As the page says: names are no part of what a transaction sees. One that begins with locks is right."""
    bank = Bank()
    bank.step(3)
    job_file = postgres_jobs.job_of(tmp_path, postgres, bank.sent)
    replicate(job_file)
    (state,) = reads.run("SELECT resolved_ts FROM _ticdc_spark.states WHERE job = %s", reads.job)
    bank.refill("moves", "drop")
    for label, name in (("a", "x"), ("b", "a"), ("a", "b")):
        bank.rename(label, name)
    bank.step()
    topic(tmp_path, bank.sent)
    replicate(job_file)
    assert (state["resolved_ts"], reads.run("SELECT * FROM s.moves")) == (300, [])
    assert by_id(reads.run("SELECT * FROM s.b")) == bank.at(300)["a"].rows
    reads.connection.rollback()
    reads.names = [held.name for held in bank.at(400).values()]
    seen = reads()
    assert seen is not None and seen.commit_ts == 400 and not bank.wrong(seen)


def test_in_postgres_a_job_and_a_reader_that_wait_for_each_other_go_on(
    postgres: PostgresServer, reads: PostgresReads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader has a lock on the table of the second DDL of a batch, and waits for that of the first: the server
    ends one of them."""
    bank = Bank()
    bank.step(2)
    job_file = postgres_jobs.job_of(tmp_path, postgres, bank.sent)
    replicate(job_file)
    bank.rename("b", "b2")
    bank.widen("a")
    bank.step(2)
    topic(tmp_path, bank.sent)
    reader = Reader(reads, bank.wrong, patience=0.3)
    assert run_while_read(job_file, reader, once_at(()), monkeypatch) == []
    assert not reader.found and {*reader.times} == {200, 400}


class MysqlReads:
    """One transaction with a consistent snapshot, which also asks which tables are ahead."""

    def __init__(self, target: Server, bank: Bank, job: str) -> None:
        kind = pymysql.cursors.DictCursor
        self.connection = pymysql.connect(host="127.0.0.1", port=target.port, user="root", cursorclass=kind)
        self.bank, self.job, self.b = bank, job, "b"
        self.ahead: dict[str, set[int]] = {}
        """The commitTs at which the tables of this read may be, if not at ``resolved_ts``."""
        self.were_ahead: set[tuple[str, int]] = set()

    def run(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    def __call__(self) -> Seen | None:
        names = ("a", self.b, "moves")
        try:
            self.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            (state,) = self.run("SELECT resolved_ts FROM _ticdc_spark.states WHERE job = %s", self.job)
            rows = [by_id(self.run(f"SELECT * FROM s.{name}")) for name in names]
            if not state["resolved_ts"]:
                return None  # nothing is committed yet
            self.ahead = self._ahead(state["resolved_ts"])
            return Seen(state["resolved_ts"], dict(zip(LABELS, map(Held, names, rows), strict=True)))
        except (pymysql.err.ProgrammingError, pymysql.err.OperationalError) as error:
            if error.args[0] not in (1049, 1146, 1412):
                raise
            if error.args[0] == 1146:
                self.b = "b2" if self.b == "b" else "b"
        except ValueError:  # there is no state yet
            pass
        finally:
            self.connection.rollback()
        return None

    def _ahead(self, resolved_ts: int) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for one in self.run("SELECT name, commit_ts FROM _ticdc_spark.marks"):
            if one["commit_ts"] > resolved_ts:
                found.setdefault(one["name"][:1], set()).add(one["commit_ts"])
        for one in self.run("SELECT name, stamp FROM _ticdc_spark.intents"):
            at = msgspec.json.decode(one["stamp"], type=Stamp).mark[0]
            found.setdefault(one["name"][:1], {resolved_ts}).add(at)
        return found

    def wrong(self, seen: Seen) -> str:
        """A table that is ahead is where a DDL of it has brought it; whether the DDL's column has its values yet, is
        not told. Without such a table nothing is allowed."""
        if not self.ahead:
            return self.bank.wrong(seen)
        for label in LABELS:
            rows, ahead = _plain(seen.tables[label].rows), self.ahead.get(label[:1])
            if ahead is None:
                if seen.tables[label] != self.bank.at(seen.commit_ts)[label]:
                    return f"at {seen.commit_ts}: {label} is not ahead: {seen.tables[label]}"
                continue
            fits = [at for at in ahead if _plain(self.bank.at(at)[label].rows) == rows]
            if not fits or not {at for at in ahead if at > seen.commit_ts} <= self.bank.ddls[label]:
                return f"at {seen.commit_ts}: {label} is at none of {ahead}: {rows}"
            self.were_ahead |= {(label, at) for at in fits if at > seen.commit_ts}
        return ""


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "note"} for row in rows]


@pytest.mark.parametrize(
    "points",
    [
        ("apply", "transaction", "committed", "statement", "recorded"),
        pytest.param(("scan", "write", "ddl", "stamp", "fill", "intent", "progress"), marks=pytest.mark.slow),
    ],
    ids=["commit", "everywhere"],
)
def test_in_mysql_every_read_is_of_one_commit_but_for_tables_of_a_ddl_whose_batch_is_not_committed(
    target: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: tuple[str, ...]
) -> None:
    bank = story()
    job_file = mysql_jobs.job_of(tmp_path, target, bank.sent, BATCHES)
    reads = MysqlReads(target, bank, tmp_path.name)
    reader = Reader(reads, reads.wrong, patience=0.3)
    with reads.connection:
        assert {*run_while_read(job_file, reader, once_at(points, 2), monkeypatch)} == {*points}
    assert not reader.found
    _in_order([at for at in reader.times if at], bank)
    assert {label for label, at in reads.were_ahead if at > 10} == {*LABELS}, "the exception was met"
