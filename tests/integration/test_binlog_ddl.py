"""DDL in the binlog of a real MariaDB: rows behind it are read, and what is not followed is named."""

from __future__ import annotations

from pathlib import Path

import pymysql
import pytest

from tests.integration.binlog_stream import Rows, after, captured, fold_rows, ops
from tests.support.mariadb_server import Server
from ticdc_spark.capture.base import CapturedDdl, Resolved, Transaction
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.errors import (
    RejectedMessage,
    UnsupportedDdl,
)

DDL_CASES = {
    "double quotes": (
        """CREATE TABLE d.t (id INT PRIMARY KEY, e ENUM("a", "it's", "say ""x"" now", 'y"'), v TEXT COMMENT "it's")""",
        "INSERT INTO d.t VALUES (1, 3, 'x')",
    ),
    "ANSI_QUOTES": (
        "SET sql_mode = 'ANSI_QUOTES'",
        'CREATE TABLE "d"."q ""x" ("id" INT PRIMARY KEY, "v" VARCHAR(9) DEFAULT \'"\')',
        """INSERT INTO d."q ""x" VALUES (1, '"')""",
    ),
    "NO_BACKSLASH_ESCAPES": (
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        r"CREATE TABLE d.t (id INT PRIMARY KEY, e ENUM('a\','b') DEFAULT 'a\')",
        r"INSERT INTO d.t VALUES (1, 'a\')",
    ),
    "backslashes": (
        r"CREATE TABLE d.t (id INT PRIMARY KEY, e ENUM('a\\','it\'s') DEFAULT 'a\\')",
        r"INSERT INTO d.t VALUES (1, 'it\'s')",
    ),
    "latin1 database": (
        "ALTER DATABASE d CHARACTER SET latin1",
        "USE d",
        "CREATE TABLE tï (id INT PRIMARY KEY, vé VARCHAR(9))",
        "INSERT INTO tï VALUES (1, 'é')",
    ),
    "default database": ("USE d", "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"),
    "text that is too long for VARCHAR": (
        "SET sql_mode = ''",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(70000))",
        "INSERT INTO d.t VALUES (1, 'x')",
    ),
    "comments": (
        "/* hi */ CREATE /*!40000 TABLE */ d.t (id INT PRIMARY KEY -- the key\n) # end",
        "INSERT INTO d.t VALUES (1)",
    ),
    "serial": ("CREATE TABLE d.t (id SERIAL)", "INSERT INTO d.t VALUES (1)"),
    "invisible and generated": (
        "CREATE TABLE d.t (id INT PRIMARY KEY, i INT INVISIBLE DEFAULT 3, g INT AS (id) VIRTUAL, s INT AS (id) STORED)",
        "INSERT INTO d.t (id) VALUES (1)",
    ),
    "partitions": (
        "CREATE TABLE d.t (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3",
        "INSERT INTO d.t VALUES (1)",
    ),
    "LOAD DATA": (
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "INSERT INTO d.t VALUES (1)",
        "SELECT * FROM d.t INTO OUTFILE '{folder}/rows.txt'",
        "TRUNCATE TABLE d.t",
        "LOAD DATA INFILE '{folder}/rows.txt' INTO TABLE d.t",
    ),
    "LIKE": ("CREATE TABLE d.u (id INT PRIMARY KEY)", "CREATE TABLE d.t LIKE d.u", "INSERT INTO d.t VALUES (1)"),
    "names in another case": (
        "CREATE TABLE d.t (Id INT PRIMARY KEY)",
        "ALTER TABLE d.t CHANGE iD id INT, ADD Unique U (ID)",
        "INSERT INTO d.t VALUES (1)",
    ),
    "columns moved": (
        "CREATE TABLE d.t (a INT, id INT PRIMARY KEY, b INT)",
        "ALTER TABLE d.t MODIFY b VARCHAR(9) FIRST, DROP a, ADD (x INT, y JSON), RENAME TO d.u",
        "INSERT INTO d.u VALUES ('b', 1, 2, '{}')",
    ),
}


@pytest.mark.parametrize("case", DDL_CASES)
def test_rows_behind_a_ddl_are_read(server: Server, case: str, tmp_path: Path) -> None:
    given = after(server, *(statement.replace("{folder}", str(tmp_path)) for statement in DDL_CASES[case]))
    last = given[-1]
    assert isinstance(last, Transaction)
    (change,) = last.changes
    assert change.op == "insert" and change.after is not None and change.after["id"] == "1"
    with Upstream(server.uri) as upstream:
        assert upstream.lookup(change.table, [{"id": "1"}], 0) == [
            change.after | {"g": "1"} if "g" in [one.name for one in change.table.columns] else change.after
        ]


def test_names_are_swapped_and_several_tables_dropped(server: Server) -> None:
    given = after(
        server,
        "CREATE TABLE d.a (id INT PRIMARY KEY)",
        "CREATE TABLE d.b (id INT PRIMARY KEY, v INT)",
        "INSERT INTO d.a VALUES (1)",
        "RENAME TABLE d.a TO d.tmp, d.b TO d.a, d.tmp TO d.b",
        "INSERT INTO d.a VALUES (2, 2)",
        "INSERT INTO d.b VALUES (3)",
        "DROP TABLE d.a, d.b",
    )
    assert ops(given)[3:] == [
        ["rename table a", "rename table b"],
        ["insert 2"],
        ["insert 3"],
        ["drop table a", "drop table b"],
    ]
    swap = given[3]
    assert isinstance(swap, CapturedDdl)
    assert [change.query for change in swap.changes] == [
        "RENAME TABLE `d`.`b` TO `d`.`a`",
        "RENAME TABLE `d`.`a` TO `d`.`b`",
    ]
    rows: Rows = {}
    for one in given:
        fold_rows(rows, one)
    assert rows == {}


REFUSED = {
    "binlog_row_image": (
        ("SET SESSION binlog_row_image = MINIMAL", "UPDATE d.t SET v = 2"),
        RejectedMessage,
        "without all its columns",
    ),
    "binlog_format": (
        ("SET SESSION binlog_format = STATEMENT", "UPDATE d.t SET v = 3"),
        RejectedMessage,
        "a statement that changes rows",
    ),
    "a column that was not logged": (
        ("SET sql_log_bin = 0", "ALTER TABLE d.t ADD w INT", "SET sql_log_bin = 1", "UPDATE d.t SET v = 4"),
        RejectedMessage,
        "has columns .*'w'.*its schema has",
    ),
    "a type that was not logged": (
        ("SET sql_log_bin = 0", "ALTER TABLE d.t MODIFY v BIGINT", "SET sql_log_bin = 1", "UPDATE d.t SET v = 4"),
        RejectedMessage,
        "column `v` of `d`.`t` does not fit its schema: the wire type is 8, not 3",
    ),
    "a sign that was not logged": (
        ("SET sql_log_bin = 0", "ALTER TABLE d.t MODIFY v INT UNSIGNED", "SET sql_log_bin = 1", "UPDATE d.t SET v = 4"),
        RejectedMessage,
        "the column unsigned is True",
    ),
    "a table that was not logged": (
        ("SET sql_log_bin = 0", "CREATE TABLE d.n (id INT)", "SET sql_log_bin = 1", "INSERT INTO d.n VALUES (1)"),
        RejectedMessage,
        "whose schema is not known",
    ),
    "system versioning": (
        ("CREATE TABLE d.n (id INT PRIMARY KEY) WITH SYSTEM VERSIONING", "INSERT INTO d.n VALUES (1)"),
        RejectedMessage,
        "row_start",
    ),
    "metadata": (
        ("SET GLOBAL binlog_row_metadata = MINIMAL", "UPDATE d.t SET v = 5", "SET GLOBAL binlog_row_metadata = FULL"),
        RejectedMessage,
        "binlog_row_metadata was not FULL",
    ),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.mariadb] * (case == "system versioning")) for case in REFUSED]
)
def test_what_is_not_read_is_refused_where_it_stands(server: Server, case: str) -> None:
    statements, error, text = REFUSED[case]
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 1)")
    with pytest.raises(error, match=f"binlog binlog.*{text}"):
        after(server, *statements)


def test_a_statement_that_is_not_followed_can_be_skipped(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    state = BinlogCapture(server.uri).begin()
    server.execute("SET sql_log_bin = 0", "ALTER TABLE d.t ADD v INT", "SET sql_log_bin = 1", "ALTER TABLE d.t DROP v")
    server.execute("INSERT INTO d.t VALUES (1)")
    with pytest.raises(UnsupportedDdl, match=r"has no column `v`.*write skip=binlog") as stopped:
        captured(server, state)
    skip = str(stopped.value).partition("write skip=")[2].split()[0]
    assert ops(captured(server, state, f"{server.uri}/?skip={skip}")) == [["insert 1"]]


@pytest.mark.mariadb
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE TABLE d.t (id INT, PRIMARY KEY (missing))",
        "CREATE OR REPLACE TABLE d.t (id INT, UNIQUE (id(2)))",
        "CREATE OR REPLACE TABLE d.t (id INT PRIMARY KEY) SELECT 1 AS id UNION ALL SELECT 1",
        "DROP TABLE d.t, d.missing",
    ],
)
def test_a_statement_that_failed_after_it_had_dropped_a_table(server: Server, statement: str) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    state = BinlogCapture(server.uri).begin()
    with pytest.raises(pymysql.err.MySQLError):
        server.execute(statement)
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 2)")
    assert ops(captured(server, state)) == [["drop table t"], ["create table t"], ["insert 1"]]


@pytest.mark.mariadb
def test_sequences_are_not_captured(server: Server) -> None:
    given = after(
        server,
        "CREATE SEQUENCE d.s",
        "DO NEXT VALUE FOR d.s",
        "ALTER SEQUENCE d.s RESTART 50",
        "CREATE TABLE d.t (id INT PRIMARY KEY DEFAULT (NEXT VALUE FOR d.s))",
        "INSERT INTO d.t VALUES (DEFAULT)",
        "DROP SEQUENCE d.s",
    )
    assert ops(given)[-1:] == [["insert 50"]]
    assert {change.name for one in given if isinstance(one, CapturedDdl) for change in one.changes} == {"t"}


def test_ddl_that_cannot_be_followed_stops_only_for_tables_that_are_wanted(server: Server) -> None:
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)", "CREATE TABLE d.u (id INT PRIMARY KEY)")
    source = BinlogCapture(server.uri, wanted=lambda schema, name: name != "u")
    state = source.begin()
    server.execute("SET sql_log_bin = 0", "ALTER TABLE d.u ADD v INT", "SET sql_log_bin = 1", "ALTER TABLE d.u DROP v")
    server.execute("INSERT INTO d.t VALUES (1)", "CREATE TABLE d.w LIKE d.u")
    reading = (one for one in source.read(state) if not isinstance(one, Resolved))
    assert ops([next(reading)]) == [["insert 1"]]
    with pytest.raises(UnsupportedDdl, match=r"table `d`\.`u` is not known"):  # its schema may be another by now
        next(reading)
    source.close()


def test_a_view_is_not_renamed_in_place_of_a_table_of_another_database(server: Server) -> None:
    server.execute("DROP DATABASE IF EXISTS e", "CREATE DATABASE e", "CREATE TABLE e.same (id INT PRIMARY KEY)")
    server.execute("CREATE VIEW d.same AS SELECT 1", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    try:
        given = after(server, "USE d", "RENAME TABLE same TO other", "INSERT INTO e.same VALUES (1)")
        assert ops(given) == [["insert 1"]]
        with pytest.raises(UnsupportedDdl, match=r"`d`\.`other` is not known.*skip="):
            after(server, "USE d", "RENAME TABLE other TO same, t TO u")
    finally:
        server.execute("DROP DATABASE e")
