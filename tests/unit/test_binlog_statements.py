"""Statements of the binlog: what the server executed of their text, and what of it is followed."""

from __future__ import annotations

import pytest

from ticdc_spark.capture.binlog.sql_text import executed, is_control, is_dml, plain_sql, words
from ticdc_spark.capture.binlog.wire.events import NO_BACKSLASH_ESCAPES

EXECUTED = {
    "SET STATEMENT": ("SET STATEMENT lock_wait_timeout=5 FOR TRUNCATE TABLE d.t", "TRUNCATE TABLE d.t"),
    "values": (
        "/* a */ set statement a='it''s for', b=\"\\\" for \", c=(SELECT 1 FOR UPDATE) /* for */ FOR DROP TABLE `for`",
        "DROP TABLE `for`",
    ),
    "two of them": ("SET STATEMENT a=1 FOR SET STATEMENT b=2 FOR ALTER TABLE t FORCE", "ALTER TABLE t FORCE"),
    "SET alone": ("SET statement_x = 'a FOR b'", "SET statement_x = 'a FOR b'"),
    "MariaDB's comment": ("/*M!100301 TRUNCATE TABLE d.t */", "TRUNCATE TABLE d.t"),
    "without a version": ("CREATE TABLE t (id INT /*M! , x INT */, y INT)", "CREATE TABLE t (id INT , x INT , y INT)"),
    "in a comment": ("/*M! SET STATEMENT a=1 FOR DROP TABLE t */", "DROP TABLE t"),
    "beside others": ("/*!40000 DROP */ /*M! TABLE */ t /* 'M! */", "/*!40000 DROP */ TABLE t /* 'M! */"),
    "in a text": (
        "ALTER TABLE t COMMENT '/*M! x */ \\'' /*M! , ADD x INT */",
        "ALTER TABLE t COMMENT '/*M! x */ \\'' , ADD x INT",
    ),
    "another comment": ("/* M! it's */ DROP TABLE t", "/* M! it's */ DROP TABLE t"),
}


@pytest.mark.parametrize("case", EXECUTED)
def test_what_mariadb_executed_of_a_statement(case: str) -> None:
    sql, wanted = EXECUTED[case]
    assert " ".join(executed(sql, 0, mariadb=True).split()) == wanted


def test_backslashes_and_other_servers_when_a_prefix_is_looked_for() -> None:
    sql = "SET STATEMENT a = 'x\\', b = 1 FOR DROP TABLE t"
    assert executed(sql, NO_BACKSLASH_ESCAPES, mariadb=True) == "DROP TABLE t"
    for mysql in ("/*M!100301 TRUNCATE TABLE d.t */", "SET STATEMENT a = 1 FOR DROP TABLE t"):
        assert executed(mysql, 0, mariadb=False) == mysql
    assert plain_sql('/*M! it\'s */ "a"', 0) == "/*M! it's */ 'a'"


def test_a_statement_behind_a_prefix_is_known_for_what_it_is() -> None:
    update = executed("SET STATEMENT binlog_format = 'STATEMENT' FOR UPDATE t SET a = 1", 0, mariadb=True)
    assert is_dml(update) and not is_control(update)
    assert words(executed("SET STATEMENT x=1 FOR XA COMMIT 'a'", 0, mariadb=True)) == "xa commit 'a'"
