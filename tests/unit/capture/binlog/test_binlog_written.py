"""The tables that a statement of the binlog writes, by its text."""

from __future__ import annotations

import pytest

from ticdc_spark.capture.binlog.unlogged import Unlogged
from ticdc_spark.capture.binlog.wire.events import ANSI_QUOTES, Event, Kind, Query, query
from ticdc_spark.capture.binlog.written import written_by
from ticdc_spark.errors import MessageError

WRITTEN = {
    "INSERT INTO t VALUES (1)": "d.t",
    "INSERT t SET a = 1": "d.t",
    "insert /* shop.t */ ignore into `other`.`t` (a) values ('INTO shop.t'), (\"x\")": "other.t",
    "INSERT INTO other.t SELECT * FROM shop.t ON DUPLICATE KEY UPDATE a = VALUES(a)": "other.t",
    "INSERT DELAYED other.t -- shop.t\n VALUES (1)": "other.t",
    "INSERT INTO other.t WITH c AS (SELECT 1) SELECT * FROM c": "other.t",
    "REPLACE INTO `percona`.`checksums` (db, crc) SELECT 'shop', COUNT(*) FROM `shop`.`t`": "percona.checksums",
    "REPLACE LOW_PRIORITY `a``b`.t VALUES (1)": "a`b.t",
    "UPDATE `percona`.`checksums` SET chunk_time = '0.1', master_crc = 'x' WHERE db = 'shop'": "percona.checksums",
    "UPDATE LOW_PRIORITY IGNORE t SET a = b ORDER BY a, b LIMIT 3": "d.t",
    "UPDATE other.o JOIN shop.t AS s ON s.set = o.a AND LEFT(s.a, 1) = 'b' SET o.a = s.a, o.b = IF(1, 2, 3)": "other.o",
    "UPDATE other.o JOIN shop.t s USING (id) SET s.a = 1, o.a = 2 WHERE s.id IN (1, 2)": "other.o shop.t",
    "UPDATE other.o, shop.t SET a = 1": "other.o shop.t",
    "UPDATE other.o NATURAL JOIN (SELECT * FROM shop.t) AS q SET a = q.b": "other.o",
    "UPDATE (other.o JOIN shop.t ON 1) LEFT JOIN ((SELECT 1)) AS z ON 1 SET other.o.x = 1": "other.o",
    "UPDATE o AS x JOIN shop.x ON 1 SET x.a = 1": "d.o shop.x",
    "WITH c AS (SELECT * FROM shop.t), e (a) AS (SELECT 1) UPDATE other.o JOIN c ON 1 SET o.a = 1": "other.o",
    "WITH RECURSIVE c AS (SELECT 1) DELETE FROM other.o WHERE a IN (SELECT * FROM c)": "other.o",
    "DELETE FROM other.o WHERE id IN (SELECT id FROM shop.t)": "other.o",
    "DELETE QUICK IGNORE FROM o AS x WHERE x.id = 1": "d.o",
    "DELETE o FROM other.o JOIN shop.t ON o.id = t.id": "other.o",
    "DELETE s.*, o.* FROM shop.t AS s JOIN other.o STRAIGHT_JOIN z": "shop.t other.o",
    "DELETE FROM other.o, z USING other.o JOIN shop.t JOIN z": "other.o d.z",
    "LOAD DATA LOCAL INFILE 'INTO TABLE shop.t' REPLACE INTO TABLE `other`.t FIELDS TERMINATED BY ','": "other.t",
}


@pytest.mark.parametrize("sql", WRITTEN)
def test_the_tables_that_a_statement_writes(sql: str) -> None:
    found = written_by(sql, "d").tables
    assert sorted(".".join(name) for name in found) == sorted(WRITTEN[sql].split())


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT",
        "UPDATE JSON_TABLE('[]', '$' COLUMNS (a INT PATH '$')) AS j, t SET t.x = 1",
        "UPDATE t SET x",
        "UPDATE (SELECT 1) AS q SET q.a = 1",
        "DELETE x FROM t",
        "DELETE FROM a, b WHERE 1",
        "LOAD DATA FROM MASTER",
        "WITH c (SELECT 1) DELETE FROM t",
        "SELECT 1",
    ],
)
def test_a_statement_that_is_not_understood_is_none_that_writes_nothing(sql: str) -> None:
    with pytest.raises(MessageError):
        written_by(sql, "d")


def test_a_table_without_a_database_is_none_of_the_rules() -> None:
    assert written_by("INSERT INTO other.t VALUES (1)", "").tables == {("other", "t")}
    with pytest.raises(MessageError, match="without a database"):
        written_by("INSERT INTO t VALUES (1)", "")


def test_names_before_brackets_are_calls() -> None:
    found = written_by("INSERT INTO o (a) SELECT shop.`F` (1), g /* x */ (2) FROM t WHERE 'h(3)' = a", "d")
    assert found.calls >= {"f", "g"} and "h" not in found.calls


def test_quotes_follow_the_mode_and_system_tables_are_never_captured() -> None:
    asked: list[object] = []

    def hidden(written: object) -> str:
        asked.append(written)
        return ""

    judge = Unlogged(lambda schema, name: schema != "other", "lower", hidden)
    assert judge.why_not(Query("Other", b"", None, None, ANSI_QUOTES), 'INSERT INTO "T" VALUES (1)') == ""
    assert judge.why_not(Query("shop", b"", None, None, 0), "INSERT INTO mysql.help VALUES (1)") == ""
    judge.why_not(Query("shop", b"", None, None, 0), "INSERT INTO mysql.help VALUES (1)")
    assert len(asked) == 2
    judge.forget()
    judge.why_not(Query("shop", b"", None, None, 0), "INSERT INTO mysql.help VALUES (1)")
    assert len(asked) == 3
    # the default database decides nothing where the statement names another
    assert "writes `shop`.`t`" in judge.why_not(Query("mysql", b"", None, None, 0), "DELETE FROM shop.t")


def test_the_statement_of_a_load_is_read() -> None:
    body = b"\6\0\0\0\0\0\0\0\1\0\0\5\0" + bytes(13) + b"\0\0\0\0\0" + b"d\0LOAD DATA INFILE 'x' INTO TABLE `t`"
    found = query(Event(Kind.EXECUTE_LOAD_QUERY, 7, 0, len(body) + 23, body))
    assert (found.schema, found.sql) == ("d", b"LOAD DATA INFILE 'x' INTO TABLE `t`")
