"""``verify`` on real databases: rows that were changed behind the job's back are found, and no others."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.integration.postgres_jobs import clear
from tests.integration.test_mysql_values import CASES, TEXT, _is_text
from tests.integration.test_tidb_first_load import VERSIONED, as_of
from tests.spark.delta import delta_session
from tests.spark.lake import lake, replicate
from tests.spark.simple_topic import topic
from tests.support.mariadb_server import Server, running
from tests.support.postgres_server import PostgresServer
from ticdc_spark.capture.snapshot import database
from ticdc_spark.capture.snapshot.base import TooOld
from ticdc_spark.capture.snapshot.database import DatabaseReader
from ticdc_spark.cli import main
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.config.load import load_job
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Change, RowChange, SchemaChange, Watermark
from ticdc_spark.mysql import handle_key, tso
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.state.store import read_state
from ticdc_spark.sinks.states import open_state
from ticdc_spark.verify import run
from ticdc_spark.verify.cells import size
from ticdc_spark.verify.database import DatabaseTable
from ticdc_spark.verify.lake import LakeTable
from ticdc_spark.verify.options import Options, Watcher
from ticdc_spark.verify.report import Report, Value, load

SCHEMA = "v"
_HEX, _PLAIN_HEX = TEXT.encode().hex(), TEXT.replace("\0", "").encode().hex()


def _small(sql: str) -> str:
    return sql.replace("'é😀'", "'é'").replace(_HEX, _PLAIN_HEX).replace(", 2000)", ", 9)").replace(", 5000)", ", 9)")


TYPES = [(kind.replace("é😀", "é"), _small(sql)) for kind, _, sql in CASES]
"""Without what MariaDB does not show of an ENUM, and what PostgreSQL's text cannot hold."""
if "TICDC_SPARK_MYSQL" in os.environ:
    TYPES.append(("vector(3)", "STRING_TO_VECTOR('[1,0.1,-3e10]')"))
ROWS = 2 * len(TYPES) + 20
DONOR = ROWS - 1
"""A row with a value in every column."""
TEXT_KEY = (
    "CREATE TABLE v.texts (k VARCHAR(20) COLLATE utf8mb4_general_ci, n INT, v VARCHAR(9), "
    "kn VARCHAR(40) AS (CONCAT(k, '-', n * 2)) VIRTUAL, PRIMARY KEY (k, n))"
)
MOST = 5000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A MariaDB with a table that has a column of every type, and one whose key is text."""
    with running(tmp_path_factory.mktemp("source")) as started:
        made = ", ".join(
            f"c{at} {kind} NULL"
            + ("" if "collate" in kind else " COLLATE utf8mb4_bin" if _is_text(kind, started) else "")
            for at, (kind, _) in enumerate(TYPES)
        ).replace("b\\s", "b\\\\s")
        values = ", ".join(sql for _, sql in TYPES)
        rows = [f"({at}, {values if at % 2 else ', '.join(['NULL'] * len(TYPES))})" for at in range(1, ROWS + 1)]
        started.execute(
            f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4",
            f"USE {SCHEMA}",
            f"CREATE TABLE types (id BIGINT PRIMARY KEY, {made})",
            TEXT_KEY,
            "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'",
            *(f"INSERT INTO types VALUES {row}" for row in rows),
            f"INSERT INTO texts (k, n, v) SELECT CONCAT('Key', seq), seq % 7, 'v' FROM seq_1_to_{MOST}",
        )
        yield started


JOB = """
[job]
name = "{name}"
{job}
[source]
kind = "files"
path = "{folder}/topic"
protocol = "simple"
upstream = "{upstream}"
[sink]
{sink}
"""


def messages(server: Server, name: str, number: int) -> list[Change]:
    """A table as a changefeed sends it: its CREATE and its rows."""
    ((_, create),) = server.execute(f"SHOW CREATE TABLE {SCHEMA}.{name}")
    create = create.replace(VERSIONED, "")
    of = msgspec.structs.replace(parse_create(create, SCHEMA, "escape"), table_id=number, version=1)
    names = handle_key(of)
    keys = [
        {one: str(value) for one, value in zip(names, row, strict=True)}
        for row in server.execute(f"SELECT {', '.join(names)} FROM {SCHEMA}.{name}")
    ]
    with Upstream(server.uri) as upstream:
        rows = upstream.lookup(of, keys, 0)
    sent = [column.name for column in of.columns if not column.virtual]
    rows = [None if row is None else {one: row[one] for one in sent} for row in rows]
    made = SchemaChange(commit_ts=10, query=create, kind="CREATE", schema=SCHEMA, name=name, table=of)
    return [made, *(RowChange(op="insert", table=of, commit_ts=20, after=row) for row in rows if row is not None)]


def replicated(
    folder: Path,
    source: Server,
    sink: str,
    job: str = "",
    more: str = "",
    names: Sequence[str] = ("types", "texts"),
    ahead: int = 0,
) -> Path:
    """A job that has some tables. ``job``: lines of its section; ``more``: other sections; ``ahead``: milliseconds by
    which the feed is ahead of the clock, so that the job is past whatever it reads."""
    events = [one for at, name in enumerate(names, 1) for one in messages(source, name, at)]
    topic(folder, [*events, Watermark(tso(int(time.time() * 1000) + ahead))])
    file = folder / "job.toml"
    file.write_text(JOB.format(name=folder.name, folder=folder, upstream=source.uri, sink=sink, job=job) + more)
    replicate(file)
    return file


def verify(file: Path, *more: str) -> tuple[int, str, Report]:
    done = CliRunner().invoke(main, ["verify", str(file), *more], catch_exceptions=False)
    report = load(file.with_suffix(".verify.json"))
    assert report is not None, done.output
    return done.exit_code, done.output, report


def run_until_no_request_waits(file: Path) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(loop.run, load_job(file), stop=stop)
        try:
            job = load_job(file)
            while not running.done():
                with closing(open_state(job.sink, job.name, job.spark)) as states:
                    if not read_state(states).requests:
                        break
                time.sleep(0.2)
        finally:
            stop.set()
        running.result()


KINDS = ["mysql", "postgres", "iceberg", pytest.param("delta", marks=pytest.mark.slow)]


class Copies(NamedTuple):
    """Where a job writes to, and how another writer changes its rows there."""

    sink: str
    execute: Callable[[str], Any]
    place: str
    """Before the name of a table."""


@pytest.fixture(params=KINDS)
def copies(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Copies:
    match request.param:
        case "mysql":
            server: Server = request.getfixturevalue("target")
            server.execute(f"DROP DATABASE IF EXISTS {SCHEMA}", "DROP DATABASE IF EXISTS _ticdc_spark")
            return Copies(f'kind = "mysql"\nuri = "{server.uri}"', server.execute, f"{SCHEMA}.")
        case "postgres":
            postgres: PostgresServer = request.getfixturevalue("postgres")
            clear(postgres)
            return Copies(f'kind = "postgres"\nuri = "{postgres.uri}"', postgres.execute, f"{SCHEMA}.")
        case "iceberg":
            sink = 'kind = "iceberg"\nwarehouse = "lake"'
            return Copies(sink, lambda sql: lake(spark, tmp_path).sql(sql).collect(), f"lake.{SCHEMA}.")
    session = delta_session(spark)
    return Copies(
        'kind = "delta"\nwarehouse = "lake"', lambda sql: session.sql(sql), f"delta.`{tmp_path}/lake/{SCHEMA}/"
    )


def broken(copies: Copies) -> set[tuple[str, str, str]]:
    """Change rows of every type; gives table, kind and key, or column, of each."""
    columns = [f"c{at}" for at in range(len(TYPES))]
    sets = [
        f"{{}}{one} = CASE t.id WHEN {2 * at + 1} THEN NULL WHEN {2 * at + 2} THEN s.{one} ELSE t.{one} END"
        for at, one in enumerate(columns)
    ]
    donor = f"(SELECT * FROM {table_of(copies, 'types')} WHERE id = {DONOR}) s"
    of, texts = table_of(copies, "types"), table_of(copies, "texts")
    if "mysql" in copies.sink:
        copies.execute(f"UPDATE {of} t JOIN {donor} SET {', '.join(sets).format(*['t.'] * len(sets))}")
    elif "postgres" in copies.sink:
        copies.execute(f"UPDATE {of} t SET {', '.join(sets).format(*[''] * len(sets))} FROM {donor}")
    else:
        assigned = ", ".join(sets).format(*["t."] * len(sets))
        copies.execute(f"MERGE INTO {of} t USING {donor} ON t.id <> s.id WHEN MATCHED THEN UPDATE SET {assigned}")
    copies.execute(f"DELETE FROM {of} WHERE id = {ROWS}")
    copies.execute(f"INSERT INTO {of} SELECT 9999, {', '.join(columns)} FROM {of} WHERE id = {DONOR}")
    copies.execute(f"DELETE FROM {texts} WHERE k = 'Key17'")
    copies.execute(f"UPDATE {texts} SET v = 'w' WHERE k = 'Key{MOST}'")
    copies.execute(f"UPDATE {texts} SET kn = 'w' WHERE k = 'Key18'")
    changed = {("types", "changed", f"{id_} c{at}") for at in range(len(TYPES)) for id_ in (2 * at + 1, 2 * at + 2)}
    rows = {("types", "missing", f"{ROWS}"), ("types", "extra", "9999")}
    texts_of = {("missing", "Key17 3"), ("changed", f"Key{MOST} {MOST % 7} v"), ("changed", "Key18 4 kn")}
    return changed | rows | {("texts", *one) for one in texts_of}


def table_of(copies: Copies, name: str) -> str:
    return f"{copies.place}{name}{'`' if '`' in copies.place else ''}"


def found(report: Report) -> set[tuple[str, str, str]]:
    return {
        (table.table.partition(".")[2], one.kind, " ".join([*map(str, one.key.values()), *one.columns]))
        for table in report.tables
        for one in table.found
    }


def test_rows_that_were_changed_behind_the_jobs_back_are_found_in_every_type_and_repaired(
    tmp_path: Path,
    source: Server,
    copies: Copies,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    snapshot = f'\n[snapshot]\nupstream = "{source.uri}"\n'
    file = replicated(tmp_path, source, copies.sink, 'poll-interval = "50ms"', snapshot, ahead=3_600_000)
    code, text, report = verify(file, "--no-writes")
    assert (code, [one.result for one in report.tables]) == (0, ["equal", "equal"]), text
    assert [one.rows_target for one in report.tables] == [ROWS, MOST]
    assert [one.parts_differing for one in report.tables] == [0, 0], "both sides write the same texts"
    if "lake" in copies.sink:
        with monkeypatch.context() as patch:
            patch.setattr(LakeTable, "digests", None)
            code, text, report = verify(file, "--no-writes")
        assert (code, [one.target_read_again for one in report.tables]) == (0, [False, False]), text
    wrong = broken(copies)
    code, text, report = verify(file, "--no-writes", "--limit", "1000", "--repair")
    assert (code, found(report)) == (3, wrong), text
    assert "2 tables compared, 2 with differences" in text
    assert f"requested: {2 * len(TYPES) + 2} rows of v.types, 3 rows of v.texts read again" in text
    before = report
    capsys.readouterr()
    run_until_no_request_waits(file)
    logged = capsys.readouterr().err
    assert f"`{SCHEMA}`.`types`: {2 * len(TYPES) + 2} rows are read again" in logged
    assert f"`{SCHEMA}`.`texts`: 3 rows are read again" in logged
    code, text, report = verify(file, "--no-writes")
    assert (code, [one.result for one in report.tables]) == (0, ["equal", "equal"]), text
    assert [one.rows_target for one in report.tables] == [one.rows_source for one in before.tables]
    copies.execute(f"ALTER TABLE {table_of(copies, 'texts')} DROP COLUMN v")
    code, text, report = verify(file, "--no-writes", "--table", f"{SCHEMA}.texts")
    assert (code, [one.result for one in report.tables]) == (3, ["different"]), text
    assert "the target has no column `v`: it was dropped or renamed there. Add it (ADD COLUMN" in text


@pytest.fixture
def mysql(target: Server) -> str:
    """The sink of a MariaDB without copies."""
    names = (SCHEMA, "copy", "_ticdc_spark")
    target.execute(*(f"DROP DATABASE IF EXISTS {name}" for name in names))
    return f'kind = "mysql"\nuri = "{target.uri}"'


ROUTES = """
[[route]]
tables = ["v.types"]
target-schema = "copy"
drop-columns = ["c1"]
mask-columns = { c2 = "hash", c3 = "constant:7" }
rename-columns = { c4 = "d4" }
[[route]]
tables = ["v.texts"]
mask-columns = { k = "hash" }
where = "k LIKE 'Key1%' OR k = 'key2' OR v.texts.n < 3"
"""


def test_tables_are_compared_as_the_job_shapes_them_and_masked_values_are_not_shown(
    spark: SparkSession, tmp_path: Path, source: Server, target: Server, mysql: str
) -> None:
    file = replicated(tmp_path, source, mysql, 'mask-salt = "a salt of some length"', ROUTES)
    code, text, report = verify(file, "--no-writes")
    assert (code, [one.result for one in report.tables]) == (0, ["equal", "equal"]), text
    every = [(f"Key{key}", key % 7) for key in range(1, MOST + 1)]
    kept = sum(key.startswith("Key1") or number < 3 for key, number in every)
    assert [table.rows_target for table in report.tables] == [ROWS, kept]
    skipped = {"c1": "excluded by drop-columns", "c3": "masked with a constant"}
    assert (report.tables[0].target, report.tables[0].columns_not_compared) == ("copy.types", skipped)
    target.execute(
        "UPDATE copy.types SET c2 = 'leaked', d4 = 42 WHERE id = 1", f"UPDATE {SCHEMA}.texts SET v = 'w' LIMIT 1"
    )
    code, text, report = verify(file, "--no-writes")
    assert code == 3, text
    (one,), (other,) = (table.found for table in report.tables)
    masked = Value("(masked)", "(masked)")
    assert (one.key, one.columns) == ({"id": "1"}, {"c2": masked, "c4": Value("-8388608", "42")})
    assert (other.kind, other.key["k"], other.columns) == ("changed", "(masked)", {"v": Value("v", "w")})
    assert "leaked" not in text + file.with_suffix(".verify.json").read_text()


@pytest.mark.mariadb
def test_a_tidb_is_read_as_of_the_jobs_timestamp(
    spark: SparkSession, tmp_path: Path, source: Server, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "as_of", as_of)
    monkeypatch.setattr(database, "as_of", as_of)
    monkeypatch.setattr(DatabaseReader, "exact", True)
    # MariaDB has another word for these tables.
    monkeypatch.setattr(DatabaseReader, "tables", lambda _: [(SCHEMA, "versioned")])
    create = DatabaseReader._create
    monkeypatch.setattr(
        DatabaseReader, "_create", lambda *of: None if (text := create(*of)) is None else text.replace(VERSIONED, "")
    )
    clear(postgres)
    table = f"{SCHEMA}.versioned"
    source.execute(
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT){VERSIONED}",
        f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)",
    )
    time.sleep(0.1)
    file = replicated(tmp_path, source, f'kind = "postgres"\nuri = "{postgres.uri}"', names=["versioned"])
    source.execute(f"UPDATE {table} SET v = 7 WHERE id = 1", f"DELETE FROM {table} WHERE id = 2")
    code, text, report = verify(file)
    assert (code, report.tables[0].result, report.tables[0].rows_source) == (0, "equal", 3), text
    postgres.execute(f"UPDATE {table} SET v = 9 WHERE id = 3")
    code, text, report = verify(file)
    assert (code, found(report)) == (3, {("versioned", "changed", "3 v")}), text
    source.execute(f"DROP TABLE {table}")

    def gone(*_: object) -> None:
        raise TooOld("GC life time is shorter than transaction duration")

    monkeypatch.setattr(DatabaseReader, "schema", gone)
    done = CliRunner().invoke(main, ["verify", str(file)])
    assert (done.exit_code, "raise tidb_gc_life_time" in done.output) == (1, True), done.output


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


class Killer(Watcher):
    """Dies once so many parts of a table are done."""

    def parts(self, table: str, done: int, total: int) -> None:
        raise Killed


def test_an_interrupted_run_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, source: Server, target: Server, mysql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = replicated(tmp_path, source, mysql)
    target.execute(f"DELETE FROM {SCHEMA}.types WHERE id IN (1, {ROWS})")
    options, path = Options(still=True, chunk_rows=1), file.with_suffix(".verify.json")
    with pytest.raises(Killed):
        run.verify(load_job(file), options, path, Killer())
    half = load(path)
    assert half is not None and half.kept[f"{SCHEMA}.types"].done == 64
    asked = list[int]()
    digests = DatabaseTable.digests
    monkeypatch.setattr(
        DatabaseTable, "digests", lambda self, parts: (asked.append(size(parts)), digests(self, parts))[1]
    )
    report = run.verify(load_job(file), options, path, Watcher())
    assert sum(asked) == 2 * (ROWS + 1 - 64 + 2), "both sides, the other parts and the two buckets"
    assert [(one.result, one.rows_source) for one in report.tables] == [("different", ROWS), ("equal", MOST)]
    assert {key for _, _, key in found(report)} == {"1", str(ROWS)}
    assert run.verify(load_job(file), options, path, Watcher()).tables[0].differences == 2, "it was finished"


def test_what_cannot_be_compared_is_named(
    spark: SparkSession, tmp_path: Path, source: Server, target: Server, mysql: str
) -> None:
    file = replicated(tmp_path, source, mysql, names=["texts"])
    code, text, report = verify(file, "--no-writes", "--table", "v.*", "--sample", "50")
    by_name = {one.table: one for one in report.tables}
    assert (code, by_name["v.types"].why) == (0, "the job has no such table: no message about it has arrived"), text
    assert (by_name["v.texts"].parts_compared, by_name["v.texts"].parts) == (1, 2)
    assert verify(file, "--table", "no.*")[0] == 2
    target.execute(f"RENAME TABLE {SCHEMA}.texts TO {SCHEMA}.away")
    code, text, report = verify(file, "--no-writes", "--table", "v.texts")
    assert (code, report.tables[0].result, "doesn't exist" in report.tables[0].why) == (3, "undecided", True), text
    file.write_text(file.read_text().replace("upstream = ", "# "))
    code, text, _ = verify(file)
    assert (code, "[snapshot] upstream: missing" in text) == (2, True)
