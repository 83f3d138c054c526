"""Statements that a real server logged instead of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.binlog_stream import ops
from tests.support.mariadb_server import Server
from ticdc_spark.capture.base import Captured, CaptureState, Resolved
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.errors import RejectedMessage

STATEMENT = "SET SESSION binlog_format = STATEMENT"


def source_of(server: Server, more: str = "") -> BinlogCapture:
    return BinlogCapture(server.uri + more, wanted=lambda schema, name: schema == "d")


def next_of(source: BinlogCapture, state: CaptureState) -> Captured:
    reading: Iterator[Captured] = source.read(state)
    try:
        return next(one for one in reading if not isinstance(one, Resolved))
    finally:
        source.close()


@pytest.fixture
def other(server: Server) -> Iterator[Server]:
    """With databases that the rules exclude."""
    server.execute(
        *("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 1)"),
        *("DROP DATABASE IF EXISTS other", "CREATE DATABASE other"),
        *("CREATE TABLE other.o (id INT PRIMARY KEY, v INT)", "CREATE TABLE other.m (id INT) ENGINE = MyISAM"),
        *("SET GLOBAL log_bin_trust_function_creators = 1", "DROP FUNCTION IF EXISTS d.writes"),
    )
    yield server
    server.execute("DROP DATABASE other")


def test_statements_that_write_no_captured_table_are_passed_over(other: Server, tmp_path: Path) -> None:
    source = source_of(other)
    state = source.begin()
    (tmp_path / "rows").write_text("50\t1\n51\t1\n")
    (tmp_path / "rows").chmod(0o644)
    other.execute(
        STATEMENT,
        "REPLACE INTO other.o (id, v) SELECT id, COUNT(*) FROM d.t GROUP BY id",
        *("BEGIN", "INSERT INTO other.o VALUES (2, 2)", "UPDATE other.o SET v = 3", "COMMIT"),
        "INSERT INTO other.m VALUES (1)",
        "UPDATE other.o JOIN d.t ON o.id = t.id SET o.v = t.v",
        "DELETE other.o FROM other.o JOIN d.t USING (id)",
        *("USE other", "INSERT INTO o VALUES (3, 3)", f"LOAD DATA INFILE '{tmp_path / 'rows'}' INTO TABLE o"),
        "SET SESSION binlog_format = ROW",
        "INSERT INTO d.t VALUES (2, 2)",
    )
    assert ops([next_of(source, state)]) == [["insert 2"]]


STOPS = {
    "a captured table": ((), "UPDATE d.t SET v = 2", "writes `d`.`t`"),
    "one of two": ((), "UPDATE other.o JOIN d.t USING (id) SET o.v = 2, t.v = 3", "writes `d`.`t`"),
    "the default database": ((), "INSERT INTO t VALUES (7, 7)", "writes `d`.`t`"),
    "a trigger": (
        ("CREATE TRIGGER other.tr AFTER INSERT ON other.o FOR EACH ROW INSERT INTO d.t VALUES (NEW.id, 9)",),
        "INSERT INTO other.o VALUES (70, 7)",
        "`other`.`o` has the trigger `other`.`tr`",
    ),
    "a view": (("CREATE VIEW other.seen AS SELECT * FROM d.t",), "INSERT INTO other.seen VALUES (70, 7)", "is a view"),
    "a function": (
        ("CREATE FUNCTION d.writes() RETURNS INT BEGIN INSERT INTO d.t VALUES (80, 8); RETURN 1; END",),
        "INSERT INTO other.o VALUES (70, d.writes())",
        "names the function `d`.`writes`",
    ),
}


@pytest.mark.parametrize("case", STOPS)
def test_a_statement_that_may_write_a_captured_table_stops_and_can_be_skipped(other: Server, case: str) -> None:
    before, statement, why = STOPS[case]
    other.execute(*before, "SELECT 1")
    source = source_of(other)
    state = source.begin()
    other.execute("USE d", STATEMENT, statement)
    other.execute("INSERT INTO d.t VALUES (2, 2)")
    with pytest.raises(RejectedMessage, match=rf"binlog binlog.*{why}.*skip=binlog") as stopped:
        next_of(source, state)
    skip = str(stopped.value).partition("write skip=")[2].split()[0]
    assert ops([next_of(source_of(other, f"/?skip={skip}"), state)]) == [["insert 2"]]
