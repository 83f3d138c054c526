"""What only MySQL has in its binlog; runs with a MySQL (``tests/support/mysql_server.py``), else it is skipped."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from tests.integration.binlog_stream import OPTIONS, Rows, captured, captured_with_resolved, fold_rows
from tests.integration.test_binlog_random import check
from tests.integration.test_present_tables import all_rows, look
from tests.support.mariadb_server import Server, running
from ticdc_spark.capture.base import CapturedDdl, Resolved, Transaction, follow
from ticdc_spark.capture.binlog import BinlogCapture
from ticdc_spark.capture.binlog.values.charsets import Charsets
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.errors import RejectedMessage

pytestmark = pytest.mark.skipif("TICDC_SPARK_MYSQL" not in os.environ, reason="no MySQL is given")

T = ("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO d.t VALUES (1, 'a'), (2, 'b')")
JSON = """('{"a": 1.50, "b": [true, null, 1e100, -5, 18446744073709551615], "": "\\\\u00e9\\\\n"}')"""
WORK = {
    "CREATE TABLE … SELECT": (*T, "CREATE TABLE d.n (PRIMARY KEY (id)) SELECT * FROM d.t"),
    "an invisible key that the server makes": (
        "SET sql_generate_invisible_primary_key = ON",
        "CREATE TABLE d.g (a INT)",
        "INSERT INTO d.g VALUES (1), (2)",
        "UPDATE d.g SET a = 3 WHERE a = 1",
        "CREATE TABLE d.h LIKE d.g",
        "INSERT INTO d.h VALUES (1)",
    ),
    "keys on expressions": (
        *T,
        (
            "CREATE TABLE d.f (id INT PRIMARY KEY, a INT, INDEX ((a + 1)), j JSON, "
            "INDEX z ((CAST(j->'$.x' AS UNSIGNED ARRAY))))"
        ),
        "INSERT INTO d.f VALUES (1, 2, '{\"x\": [1, 2]}')",
        "ALTER TABLE d.t ADD UNIQUE q ((UPPER(v)))",
        "INSERT INTO d.t VALUES (3, 'c')",
        "DELETE FROM d.t WHERE id = 1",
        "ALTER TABLE d.t DROP INDEX q",
        "INSERT INTO d.t VALUES (4, 'c')",
    ),
    "columns by ALGORITHM=INSTANT": (
        *T,
        "ALTER TABLE d.t ADD COLUMN x INT DEFAULT 5, ALGORITHM=INSTANT",
        "INSERT INTO d.t (id) VALUES (9)",
        "ALTER TABLE d.t DROP COLUMN v, ALGORITHM=INSTANT",
        "INSERT INTO d.t VALUES (10, 1)",
    ),
    "defaults by expressions": (
        (
            "CREATE TABLE d.x (id INT PRIMARY KEY, u VARCHAR(36) DEFAULT (UUID()), j JSON DEFAULT (JSON_ARRAY()), "
            "t TEXT DEFAULT ('abc'), n INT DEFAULT (1 + 1), d DATETIME DEFAULT (NOW()))"
        ),
        "INSERT INTO d.x (id) VALUES (1)",
    ),
    "compressed transactions": (
        *T,
        "SET binlog_transaction_compression = ON",
        "INSERT INTO d.t VALUES (5, 'x'), (6, 'y')",
        "UPDATE d.t SET v = 'z'",
    ),
    "transactions with a tag": (
        *T,
        "SET gtid_next = 'AUTOMATIC:loads'",
        "INSERT INTO d.t VALUES (5, 'x'), (6, 'y')",
        "SET binlog_transaction_compression = ON",
        "UPDATE d.t SET v = 'z' WHERE id = 5",
        "SET gtid_next = 'AUTOMATIC:other_loads'",
        "ALTER TABLE d.t ADD w INT",
        "SET gtid_next = AUTOMATIC",
        "DELETE FROM d.t WHERE id = 6",
    ),
    "binary JSON": (
        "CREATE TABLE d.j (id INT PRIMARY KEY AUTO_INCREMENT, j JSON)",
        f"INSERT INTO d.j (j) VALUES {JSON}, (CAST(NOW(6) AS JSON)), (CAST(1.25 AS JSON)), ('null')",
        (
            "INSERT INTO d.j (j) VALUES (CAST(x'00ff' AS JSON)), (JSON_ARRAY(CAST('2024-01-02' AS DATE), "
            "CAST('11:12:13.5' AS TIME(1)), b'101', POINT(1, 2)))"
        ),
    ),
    "checks": (
        "CREATE TABLE d.k (id INT PRIMARY KEY, v INT CHECK (v > 0), CONSTRAINT kk CHECK (v < 10) NOT ENFORCED)",
        "INSERT INTO d.k VALUES (1, 2)",
        "ALTER TABLE d.k ALTER CHECK kk ENFORCED",
        "ALTER TABLE d.k DROP CHECK kk",
        "ALTER TABLE d.k DROP CONSTRAINT k_chk_1",
    ),
    "users, roles, tablespaces": (
        *T,
        "DROP USER IF EXISTS u1, u2",
        "CREATE USER u1 IDENTIFIED BY 'Abc12345!'",
        "GRANT SELECT ON d.* TO u1",
        "ALTER USER u1 ACCOUNT LOCK",
        "DROP ROLE IF EXISTS r1",
        "CREATE ROLE r1",
        "GRANT r1 TO u1",
        "SET DEFAULT ROLE r1 TO u1",
        "REVOKE SELECT ON d.* FROM u1",
        "RENAME USER u1 TO u2",
        "DROP USER u2",
        "CREATE TABLESPACE ts1 ADD DATAFILE 'ts1.ibd'",
        "DROP TABLESPACE ts1",
        "ALTER DATABASE d READ ONLY = 0",
        "ANALYZE TABLE d.t",
        "CREATE VIEW d.w AS SELECT * FROM d.t",
        "ALTER VIEW d.w AS SELECT id FROM d.t",
        "INSERT INTO d.t VALUES (3, 'c')",
    ),
}


@pytest.fixture(autouse=True)
def _empty(server: Server) -> None:
    server.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d CHARACTER SET utf8mb4")


@pytest.mark.parametrize("work", WORK)
def test_what_is_done_in_its_own_way_is_followed(server: Server, work: str) -> None:
    state, rows = BinlogCapture(server.uri).begin(), Rows()
    server.execute(*WORK[work])
    for one in captured(server, state):
        state = follow(state, one)
        fold_rows(rows, one)
    check(server, state, rows)


PARTS = ("SET binlog_row_value_options = PARTIAL_JSON", "UPDATE d.j SET j = JSON_SET(j, '$.a', 2)")


def test_rows_with_parts_of_json_stop_only_if_their_table_is_captured(server: Server) -> None:
    long = f"""('{{"a": 1, "b": "{"x" * 500}"}}')"""
    server.execute("CREATE TABLE d.j (id INT PRIMARY KEY AUTO_INCREMENT, j JSON)", f"INSERT INTO d.j (j) VALUES {long}")
    source = BinlogCapture(server.uri, wanted=lambda schema, name: name != "j")
    state = BinlogCapture(server.uri).begin()
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)", *PARTS, "INSERT INTO d.t VALUES (1)")
    with pytest.raises(RejectedMessage, match=r"`d`.`j` with parts of its JSON.*binlog_row_value_options"):
        captured(server, state)
    found = (one for one in source.read(state) if not isinstance(one, Resolved))
    assert isinstance(next(found), CapturedDdl) and isinstance(next(found), Transaction)
    source.close()


def test_keys_that_the_server_makes_and_does_not_show_are_read(server: Server) -> None:
    server.execute("SET GLOBAL show_gipk_in_create_table_and_information_schema = OFF")
    try:
        server.execute("SET sql_generate_invisible_primary_key = ON", "CREATE TABLE d.g (a INT)")
        state = BinlogCapture(server.uri).begin()
        server.execute("INSERT INTO d.g VALUES (5), (6)")
        (rows,) = captured(server, state)
        assert isinstance(rows, Transaction)
        assert [one.after for one in rows.changes] == all_rows(server, look(server, "g"))
        assert rows.changes[1].after == {"my_row_id": "2", "a": "6"}
        with Upstream(server.uri) as upstream:
            assert upstream.lookup(rows.changes[0].table, [{"my_row_id": "1"}], 9) == [rows.changes[0].after]
            assert "`my_row_id`" in upstream.show_create("d", "g", 9)
    finally:
        server.execute("SET GLOBAL show_gipk_in_create_table_and_information_schema = ON")


def test_a_changefeed_goes_on_behind_transactions_with_a_tag(server: Server) -> None:
    state = BinlogCapture(server.uri).begin()
    server.execute(
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        *(f"INSERT INTO d.t VALUES ({at})" for at in range(2)),
        *("SET gtid_next = 'AUTOMATIC:loads'", "INSERT INTO d.t VALUES (2)", "INSERT INTO d.t VALUES (3)"),
        *("SET gtid_next = AUTOMATIC", "INSERT INTO d.t VALUES (4)"),
    )
    given = captured(server, state)
    assert len(given) == 6
    for at, one in enumerate(given, 1):
        state = follow(state, one)
        assert captured(server, state) == given[at:]


def test_ddl_is_sent_without_what_only_replicas_of_mysql_understand(server: Server) -> None:
    state = BinlogCapture(server.uri).begin()
    server.execute(
        "CREATE TABLE d.n (PRIMARY KEY (id)) COMMENT = 'x' PARTITION BY HASH (id) PARTITIONS 2 SELECT 1 AS id"
    )
    (made, _) = captured(server, state)
    assert isinstance(made, CapturedDdl)
    assert "START TRANSACTION" not in made.changes[0].query and "COMMENT='x'" in made.changes[0].query


def test_databases_that_are_not_logged_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path, *OPTIONS, "--binlog-ignore-db=quiet") as server:
        BinlogCapture(server.uri).begin()
    assert "binlog_ignore_db is quiet; changes of databases that are not logged cannot be sent" in caplog.text


def test_the_clock_does_not_pass_what_is_not_read_yet(server: Server) -> None:
    """MySQL sends a heartbeat behind the transactions that it skips by GTID: it is not the binlog's end."""
    state = BinlogCapture(server.uri).begin()
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)", *(f"INSERT INTO d.t VALUES ({at})" for at in range(10)))
    given = captured(server, state)
    for one in given[:4]:
        state = follow(state, one)
    time.sleep(2.5)
    again = list(captured_with_resolved(server, state))
    before = again[: next(at for at, one in enumerate(again) if isinstance(one, Transaction))]
    assert not [one for one in before if isinstance(one, Resolved) and one.commit_ts > state.commit_ts]
    assert [one for one in again if not isinstance(one, Resolved)] == given[4:]


def test_characters_of_gb18030_are_the_servers(server: Server) -> None:
    wanted = [bytes((first, second)) for first in range(0x80, 256) for second in range(0x30, 256)]
    tens, high = range(0x30, 0x3A), range(0x81, 0xFF)
    for first in (*range(0x81, 0x85), 0x90, 0xE3):
        wanted += [bytes((first, two, three, four)) for two in tens for three in high for four in tens]
    decode = Charsets({}, lambda sql: "").decoder("gb18030")
    assert decode is not None
    for at in range(0, len(wanted), 30_000):
        given = msgspec.json.encode([raw.hex() for raw in wanted[at : at + 30_000]]).decode()
        (found,) = server.execute(
            "SELECT JSON_OBJECTAGG(raw, HEX(CONVERT(CONVERT(UNHEX(raw) USING gb18030) USING utf8mb4))) "
            f"FROM JSON_TABLE('{given}', '$[*]' COLUMNS (raw VARCHAR(8) PATH '$')) AS texts"
        )[0]
        for raw, text in msgspec.json.decode(found, type=dict[str, str | None]).items():
            server_has = None if text is None or text == "3F" else bytes.fromhex(text).decode()
            try:
                ours: str | None = decode(bytes.fromhex(raw))
            except UnicodeDecodeError:
                ours = None
            assert (ours if ours is not None and len(ours) == 1 else None) == server_has, raw
